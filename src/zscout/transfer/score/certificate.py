"""How far to trust an agent: a bound on how much better any z can be, and how much of the rewards φ explains."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.base.edge import as_index, as_size, in_range
from zscout.base.randomness import Rng
from zscout.base.readable import of_runs, one_or_range
from zscout.base.types import HasExactPsi, HasPsiTable, Obs
from zscout.transfer.atlas.charted import OverAtlas
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.score.confidence import directions_seen, plausible_spread
from zscout.transfer.score.forecast import offers, pick
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import Among, tabulates
from zscout.transfer.score.table import TabulatedForecast, table_of

PLAUSIBLE_TASKS, RANDOM_Z, TABULATED = 200, 64, 1_000  # samples; z; z of a table
Listed: TypeAlias = Among | OverAtlas  # searches that know all of their candidates
STANDARD_ERRORS = 1.96  # standard errors of a 95 % interval
RUNS_AT_ONCE = 64  # runs whose candidates are compared in one product


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """At one observation, with probability 1 − δ under the posterior: no candidate is worth ``gain`` more than best_z.

    The probability is over tasks of the prior and noise, at any step. It needs an exact ψ and a reward linear in φ;
    otherwise it is an estimate. Plausible tasks are N(ẑ, s²V⁻¹). With an atlas s is the larger of σ̂ and the
    misfit. Then δ = .5 estimates the share that is left, and δ = .05 is a bound: docs/transfer.md says how often both
    hold. ``share`` agrees with ``OnlineTransfer.fit``: it is at least the share of what the features explain that as
    many random features would explain. So it is 1 where R² ≤ 0.
    """

    gain: Float[Tensor, "*b"]  # what the best candidate may be worth above best_z: ψ(s;z)·z_r − ψ(s;best_z)·z_r
    share: Float[Tensor, "*b"]  # gain ÷ what that candidate is worth above an average z: 0 nothing left, 1 unknown
    better: Float[Tensor, "*b d"]  # that candidate; best_z itself if the gain is 0
    delta: float
    exact: bool  # whether ψ is exact: if not, this is an estimate
    limits_cost: Float[Tensor, "*b"]  # what the best z beyond the limits is expected to be worth above best_z
    unit: str = "discounted reward"  # of the gain; with an atlas, whose ψ is a mean, "reward a step"

    def __repr__(self) -> str:
        gain = f"{one_or_range(self.gain, '.3g')} of {self.unit}"
        left = f"at most {one_or_range(100 * self.share, '.0f')} % could still be gained ({gain}){of_runs(self.share)}"
        sure = f"with probability {1 - self.delta:.0%}".replace("%", " %")
        return f"{left}, {sure}" if self.exact else f"{left}, {sure}; an estimate, since ψ is not exact"


@dataclass(frozen=True)
class Certified:
    """When to stop: at most this share is left, with probability 1 − δ. ``rollout(…, until=Certified(.05))``."""

    share: float = 0.05
    delta: float = 0.05
    every: int = 10  # steps from one certificate to the next: one costs as much as several recommendations

    def __post_init__(self) -> None:
        in_range(self.share, "share", 0.0, 1.0)
        as_size(self.every, "every", 1)
        as_delta(self.delta)

    def of(self, certificate: Certificate) -> Bool[Tensor, "*b"]:
        """Which runs are certified."""
        return certificate.share <= self.share


def as_delta(delta: float) -> float:
    """δ, checked: 200 samples cannot resolve less than 1/200."""
    return in_range(delta, "delta", 1 / PLAUSIBLE_TASKS, 1.0, open_end=True)


def certify(
    problem: Problem,
    keep: Float[Tensor, "*b d"],
    delta: float,
    rng: Rng,
    listed: Listed | None = None,
    least: Float[Tensor, "*b"] | float = 0.0,
) -> Certificate:
    """The 1 − δ quantile, over plausible tasks θ, of what the best candidate for θ is worth above ``keep``.

    ``share`` is at least ``least``.

    Candidates are random z and, since π(·,θ) should be best for θ, all the sampled tasks. Where ``Automatic`` has a
    table, they are its z, too. With a bank or an atlas (``listed``), they are its z.
    """
    model, theta = problem.model, problem.posterior.sample(PLAUSIBLE_TASKS, rng, plausible_spread(problem.posterior))
    kept, beyond, allowed = None, torch.zeros_like(problem.radius), None
    if listed is not None:
        tried = listed.forecast(problem)
        drawn, value = tried.psi, tried.value(problem.posterior)
        allowed = listed.allowed(problem, tried) if isinstance(listed, OverAtlas) else None
        if allowed is not None:
            value, best_of_all = value.masked_fill(~allowed, -math.inf), value.amax(-1)
            beyond = best_of_all - value.amax(-1)
        kept = pick(drawn, value.argmax(-1))[..., None, :]
    elif tabulates(model):
        tried = TabulatedForecast(model, problem.obs, table_of(model, TABULATED, 0, problem.constant))
        if isinstance(model, HasPsiTable):  # what is compared must have errors of the same kind
            kept, drawn = _tabled(model, problem.obs, keep[..., None, :]), tried.psi
        else:
            drawn = problem.forecast(problem.fresh(RANDOM_Z, rng)).psi
    else:
        tried = problem.forecast(torch.cat([problem.fresh(RANDOM_Z, rng), problem.project(theta)], -2))
        drawn = tried.psi[..., :RANDOM_Z, :]
    kept = problem.forecast(keep[..., None, :]).psi if kept is None else kept
    apart = tried.psi - kept
    gain, best = _best(apart if allowed is None else allowed[..., None] * apart, theta)
    gain = gain.clamp(min=0)  # keep is a candidate, too
    average = ((drawn.mean(-2, keepdim=True) - kept) @ theta.mT)[..., 0, :]
    above = gain - average.clamp(max=0)  # what the best candidate is worth above an average z
    share = torch.where(above > 0, gain / above.clamp(min=torch.finfo(gain.dtype).tiny), 1.0)
    at = share.argsort(-1)[..., min(math.ceil((1 - delta) * PLAUSIBLE_TASKS), PLAUSIBLE_TASKS - 1), None]
    gain, share, best = (values.gather(-1, at)[..., 0] for values in (gain, share, best))
    better = torch.where((gain > 0)[..., None], tried.pick(best), keep)
    share = torch.maximum(share, torch.as_tensor(least).to(share))
    exact = offers(model, HasExactPsi) and model.psi_is_exact
    unit = "reward a step" if isinstance(listed, OverAtlas) else Certificate.unit
    return Certificate(gain, share, better, delta, exact, limits_cost=beyond, unit=unit)


def _tabled(model: HasPsiTable, obs: Obs, z: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
    """ψ of z at the observation, from a table."""
    table = model.psi_table(z.flatten(0, -2))  # [S m d]
    state = as_index(obs, len(table), "observation", table.device)[..., None].expand(z.shape[:-1])
    psi: Tensor = table[state.flatten(), torch.arange(table.shape[1], device=table.device)]
    return psi.double().reshape(z.shape)


def _best(
    apart: Float[Tensor, "*b n d"], theta: Float[Tensor, "*b m d"]
) -> tuple[Float[Tensor, "*b m"], Int[Tensor, "*b m"]]:
    """For each θ the largest product and its row; few runs at a time, for memory."""
    if apart.ndim == 2:
        value, row = (apart @ theta.mT).max(-2)
        return value, row
    parts = zip(apart.split(RUNS_AT_ONCE), theta.split(RUNS_AT_ONCE), strict=True)
    values, rows = zip(*((some @ tasks.mT).max(-2) for some, tasks in parts), strict=True)
    return torch.cat(values), torch.cat(rows)


# How much of the rewards the features explain


@dataclass(frozen=True, eq=False, repr=False)
class RewardFit:
    """R² of r ≈ φ·ẑ + c over the rewards seen, corrected for the number of directions fitted; 95 % interval.

    The rest is noise, or something that φ cannot express. The interval is for independent rewards. Those of one path
    are similar, so the true one is wider. NaN: too few rewards, or all equal.
    """

    r2: Float[Tensor, "*b"]
    low: Float[Tensor, "*b"]
    high: Float[Tensor, "*b"]
    count: Float[Tensor, "*b"]  # rewards seen

    def __repr__(self) -> str:
        interval = "" if self.r2.ndim or self.r2.isnan() else f" (95 %: {self.low:.2f} to {self.high:.2f})"
        rewards = f"{one_or_range(self.count, ',.0f')} rewards{of_runs(self.r2)}"
        return f"R² {one_or_range(self.r2, '.2f')}{interval} over {rewards}"


def fit_of(posterior: TaskPosterior) -> RewardFit:
    """R² = 1 − (left/(n − d_eff − 1)) ÷ (total/(n − 1)), with its large-sample standard error 2√R²(1 − R²)/√n."""
    count, mean, total = posterior.weight, 0 if posterior.means is None else 1, posterior.reward_squares
    unexplained, enough = _unexplained(posterior)
    variance = total / (count - mean).clamp(min=1)
    r2 = torch.where(enough, 1 - unexplained / torch.where(enough, variance, 1.0), torch.nan)
    error = STANDARD_ERRORS * 2 * r2.clamp(min=0).sqrt() * (1 - r2) / count.clamp(min=1).sqrt()
    return RewardFit(r2, (r2 - error).clamp(max=1), (r2 + error).clamp(max=1), count)


def share_by_chance(posterior: TaskPosterior) -> Float[Tensor, "*b"]:
    """Of what the features explain of the rewards, the share that as many random ones would: 1/F of the F-test, ≤ 1.

    d_eff·left/(n − d_eff − 1) ÷ (total − left). It is 1 where R² ≤ 0, and where R² is unknown.
    """
    unexplained, enough = _unexplained(posterior)
    explained = (posterior.b * posterior.z_hat).sum(-1)
    share = directions_seen(posterior) * unexplained / torch.where(explained > 0, explained, 1.0)
    return torch.where(enough & (explained > 0), share.clamp(max=1), 1.0)


def _unexplained(posterior: TaskPosterior) -> tuple[Float[Tensor, "*b"], Bool[Tensor, "*b"]]:
    """The variance that the features leave unexplained, and whether there are enough rewards to know it."""
    count, mean, total = posterior.weight, 0 if posterior.means is None else 1, posterior.reward_squares
    left = (total - (posterior.b * posterior.z_hat).sum(-1)).clamp(min=0)  # and λ‖ẑ‖², which is small
    free = count - directions_seen(posterior) - mean
    return left / free.clamp(min=1), (free >= 1) & (total > 0) & (count > mean + 1)
