"""Bodies as arenas: the control suite's tasks, held-out ones, or rewards φ·z_r."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import known_name
from zscout.base.randomness import Streams
from zscout.lab.arenas.vector import LINEAR, VectorArena
from zscout.models.files.pretrained import observations_of
from zscout.worlds.bodies.physics import Body, body
from zscout.worlds.bodies.tasks import body_task, body_tasks
from zscout.worlds.registry import of_kind

SUITE, HELD_OUT = "suite", "held-out"


@dataclass(frozen=True)
class BodyArena(VectorArena):
    """A body, a model of it, and a kind of rewards."""

    model: str = "walker-fb"
    rewards: str = SUITE  # the suite's and the benchmark's tasks; held-out; linear: φ·z_r
    horizon: int = 1_000  # control steps
    body: str = "walker"

    kinds: ClassVar = (SUITE, HELD_OUT, LINEAR)

    def __post_init__(self) -> None:
        super().__post_init__()
        known_name(self.body, of_kind("body"), "body")

    @property
    def place(self) -> str:
        """The body's name."""
        return self.body

    @property
    def world(self) -> Body:
        """The body; an action is held as in the model's training.

        Its physics has one thread if the model is on a CPU: there, runs are spread over processes. With a model on a
        GPU, one process has all runs, and its physics has all cores.
        """
        return _world(self.body, int(self.bfm.about.get("repeat", 1)), 1 if self.device == "cpu" else None)

    @property
    def decisions(self) -> int:
        """Actions in an episode: ``horizon`` counts control steps."""
        return -(-self.horizon // self.world.repeat)

    def starts(self, draws: Streams) -> Float[Tensor, "R k"]:
        """The suite's starts, one generator for each run, so that a run does not depend on the others."""
        return torch.cat([self.world.random_states(1, rng) for rng in draws.generators()])

    def task_names(self, n: int, rng: Generator) -> list[str]:
        """The tasks in turn, the same for every seed."""
        return [self._names[i % len(self._names)] for i in range(n)]

    @property
    def distinct_tasks(self) -> int | None:
        """The number of named tasks; None for linear rewards."""
        return None if self.rewards == LINEAR else len(self._names)

    @property
    def tuned_on(self) -> "BodyArena":
        """Held-out tasks for the suite's, and the suite's for held-out ones; itself for linear rewards."""
        return replace(self, rewards={SUITE: HELD_OUT, HELD_OUT: SUITE, LINEAR: LINEAR}[self.rewards])

    @property
    def _names(self) -> list[str]:
        held_out = self.rewards == HELD_OUT
        return [task.name for task in body_tasks(self.world) if (task.kind == HELD_OUT) == held_out]

    def reward_of(self, name: str) -> Callable[[Float[Tensor, "*b o"]], Float[Tensor, "*b"]]:
        """The task of a name."""
        return body_task(self.world, name)

    def observations(self, n: int, seed: int) -> Float[Tensor, "n o"]:
        """The observations saved with the model: n, or as many as there are."""
        return observations_of(self.model)[:n]


@cache
def _world(name: str, repeat: int, threads: int | None) -> Body:
    return body(name, repeat=repeat, threads=threads)
