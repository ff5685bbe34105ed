"""What a ridge regression keeps of its data: sums, and the means that give it a free intercept."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

WAITING = 64  # pairs that wait to be summed up, at most


@dataclass(frozen=True, eq=False)
class Sums:
    """V, b, Σr² and Σ1; pairs wait to be summed up until somebody asks: most steps want ẑ and V⁻¹ only."""

    V: Float[Tensor, "*b d d"]
    b: Float[Tensor, "*b d"]
    reward_squares: Float[Tensor, "*b"]
    weight: Float[Tensor, "*b"]
    waiting: tuple[tuple[Float[Tensor, "*b d"], Float[Tensor, "*b"], float | Float[Tensor, "*b"]], ...] = ()

    def plus(
        self, phi: Float[Tensor, "*b d"], reward: Float[Tensor, "*b"], weight: float | Float[Tensor, "*b"] = 1.0
    ) -> "Sums":
        """With one more pair, as it is now: whoever gave it may use its memory again."""
        so_far = self.all if len(self.waiting) == WAITING else vars(self).get("all", self)
        pair = (phi.clone(), reward.clone(), weight)
        return Sums(so_far.V, so_far.b, so_far.reward_squares, so_far.weight, (*so_far.waiting, pair))

    @cached_property
    def all(self) -> "Sums":
        """With nothing that waits; one pair after the other, so that it does not matter when somebody asks."""
        if not self.waiting:
            return self
        V, b, reward_squares, weights = (sums.clone() for sums in (self.V, self.b, self.reward_squares, self.weight))
        for phi, reward, weight in self.waiting:
            V.addcmul_(phi[..., None], phi[..., None, :])
            b.addcmul_(phi, reward[..., None])
            reward_squares.addcmul_(reward, reward)
            weights.add_(weight)
        return Sums(V, b, reward_squares, weights)


@dataclass(frozen=True, eq=False)
class Means:
    """φ̄, r̄ and their weight n.

    Plain regression on the pairs √(n/(n+1))·(φ − φ̄, r − r̄), with the means before each pair, equals regression of r
    on φ with an intercept that no ridge shrinks: the products of these pairs add up to Σ(φ − φ̄)(φ − φ̄)ᵀ and
    Σ(φ − φ̄)(r − r̄)  (Welford). Where observations are forgotten the means are not: c is a constant of the task, and
    what changes is put down to z.
    """

    phi: Float[Tensor, "*b d"]
    reward: Float[Tensor, "*b"]
    weight: Float[Tensor, "*b"]

    def plus(
        self, phi: Float[Tensor, "*b d"], reward: Float[Tensor, "*b"], seen: float | Float[Tensor, "*b"]
    ) -> tuple["Means", Float[Tensor, "*b d"], Float[Tensor, "*b"]]:
        """The means with one more pair where ``seen`` is 1, and that pair for a regression without an intercept."""
        weight = self.weight + seen
        share = seen / weight.clamp(min=1e-300)
        scale = (self.weight * share).sqrt()
        apart, missed = phi - self.phi, reward - self.reward
        means = Means(torch.addcmul(self.phi, share[..., None], apart), self.reward + share * missed, weight)
        return means, scale[..., None] * apart, scale * missed

    def plus_many(
        self, phi: Float[Tensor, "*b m d"], reward: Float[Tensor, "*b m"]
    ) -> tuple["Means", Float[Tensor, "*b m+1 d"], Float[Tensor, "*b m+1"]]:
        """The same with m ≥ 1 pairs at once, which become m + 1: the last one is their mean beside the old mean."""
        m = phi.shape[-2]
        mean_phi, mean_reward = phi.mean(-2), reward.mean(-1)
        repeated = Means(self.phi, self.reward, self.weight / m)  # m pairs at their mean weigh as one of weight m
        means, apart, missed = repeated.plus(mean_phi, mean_reward, 1.0)
        rows = torch.cat([phi - mean_phi[..., None, :], m**0.5 * apart[..., None, :]], -2)
        rewards = torch.cat([reward - mean_reward[..., None], m**0.5 * missed[..., None]], -1)
        return Means(means.phi, means.reward, self.weight + m), rows, rewards
