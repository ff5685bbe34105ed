"""Credit for late feedback: which of the last steps a person's reward is about."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.transfer.inputs import Checked, NotNegative


@dataclass(frozen=True, kw_only=True)
class Credit(Checked):
    """A reward given now is about the steps ``delay`` to ``delay + spread`` ago, all alike; in steps, 0 is the last.

    The reward is a label of their mean: r ≈ Σ wₖφ(Sₖ)·z with Σwₖ = 1, and the noise of one reward. People react in .2
    to .8 s: at 10 steps a second, ``Credit(delay=2, spread=6)``. A step k old takes the time from k to k + 1; its
    weight is the part of it in the window. A window that ends before the first step falls on the first.
    """

    delay: NotNegative = 2.0
    spread: NotNegative = 6.0

    def weights(self, n: int) -> Float[Tensor, " n"]:
        """The weights of the last n observations, oldest first."""
        if n < 1:
            raise ValueError("got no observations: expected at least one to credit")
        age = torch.arange(n - 1, -1, -1, dtype=torch.float64)
        end = self.delay + max(self.spread, 1e-9)  # without a spread: the step at that age
        share = (torch.clamp(age + 1, max=end) - torch.clamp(age, min=self.delay)).clamp(min=0)
        if not share.any():
            share[0] = 1.0
        return share / share.sum()

    def mean(self, phi: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b d"]:
        """Σ wₖφₖ."""
        if phi.ndim < 2:
            raise ValueError("got a single observation, expected the last ones, [*b n …], oldest first")
        return (self.weights(phi.shape[-2]).to(phi)[:, None] * phi).sum(-2)
