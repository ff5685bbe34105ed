"""Offline (zero-shot) transfer: z from labelled states, without the part of a reward that is the same everywhere."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_finite
from zscout.base.types import BehaviorModel, HasMoments, HasStates, HasTransitionFeatures, Obs, Vectors
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.inputs import checked_output, checked_phi, finite
from zscout.transfer.score.forecast import once_per_model

CONSTANT_R2 = 0.99  # the features contain the constant 1 if φ·w fits it with at least this R²
ROUNDING_SHARE = 1e-9  # relative to ‖z‖: a smaller remainder is rounding


@dataclass(frozen=True, eq=False)
class TaskFit:
    """The linear fit of a reward: r ≈ φ·ẑ + c."""

    bfm: BehaviorModel
    z_hat: Float[Tensor, " d"]  # ridge regression of rewards on φ
    z: Float[Tensor, " d"]  # ẑ without its constant part, projected to Z: the z to act with
    offset: float  # c; 0 without an intercept
    expressed: float  # R² of φ·ẑ + c: 1 is a perfect fit; a strong ridge can take it below 0

    def decode(self, obs: Obs) -> Float[Tensor, "*b"]:
        """The fitted reward φ(s)·ẑ + c."""
        return self.bfm.phi(obs).double() @ self.z_hat + self.offset


def fit_task(
    bfm: BehaviorModel, observations: Obs, rewards: Vectors, ridge: float = 1e-3, intercept: bool = True
) -> TaskFit:
    """Ridge regression of rewards on φ, and its R².

    With ``intercept`` r ≈ φ·z + c with c free: a constant added to the rewards changes only c.
    """
    return fit_features(bfm, checked_phi(bfm, observations), rewards, ridge, intercept)


def fit_features(
    bfm: BehaviorModel, phi: Float[Tensor, "*n d"], rewards: Vectors, ridge: float = 1e-3, intercept: bool = True
) -> TaskFit:
    """``fit_task`` of observations whose φ is known: many tasks can share it."""
    prior = TaskPosterior.prior(dim=bfm.dim, ridge=ridge, intercept=intercept, device=phi.device)
    posterior = prior.learn(phi, rewards)
    if not posterior.weight:
        raise ValueError("got no observations: expected at least one")
    r = as_finite(rewards, "rewards", phi.device).detach()
    missed = ((r - posterior.reward(phi)) ** 2).sum()
    # Equal rewards have no variance: R² is then relative to 0, not to their mean.
    spread = r if bool((r == r[0]).all()) else r - r.mean()
    expressed = float(1 - missed / (spread**2).sum().clamp(min=1e-300))
    constant, z_hat = constant_part_of(bfm) if intercept else None, posterior.z_hat
    z = bfm.project_z(z_hat if constant is None else constant.removed_from(z_hat))
    return TaskFit(bfm, z_hat, z, float(posterior.offset), expressed)


def infer_task(
    bfm: BehaviorModel,
    observations: Obs,
    rewards: Vectors,
    ridge: float = 1e-3,
    intercept: bool = True,
    atlas: Atlas | None = None,
) -> Float[Tensor, " d"]:
    """z for a reward given by labelled observations: ridge regression on φ, projected to Z.

    With an ``atlas``: the z of the atlas with the highest value, by regression on its features.
    """
    if atlas is not None:
        atlas = atlas.for_model(bfm)
        return atlas.z[atlas.values_of_labels(observations, rewards).argmax()].clone()
    return fit_task(bfm, observations, rewards, ridge, intercept).z


def least_squares(phi: Float[Tensor, "m d"], targets: Float[Tensor, "m n"]) -> Float[Tensor, "d n"]:
    """P of targets ≈ φP + c with c free, for targets with mean 0 over the rows."""
    found: Tensor = torch.linalg.lstsq(phi - phi.mean(0), targets, driver="gelsd").solution
    return found


@dataclass(frozen=True, eq=False)
class ConstantPart:
    """w with φ(s)·w ≈ 1 in every state (least squares), and the mean φ̄; a constant changes no best behaviour."""

    w: Float[Tensor, " d"]
    mean: Float[Tensor, " d"]

    def removed_from(self, z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """z minus its mean reward times w: φ·z then has mean 0 and the same best behaviour."""
        rest = z @ self._others.to(z)
        norm, before = (torch.linalg.vector_norm(x, dim=-1, keepdim=True) for x in (rest, z))
        return rest.masked_fill(norm <= ROUNDING_SHARE * before, 0.0)

    @cached_property
    def _others(self) -> Float[Tensor, "d d"]:
        return torch.eye(len(self.w)).to(self.w) - self.mean[:, None] * self.w / (self.mean @ self.w)


def constant_part(mean: Float[Tensor, " d"], covariance: Float[Tensor, "d d"]) -> ConstantPart | None:
    """Regress 1 on φ, from mean and covariance of φ: w = S⁻¹φ̄ with S = E φφᵀ; None if the fit is poor."""
    mean, covariance = mean.double(), covariance.double()
    w = torch.linalg.pinv(covariance + mean[:, None] * mean, hermitian=True) @ mean
    return ConstantPart(w, mean) if float(mean @ w) >= CONSTANT_R2 else None  # R² = φ̄·w


def constant_part_of(model: BehaviorModel) -> ConstantPart | None:
    """The constant part of a model, from its moments or states; None if it has neither, or no constant part."""
    return once_per_model(model, "constant part", lambda: _found_in(model))


def _found_in(model: BehaviorModel) -> ConstantPart | None:
    if isinstance(model, HasMoments):
        mean, covariance = model.feature_moments()
    elif isinstance(model, HasStates) and not isinstance(model, HasTransitionFeatures):
        phi = model.phi(model.states()).detach().double()
        mean, covariance = phi.mean(0), torch.cov(phi.mT, correction=0).reshape(phi.shape[-1], phi.shape[-1])
    else:
        return None
    mean, covariance = (checked_output(moment, (...,), "feature_moments()") for moment in (mean, covariance))
    shapes = tuple(mean.shape), tuple(covariance.shape)
    if shapes != ((model.dim,), (model.dim, model.dim)):
        raise ValueError(f"feature_moments() has shapes {shapes[0]} and {shapes[1]}, d = {model.dim}")
    return constant_part(finite(mean, "φ"), finite(covariance, "φ"))
