"""What a posterior has seen, as sums that are made when somebody asks for them."""

from dataclasses import dataclass
from functools import cached_property

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
