"""What ridge regression needs of the pairs (φ, r): sums, added lazily, and means; and which prior suits them best.

A prior over tasks and its λ suit them if they make the rewards seen so far most likely.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.transfer.constants import DOUBT, PRIOR_RIDGES

MOST_WAITING = 64  # pairs that wait to be summed
SINGULAR = 1e-7  # smallest ÷ largest pivot of V: below, λ is too small beside it
ROUNDING = 1e-12  # of Σr²: smaller residuals are rounding
TINY = torch.finfo(torch.float64).tiny
Weight: TypeAlias = float | Float[Tensor, "*b"]


@dataclass(frozen=True, eq=False)
class Sums:
    """V, b, Σr² and Σ1, summed lazily: most steps need only ẑ and V⁻¹."""

    V: Float[Tensor, "*b d d"]
    b: Float[Tensor, "*b d"]
    reward_squares: Float[Tensor, "*b"]
    weight: Float[Tensor, "*b"]
    waiting: tuple[tuple[Tensor, Tensor, Weight], ...] = ()  # pairs and their weights

    def plus(self, phi: Float[Tensor, "*b d"], reward: Float[Tensor, "*b"], weight: Weight) -> "Sums":
        """The sums with one more pair; the pair is copied, because the caller may reuse its memory."""
        so_far = self.all if len(self.waiting) == MOST_WAITING else vars(self).get("all", self)
        pair = (phi.clone(), reward.clone(), weight)
        return Sums(so_far.V, so_far.b, so_far.reward_squares, so_far.weight, (*so_far.waiting, pair))

    @cached_property
    def all(self) -> "Sums":
        """The sums with no pair waiting; pairs are added in order, so the call time does not matter."""
        if not self.waiting:
            return self
        V, b, reward_squares, weights = self.V, self.b, self.reward_squares, self.weight
        for phi, reward, weight in self.waiting:
            V, b = V.addcmul(phi[..., None], phi[..., None, :]), b.addcmul(phi, reward[..., None])  # eq. 3
            reward_squares, weights = reward_squares.addcmul(reward, reward), weights + weight
        return Sums(V, b, reward_squares, weights)


@dataclass(frozen=True, eq=False)
class Means:
    """φ̄, r̄ and their weight n.

    Plain regression on the pairs √(n/(n+1))·(φ − φ̄, r − r̄), with the means before each pair, equals regression of r
    on φ with an intercept that the ridge does not shrink: the products of these pairs sum to Σ(φ − φ̄)(φ − φ̄)ᵀ and
    Σ(φ − φ̄)(r − r̄)  (Welford).
    """

    phi: Float[Tensor, "*b d"]
    reward: Float[Tensor, "*b"]
    weight: Float[Tensor, "*b"]

    def plus(self, phi: Float[Tensor, "*b d"], reward: Float[Tensor, "*b"], seen: Weight) -> "Centred":
        """The means with one more pair where ``seen`` is 1, and the centred pair for the plain regression."""
        weight = self.weight + seen
        share = weight.clamp(min=1e-300).reciprocal() * seen if isinstance(seen, Tensor) else seen / weight
        scale = (self.weight * share).sqrt()
        apart, missed = phi - self.phi, reward - self.reward
        means = Means(torch.addcmul(self.phi, share[..., None], apart), self.reward + share * missed, weight)
        return means, scale[..., None] * apart, scale * missed

    def plus_many(self, phi: Float[Tensor, "*b m d"], reward: Float[Tensor, "*b m"]) -> "Centred":
        """The means with m ≥ 1 more pairs, and m + 1 centred pairs; the last is the new mean against the old."""
        m = phi.shape[-2]
        mean_phi, mean_reward = phi.mean(-2), reward.mean(-1)
        repeated = Means(self.phi, self.reward, self.weight / m)  # m pairs at their mean equal one pair of weight m
        means, apart, missed = repeated.plus(mean_phi, mean_reward, 1.0)
        rows = torch.cat([phi - mean_phi[..., None, :], m**0.5 * apart[..., None, :]], -2)
        rewards = torch.cat([reward - mean_reward[..., None], m**0.5 * missed[..., None]], -1)
        return Means(means.phi, means.reward, self.weight + m), rows, rewards


Centred: TypeAlias = tuple[Means, Tensor, Tensor]
"""The new means, and the centred φ and r."""


Fitted: TypeAlias = tuple[Float[Tensor, "*b k"], Float[Tensor, "*b k d d"], Float[Tensor, "*b k d 1"]]
"""The log evidence of each prior, the Cholesky factor R of V with this prior, and R⁻¹b."""


@dataclass(frozen=True, eq=False)
class TaskPriors:
    """Priors over tasks, z ~ N(0, (σ²/λ)LLᵀ): the model's L, and an isotropic one with the same mean variance.

    Each comes with several λ. The first is the one that V begins with.
    """

    roots: Float[Tensor, "k d d"] | None  # L; None: L = I
    ridges: Float[Tensor, " k"]  # λ
    changes: Float[Tensor, "k d d"]  # λ(LLᵀ)⁻¹, less that of the first
    log_dets: Float[Tensor, " k"]  # of λ(LLᵀ)⁻¹
    doubts: Float[Tensor, " k"]  # −log of how likely it is beforehand
    dimensions: float  # p, the number of directions that likely tasks use: (tr S)²/tr S² for the model's S = LLᵀ

    @classmethod
    def of(
        cls, root: Float[Tensor, "d d"], ridge: float, shares_of: Sequence[float] = PRIOR_RIDGES, doubt: float = DOUBT
    ) -> "TaskPriors":
        """From an L and the λ given, which also comes in these shares."""
        S, eye, shares = root @ root.mT, torch.eye(len(root)).to(root), root.new_tensor(shares_of)
        roots = torch.stack([root, S.diagonal().mean().sqrt() * eye]).repeat_interleave(len(shares), 0)
        ridges = (ridge * shares).repeat(2)
        precisions = ridges[:, None, None] * torch.cholesky_inverse(roots)
        log_dets = len(root) * ridges.log() - 2 * roots.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        other = torch.arange(2 * len(shares), device=root.device)
        doubts = doubt * ((other >= len(shares)).to(root) + (other % len(shares) > 0).to(root))
        p = float(S.diagonal().sum() ** 2 / S.square().sum())
        return cls(roots, ridges, precisions - precisions[0], log_dets, doubts, p)

    @classmethod
    def of_ridges(cls, eye: Float[Tensor, "d d"], ridges: Sequence[float]) -> "TaskPriors":
        """Isotropic priors with these λ, equally likely beforehand."""
        each = eye.new_tensor(ridges)
        precisions, dim = each[:, None, None] * eye, len(eye)
        return cls(None, each, precisions - precisions[0], dim * each.log(), torch.zeros_like(each), float(dim))

    def most_likely(self, sums: Sums, count: Float[Tensor, "*b"]) -> tuple[Int[Tensor, "*b"], Tensor, Tensor]:
        """The number of the prior with the largest evidence, the Cholesky factor R of V with this prior, and R⁻¹b.

        λ is small if φ·z explains the rewards and noise is low, and large with much noise. The model's prior and the λ
        given stay until others are clearly better.
        """
        evidence, R, half = self.fitted(sums, count)
        best = (evidence - self.doubts).argmax(-1)  # the first if all are −∞
        if not best.ndim:
            return best, R[best], half[best]
        runs = torch.arange(best.numel(), device=best.device)
        R, half = (each.flatten(0, best.ndim - 1)[runs, best.flatten()].unflatten(0, best.shape) for each in (R, half))
        return best, R, half

    def fitted(self, sums: Sums, count: Float[Tensor, "*b"]) -> Fitted:
        """log p(r | L, λ) of each prior, up to a constant, with what it was computed from.

        With a flat prior over log σ it is −½ log(det V ÷ det λ(LLᵀ)⁻¹) − (n/2) log(Σr² − b·ẑ). Differences
        do not depend on the scale of the rewards. −∞: λ is too small beside φ for double precision.
        """
        squares, b = sums.reward_squares[..., None], sums.b[..., None, :, None]
        R, failed = torch.linalg.cholesky_ex(sums.V[..., None, :, :] + self.changes)
        half = torch.linalg.solve_triangular(R, b, upper=False)
        left = torch.maximum(squares - half.square().sum((-2, -1)), ROUNDING * squares) + TINY
        pivots = R.diagonal(dim1=-2, dim2=-1)
        lost = 0.5 * self.log_dets - pivots.log().sum(-1)  # −½ log(det V ÷ det λ(LLᵀ)⁻¹)
        low, high = pivots.aminmax(dim=-1)
        found = torch.addcmul(lost, count[..., None], left.log(), value=-0.5)
        return found.masked_fill((failed != 0) | (low < SINGULAR * high), -math.inf), R, half
