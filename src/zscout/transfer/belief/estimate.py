"""What the posterior over z_r says: estimates, widths and samples."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_finite, as_generator, as_size, as_vectors, common_shape
from zscout.base.randomness import Rng, Streams, normal, uniform
from zscout.base.readable import of_runs, one_or_range
from zscout.transfer.belief.sums import Means, Sums, TaskPriors


@dataclass(frozen=True, eq=False, repr=False)
class TaskEstimate:
    """The numbers of a ``TaskPosterior`` and what can be read from them; it learns there."""

    z_hat: Float[Tensor, "*b d"]
    factor: Float[Tensor, "*b d d"]  # W, V⁻¹ = WWᵀ
    sums: Sums  # V, b, Σr² and Σ1
    ridge: float | Float[Tensor, "*b"]  # λ
    given_noise: float | None  # σ; None: estimated
    task_root: Float[Tensor, "*b d d"] | None = None  # L, tasks are L·N(0, s²I): V begins as λ(LLᵀ)⁻¹; None: L = I
    means: Means | None = None  # φ̄ and r̄, with an intercept
    priors: TaskPriors | None = None  # between which the rewards choose
    misfit: Float[Tensor, "*b"] | None = None  # how wrong forecasts were, if it is known: σ if the features are right

    def __repr__(self) -> str:
        rewards = f"{one_or_range(self.weight, ',.0f')} rewards{of_runs(self.weight)}"
        norm = one_or_range(self.z_hat.norm(dim=-1), ".3g")
        return f"{type(self).__name__} of {self.dim} features after {rewards}: ‖ẑ‖ {norm}"

    # The prior

    @property
    def root_ridge(self) -> float | Float[Tensor, "*b"]:
        """√λ."""
        return self.ridge.sqrt() if isinstance(self.ridge, Tensor) else math.sqrt(self.ridge)

    # Estimates and uncertainty

    def in_prior_units(self, z: Float[Tensor, "*b d k"]) -> Float[Tensor, "*b d k"]:
        """L⁻¹z: in these units all entries of a task are equally likely to be large."""
        if self.task_root is None:
            return z
        scaled: Tensor = torch.linalg.solve_triangular(self.task_root, z, upper=False)
        return scaled

    def prior_sizes(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n"]:
        """‖Lᵀx‖: how much x·z varies over tasks before any reward, in units of s."""
        size: Tensor = torch.linalg.vector_norm(x if self.task_root is None else x @ self.task_root, dim=-1)
        return size

    def prior_norm(self, bound: float) -> Float[Tensor, "*b"]:
        """The largest ‖L⁻¹z‖ for ‖z‖ ≤ bound."""
        largest = self.z_hat.new_full(self.runs, bound)
        return largest if self.task_root is None else largest / torch.linalg.svdvals(self.task_root)[..., -1]

    @property
    def prior_dimensions(self) -> float:
        """The number of directions that likely tasks use, in the prior of the model; d without one."""
        return float(self.dim) if self.priors is None else self.priors.dimensions

    @property
    def V(self) -> Float[Tensor, "*b d d"]:
        """λI + Σφφᵀ; with an intercept, of φ − φ̄."""
        return self.sums.all.V

    @property
    def b(self) -> Float[Tensor, "*b d"]:
        """Σφr; with an intercept, of φ − φ̄ and r − r̄."""
        return self.sums.all.b

    @property
    def reward_squares(self) -> Float[Tensor, "*b"]:
        """Σr²."""
        return self.sums.all.reward_squares

    @property
    def weight(self) -> Float[Tensor, "*b"]:
        """Σ1, the number of rewards seen."""
        return self.sums.all.weight

    @property
    def dim(self) -> int:
        """d, the number of features."""
        return self.z_hat.shape[-1]

    @property
    def runs(self) -> tuple[int, ...]:
        """*b, the batch shape."""
        return tuple(self.z_hat.shape[:-1])

    @property
    def noise(self) -> Float[Tensor, "*b"]:
        """σ if given, else σ̂² = min_z (Σ(r − φ·z)² + λ‖z‖²) ÷ Σ1; 1 before any reward."""
        if self.given_noise is not None:
            return torch.full_like(self.reward_squares, self.given_noise)
        # The minimum is Σr² − b·ẑ; rounding may take it below 0 if there is no noise.
        count = self._count
        left = (self.reward_squares - (self.b * self.z_hat).sum(-1)) / count
        return torch.where(count > 0, left.clamp(min=0).sqrt(), 1.0)

    @property
    def _count(self) -> Float[Tensor, "*b"]:
        """The number of rewards that tell of the noise: with an intercept, the first does not."""
        return (self.weight if self.means is None else self.weight - 1).clamp(min=0)

    def width(self, x: Any) -> Float[Tensor, "*b_and_n"]:
        """‖x‖_{V⁻¹} for x [*b d] or [*b n d]."""
        rows, shape = self._rows(x, "x")
        width: Tensor = torch.linalg.vector_norm(rows @ self.factor, dim=-1)
        return width.reshape(shape)

    @property
    def offset(self) -> Float[Tensor, "*b"]:
        """The estimate of c in r ≈ φ·z + c: r̄ − φ̄·ẑ, or 0 without an intercept."""
        if self.means is None:
            return torch.zeros_like(self.z_hat[..., 0])
        return self.means.reward - (self.means.phi * self.z_hat).sum(-1)

    def reward(self, phi: Any) -> Float[Tensor, "*b_and_n"]:
        """The expected reward φ·ẑ + c, for φ [*b d] or [*b n d]."""
        rows, shape = self._rows(phi, "phi")
        expected: Tensor = (rows @ self.z_hat[..., None])[..., 0] + self.offset[..., None]
        return expected.reshape(shape)

    def reward_width(self, phi: Any) -> Float[Tensor, "*b_and_n"]:
        """Uncertainty of that reward, in units of σ: ‖φ‖_{V⁻¹}, or with an intercept √(‖φ − φ̄‖²_{V⁻¹} + 1/n)."""
        if self.means is None:
            return self.width(phi)
        rows, shape = self._rows(phi, "phi")
        return self._novelty(rows).sqrt().reshape(shape)

    def _novelty(self, rows: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n"]:
        """‖φ‖²_{V⁻¹}, or with an intercept ‖φ − φ̄‖²_{V⁻¹} + 1/n."""
        apart = rows if self.means is None else rows - self.means.phi[..., None, :]
        squares: Tensor = torch.linalg.vector_norm(apart @ self.factor, dim=-1) ** 2
        return squares if self.means is None else squares + 1 / self.means.weight.clamp(min=1)[..., None]

    def distance(self, z: Any) -> Float[Tensor, "*b_and_n"]:
        """‖z − ẑ‖_V for z [*b d] or [*b n d]: at most √β_t inside the ellipsoid  (eq. 4)."""
        rows, shape = self._rows(z, "z")
        gap = rows - self.z_hat[..., None, :]
        return ((gap @ self.V) * gap).sum(-1).clamp(min=0).sqrt().reshape(shape)

    def sample(self, n: int, rng: Rng | int, noise: Float[Tensor, "*b"] | None = None) -> Float[Tensor, "*b n d"]:
        """n samples ~ N(ẑ, σ²V⁻¹), with another σ if ``noise`` is given."""
        draws = normal((*self.runs, as_size(n, "n", 0), self.dim), self._rng(rng))
        sigma = self.noise if noise is None else noise
        return self.z_hat[..., None, :] + sigma[..., None, None] * (draws.to(self.z_hat) @ self.factor.mT)

    def sample_ellipsoid(self, n: int, radius: Any, rng: Rng | int, surface: bool = False) -> Float[Tensor, "*b n d"]:
        """n samples, uniform in {z : ‖z − ẑ‖_V ≤ radius}; with ``surface``, on its boundary."""
        size = as_finite(radius, "radius", self.device)
        if (size < 0).any():
            raise ValueError(f"radius must be ≥ 0, got {float(size.min())}")
        rng, shape = self._rng(rng), (*self.runs, as_size(n, "n", 0), self.dim)
        ball = torch.nn.functional.normalize(normal(shape, rng), dim=-1)
        if not surface:
            ball = ball * uniform((*shape[:-1], 1), rng) ** (1 / self.dim)
        size = size.expand(common_shape(size.shape, self.runs, "the radius and the runs"))[..., None, None]
        return self.z_hat[..., None, :] + size * (ball.to(self.z_hat) @ self.factor.mT)

    @property
    def log_det(self) -> Float[Tensor, "*b"]:
        """log det V."""
        log_det: Tensor = torch.linalg.slogdet(self.V).logabsdet
        return log_det

    @property
    def eigenvalues(self) -> Float[Tensor, "*b d"]:
        """Eigenvalues of V, ascending; the uncertainty matrix V⁻¹ has their inverses."""
        ascending: Tensor = torch.linalg.eigvalsh(self.V)
        return ascending

    @property
    def covariance(self) -> Float[Tensor, "*b d d"]:
        """σ²V⁻¹."""
        return self.noise[..., None, None] ** 2 * (self.factor @ self.factor.mT)

    # Input checks

    @property
    def device(self) -> torch.device:
        """The device of all tensors."""
        return self.z_hat.device

    def _rng(self, rng: Rng | int) -> Rng:
        return rng if isinstance(rng, Streams) else as_generator(rng, self.device)

    def _rows(self, x: Any, name: str) -> tuple[Float[Tensor, "*b n d"], tuple[int, ...]]:
        """The vectors as [*b n d], and the shape of the result with one number per vector."""
        vectors = as_vectors(x, self.dim, name, self.device)
        depth = len(self.runs)
        if vectors.ndim <= depth:
            raise ValueError(
                f"{name} has shape {tuple(vectors.shape)}, expected [*b … {self.dim}] with *b = {self.runs}"
            )
        shape = (*common_shape(vectors.shape[:depth], self.runs, f"{name} and the runs"), *vectors.shape[depth:-1])
        return vectors.reshape(*vectors.shape[:depth], -1, self.dim), shape
