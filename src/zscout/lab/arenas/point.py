"""The point maze as an arena: goals, regions, directions, places to avoid, velocities."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.randomness import Streams
from zscout.lab.arenas.vector import LINEAR, VectorArena
from zscout.models.fb.data import random_forces
from zscout.worlds.points.maze import PointMaze, at_rest, point_maze
from zscout.worlds.points.tasks import KINDS, PointTask, point_tasks

POINT_MAZE = "point-maze"


@dataclass(frozen=True)
class PointArena(VectorArena):
    """A point maze in four rooms, a model, and a kind of rewards."""

    model: str = "pointmaze-fb"
    rewards: str = "named"  # named: tasks of KINDS; linear: φ·z_r
    horizon: int = 70

    kinds: ClassVar = ("named", LINEAR)

    @property
    def place(self) -> str:
        """point-maze."""
        return POINT_MAZE

    @property
    def world(self) -> PointMaze:
        """Four rooms."""
        return _world()

    def starts(self, draws: Streams) -> Float[Tensor, "R 4"]:
        """At rest at a random place."""
        draw, cells = draws.uniform(3), self.world.grid.cells  # [R 3]
        return at_rest(cells[(draw[:, 0] * len(cells)).long()], draw[:, 1:]).float()

    def task_names(self, n: int, rng: Generator) -> list[str]:
        """Kinds in turn, each with the seed of its task."""
        numbers = torch.randint(2**31, (n,), generator=rng).tolist()
        return [f"{list(KINDS)[i % len(KINDS)]} {number}" for i, number in enumerate(numbers)]

    def reward_of(self, name: str) -> Callable[[Float[Tensor, "*b 4"]], Float[Tensor, "*b"]]:
        """The task of a name."""
        return task_named(name)

    def observations(self, n: int, seed: int) -> Float[Tensor, "n 4"]:
        """Observations entered under random forces, distributed as the shipped model's training data."""
        data = random_forces(self.world, max(n, 100_000), Generator().manual_seed(seed))
        return data.shuffled(Generator().manual_seed(seed)).next_obs[:n]


@cache
def task_named(name: str) -> PointTask:
    """The task of a name such as ``goal 12``: a kind of ``point_tasks``, and its seed."""
    kind, _, number = name.partition(" ")
    if not number.isdecimal():
        raise ValueError(f"expected a task such as 'goal 12', a kind ({', '.join(KINDS)}) and a number, got {name!r}")
    return point_tasks(_world(), kind, 1, int(number))[0]


@cache
def _world() -> PointMaze:
    return point_maze()
