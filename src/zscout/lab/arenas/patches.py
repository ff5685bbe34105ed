"""Sparse rewards in finite worlds: one small patch, or a good one behind a nearer one that is worth half."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import shortest_path
from torch import Generator, Tensor

from zscout.base.edge import known_name
from zscout.features import encode
from zscout.features.laplacian import adjacency
from zscout.lab.arenas.arena import Batch, Task
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.ground import FINE_LAPLACIAN
from zscout.lab.arenas.simulation import TaskRuns
from zscout.worlds import GridWorld

PATCH, DECOY = "patch", "decoy"
PATCH_SIDE = 2  # cells along each side of a patch
DECOY_REWARD = 0.5  # the good patch has 1
DECOY_NEARER = 3  # steps at least by which the decoy is nearer to the start


@dataclass(frozen=True)
class PatchArena(GridArena):
    """A grid world with rewards that are 0 almost everywhere; z_r is their least-squares fit.

    ``patch`` is the number of a patch of 2×2 cells with reward 1. ``decoy 40 12 3``: the good patch, a second one with
    reward .5, and the state where all runs of the task start, which is nearer to the second. Lost steps are regret
    relative to the best policy for the true reward, ÷ the mean over states of v* − v_random of the task.
    """

    features: str = FINE_LAPLACIAN
    rewards: str = PATCH

    def __post_init__(self) -> None:
        super().__post_init__()
        known_name(self.rewards, (PATCH, DECOY), "kind of rewards,")

    @property
    def key(self) -> str:
        """world/features/model/rewards."""
        return f"{super().key}/{self.rewards}"

    def sample_tasks(self, n: int, rng: Generator) -> list[Task]:
        """Names of random tasks."""
        if not self.exact_with(self.ground.world.n_states):
            raise ValueError(f"{self.rewards} rewards need exact evaluation: use a smaller world, or --model exact")
        draw = {PATCH: _random_patch, DECOY: _random_decoy}[self.rewards]
        return [draw(self.ground.world, rng) for _ in range(n)]

    def tables(self, tasks: Sequence[Task]) -> Float[Tensor, "R S"]:
        """The true reward of each state."""
        world = self.ground.world
        tables = torch.zeros(len(tasks), world.n_states, dtype=torch.float64)
        for table, (patch, decoy, _) in zip(tables, map(_parsed, tasks), strict=True):
            if decoy is not None:
                table[_patches(world)[decoy]] = DECOY_REWARD
            table[_patches(world)[patch]] = 1.0
        return tables

    def vectors(self, tasks: Sequence[Task]) -> Float[Tensor, "R d"]:
        """z_r: the least-squares fit φ·z_r of the reward."""
        return encode(self.ground.features.cpu(), self.tables(tasks))

    def environment(self, batch: Batch) -> TaskRuns:
        """Runs without episode ends; with a decoy, from the start of their task."""
        if batch.outside:
            raise ValueError(f"--outside does not apply to {self.rewards} rewards, which are not linear in φ")
        reward = self.tables(batch.tasks) + batch.offset
        starts = [start for _, _, start in map(_parsed, batch.tasks) if start is not None]
        start = torch.tensor(starts) if starts else None
        return TaskRuns(self.ground.world, reward, batch.noise, torch.tensor(batch.seeds), start)

    def final_reward(self, z: Float[Tensor, "R d"], batch: Batch) -> Float[Tensor, " R"]:
        """The largest reward of a state where π(·,z) is after many steps from the start of each task."""
        policy = self.ground.yardstick.policy(z)
        if policy.is_floating_point():
            policy = policy.argmax(-1)
        world, tables = self.ground.world, self.tables(batch.tasks)
        state = torch.tensor([start for _, _, start in map(_parsed, batch.tasks)])
        most = torch.zeros(len(z), dtype=torch.float64)
        for step in range(world.n_states + PATCH_SIDE**2):
            state = world.next_state[state, policy.gather(1, state[:, None])[:, 0]]
            if step >= world.n_states:  # the way there is over
                most = torch.maximum(most, tables.gather(1, state[:, None])[:, 0])
        return most


def _parsed(task: Task) -> tuple[int, int | None, int | None]:
    """Patch, decoy and start of a name such as ``decoy 40 12 3``."""
    kind, *numbers = str(task).split()
    whole = [int(number) for number in numbers if number.isdecimal()]
    if (kind, len(whole)) not in ((PATCH, 1), (DECOY, 3)) or len(whole) != len(numbers):
        raise ValueError(f"expected a task such as 'patch 12' or 'decoy 40 12 3', got {task!r}")
    return (whole[0], None, None) if kind == PATCH else (whole[0], whole[1], whole[2])


def _random_patch(world: GridWorld, rng: Generator) -> Task:
    return f"{PATCH} {_any(len(_patches(world)), rng)}"


def _random_decoy(world: GridWorld, rng: Generator) -> Task:
    """Two patches that share no cell, and a start that is nearer to the second."""
    steps = _steps(world)
    nearer = (steps[None] > 0) & (steps[None] <= steps[:, None] - DECOY_NEARER) & _apart(world)[:, :, None]  # [P P S]
    good = nearer.any(-1).any(-1).nonzero()[:, 0]
    if not len(good):
        raise ValueError(f"this world has no patch with a second one that can be {DECOY_NEARER} steps nearer")
    best = int(good[_any(len(good), rng)])
    choices = nearer[best].nonzero()
    decoy, start = choices[_any(len(choices), rng)].tolist()
    return f"{DECOY} {best} {decoy} {start}"


def _any(n: int, rng: Generator) -> int:
    return int(torch.randint(n, (), generator=rng))


@cache
def _patches(world: GridWorld) -> Int[Tensor, "P 4"]:
    """The states of each patch of free cells."""
    number = {(int(row), int(column)): state for state, (row, column) in enumerate(world.cells)}
    within = list(product(range(PATCH_SIDE), repeat=2))
    found = [[number.get((row + down, column + right), -1) for down, right in within] for row, column in number]
    patches = [patch for patch in found if min(patch) >= 0]
    if not patches:
        raise ValueError(f"this world has no {PATCH_SIDE}×{PATCH_SIDE} patch of free cells")
    return torch.tensor(patches)


@cache
def _steps(world: GridWorld) -> Float[Tensor, "P S"]:
    """The steps from each state to each patch."""
    between = torch.as_tensor(shortest_path(adjacency(world), unweighted=True))
    return between[_patches(world)].amin(1)


@cache
def _apart(world: GridWorld) -> Bool[Tensor, "P P"]:
    """Whether two patches share no cell and do not touch: at least two steps lie between them."""
    return _steps(world)[:, _patches(world)].amin(-1) >= 2
