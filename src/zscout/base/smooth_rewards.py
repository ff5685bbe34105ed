"""Random smooth rewards of goal features: ramps and bumps."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

RAMPS = 0.25  # share of rewards that are linear in the goal features; the others are bumps
WIDTHS = (0.3, 1.0)  # of a bump, in standard deviations of a goal feature


@dataclass(frozen=True, eq=False)
class SmoothRewards:
    """Ramps v·g, then bumps exp(−‖(g − g₀)∘m‖²/2l²), where the mask m selects about half of the goal features g."""

    slopes: Float[Tensor, "g ramps"]  # v
    centres: Float[Tensor, "bumps g"]  # g₀
    scale: Float[Tensor, "bumps g"]  # m/l

    @classmethod
    def drawn(cls, goals: Float[Tensor, "n g"], tasks: int, rng: Generator) -> "SmoothRewards":
        """Random ones; bumps are around rows of ``goals``."""
        size, dtype, device = goals.shape[1], goals.dtype, goals.device
        ramps = round(RAMPS * tasks)
        slopes = torch.randn(size, ramps, generator=rng, dtype=dtype, device=device)
        bumps = tasks - ramps
        centres = goals[torch.randint(len(goals), (bumps,), generator=rng, device=device)]
        mask = torch.rand(bumps, size, generator=rng, device=device) < 0.5
        one = torch.randint(size, (bumps, 1), generator=rng, device=device)
        mask = mask.scatter(1, one, True)  # at least one
        low, high = (math.log(width) for width in WIDTHS)
        widths = torch.exp(low + (high - low) * torch.rand(bumps, 1, generator=rng, dtype=dtype, device=device))
        return cls(slopes, centres, mask / widths)

    def __call__(self, goals: Float[Tensor, "*b g"]) -> Float[Tensor, "*b tasks"]:
        """The rewards of goal features."""
        scale = self.scale.square()  # ‖(g − g₀)∘m‖²/l² without a tensor [n bumps g]
        squares = goals.square() @ scale.mT - 2 * goals @ (self.centres * scale).mT
        squares = squares + (self.centres * self.scale).square().sum(-1)
        return torch.cat([goals @ self.slopes, torch.exp(-0.5 * squares.clamp(min=0))], -1)


def random_rewards(goals: Float[Tensor, "n g"], tasks: int, rng: Generator) -> Float[Tensor, "n tasks"]:
    """The rewards of these goal features, for random tasks."""
    return SmoothRewards.drawn(goals, tasks, rng)(goals)
