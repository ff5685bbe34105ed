"""Scores and a radius of the paper's alternatives."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import in_range
from zscout.base.randomness import Rng, normal
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.inputs import Checked, Count, Discount, NotNegative, Positive, checked_output, finite
from zscout.transfer.score.acquisition import UCB, Acquisition, Radius, Scores
from zscout.transfer.score.forecast import Forecast, offers_horizon, offers_moments


@dataclass(frozen=True)
class Explore(Checked):
    """‖ψ‖_{V⁻¹}: pure exploration, ignores the reward."""

    gamma: Discount | None = None

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The width ‖ψ‖_{V⁻¹}."""
        return forecast.width(posterior, self.gamma)


@dataclass(frozen=True)
class Optimism:
    """ψ(s;z)·z: the value of π(·,z) if z is the task; search it within the ellipsoid  (eq. 8)."""

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The value of each z for its own task."""
        return (forecast.centred(posterior) * forecast.z).sum(-1)


@dataclass(frozen=True)
class LogDet(Checked):
    """ψ·ẑ + w·√β_t·log(det(V + M(s;z)) / det V): the information that following z would add  (D-optimal design).

    Without M it uses ψψᵀ, at discount ``gamma`` if the model has ``psi_at``; without both, ``gamma`` has no effect.
    """

    weight: NotNegative = 20.0
    gamma: Discount = 0.9

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """Value plus information gain of the whole path."""
        W = posterior.factor[..., None, :, :]
        more = W.mT @ _centred_moment(forecast, posterior, self.gamma) @ W
        more = more + torch.eye(more.shape[-1]).to(more)  # det(V + M)/det V = det(I + WᵀMW)
        root, failed = torch.linalg.cholesky_ex(more)
        if failed.any():
            name = type(forecast.model).__name__
            raise ValueError(f"V + M is not positive definite: second_moment and psi_at of {name} disagree")
        gain: Tensor = 2 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return forecast.value(posterior) + self.weight * radius[..., None] * gain


def _centred_moment(forecast: Forecast, posterior: TaskPosterior, gamma: float) -> Float[Tensor, "*b n d d"]:
    """M(s;z), or its rank-1 approximation ψψᵀ; with an intercept, of φ − φ̄."""
    if not offers_moments(forecast.model, posterior.means is not None, gamma):
        apart = forecast.centred(posterior, gamma if offers_horizon(forecast.model, gamma) else None)
        return apart[..., :, None] * apart[..., None, :]
    M = forecast.second_moment(gamma)
    if posterior.means is None:
        return M
    mean = posterior.means.phi[..., None, None, :]
    cross = forecast.psi_at(gamma)[..., :, None] * mean
    return M - cross - cross.mT + mean.mT * mean / (1 - gamma)


@dataclass(frozen=True)
class AveragedOverZ(Checked):
    """The score with ψ averaged over z and ``draws`` neighbours: z + spread·N(0, I), projected to Z."""

    score: Acquisition = field(default_factory=UCB)
    draws: Count = 4
    spread: NotNegative = 0.1

    def __call__(self, forecast: Forecast, posterior: TaskPosterior, radius: Radius, rng: Rng) -> Scores:
        """The score with the averaged ψ."""
        z, model = forecast.z, forecast.model
        noise = normal((*posterior.runs, self.draws, 1, posterior.dim), rng).to(z.device)
        near = model.project_z(z.unsqueeze(-3) + self.spread * noise)  # [*b draws n d]
        psi = finite(checked_output(model.psi(forecast.obs, near.flatten(-3, -2)), (...,))).unflatten(
            -2, near.shape[-3:-1]
        )
        mean = (psi.sum(-3) + forecast.psi) / (self.draws + 1)
        return self.score(forecast.with_psi(mean), posterior, radius, rng)


@dataclass(frozen=True)
class SelfNormalised(Checked):
    """√β_t(δ) = σ√(2 log(1/δ) + log(det V_t / det λI)) + √λ·S: covers z_r at all t, with probability 1 − δ.

    S bounds ‖z_r‖ (default √d); σ is the posterior's. The guarantee holds for a fixed task.
    """

    delta: float = 0.1
    norm_bound: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < in_range(self.delta, "delta", 0.0, 1.0) < 1:
            raise ValueError(f"delta must be in (0, 1), got {self.delta}")

    def __call__(self, t: int, posterior: TaskPosterior) -> Float[Tensor, "*b"]:
        """√β_t(δ)."""
        bound = posterior.prior_norm(math.sqrt(posterior.dim) if self.norm_bound is None else self.norm_bound)
        gained = (posterior.log_det - prior_log_det(posterior)).clamp(min=0)
        spread = (2 * math.log(1 / self.delta) + gained).sqrt()
        return posterior.noise * spread + posterior.root_ridge * bound


def prior_log_det(posterior: TaskPosterior) -> float | Float[Tensor, "*b"]:
    """log det V before any reward."""
    log_ridge = posterior.ridge.log() if isinstance(posterior.ridge, Tensor) else math.log(posterior.ridge)
    if posterior.task_root is None:
        return posterior.dim * log_ridge
    return posterior.dim * log_ridge - 2 * posterior.task_root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
