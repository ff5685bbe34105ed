"""How much of the rewards the features explain."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.readable import of_runs, one_or_range
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.score.confidence import directions_seen

STANDARD_ERRORS = 1.96  # standard errors of a 95 % interval


@dataclass(frozen=True, eq=False, repr=False)
class RewardFit:
    """R² of r ≈ φ·ẑ + c over the rewards seen, corrected for the number of directions fitted; 95 % interval.

    The rest is noise, or something that φ cannot express. The interval is for independent rewards. Those of one path
    are similar, so the true one is wider. NaN: too few rewards, or all equal.
    """

    r2: Float[Tensor, "*b"]
    low: Float[Tensor, "*b"]
    high: Float[Tensor, "*b"]
    count: Float[Tensor, "*b"]  # rewards seen

    def __repr__(self) -> str:
        interval = "" if self.r2.ndim or self.r2.isnan() else f" (95 %: {self.low:.2f} to {self.high:.2f})"
        rewards = f"{one_or_range(self.count, ',.0f')} rewards{of_runs(self.r2)}"
        return f"R² {one_or_range(self.r2, '.2f')}{interval} over {rewards}"


def fit_of(posterior: TaskPosterior) -> RewardFit:
    """R² = 1 − (left/(n − d_eff − 1)) ÷ (total/(n − 1)), with its large-sample standard error 2√R²(1 − R²)/√n."""
    count, mean, total = posterior.weight, 0 if posterior.means is None else 1, posterior.reward_squares
    unexplained, enough = _unexplained(posterior)
    variance = total / (count - mean).clamp(min=1)
    r2 = torch.where(enough, 1 - unexplained / torch.where(enough, variance, 1.0), torch.nan)
    error = STANDARD_ERRORS * 2 * r2.clamp(min=0).sqrt() * (1 - r2) / count.clamp(min=1).sqrt()
    return RewardFit(r2, (r2 - error).clamp(max=1), (r2 + error).clamp(max=1), count)


def share_by_chance(posterior: TaskPosterior) -> Float[Tensor, "*b"]:
    """Of what the features explain of the rewards, the share that as many random ones would: 1/F of the F-test, ≤ 1.

    d_eff·left/(n − d_eff − 1) ÷ (total − left). It is 1 where R² ≤ 0, and where R² is unknown.
    """
    unexplained, enough = _unexplained(posterior)
    explained = (posterior.b * posterior.z_hat).sum(-1)
    share = directions_seen(posterior) * unexplained / torch.where(explained > 0, explained, 1.0)
    return torch.where(enough & (explained > 0), share.clamp(max=1), 1.0)


def _unexplained(posterior: TaskPosterior) -> tuple[Float[Tensor, "*b"], Bool[Tensor, "*b"]]:
    """The variance that the features leave unexplained, and whether there are enough rewards to know it."""
    count, mean, total = posterior.weight, 0 if posterior.means is None else 1, posterior.reward_squares
    left = (total - (posterior.b * posterior.z_hat).sum(-1)).clamp(min=0)  # and λ‖ẑ‖², which is small
    free = count - directions_seen(posterior) - mean
    return left / free.clamp(min=1), (free >= 1) & (total > 0) & (count > mean + 1)
