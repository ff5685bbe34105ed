"""Sums and means of the pairs (φ, r) that ridge regression needs: summed lazily, centred as they come."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

MOST_WAITING = 64  # pairs that wait to be summed
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
    Σ(φ − φ̄)(r − r̄)  (Welford). With forgetting n fades like V, and all pairs weigh the same in the means as in V.
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
