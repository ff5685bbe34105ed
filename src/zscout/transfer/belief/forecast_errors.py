"""How wrong the agent was about the rewards of the behaviours that it chose, in units of its own uncertainty."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.transfer.belief.posterior import TaskPosterior

TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True, eq=False)
class ForecastErrors:
    """Σe² and Σw² over the behaviours followed so far, and the belief when the present one was chosen.

    While a behaviour is followed, n rewards are seen, with means φ̄ and r̄. Before, the belief had ẑ, V and the means
    φ̄₀ and r̄₀. Its error is e = r̄ − r̄₀ − (φ̄ − φ̄₀)·ẑ. If rewards are linear in the features, e² is σ²w² on average,
    with w² = ‖φ̄ − φ̄₀‖²_{V⁻¹} + 1/n. So √(Σe² ÷ Σw²) is σ if they are linear, and larger if they are not.
    """

    squares: Float[Tensor, "*b"]  # Σe²
    widths: Float[Tensor, "*b"]  # Σw²
    weight: Float[Tensor, "*b"]  # the number of rewards then; 0: none
    phi: Float[Tensor, "*b D"]  # φ̄₀
    reward: Float[Tensor, "*b"]  # r̄₀
    z_hat: Float[Tensor, "*b D"]
    factor: Float[Tensor, "*b D D"]  # W, V⁻¹ = WWᵀ

    @classmethod
    def none(cls, prior: TaskPosterior) -> "ForecastErrors":
        """Nothing followed yet."""
        zero = torch.zeros_like(prior.z_hat)
        one = zero[..., 0]
        return cls(one, one, one, zero, one, zero, prior.width_factor)

    def misfit(self, belief: TaskPosterior) -> Float[Tensor, "*b"]:
        """√(Σe² ÷ Σw²), the present behaviour included; 0 before the first."""
        squares, widths = self._with_present(belief)
        return (squares / widths.clamp(min=TINY)).sqrt()

    def after_choice(self, belief: TaskPosterior, chosen: Bool[Tensor, "*b"]) -> "ForecastErrors":
        """The runs in ``chosen`` follow another behaviour from now on."""
        means = belief.means
        assert means is not None
        new = (*self._with_present(belief), means.weight, means.phi, means.reward, belief.z_hat, belief.width_factor)
        old = vars(self).values()
        return ForecastErrors(
            *(
                torch.where(chosen.reshape((*chosen.shape, *[1] * (after.ndim - chosen.ndim))), after, before)
                for after, before in zip(new, old, strict=True)
            )
        )

    def faded(self, share: float) -> "ForecastErrors":
        """With this share of the weight of the errors and rewards so far."""
        return replace(self, squares=share * self.squares, widths=share * self.widths, weight=share * self.weight)

    def without(self, runs: Bool[Tensor, "*b"]) -> "ForecastErrors":
        """Without the errors of these runs, whose task is a new one."""
        kept = (~runs).to(self.squares)
        return replace(self, squares=kept * self.squares, widths=kept * self.widths, weight=kept * self.weight)

    def _with_present(self, belief: TaskPosterior) -> tuple[Float[Tensor, "*b"], Float[Tensor, "*b"]]:
        """Σe² and Σw², with the behaviour followed now."""
        means = belief.means
        assert means is not None
        n = means.weight - self.weight
        share = means.weight / n.clamp(min=1)  # φ̄ − φ̄₀ is this share of how far the mean of all rewards has moved
        apart = share[..., None] * (means.phi - self.phi)
        error = share * (means.reward - self.reward) - torch.linalg.vecdot(apart, self.z_hat)
        width = (apart[..., None, :] @ self.factor).square().sum((-2, -1)) + 1 / n.clamp(min=1)
        known = ((n > 0) & (self.weight > 0)).to(error)
        return self.squares + known * error.square(), self.widths + known * width
