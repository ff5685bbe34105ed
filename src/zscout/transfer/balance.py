"""The weight of a reward: one that repeats what φ·z cannot express counts less."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

LEAST = 1.0  # of k: with a smaller one nothing would be learned from rewards without noise
TINY = torch.finfo(torch.float64).tiny
GUESS, GUESSES = 0.75, 20  # ρ before any reward, and the number of rewards that weigh as much


@dataclass(frozen=True, eq=False)
class Balance:
    """Weighs rewards by how new they are, as far as their errors are alike from one step to the next.

    Let r = φ·z + m + ε, with noise ε of variance σ² and a part m of variance τ² that φ·z cannot express. Where the
    agent stays, m is the same each time. So n rewards of one place tell its mean only up to τ² + σ²/n, and each should
    have a weight ∝ 1/(σ² + nτ²), not 1/σ²: about min(1, k/n) with k = σ²/τ². The weight here is min(1, kh) with
    h = ‖φ‖²_{V⁻¹}, about one over the sum of the weights so far. It falls more slowly, as √(k/2n): k is an estimate,
    and m is not the same everywhere that φ is.

    ρ = τ²/(σ² + τ²) is the correlation of successive errors, each of a reward predicted before it was learned and
    divided by √(1 + h). If φ·z is right they are uncorrelated: they are the innovations of a Kalman filter. The
    estimate begins at ¾ with the weight of 20 rewards, and one standard error is subtracted; k = (1 − ρ)/ρ, at least 1.
    White noise gives k → ∞: plain ridge regression.
    """

    last: Float[Tensor, "*b"]  # the last error
    squares: Float[Tensor, "*b"]  # Σe²
    products: Float[Tensor, "*b"]  # Σe·(the one before)
    count: Float[Tensor, "*b"]

    @property
    def correlation(self) -> Float[Tensor, "*b"]:
        """ρ, one standard error below its estimate."""
        found = self.products / self.squares.clamp(min=TINY)  # 0 if there are no errors yet
        n = self.count + GUESSES
        return ((found * self.count + GUESS * GUESSES) / n - n.rsqrt()).clamp(0.0, 1.0)

    def weight(self, unsure: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
        """min(1, kh) for h = ``unsure``."""
        rho = self.correlation
        k = ((1 - rho) / rho.clamp(min=1e-9)).clamp(min=LEAST)
        return (k * unsure).clamp(max=1.0)

    def plus(
        self, error: Float[Tensor, "*b"], unsure: Float[Tensor, "*b"], seen: Bool[Tensor, "*b"] | None
    ) -> "Balance":
        """With the error of one more reward; a run that has not ``seen`` one keeps what it had."""
        e = error / (1 + unsure).sqrt()
        new = Balance(e, self.squares + e**2, self.products + e * self.last, self.count + 1)
        if seen is None:
            return new
        return Balance(**{name: torch.where(seen, value, vars(self)[name]) for name, value in vars(new).items()})
