"""Which prior over tasks, and which λ, make the rewards seen so far most likely."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

RIDGES = (1.0, 10.0, 0.1, 0.01)  # candidates for λ, relative to the one given
DOUBT = 2.0  # nats: another prior is e² = 7 times less likely beforehand, another λ too
SINGULAR = 1e-7  # smallest ÷ largest pivot of V: below, λ is too small beside it
ROUNDING = 1e-12  # of Σr²: smaller residuals are rounding

Moments: TypeAlias = tuple[Float[Tensor, "*b d d"], Float[Tensor, "*b d"], Float[Tensor, "*b"], Float[Tensor, "*b"]]
"""Σφφᵀ, b = Σφr, Σr² and n."""


@dataclass(frozen=True, eq=False)
class TaskPriors:
    """Two priors over tasks, z ~ N(0, (σ²/λ)LLᵀ): the model's, and an isotropic one with the same mean variance."""

    roots: Float[Tensor, "2 d d"]  # L
    precisions: Float[Tensor, "2 d d"]  # (LLᵀ)⁻¹
    log_dets: Float[Tensor, " 2"]  # of the precisions
    dimensions: float  # p, the number of directions that likely tasks use: (tr S)²/tr S² for the model's S = LLᵀ

    @classmethod
    def of(cls, root: Float[Tensor, "d d"]) -> "TaskPriors":
        """From the L of the model."""
        S, eye = root @ root.mT, torch.eye(len(root)).to(root)
        roots = torch.stack([root, S.diagonal().mean().sqrt() * eye])
        log_dets = -2 * roots.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        p = float(S.diagonal().sum() ** 2 / S.square().sum())
        return cls(roots, torch.cholesky_inverse(roots), log_dets, p)

    def most_likely(self, sums: Moments, ridge: float) -> tuple[Int[Tensor, "*b"], Float[Tensor, "*b"]]:
        """The number of the prior and the λ with the largest evidence.

        λ is small if φ·z explains the rewards and noise is low, and large with much noise. The model's prior and the λ
        given stay until others are clearly better.
        """
        evidence = self.log_evidence(sums, ridge)
        evidence[..., 1:, :] -= DOUBT
        evidence[..., :, 1:] -= DOUBT
        best = evidence.flatten(-2).argmax(-1)  # the first if all are −∞
        return best // len(RIDGES), (ridge * evidence.new_tensor(RIDGES))[best % len(RIDGES)]

    def log_evidence(self, sums: Moments, ridge: float) -> Float[Tensor, "*b 2 m"]:
        """log p(r | P, λ) of both P = (LLᵀ)⁻¹ and each candidate λ, up to a constant.

        With a flat prior over log σ it is −½ log det((λP + Σφφᵀ)(λP)⁻¹) − (n/2) log(Σr² − b·ẑ). Differences
        do not depend on the scale of the rewards. −∞: λ is too small beside φ for double precision.
        """
        products, b, squares, count = sums
        squares, count, ridges = squares[..., None, None], count[..., None, None], ridge * b.new_tensor(RIDGES)
        V = products[..., None, None, :, :] + ridges[:, None, None] * self.precisions[:, None]
        L, failed = torch.linalg.cholesky_ex(V)
        half = torch.linalg.solve_triangular(L, b[..., None, None, :, None], upper=False)
        left = torch.maximum(squares - half.square().sum((-2, -1)), ROUNDING * squares)
        pivots = L.diagonal(dim1=-2, dim2=-1)
        gained = 2 * pivots.log().sum(-1) - self.log_dets[:, None] - b.shape[-1] * ridges.log()
        found: Tensor = -0.5 * (gained + count * (left + torch.finfo(left.dtype).tiny).log())
        return found.masked_fill((failed != 0) | (pivots.amin(-1) < SINGULAR * pivots.amax(-1)), -math.inf)
