"""Acquisitions: scores of candidate z.

An acquisition is a callable (forecast, posterior, radius, rng) → scores [*b n], radius = √β_t [*b]. Swapping one is
one line: ``replace(method, acquisition=Thompson())``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.randomness import Rng, Streams
from zscout.base.types import BehaviorModel, HasDiscount, HasMomentDiscount
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.inputs import Checked, Discount, NotNegative
from zscout.transfer.score.forecast import Forecast, discount_of, offers, offers_horizon, offers_moments

Radius: TypeAlias = Float[Tensor, "*b"]
Scores: TypeAlias = Float[Tensor, "*b n"]
Acquisition: TypeAlias = Callable[[Forecast, TaskPosterior, Radius, Rng], Scores]


@dataclass(frozen=True)
class UCB(Checked):
    """ψ·ẑ + √β_t‖ψ‖_{V⁻¹}  (eq. 5).

    With ``bonus_gamma`` the norm is of ψ at that discount: over a shorter horizon, directions average out less.
    ``bonus_scale`` multiplies the norm, because ψ is smaller at a shorter horizon.
    """

    bonus_gamma: Discount | None = None
    bonus_scale: NotNegative = 1.0

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """Value plus bonus."""
        if self.bonus_gamma is None:
            value, width = forecast.value_and_width(posterior)
        else:
            value, width = forecast.value(posterior), forecast.width(posterior, self.bonus_gamma)
        return value + self.bonus_scale * radius[..., None] * width


@dataclass(frozen=True)
class PathUCB(Checked):
    """ψ·ẑ + √β_t·H√((1 − g) tr(V⁻¹M_g(s;z))): eq. 5 with M in place of its rank-1 approximation ψψᵀ.

    ‖ψ‖²_{V⁻¹} = tr(V⁻¹ψψᵀ) sums features first, so directions cancel. M sums the information of each state on the
    path. g is a shorter horizon than the value's γ; H = 1/(1 − γ) and √(1 − g) scale the bonus to the size of ψ.
    Fallbacks: H(1 − g)‖ψ_g‖_{V⁻¹} for a model with ``psi_at`` only, ‖ψ‖_{V⁻¹} (eq. 5) for a model with neither; an
    agent then warns that g has no effect, unless g is the default.
    """

    gamma: Discount = 0.8  # g

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """Value plus bonus."""
        model, g = forecast.model, self.gamma
        rest, known = 1 - discount_of(model), offers(model, HasDiscount)
        if known and offers_moments(model, posterior.means is not None, g):
            width = ((1 - g) * forecast.information(posterior, g)).clamp(min=0).sqrt() / rest
            value = forecast.value(posterior)
        elif known and offers_horizon(model, g):
            value, width = forecast.value(posterior), (1 - g) / rest * forecast.width(posterior, g)
        else:
            value, width = forecast.value_and_width(posterior)
        return value + radius[..., None] * width


@dataclass(frozen=True)
class Greedy:
    """ψ·ẑ: no exploration."""

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The estimated value."""
        return forecast.value(posterior)


@dataclass(frozen=True)
class Thompson(Checked):
    """ψ·θ with θ ~ N(ẑ, scale²σ²V⁻¹); all candidates of a run share one θ."""

    scale: NotNegative = 1.0

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The value for a sampled task."""
        return forecast.value_for(posterior.sample(1, rng, self.scale * posterior.noise)[..., 0, :])


@dataclass(frozen=True)
class OverHeads:
    """The smallest score over the model's ψ heads; M has one head only."""

    score: Acquisition = UCB()

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The score of the most pessimistic head."""
        heads = [forecast.with_psi(psi) for psi in forecast.psi_heads.unbind(-3)]
        draws = [rng.fork() if isinstance(rng, Streams) else rng for _ in heads]  # every head sees the same draws
        pairs = zip(heads, draws, strict=True)
        return torch.stack([self.score(head, posterior, radius, own) for head, own in pairs]).amin(0)


def unused_gamma(score: Acquisition, model: BehaviorModel, intercept: bool) -> str | None:
    """A sentence if this model cannot use the score's ``gamma``; None if it can, or if eq. 5 is the default anyway."""
    if isinstance(score, OverHeads):
        return unused_gamma(score.score, model, intercept)
    if not isinstance(score, PathUCB) or score == PathUCB():
        return None
    knows_own_discount = isinstance(model, HasDiscount)
    if knows_own_discount and (offers_moments(model, intercept, score.gamma) or offers_horizon(model, score.gamma)):
        return None
    lacks = "psi_at" if knows_own_discount else "gamma"
    lacks += f" at {score.gamma}, only at {model.moment_gamma}" if isinstance(model, HasMomentDiscount) else ""
    return (
        f"gamma={score.gamma} of {type(score).__name__} has no effect: {type(model).__name__} has no {lacks}, so the "
        "bonus uses ‖ψ‖_{V⁻¹} at the model's own discount"
    )
