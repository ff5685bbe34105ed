"""Acquisitions: scores of candidate z.

An acquisition is a callable (forecast, posterior, radius, rng) → scores [*b n], radius = √β_t [*b]. Swapping one is
one line: ``replace(method, acquisition=Thompson())``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.edge import MOST, as_discount, as_size, in_range
from zscout.randomness import Rng, Streams, normal
from zscout.transfer.forecast import Forecast
from zscout.transfer.inputs import finite
from zscout.transfer.posterior import TaskPosterior
from zscout.types import HasDiscount, HasHorizons, Obs

Radius: TypeAlias = Float[Tensor, "*b"]
Scores: TypeAlias = Float[Tensor, "*b n"]
Acquisition: TypeAlias = Callable[[Forecast, TaskPosterior, Radius, Rng], Scores]


@dataclass(frozen=True)
class UCB:
    """ψ·ẑ + √β_t‖ψ‖_{V⁻¹}  (eq. 5).

    With ``bonus_gamma`` the norm is of ψ at that discount: over a shorter horizon, directions average out less.
    ``bonus_scale`` multiplies the norm, because ψ is smaller at a shorter horizon.
    """

    bonus_gamma: float | None = None
    bonus_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.bonus_gamma is not None:
            as_discount(self.bonus_gamma)
        in_range(self.bonus_scale, "bonus_scale", 0.0, math.inf, open_end=True)

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """Value plus bonus."""
        if self.bonus_gamma is None:
            value, width = forecast.value_and_width(posterior)
        else:
            value, width = forecast.value(posterior), forecast.width(posterior, self.bonus_gamma)
        return value + self.bonus_scale * radius[..., None] * width


@dataclass(frozen=True)
class PathUCB:
    """ψ·ẑ + √β_t·H√((1 − g) tr(V⁻¹M_g(s;z))): eq. 5 with M in place of its rank-1 approximation ψψᵀ.

    ‖ψ‖²_{V⁻¹} = tr(V⁻¹ψψᵀ) sums features first, so directions cancel. M sums the information of each state on the
    path. g is a shorter horizon than the value's γ; H = 1/(1 − γ) and √(1 − g) scale the bonus to the size of ψ.
    Fallbacks: H(1 − g)‖ψ_g‖_{V⁻¹} for a model with ``psi_at`` only, ‖ψ‖_{V⁻¹} (eq. 5) for a model with neither.
    """

    gamma: float = 0.9  # g

    def __post_init__(self) -> None:
        as_discount(self.gamma)

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """Value plus bonus."""
        return forecast.value(posterior) + radius[..., None] * self._width(forecast, posterior)

    def _width(self, forecast: Forecast, posterior: TaskPosterior) -> Scores:
        model, g = forecast.model, self.gamma
        if isinstance(model, HasDiscount) and forecast.offers_moments(posterior):
            return (((1 - g) * forecast.information(posterior, g)).clamp(min=0)).sqrt() / (1 - model.gamma)
        if isinstance(model, HasDiscount) and isinstance(model, HasHorizons):
            return (1 - g) / (1 - model.gamma) * forecast.width(posterior, g)
        return forecast.width(posterior)


@dataclass(frozen=True)
class Explore:
    """‖ψ‖_{V⁻¹}: pure exploration, ignores the reward."""

    gamma: float | None = None

    def __post_init__(self) -> None:
        if self.gamma is not None:
            as_discount(self.gamma)

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The width ‖ψ‖_{V⁻¹}."""
        return forecast.width(posterior, self.gamma)


@dataclass(frozen=True)
class Greedy:
    """ψ·ẑ: no exploration."""

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The estimated value."""
        return forecast.value(posterior)


@dataclass(frozen=True)
class Thompson:
    """ψ·θ with θ ~ N(ẑ, σ²V⁻¹); all candidates of a run share one θ."""

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The value for a sampled task."""
        return _dot(forecast.centred(posterior), posterior.sample(1, rng)[..., 0, :])


@dataclass(frozen=True)
class Optimism:
    """ψ(s;z)·z: the value of π(·,z) if z is the task; search it within the ellipsoid  (eq. 8)."""

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The value of each z for its own task."""
        return (forecast.centred(posterior) * forecast.z).sum(-1)


@dataclass(frozen=True)
class OneStepBonus:
    """ψ·ẑ + w·√β_t·E Σγᵏ‖φ(S_{t+k+1})‖²_{V⁻¹}: the information gain of each state that π(·,z) enters.

    The gain is that of the matrix determinant lemma. The sum is tr(V⁻¹M(s;z)) if the model has M, else ‖ψ‖²_{V⁻¹},
    at this horizon if the model has ``psi_at``. γ = 0 counts the next state only.
    """

    weight: float = 1.0
    gamma: float = 0.0

    def __post_init__(self) -> None:
        in_range(self.weight, "weight", 0.0, math.inf, open_end=True)
        as_discount(self.gamma)

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """Value plus information gain, summed over states."""
        gain = forecast.information(posterior, self.gamma)
        return forecast.value(posterior) + self.weight * radius[..., None] * gain


@dataclass(frozen=True)
class LogDet:
    """ψ·ẑ + w·√β_t·log(det(V + M(s;z)) / det V): the information that following z would add  (D-optimal design)."""

    weight: float = 20.0
    gamma: float = 0.9

    def __post_init__(self) -> None:
        in_range(self.weight, "weight", 0.0, math.inf, open_end=True)
        as_discount(self.gamma)

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """Value plus information gain of the whole path."""
        W = posterior.factor[..., None, :, :]
        more = W.mT @ forecast.centred_moment(posterior, self.gamma) @ W
        more = more + torch.eye(more.shape[-1]).to(more)  # det(V + M)/det V = det(I + WᵀMW)
        root, failed = torch.linalg.cholesky_ex(more)
        if failed.any():
            name = type(forecast.model).__name__
            raise ValueError(f"V + M is not positive definite: second_moment and psi_at of {name} disagree")
        gain: Tensor = 2 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return forecast.value(posterior) + self.weight * radius[..., None] * gain


# Scores that are robust to errors of ψ; each wraps one of the scores above


@dataclass(frozen=True)
class OverHeads:
    """The min, mean or max of a score over the model's ψ heads; M has one head only."""

    score: Acquisition = UCB()
    take: Literal["min", "mean", "max"] = "min"

    def __post_init__(self) -> None:
        if self.take not in ("min", "mean", "max"):
            raise ValueError(f"take must be min, mean or max, got {self.take!r}")

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The score over heads."""
        heads = [forecast.with_psi(psi) for psi in forecast.psi_heads.unbind(-3)]
        draws = [rng.fork() if isinstance(rng, Streams) else rng for _ in heads]  # every head sees the same draws
        pairs = zip(heads, draws, strict=True)
        scores = torch.stack([self.score(head, posterior, radius, own) for head, own in pairs])
        return {"min": scores.amin(0), "mean": scores.mean(0), "max": scores.amax(0)}[self.take]


@dataclass(frozen=True)
class AveragedOverZ:
    """The score with ψ averaged over z and ``draws`` neighbours: z + spread·N(0, I), projected to Z."""

    score: Acquisition = UCB()
    draws: int = 4
    spread: float = 0.1

    def __post_init__(self) -> None:
        as_size(self.draws, "draws", 1, MOST)
        in_range(self.spread, "spread", 0.0, math.inf, open_end=True)

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The score with the averaged ψ."""
        z, model = forecast.z, forecast.model
        noise = normal((*posterior.runs, self.draws, 1, posterior.dim), rng).to(z.device)
        near = model.project_z(z.unsqueeze(-3) + self.spread * noise)  # [*b draws n d]
        psi = finite(model.psi(forecast.obs, near.flatten(-3, -2))).unflatten(-2, near.shape[-3:-1])
        mean = (psi.sum(-3) + forecast.psi) / (self.draws + 1)
        return self.score(forecast.with_psi(mean), posterior, radius, rng)


@dataclass(frozen=True)
class AveragedOverStates:
    """The score with ψ averaged over observations near the current one, [*b m …] = neighbours(obs)."""

    neighbours: Callable[[Obs], Tensor]
    score: Acquisition = UCB()

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The score with the averaged ψ."""
        depth = len(posterior.runs)
        near = torch.as_tensor(self.neighbours(forecast.obs)).unbind(depth)
        psi = torch.stack([finite(forecast.model.psi(obs, forecast.z)) for obs in near]).mean(0)
        return self.score(forecast.with_psi(psi), posterior, radius, rng)


def _dot(psi: Float[Tensor, "*b n d"], task: Float[Tensor, "*b d"]) -> Scores:
    return (psi @ task[..., None])[..., 0]
