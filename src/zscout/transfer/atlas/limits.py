"""Limits: costs per step that behaviours must stay below. A cost is believed in as a reward is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.edge import as_finite, in_range
from zscout.transfer.atlas.atlas import Atlas, Reward
from zscout.transfer.belief.forecast_errors import ForecastErrors
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.constants import ATLAS_RIDGES
from zscout.transfer.inputs import Flags
from zscout.transfer.score.confidence import Residual
from zscout.transfer.score.forecast import Forecast

TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True, eq=False, kw_only=True)
class Limit:
    """Try only behaviours whose expected cost per step is at most ``at_most``, with probability 1 − ``delta``.

        agent = zscout.OnlineTransfer(bfm, limit=zscout.Limit(at_most=0.05))
        agent.tell(obs, reward, cost=float(fallen))

    If no behaviour is known to be within its limits, the one with the lowest expected cost is followed. A ``cost`` that
    is a function of observations [m o] is known in advance: it prices all behaviours before the first step. Unless it
    is, ``delta=0.5`` learns faster: it tries what is expected to be within the limit.
    """

    at_most: float
    name: str = "cost"
    cost: Reward | None = None
    delta: float = 0.05

    def __post_init__(self) -> None:
        in_range(self.at_most, "at_most", -math.inf, math.inf, open_end=True)
        if not 0 < in_range(self.delta, "delta", 0.0, 1.0) < 1:
            raise ValueError(f"delta must be in (0, 1), got {self.delta}")
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

    def told(self, phi: Float[Tensor, "*b D"], cost: Any, seen: Flags | None) -> "CostBelief":
        """One more cost."""
        return replace(self, posterior=self.posterior.update(phi, cost, seen))

    def after_choice(self, new: Bool[Tensor, "*b"]) -> "CostBelief":
        """The runs in ``new`` follow another behaviour from now on."""
        return replace(self, errors=self.errors.after_choice(self.belief, new))

    def prices(self, forecast: Forecast) -> tuple[Float[Tensor, "*b N"], Float[Tensor, "*b N"]]:
        """The expected cost per step of each behaviour, and its upper end with probability 1 − δ; ∞ before any cost."""
        belief = self.belief
        value, width = forecast.value_and_width(belief)
        expected = value + belief.offset[..., None]
        count = belief.weight[..., None]
        radius = Residual()(0, replace(belief, misfit=self.errors.misfit(belief)))[..., None]
        wide = (width.square() + 1 / count.clamp(min=1)).sqrt()
        highest = expected + NormalDist().inv_cdf(1 - self.limit.delta) * radius * wide
        return expected, highest.masked_fill(count == 0, math.inf)

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
    """Which behaviours may be followed: those within all limits, or else the one that is expected to exceed them least.

    Excesses over several limits are compared in units of the spread of each cost.
    """
    allowed, excess = torch.tensor(True), torch.tensor(-math.inf)
    for cost in costs:
        expected, highest = cost.prices(forecast)
        allowed = allowed.to(highest.device) & (highest <= cost.limit.at_most)
        variance = cost.posterior.reward_squares / cost.posterior.weight.clamp(min=1)
        scale = torch.where(variance > 0, variance, 1.0).sqrt()[..., None]
        excess = torch.maximum(excess.to(expected), (expected - cost.limit.at_most) / scale)
    least = excess <= excess.amin(-1, keepdim=True)
    return torch.where(allowed.any(-1, keepdim=True), allowed, least)


def limit_costs(limit: Limit, observations: Any) -> Float[Tensor, "*b"]:
    """The costs of observations [*b o], of a limit whose cost is known in advance."""
    assert limit.cost is not None
    rows = torch.as_tensor(observations)
    found = as_finite(limit.cost(rows.reshape(-1, rows.shape[-1]).clone()), f"the cost of limit {limit.name!r}")
    if found.shape != (rows[..., 0].numel(),):
        raise ValueError(f"the cost of limit {limit.name!r} has shape {tuple(found.shape)}, expected one a row")
    return found.reshape(rows.shape[:-1])


def as_limits(limit: object) -> tuple[Limit, ...]:
    """None, one limit or several, with different names."""
    limits = () if limit is None else (limit,) if isinstance(limit, Limit) else tuple(limit)  # type: ignore[arg-type]
    for one in limits:
        if not isinstance(one, Limit):
            raise ValueError(f"limit must be a zscout.Limit or several, got {type(one).__name__}")
    names = [one.name for one in limits]
    if len(set(names)) < len(names):
        raise ValueError(f"two limits have the same name: {', '.join(names)}")
    return limits


def told_costs(
    costs: tuple[CostBelief, ...], phi: Float[Tensor, "*b D"], given: Any, next_obs: Any, seen: Flags | None
) -> tuple[CostBelief, ...]:
    """Each with the cost of a step: told by name or as the only one that is told, or known in advance."""
    names = [cost.limit.name for cost in costs if cost.limit.cost is None]
    if given is not None and not isinstance(given, Mapping):
        if len(names) != 1:
            raise ValueError(f"cost must be a dict of costs by the names of limits, got {type(given).__name__}")
        given = {names[0]: given}
    given = given or {}
    if unknown := sorted(given.keys() - set(names)):
        raise ValueError(f"got a cost {unknown[0]!r}, expected a cost of {', '.join(names) or 'no limit'}")
    found = {cost.limit.name: limit_costs(cost.limit, next_obs) for cost in costs if cost.limit.cost is not None}
    found |= given
    return tuple(cost.told(phi, found[cost.limit.name], seen) if cost.limit.name in found else cost for cost in costs)


def saved_limits(about: Any, given: tuple[Limit, ...]) -> tuple[Limit, ...]:
    """The limits of a saved agent: those given, if they are the same; without any, those told their costs."""
    if [limit.about() for limit in given] == about:
        return given
    if given or any(one["known"] for one in about):
        raise ValueError(f"it has the limits {about}: pass the same limit=")
    return tuple(Limit(at_most=one["at_most"], name=one["name"], delta=one["delta"]) for one in about)
