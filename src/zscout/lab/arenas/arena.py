"""The protocol of an arena: a model, tasks, and an environment of many runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import as_size
from zscout.base.types import BehaviorModel, Obs
from zscout.lab.arenas.source import UserObject
from zscout.loop.rollout import Environment
from zscout.models.sphere import sample_sphere

Task: TypeAlias = tuple[float, ...] | str  # z_r, or the name of a reward
Evaluation: TypeAlias = tuple[Mapping[str, Tensor], Mapping[str, np.ndarray]]
"""A number for each run [R] by name, and columns of steps [T R …]. Every arena has the numbers ``NUMBERS``."""

NUMBERS = (
    "lost",  # lost steps
    "lost_own",  # the same relative to the model's own π(·,z_r); by Monte Carlo the same number
    "settled",  # 1 if the best z is good enough
    "final",  # mean reward of the last steps: 0 is random, 1 is the best
    "error",  # ‖ẑ − z_r‖ after the last step
)
GOOD_VALUE = 0.95  # settled: the best z has at least this value
FINAL_STEPS = 20  # whose mean reward is ``final``


@dataclass(frozen=True)
class Batch:
    """Runs that share everything but their task and seed."""

    tasks: Sequence[Task]
    seeds: Sequence[int]
    noise: float = 0.0  # σ of the reward
    outside: float = 0.0  # share of the reward's variance over states that no φ·z expresses
    offset: float = 0.0  # a constant added to every reward


@runtime_checkable
class TaskEnvironment(Environment, Protocol):
    """Many runs in one environment, each with its task."""

    def true_reward(self, next_obs: Obs) -> Float[Tensor, " R"]:
        """R_{t+1} of each run without noise."""


@runtime_checkable
class TaskSource(Protocol):
    """What tasks are drawn from."""

    def sample_tasks(self, n: int, rng: Generator) -> list[Task]:
        """n random tasks."""


@runtime_checkable
class Arena(TaskSource, Protocol):
    """Where methods are compared. ``lab.evaluation`` evaluates its runs."""

    @property
    def device(self) -> str:
        """cpu or cuda, of the model."""

    @property
    def key(self) -> str:
        """Its name in records, such as open-grid/laplacian/exact."""

    @property
    def bfm(self) -> BehaviorModel:
        """The model: π, φ and ψ."""

    @property
    def fingerprint(self) -> str:
        """Digest of everything that decides a run here, such as the map and the weights."""

    def to_json(self) -> dict[str, Any]:
        """The names that decide it, without the device."""

    def vectors(self, tasks: Sequence[Task]) -> Float[Tensor, "R d"]:
        """z_r of each task: what the oracle uses."""

    def environment(self, batch: Batch) -> TaskEnvironment:
        """All runs of the batch in one environment; starts, slips and noise come from each run's seed."""

    # What most arenas share

    def sample_tasks(self, n: int, rng: Generator) -> list[Task]:
        """z_r, uniform on the sphere of radius √d."""
        return [tuple(z) for z in sample_sphere(n, self.bfm.dim, rng).tolist()]

    def __hash__(self) -> int:
        """Arenas are keys of caches."""
        return hash(self.key)

    @property
    def objects(self) -> UserObject | None:
        """What it has besides names: a user's objects."""
        return None

    @property
    def distinct_tasks(self) -> int | None:
        """The number of its tasks if they are a fixed list; None if they are drawn at random."""
        return None

    @property
    def tuned_on(self) -> "Arena":
        """The arena with the tasks on which methods are tuned: itself if tasks are drawn at random."""
        return self


@dataclass(frozen=True)
class Tasks:
    """How many tasks, and how many runs (seeds) of each; ``tuning`` and ``report`` never share a task or seed."""

    count: int = 100
    seeds: int = 3
    kind: str = "report"
    seed: int = 0  # another number gives other tasks and seeds

    def __post_init__(self) -> None:
        as_size(self.count, "tasks", 1)
        as_size(self.seeds, "seeds", 1, 1_000)
        as_size(self.seed, "seed", 0, MOST_SEED)
        if self.kind not in FIRST_SEED:
            raise ValueError(f"tasks are {' or '.join(FIRST_SEED)}, got {self.kind!r}")

    def draw(self, source: TaskSource) -> list[Task]:
        """The task of each run: the same for every method, so that comparisons are paired."""
        blocks = range(-(-self.count // BLOCK))  # in blocks: more tasks begin with the same ones
        drawn = [task for b in blocks for task in source.sample_tasks(BLOCK, Generator().manual_seed(self._first + b))]
        return [task for task in drawn[: self.count] for _ in range(self.seeds)]

    @property
    def run_seeds(self) -> list[int]:
        """The seed of each run, in the order of ``draw``."""
        return [self._first + task * 1_000 + run for task in range(self.count) for run in range(self.seeds)]

    @property
    def _first(self) -> int:
        return FIRST_SEED[self.kind] + self.seed * 1_000_000_000_000


BLOCK = 100
MOST_SEED = 4_000_000  # seeds of runs stay below 2⁶²
FIRST_SEED = {"tuning": 1_000_000_000, "report": 2_000_000_000}
