"""The part of a task that no behaviour depends on: a reward that is the same everywhere."""

import weakref
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.transfer.inputs import finite
from zscout.types import BehaviorModel, HasMoments, HasStates

CONTAINED = 0.99  # R² of the constant 1 by φ·w, from which on features contain it
NOTHING = 1e-9  # of ‖z‖: what is left below this share is rounding


@dataclass(frozen=True, eq=False)
class ConstantPart:
    """W with φ(s)·w = 1 in every state, as nearly as the features allow, and the mean φ̄."""

    w: Float[Tensor, " d"]
    mean: Float[Tensor, " d"]

    def removed_from(self, z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """z less its mean reward times w: φ·z then has mean 0, and the same best behaviour."""
        mean, w = self.mean.to(z), self.w.to(z)
        rest = z - (z @ mean)[..., None] / (mean @ w) * w
        nothing = torch.linalg.vector_norm(rest, dim=-1) <= NOTHING * torch.linalg.vector_norm(z, dim=-1)
        return torch.where(nothing[..., None], 0.0, rest)


def constant_part(mean: Float[Tensor, " d"], covariance: Float[Tensor, "d d"]) -> ConstantPart | None:
    """From mean and covariance of φ: regression of 1 on φ, w = S⁻¹φ̄ with S = E φφᵀ; None if that does not fit."""
    mean, covariance = mean.double(), covariance.double()
    w = torch.linalg.pinv(covariance + mean[:, None] * mean, hermitian=True) @ mean
    return ConstantPart(w, mean) if float(mean @ w) >= CONTAINED else None  # R² = φ̄·w


def constant_part_of(model: BehaviorModel) -> ConstantPart | None:
    """The model's, by its own moments or all its states; None where it offers neither, or has no constant part."""
    if id(model) in _FOUND:
        return _FOUND[id(model)]
    found = _of(model)
    try:
        weakref.finalize(model, _FOUND.pop, id(model), None)
    except TypeError:  # not everything can be referred to weakly: it is then computed again
        return found
    _FOUND[id(model)] = found
    return found


def _of(model: BehaviorModel) -> ConstantPart | None:
    if isinstance(model, HasMoments):
        mean, covariance = model.feature_moments()
    elif isinstance(model, HasStates):
        phi = model.phi(model.states()).detach().double()
        mean, covariance = phi.mean(0), torch.cov(phi.mT, correction=0).reshape(phi.shape[-1], phi.shape[-1])
    else:
        return None
    if tuple(covariance.shape) != (model.dim, model.dim) or tuple(mean.shape) != (model.dim,):
        raise ValueError(f"moments of φ have shapes {tuple(mean.shape)} and {tuple(covariance.shape)}, d = {model.dim}")
    return constant_part(finite(mean, "φ"), finite(covariance, "φ"))


_FOUND: dict[int, ConstantPart | None] = {}  # by identity, as anyone's model need not be hashable
