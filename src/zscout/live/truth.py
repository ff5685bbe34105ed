"""What a hidden reward makes of a world: what could be had, and what a policy is worth beside that."""

from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.lab.exact_values import FLAT
from zscout.lab.ground import Ground
from zscout.transfer.offline import fit_task

MOST_KNOWN = 500  # values of policies that are remembered


class Truth:
    """One table of rewards, a number for each state; the agent never sees it."""

    def __init__(self, ground: Ground, table: Float[Tensor, " S"]) -> None:
        self.table = table
        self._ground = ground
        self._known: dict[bytes, Float[Tensor, " S"]] = {}  # by policy
        self._exact = ground.by_state.exact  # where a task is a table
        self.best: Float[Tensor, " S"] = self._exact.value(table)
        self.random: Float[Tensor, " S"] = ground.by_state.random @ table
        self.gap = float((self.best - self.random).mean())  # what a step of random walking loses

    @property
    def flat(self) -> bool:
        """Whether there is nothing to find."""
        return self.gap <= FLAT * float(self.table.abs().max())

    def values(self, policies: Int[Tensor, "n S"]) -> list[Float[Tensor, " S"]]:
        """What policies are worth from each state; those of an agent that has settled come again and again."""
        keys = [policy.numpy().tobytes() for policy in policies]
        unknown = [n for n, key in enumerate(keys) if key not in self._known]
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
            unknown = list(range(len(keys)))
        if unknown:
            found = self._exact.worth(policies[unknown], self.table.expand(len(unknown), -1))
            self._known |= {keys[n]: values for n, values in zip(unknown, found, strict=True)}
        return [self._known[key] for key in keys]

    def worth(self, values: Float[Tensor, " S"]) -> float | None:
        """Over all states: 0 is a random walk, 1 the best policy there is."""
        return None if self.flat else float((values - self.random).mean()) / self.gap

    @cached_property
    def expressed(self) -> float | None:
        """How much of the reward the features can express: R² of the nearest φ·z."""
        return None if self.flat else fit_task(self._ground.exact, self._ground.exact.states(), self.table).expressed

    @cached_property
    def attainable(self) -> float:
        """The best average reward a step of any policy: the largest mean of a cycle (Karp, 1978).

        No action stands still but a move into a wall, so this can be less than the largest reward.
        """
        follows, n = self._ground.world.next_state, self._ground.world.n_states
        sums = torch.zeros(n + 1, n, dtype=torch.float64)  # [k s]: the best sum of k steps from s
        for k in range(n):
            sums[k + 1] = (self.table + sums[k])[follows].amax(1)
        steps = torch.arange(n, 0, -1, dtype=torch.float64)[:, None]
        return float(((sums[n] - sums[:n]) / steps).amin(0).max())


def random_table(ground: Ground, number: int) -> Float[Tensor, " S"]:
    """φ·z_r of a random task, by its number."""
    task = ground.exact.sample_z(1, Generator().manual_seed(number)).cpu()[0]
    return ground.exact.features.cpu() @ task
