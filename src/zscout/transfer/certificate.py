"""A bound on how much better any z can be than the one an agent would keep."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.edge import as_size, in_range
from zscout.randomness import Rng, normal
from zscout.transfer.bank import table_of
from zscout.transfer.confidence import directions_seen
from zscout.transfer.forecast import offers
from zscout.transfer.posterior import TaskPosterior
from zscout.transfer.problem import Problem
from zscout.transfer.search import Automatic
from zscout.types import HasExactPsi, HasStates

SAMPLES, DRAWN, BANK = 200, 64, 1_000  # plausible tasks; random z; z of a bank
CAUTION = 8.0  # as in ScaleFree


@dataclass(frozen=True, eq=False)
class Certificate:
    """At one observation, with probability 1 − δ under the posterior: no z is worth ``gain`` more than the z to keep.

    The probability is over tasks N(0, s²I) and noise, at any step. It needs an exact ψ and a reward that is linear in
    φ; otherwise it is an estimate.
    """

    gain: Float[Tensor, "*b"]  # bound on max_z ψ(s;z)·z_r − ψ(s;z_keep)·z_r
    share: Float[Tensor, "*b"]  # the same ÷ what the best z is worth above an average one: 0 nothing left, 1 unknown
    better: Float[Tensor, "*b d"]  # the z that may be worth that much more
    delta: float
    exact: bool  # whether ψ is exact


@dataclass(frozen=True)
class Certified:
    """When to stop: at most this share is left, with probability 1 − δ. ``rollout(…, until=Certified(.05))``."""

    share: float = 0.05
    delta: float = 0.05
    every: int = 10  # steps from one certificate to the next: one costs as much as some recommendations

    def __post_init__(self) -> None:
        in_range(self.share, "share", 0.0, 1.0)
        as_size(self.every, "every", 1)
        in_range(self.delta, "delta", 0.0, 1.0)

    def of(self, certificate: Certificate) -> Bool[Tensor, "*b"]:
        """Which runs are certified."""
        return certificate.share <= self.share


def certify(problem: Problem, keep: Float[Tensor, "*b d"], delta: float, rng: Rng) -> Certificate:
    """The 1 − δ quantile of max_z ψ(s;z)·θ − ψ(s;z_keep)·θ, for plausible tasks θ.

    For each θ the best of the candidates: random z and, since π(·,θ) should be best for θ, all the sampled tasks. With
    an exact ψ of a small world they are a tabulated bank, as in ``Automatic``.
    """
    model, theta = problem.model, _plausible(problem.posterior, SAMPLES, rng)
    kept = problem.forecast(keep[..., None, :]).psi
    exact = offers(model, HasExactPsi) and model.psi_is_exact
    if exact and offers(model, HasStates) and len(model.states()) <= Automatic.most_states:
        tried = table_of(problem.model, BANK, 0, problem.constant).forecast(problem.model, problem.obs)
        drawn = tried.psi
    else:
        fresh = problem.fresh(DRAWN, rng)
        tried = problem.forecast(torch.cat([fresh, problem.project(theta)], -2))
        drawn = tried.psi[..., :DRAWN, :]
    gain, best = ((tried.psi - kept) @ theta.mT).max(-2)  # [*b SAMPLES]
    gain = gain.clamp(min=0)  # the z to keep is a candidate, too
    average = ((drawn.mean(-2, keepdim=True) - kept) @ theta.mT)[..., 0, :]
    share = gain / (gain - average.clamp(max=0)).clamp(min=torch.finfo(gain.dtype).tiny)
    place = min(math.ceil((1 - delta) * SAMPLES), SAMPLES - 1)
    shares, order = share.sort(-1)
    which = best.gather(-1, order[..., place, None])[..., 0]
    gains = gain.sort(-1).values
    return Certificate(gains[..., place], shares[..., place], tried.candidates.pick(which), delta, exact)


def _plausible(posterior: TaskPosterior, n: int, rng: Rng) -> Float[Tensor, "*b n d"]:
    """Tasks ẑ + s·V^{-1/2}·N(0, I); s is σ, but at least so large that unseen entries are as large as seen ones."""
    size = (posterior.z_hat**2).sum(-1)
    seen = directions_seen(posterior)
    typical = posterior.ridge * size / seen * (CAUTION / seen + 1)
    spread = torch.maximum(posterior.noise**2, typical).sqrt()
    draws = normal((*posterior.runs, n, posterior.dim), rng).to(posterior.z_hat)
    return posterior.z_hat[..., None, :] + spread[..., None, None] * (draws @ posterior.factor.mT)
