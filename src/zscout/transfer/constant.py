"""The constant part of a task: a reward that is the same everywhere and does not change the best behaviour."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.transfer.forecast import once_per_model
from zscout.transfer.inputs import finite
from zscout.types import BehaviorModel, HasMoments, HasStates

CONTAINED = 0.99  # the features contain the constant 1 if φ·w fits it with at least this R²
NOTHING = 1e-9  # relative to ‖z‖: a smaller remainder is rounding


@dataclass(frozen=True, eq=False)
class ConstantPart:
    """w with φ(s)·w ≈ 1 in every state (least squares), and the mean φ̄."""

    w: Float[Tensor, " d"]
    mean: Float[Tensor, " d"]

    def removed_from(self, z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """z minus its mean reward times w: φ·z then has mean 0 and the same best behaviour."""
        mean, w = self.mean.to(z), self.w.to(z)
        rest = z - (z @ mean)[..., None] / (mean @ w) * w
        nothing = torch.linalg.vector_norm(rest, dim=-1) <= NOTHING * torch.linalg.vector_norm(z, dim=-1)
        return torch.where(nothing[..., None], 0.0, rest)


def constant_part(mean: Float[Tensor, " d"], covariance: Float[Tensor, "d d"]) -> ConstantPart | None:
    """Regress 1 on φ, from mean and covariance of φ: w = S⁻¹φ̄ with S = E φφᵀ; None if the fit is poor."""
    mean, covariance = mean.double(), covariance.double()
    w = torch.linalg.pinv(covariance + mean[:, None] * mean, hermitian=True) @ mean
    return ConstantPart(w, mean) if float(mean @ w) >= CONTAINED else None  # R² = φ̄·w


def constant_part_of(model: BehaviorModel) -> ConstantPart | None:
    """The constant part of a model, from its moments or states; None if it has neither, or no constant part."""
    return once_per_model(model, "constant part", lambda: _found_in(model))


def _found_in(model: BehaviorModel) -> ConstantPart | None:
    if isinstance(model, HasMoments):
        mean, covariance = model.feature_moments()
    elif isinstance(model, HasStates):
        phi = model.phi(model.states()).detach().double()
        mean, covariance = phi.mean(0), torch.cov(phi.mT, correction=0).reshape(phi.shape[-1], phi.shape[-1])
    else:
        return None
    if tuple(covariance.shape) != (model.dim, model.dim) or tuple(mean.shape) != (model.dim,):
        raise ValueError(
            f"feature_moments() has shapes {tuple(mean.shape)} and {tuple(covariance.shape)}, d = {model.dim}"
        )
    return constant_part(finite(mean, "φ"), finite(covariance, "φ"))
