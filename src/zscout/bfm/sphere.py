"""Z, the sphere of radius √d: the task vectors that a model of this family is conditioned on."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.edge import as_size


def sample_sphere(n: int, dim: int, rng: Generator, dtype: torch.dtype = torch.float64) -> Float[Tensor, "n d"]:
    """N points, uniform on the sphere of radius √d."""
    return project_sphere(torch.randn(as_size(n, "n", 0), dim, generator=rng, dtype=dtype, device=rng.device))


def sample_sphere_each(
    n: int, dim: int, rngs: Sequence[Generator], dtype: torch.dtype = torch.float64
) -> Float[Tensor, "runs n d"]:
    """The same by each of many generators."""
    draws = [torch.randn(n, dim, generator=rng, dtype=dtype, device=rng.device) for rng in rngs]
    return project_sphere(torch.stack(draws))


def project_sphere(z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """√d z / ‖z‖; z = 0, which prefers nothing, goes to (1, …, 1), which prefers no feature."""
    # First by the largest entry: ‖z‖ must neither overflow nor vanish.
    size: Tensor = torch.linalg.vector_norm(z, ord=math.inf, dim=-1, keepdim=True)
    direction = torch.where(size > 0, z / torch.where(size > 0, size, 1), 1)  # no NaN, in gradients neither
    norm: Tensor = torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
    return direction * (norm.reciprocal() * math.sqrt(z.shape[-1]))
