"""Hidden rewards: in a grid with exact values, what the best policy gets and what a given policy gets."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.lab.arenas.exact_values import FLAT
from zscout.lab.arenas.ground import Ground
from zscout.transfer.offline import fit_task


class HiddenReward:
    """One reward per state; the agent never sees this table."""

    truth = None

    def __init__(self, ground: Ground, table: Float[Tensor, " S"]) -> None:
        self.table = table
        self._ground = ground
        self._known: dict[bytes, Float[Tensor, " S"]] = {}  # values by policy
        self._exact = ground.by_state.exact  # its tasks are tables
        self.best: Float[Tensor, " S"] = self._exact.value(table)  # v*
        self.random: Float[Tensor, " S"] = ground.by_state.random @ table  # v of a random walk
        self.gap = float((self.best - self.random).mean())  # what one step of random walking loses
        self.flat = self.gap <= FLAT * float(table.abs().max())  # every policy is worth the same

    def values(self, policies: Int[Tensor, "n S"]) -> list[Float[Tensor, " S"]]:
        """The value of each policy at each state; cached, since an agent that has settled repeats its policy."""
        if len(self._known) > 500:
            self._known.clear()
        keys = [policy.numpy().tobytes() for policy in policies]
        unknown = [n for n, key in enumerate(keys) if key not in self._known]
        if unknown:
            found = self._exact.worth(policies[unknown], self.table.expand(len(unknown), -1))
            self._known |= {keys[n]: values for n, values in zip(unknown, found, strict=True)}
        return [self._known[key] for key in keys]

    def worth(self, values: Float[Tensor, " S"]) -> float | None:
        """Mean value over states, scaled: 0 is a random walk, 1 the best policy."""
        return None if self.flat else float((values - self.random).mean()) / self.gap

    @cached_property
    def expressed(self) -> float | None:
        """R² of the nearest φ·z: how much of the reward the features can express."""
        return None if self.flat else fit_task(self._ground.exact, self._ground.exact.states(), self.table).expressed

    @cached_property
    def attainable(self) -> float:
        """The largest mean reward per step of any policy: the largest mean of a cycle (Karp, 1978).

        Only a move into a wall stays in place, so this can be less than the largest reward.
        """
        follows, n = self._ground.world.next_state, self._ground.world.n_states
        sums = torch.zeros(n + 1, n, dtype=torch.float64)  # [k s]: the largest sum of k steps from s
        for k in range(n):
            sums[k + 1] = (self.table + sums[k])[follows].amax(1)
        steps = torch.arange(n, 0, -1, dtype=torch.float64)[:, None]
        return float(((sums[n] - sums[:n]) / steps).amin(0).max())


@dataclass(frozen=True, eq=False)
class VectorReward:
    """A hidden reward in a world without a table of states; nothing is known of the best policy."""

    attainable = None

    table: Float[Tensor, " n"]  # on a map the reward of each place, on a stage the weight of each part
    expressed: float | None  # R² of the nearest φ·z + c; None for a constant
    truth: list[float] | None = None  # its correlation with each goal feature of a body


Hidden: TypeAlias = HiddenReward | VectorReward
