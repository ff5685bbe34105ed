"""Z, the sphere of radius √d: the valid task vectors of the shipped models."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.base.edge import all_finite, as_generator, as_index, as_size, as_vectors
from zscout.base.types import Obs, Vectors

FEW_NORMS = 64  # norms that are faster compared in Python
ZERO = torch.zeros(())


def sample_sphere(n: int, dim: int, rng: Generator, dtype: torch.dtype = torch.float64) -> Float[Tensor, "n d"]:
    """n points, uniform on the sphere of radius √d."""
    return project_sphere(torch.randn(as_size(n, "n", 0), dim, generator=rng, dtype=dtype, device=rng.device))


def sample_sphere_each(
    n: int, dim: int, rngs: Sequence[Generator], dtype: torch.dtype = torch.float64
) -> Float[Tensor, "runs n d"]:
    """``sample_sphere`` for each generator, stacked."""
    draws = [torch.randn(n, dim, generator=rng, dtype=dtype, device=rng.device) for rng in rngs]
    return project_sphere(torch.stack(draws))


def project_sphere(z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """√d z / ‖z‖; z = 0 maps to (1, …, 1)."""
    tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    # On a GPU, the check would wait for the device; a trace has no branches.
    if z.device.type == "cpu" and z.numel() and not tracing:
        norm: Tensor = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
        sizes = norm.flatten().tolist() if norm.numel() <= FEW_NORMS else [end.item() for end in torch.aminmax(norm)]
        if all(1e-15 < size < 1e15 for size in sizes):
            return torch.addcdiv(ZERO, z, norm, value=math.sqrt(z.shape[-1]))  # one operation
        if not all_finite(z):
            raise ValueError("z holds NaN or inf")
    # Divide by the largest entry first, so that ‖z‖ neither overflows nor underflows.
    size: Tensor = torch.linalg.vector_norm(z, ord=math.inf, dim=-1, keepdim=True)
    direction = torch.where(size > 0, z / torch.where(size > 0, size, 1), 1)  # avoids NaN, also in gradients
    norm = torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
    return direction * (norm.reciprocal() * math.sqrt(z.shape[-1]))


class SphereModel:
    """What models of a finite world with a table of features [S d] share: φ, its moments, and Z."""

    features: Tensor
    dim: int  # d, the number of features

    @property
    def device(self) -> torch.device:
        """The device of the features."""
        return self.features.device

    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s), the features of a state."""
        return self.features[self._states(obs)]

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """n draws, uniform on the sphere of radius √d."""
        return sample_sphere(n, self.dim, as_generator(rng, self.device), self.features.dtype).to(self.device)

    def sample_z_each(self, n: int, rngs: Sequence[Generator]) -> Float[Tensor, "runs n d"]:
        """``sample_z`` for each generator, stacked."""
        return sample_sphere_each(n, self.dim, rngs, self.features.dtype).to(self.device)

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """z projected to the sphere of radius √d; 0 maps to (1, …, 1)."""
        return project_sphere(self._z(z))

    def states(self) -> Int[Tensor, " S"]:
        """All observations."""
        return torch.arange(len(self.features), device=self.device)

    def feature_moments(self) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
        """φ̄ and Cov(φ) over all states."""
        covariance: Tensor = torch.cov(self.features.mT, correction=0)
        return self.features.mean(0), covariance.reshape(self.dim, self.dim)

    def _states(self, obs: Obs) -> Int[Tensor, "*b"]:
        return as_index(obs, len(self.features), "observation", self.device, ", the states of this model")

    def _z(self, z: Vectors, candidates: bool = False) -> Float[Tensor, "*b d"]:
        return as_vectors(z, self.dim, device=self.device, candidates=candidates).to(self.features.dtype)


def goals_or_uniform(goals: Float[Tensor, "n d"], share: float, rng: Generator) -> Float[Tensor, "n d"]:
    """Training's z: a goal with probability ``share``, else uniform; on the sphere of radius √d."""
    uniform = torch.randn(goals.shape, generator=rng, device=rng.device)
    goal = torch.rand(len(goals), 1, generator=rng, device=rng.device) < share
    return project_sphere(torch.where(goal, goals, uniform))
