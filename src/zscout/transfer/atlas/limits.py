"""Limits: costs per step that behaviours must stay below. A cost is believed in as a reward is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.edge import as_finite, as_real, in_range
from zscout.transfer.atlas.atlas import Atlas, Reward
from zscout.transfer.atlas.experience import ForecastErrors
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.constants import ATLAS_RIDGES
from zscout.transfer.score.forecast import Forecast

COMPARED = 1_024  # observations where the cost of a loaded limit must be that of the saved one
SAME_COST = 1e-6  # of the largest: what another processor may differ by


@dataclass(frozen=True, eq=False, kw_only=True)
class Limit:
    """Try only behaviours whose expected cost per step is at most ``at_most``, with probability 1 − ``delta``.

        agent = zscout.OnlineTransfer(bfm, limit=zscout.Limit(at_most=0.05))
        agent.tell(obs, reward, cost=float(fallen))

    If there is none, the one that is expected to cost least is followed. A ``cost`` that is a function of observations
    [m o] is known in advance: it prices all behaviours before the first step. A cost that is told rules nothing out
    until two costs differ. ``delta=0.5`` tries what is expected to be within the limit; with less, told costs are
    learned slowly.
    """

    at_most: float
    name: str = "cost"
    cost: Reward | None = None
    delta: float = 0.5

    def __post_init__(self) -> None:
        ends = {"open_start": True, "open_end": True}
        object.__setattr__(self, "at_most", in_range(self.at_most, "at_most", -math.inf, math.inf, **ends))
        object.__setattr__(self, "delta", in_range(self.delta, "delta", 0.0, 1.0, **ends))
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name must be a text, got {self.name!r}")
        if self.cost is not None and not callable(self.cost):
            raise ValueError(f"cost must be a function of observations [m o], got {self.cost!r}")

    def about(self) -> dict[str, Any]:
        """What a file says of it."""
        return {"name": self.name, "at_most": self.at_most, "delta": self.delta, "known": self.cost is not None}


@dataclass(frozen=True, eq=False)
class CostBelief:
    """The posterior over a cost, and how wrong its forecasts were."""

    limit: Limit
    posterior: TaskPosterior
    errors: ForecastErrors

    @classmethod
    def begin(cls, limit: Limit, atlas: Atlas, runs: tuple[int, ...]) -> "CostBelief":
        """Nothing known; of a cost known in advance, what the atlas visited."""
        prior = TaskPosterior.prior(
            dim=atlas.dim, ridge=ATLAS_RIDGES, noise=None, intercept=True, device=atlas.psi.device
        )
        if limit.cost is not None:
            prior = prior.learn(atlas.features(atlas.sample), limit_costs(limit, atlas.sample))
        each = {name: value.expand((*runs, *value.shape)).clone() for name, value in prior.tensors().items()}
        posterior = prior.with_tensors(each)
        return cls(limit, posterior, ForecastErrors.none(posterior))

    @property
    def belief(self) -> TaskPosterior:
        """The posterior with the most likely prior."""
        return self.posterior.with_likely_prior

    def told(self, phi: Float[Tensor, "*b D"], cost: Any) -> "CostBelief":
        """One more cost of each run; of many runs, NaN for those whose cost was not seen."""
        name, runs = f"the cost of limit {self.limit.name!r}", self.posterior.runs
        numbers = as_real(cost, name, phi.device).detach()
        if numbers.shape != runs:
            raise ValueError(f"{name} has shape {tuple(numbers.shape)}, expected {list(runs)}: one for each run")
        seen = ~numbers.isnan() if runs else torch.tensor(True)
        as_finite(numbers[seen], name)
        weight = seen.to(phi) if runs else 1.0
        return replace(self, posterior=self.posterior.plus(phi, torch.where(seen, numbers, 0.0), weight))

    def after_choice(self, new: Bool[Tensor, "*b"]) -> "CostBelief":
        """The runs in ``new`` follow another behaviour from now on."""
        return replace(self, errors=self.errors.after_choice(self.belief, new))

    def expected_and_highest(self, forecast: Forecast) -> Float[Tensor, "2 *b N"]:
        """What each behaviour costs per step: on average, and at most, with probability 1 − δ; −∞ before any cost."""
        belief = self.belief
        value, width = forecast.value_and_width(belief)
        count = belief.weight[..., None]
        radius = torch.maximum(belief.noise, self.errors.misfit(belief))[..., None]  # 0 while all costs are equal
        wide = (width.square() + 1 / count.clamp(min=1)).sqrt()
        expected = value + belief.offset[..., None]
        highest = expected + NormalDist().inv_cdf(1 - self.limit.delta) * radius * wide
        return torch.stack([expected, highest]).masked_fill(count == 0, -math.inf)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, by name."""
        own = {f"posterior.{name}": value for name, value in self.posterior.tensors().items()}
        return own | {f"errors.{name}": value for name, value in vars(self.errors).items()}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "CostBelief":
        """A copy with these tensors."""
        posterior = {name: tensors[f"posterior.{name}"] for name in self.posterior.tensors()}
        errors = ForecastErrors(*(tensors[f"errors.{name}"] for name in vars(self.errors)))
        return CostBelief(self.limit, self.posterior.with_tensors(posterior), errors)


def within(costs: Sequence[CostBelief], forecast: Forecast) -> Bool[Tensor, "*b N"]:
    """Which behaviours may be followed: those within all limits, or else the one expected to exceed them least.

    Excesses over several limits are compared in units of the spread of each cost.
    """
    excesses = []
    for cost in costs:
        variance = cost.posterior.reward_squares / cost.posterior.weight.clamp(min=1)
        scale = torch.where(variance > 0, variance, 1.0).sqrt()[..., None]
        excesses.append((cost.expected_and_highest(forecast) - cost.limit.at_most) / scale)
    expected, highest = torch.stack(excesses).amax(0)
    allowed = highest <= 0
    return torch.where(allowed.any(-1, keepdim=True), allowed, expected <= expected.amin(-1, keepdim=True))


def limit_costs(limit: Limit, observations: Any) -> Float[Tensor, "*b"]:
    """The costs of observations [*b o], of a limit whose cost is known in advance."""
    assert limit.cost is not None
    rows = torch.as_tensor(observations)
    found = as_finite(limit.cost(rows.reshape(-1, rows.shape[-1]).clone()), f"the cost of limit {limit.name!r}")
    if found.shape != (rows[..., 0].numel(),):
        raise ValueError(f"the cost of limit {limit.name!r} has shape {tuple(found.shape)}, expected one a row")
    return found.detach().reshape(rows.shape[:-1])


def as_limits(limit: object) -> tuple[Limit, ...]:
    """None, one limit or several, with different names."""
    several = limit if isinstance(limit, list | tuple) else [limit]
    limits = () if limit is None else tuple(several)
    for one in limits:
        if not isinstance(one, Limit):
            raise ValueError(f"limit must be a zscout.Limit or several, got {type(one).__name__}")
    names = [one.name for one in limits]
    if len(set(names)) < len(names):
        raise ValueError(f"two limits have the same name: {', '.join(names)}")
    return limits


def told_costs(
    costs: tuple[CostBelief, ...], phi: Float[Tensor, "*b D"], given: Any, next_obs: Any
) -> tuple[CostBelief, ...]:
    """Each belief with the cost of a step: known in advance, or told by the limit's name; a single one without it."""
    found = {cost.limit.name: limit_costs(cost.limit, next_obs) for cost in costs if cost.limit.cost is not None}
    names = [cost.limit.name for cost in costs if cost.limit.cost is None]
    if given is not None and not isinstance(given, Mapping):
        if len(names) != 1:
            wanted = "a dict of costs by the names of limits" if names else "None: all costs are known in advance"
            raise ValueError(f"cost must be {wanted}, got {type(given).__name__}")
        given = {names[0]: given}
    given = given or {}
    if unknown := sorted(given.keys() - set(names), key=str):
        why = "which is known in advance" if unknown[0] in found else f"expected one of {', '.join(names)}"
        raise ValueError(f"got a cost {unknown[0]!r}, {why}")
    found |= given
    return tuple(cost.told(phi, found[cost.limit.name]) if cost.limit.name in found else cost for cost in costs)


def known_costs(limits: Sequence[Limit], atlas: Atlas) -> dict[str, Tensor]:
    """What a file says of costs that are functions: some observations (a saved atlas rounds its own), their costs."""
    rows = atlas.sample[:COMPARED]
    costs = {f"known.{k}": limit_costs(one, rows) for k, one in enumerate(limits) if one.cost is not None}
    return {"known.observations": rows, **costs} if costs else {}


def check_costs(limits: Sequence[Limit], tensors: Mapping[str, Tensor], atlas: Atlas) -> None:
    """Raise unless these are the costs of ``known_costs``."""
    for k, limit in enumerate(limits):
        if (saved := tensors.get(f"known.{k}")) is not None:
            found = limit_costs(limit, tensors["known.observations"].to(atlas.sample.device)).to(saved)
            if (found - saved).abs().max() > SAME_COST * saved.abs().max():
                raise ValueError(f"limit {limit.name!r} has another cost than it was saved with: pass the same one")


def saved_limits(about: Any, given: tuple[Limit, ...]) -> tuple[Limit, ...]:
    """The limits of a saved agent: those given, if they are the same; without any, those told their costs."""
    if [limit.about() for limit in given] == about:
        return given
    if given or any(one["known"] for one in about):
        raise ValueError(f"it has the limits {about}: pass the same limit=")
    return tuple(Limit(at_most=one["at_most"], name=one["name"], delta=one["delta"]) for one in about)
