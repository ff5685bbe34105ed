"""A run as frames to display, in any world with a map: maps, the way, and numbers in words."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_size, as_vectors
from zscout.lab.arenas.arena import Arena, Batch, Task, Tasks
from zscout.lab.arenas.simulation import simulated
from zscout.lab.arenas.vector import LINEAR, VectorArena
from zscout.lab.runs.spec import Spec
from zscout.loop.rollout import Step
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import METHODS

Point: TypeAlias = tuple[float, float]  # row and column on the map; whole numbers are centres of cells
Mode: TypeAlias = Literal["wanders", "tries", "goes", "stays"]
DOING: dict[Mode, str] = {
    "wanders": "wanders: an explorer chooses its actions",
    "tries": "tries a behaviour that leads elsewhere",
    "goes": "goes to the best place it knows",
    "stays": "stays at the best place it knows",
}
REPORTED_TASKS = Tasks(count=100, seeds=1)  # the tasks that compare reports on
Place = TypeVar("Place")


@dataclass(frozen=True, eq=False)
class Scene:
    """The constant part of a run. Maps are [rows columns] of cells, or of ``per_cell``² squares a cell."""

    spec: Spec
    reward: str  # what ``truth`` shows
    truth: np.ndarray  # the reward without noise, NaN on walls
    limits: tuple[float, float]  # its range, the scale of both maps of rewards
    doubt: np.ndarray  # width of the expected reward, in σ, before the first reward
    best: frozenset[Point]  # where the reward is largest
    chart: str  # title of the chart of levels
    ticks: dict[float, str]  # its levels in words; empty: their range
    about: str = ""  # the task in words, if it has any
    per_cell: int = 1
    pace: int = 160  # milliseconds of a step in a GIF


@dataclass(frozen=True, eq=False)
class Frame:
    """One step, from S_t to S_{t+1}, and the estimates after it."""

    step: int  # t + 1, the number of rewards so far
    reward: float  # R_{t+1}
    path: np.ndarray  # points from S_t to S_{t+1} [n 2]
    heading: Point | None  # where π(·,Z_t) leads from S_t; None for an explorer's step
    mode: Mode  # whether it follows the best z
    estimate: np.ndarray  # map of the expected reward, φ·ẑ + c, NaN on walls
    doubt: np.ndarray  # map of its width in units of σ
    level: float  # height in the chart
    label: str  # the level in words
    line: str  # the numbers in words, for the terminal
    head: str  # the same for a picture
    numbers: dict[str, Any]  # the step as JSON, without its maps
    velocity: Point = (0.0, 0.0)
    reference: float | None = None  # the level to compare with

    @property
    def place(self) -> Point:
        """Where S_{t+1} is."""
        row, column = self.path[-1].tolist()
        return row, column

    @property
    def doing(self) -> str:
        """The mode in words, with the agent as subject."""
        return DOING[self.mode]


def read_task(task: str, kinds: str = "its number") -> int | list[float]:
    """The number of a task of compare, or the numbers of z_r with commas between."""
    try:
        z_r = [float(word) for word in task.split(",")]
    except ValueError:
        raise ValueError(f"a task is {kinds} or z_r with commas between, got {task!r}") from None
    if task.strip().lstrip("+-").isdecimal():
        return as_size(int(task), "the number of a task", 0, REPORTED_TASKS.count - 1)
    return z_r


def vector_run(arena: VectorArena, method: str, task: str, kinds: str, *, noise: float, seed: int, steps: int) -> Spec:
    """The checked spec of a run of a task by number or z_r; ``kinds`` says what else ``task`` could have been."""
    read = read_task(task, kinds)
    if isinstance(read, int):
        return checked_run(arena, method, REPORTED_TASKS.draw(arena)[read], read, noise=noise, seed=seed, steps=steps)
    linear, z_r = replace(arena, rewards=LINEAR), _linear_task(read, arena.bfm.dim)
    return checked_run(linear, method, z_r, 0, noise=noise, seed=seed, steps=steps)


def checked_run(arena: Arena, method: str, task: Task, number: int, *, noise: float, seed: int, steps: int) -> Spec:
    """The checked spec of a run; for a ``seed`` below 1000 that of compare with this seed and number of a task."""
    run_seed = (REPORTED_TASKS.run_seeds[number] + seed) % 2**63
    spec = Spec(arena, method, task, noise=noise, seed=run_seed, steps=steps)
    spec.check()
    return spec


def _linear_task(z_r: Sequence[float], dim: int) -> Task:
    """z_r as a task, checked."""
    task = as_vectors(z_r, dim, "the task")
    if not task.any():
        raise ValueError("for this task every policy is worth the same: there is nothing to find")
    if task.abs().max() > 1e100:  # sums of squares of its rewards must be finite
        raise ValueError("values overflow: scale z_r down")
    return tuple(task.tolist())


def mode_of(
    heading: Place | None, settled: Place, entered: Place, same: Callable[[Place, Place], bool] = operator.eq
) -> Mode:
    """The mode, from where the followed z and the best z lead, and the place just entered."""
    if heading is None:
        return "wanders"
    if not same(heading, settled):
        return "tries"
    return "stays" if same(entered, heading) else "goes"


def share(number: float, digits: int = 2) -> str:
    """A value with this number of digits; no minus sign on a zero."""
    return f"{round(number, digits) + 0:.{digits}f}".replace("-", "−")


@dataclass(frozen=True, eq=False)
class StepBeside:
    """A step of a run, and the oracle's from the same starts."""

    step: Step
    state: Float[Tensor, "2 k"]  # entered: the run's, and the oracle's
    own: float  # return of the episode so far, without noise
    best: float  # the oracle's


def beside_oracle(arena: VectorArena, spec: Spec, agent: OnlineTransfer) -> Iterator[StepBeside]:
    """Endless steps of one run, each with the oracle's, whose z is the task."""
    batch = Batch([spec.task], [spec.seed], spec.noise, spec.outside, spec.offset)
    task = arena.vectors(batch.tasks)
    env, beside = arena.environment(batch), arena.environment(replace(batch, noise=0.0))
    oracle = OnlineTransfer(arena.bfm, METHODS["oracle"](dim=arena.bfm.dim, task=task), seed=batch.seeds, runs=1)
    episode, own, best = 0, 0.0, 0.0
    for step, reference in zip(simulated(agent, env), simulated(oracle, beside), strict=True):
        if step.episode != episode:
            episode, own, best = step.episode, 0.0, 0.0
        own += float(env.true_reward(step.next_obs))
        best += float(beside.true_reward(reference.next_obs))
        yield StepBeside(step, torch.cat([env.entered, beside.entered]), own, best)
