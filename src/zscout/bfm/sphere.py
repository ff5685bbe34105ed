"""Z, the sphere of radius √d: the valid task vectors of the shipped models."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.edge import as_size


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
    # Divide by the largest entry first, so that ‖z‖ neither overflows nor underflows.
    size: Tensor = torch.linalg.vector_norm(z, ord=math.inf, dim=-1, keepdim=True)
    direction = torch.where(size > 0, z / torch.where(size > 0, size, 1), 1)  # avoids NaN, also in gradients
    norm: Tensor = torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
    return direction * (norm.reciprocal() * math.sqrt(z.shape[-1]))
