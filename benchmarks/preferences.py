"""How many answers "this clip is better" it takes to find a task.

    python -m benchmarks.preferences

prints a table of results/feedback.md (``--quick`` takes seconds). Each question: from a random start, roll out
the present best z and z drawn from the posterior, and show the two most telling clips. The simulated person compares
their true mean rewards: P(better) = f + (1 − 2f)/(1 + e⁻ˣ) with f = .1 and x = 4 · difference ÷ standard deviation of
the mean rewards of clips of random z.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
import tyro
from jaxtyping import Float
from rich.console import Console
from rich.progress import track
from torch import Generator, Tensor

import zscout
from zscout.base.randomness import Streams
from zscout.base.types import BehaviorModel
from zscout.lab.arenas.arena import Task, Tasks
from zscout.lab.arenas.body import HELD_OUT, SUITE, BodyArena
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.point import PointArena
from zscout.lab.arenas.vector import VectorArena

FLIPS, LOGITS = 0.1, 4.0  # of the person
GOOD = 0.8  # value that counts as found
CANDIDATES = 8  # z drawn from the posterior for each question
EVERY = 5  # questions from one evaluation to the next
HEAD = (
    "world",
    "tasks",
    "answers until half of the tasks are at .8",
    "for good",
    "median value after 0, 10, 20, 40, 60 answers",
    "estimated flips",
    "random clips of equal reward",
)
Reward = Callable[[Tensor], Tensor]


class Place(Protocol):
    """A model and its world, with hidden rewards."""

    @property
    def bfm(self) -> BehaviorModel:
        """The model."""

    def rewards(self, tasks: int) -> list[Reward]:
        """Hidden rewards of the observation entered."""

    def clips(self, z: Float[Tensor, "K n d"], seed: int) -> Tensor:
        """Observations entered [K n L …], a clip for each z; the n clips of a task have the same random start."""

    def value(self, task: int, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """The value of π(·,z) for a task: 1 is the oracle, 0 is random."""


class Grid:
    """The 9×9 grid with the exact model; rewards φ·z_r. Exact values: 0 is a random walk, 1 is optimal."""

    def __init__(self, length: int = 20) -> None:
        self.ground, self.length = GridArena("open-grid", "laplacian", "exact").ground, length
        self.bfm = self.ground.exact

    def rewards(self, tasks: int) -> list[Reward]:
        """φ·z_r, the tasks of zscout compare."""
        self._tasks = self.ground.draw(Tasks(tasks, 1))[0]
        return [partial(self._reward, z) for z in self._tasks]

    def _reward(self, z: Float[Tensor, " d"], obs: Tensor) -> Tensor:
        return self.bfm.phi(obs) @ z

    def clips(self, z: Float[Tensor, "K n d"], seed: int) -> Tensor:
        """States entered."""
        rng = Generator().manual_seed(seed)
        state = torch.randint(self.ground.world.n_states, (len(z), 1), generator=rng).expand(z.shape[:2])
        entered = []
        for _ in range(self.length):
            state = self.ground.world.step(state, torch.as_tensor(self.bfm.act(state, z, rng)), rng)
            entered.append(state)
        return torch.stack(entered, 2)

    def value(self, task: int, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Exact."""
        return self.ground.yardstick.value(z, self._tasks[task].expand(len(z), -1))


class Vectors:
    """An arena of vectors. Values: returns from common starts, 0 is a random z (mean of 10)."""

    def __init__(self, arena: VectorArena, length: int, horizon: int, starts: int) -> None:
        self.arena, self.length, self.horizon, self.starts = arena, length, horizon, starts
        self.bfm = arena.bfm

    def rewards(self, tasks: int) -> list[Reward]:
        """Those of zscout compare."""
        self._tasks = Tasks(min(tasks, self.arena.distinct_tasks or tasks), 1).draw(self.arena)
        self._rewards = [self._reward(task) for task in self._tasks]
        return list(self._rewards)

    def _reward(self, task: Task) -> Reward:
        if isinstance(task, str):
            return self.arena.reward_of(task)
        z = torch.tensor(task, dtype=torch.float64)
        return lambda obs: self.bfm.phi(obs).double() @ z

    def clips(self, z: Float[Tensor, "K n d"], seed: int) -> Tensor:
        """Observations entered."""
        state = self.arena.starts(Streams(torch.arange(len(z)), seed)).repeat_interleave(z.shape[1], 0)
        entered = self._followed(state, z.flatten(0, 1), self.length)
        return entered.reshape(*z.shape[:2], *entered.shape[1:])

    def value(self, task: int, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """(Return − that of random z) ÷ (the oracle's − that of random z)."""
        oracle = self.bfm.project_z(self.arena.vectors([self._tasks[task]])[0]).cpu().double()
        rows = torch.cat([oracle[None], self.bfm.sample_z(10, 1).cpu().double(), z])
        starts = self.arena.starts(Streams(torch.arange(1_000, 1_000 + self.starts)))
        entered = self._followed(starts.repeat(len(rows), 1), rows.repeat_interleave(self.starts, 0), self.horizon)
        found = self._rewards[task](entered).double().mean(1).reshape(len(rows), self.starts).mean(1)
        random = found[1:11].mean()
        return (found[11:] - random) / (found[0] - random)

    def _followed(self, state: Tensor, z: Float[Tensor, "n d"], steps: int) -> Tensor:
        """Observations entered [n steps o]."""
        return torch.stack([self.arena.observe(entered) for entered in self.arena.followed(state, z, steps)], 1)


@dataclass(frozen=True)
class Found:
    """The value of the best z after 0, 5, 10 … answers, for each task."""

    name: str
    values: Float[Tensor, "tasks m"]
    flip_rate: float  # estimated, mean over tasks
    equal: float  # share of pairs of random clips with equal rewards

    def row(self) -> Sequence[str]:
        """For the table."""
        shares = f"{self.flip_rate:.2f}", f"{self.equal:.0%}"
        return self.name, *progress(self.values, EVERY, (0, 10, 20, 40, 60, 80)), *shares


def progress(values: Float[Tensor, "tasks m"], every: int, shown: Sequence[int]) -> Sequence[str]:
    """Tasks, answers until half of them are at .8, the same for good, and median values after some answers.

    There is a value after each ``every`` answers.
    """
    good, last = values >= GOOD, every * (values.shape[1] - 1)
    counts = [every * int(row.int().argmax()) if row.any() else 10**6 for row in good]
    kept = [every * (int((~row).nonzero().max()) + 1) if not row.all() else 0 for row in good]
    middle = values.median(0).values
    curve = ", ".join(f"{float(middle[n // every]):.2f}" for n in shown if n <= last)
    return str(len(good)), _half(counts, last), _half(kept, last), curve


def _half(counts: list[int], last: int) -> str:
    """The number of answers with which half of the tasks are there."""
    middle = sorted(counts)[(len(counts) - 1) // 2]
    return str(middle) if middle <= last else f"> {last}"


def asked(
    place: Place,
    rewards: Sequence[Reward],
    usual: Float[Tensor, "K 8 8"],
    questions: int,
    name: str = "",
    seed: int = 0,
) -> tuple[Float[Tensor, "K m d"], list[float]]:
    """For each task the best z after every fifth answer, and the estimated share of flips."""
    agents = [zscout.OnlineTransfer(place.bfm, seed=100 * seed + task) for task in range(len(rewards))]
    rngs = [Generator().manual_seed(100 * seed + task) for task in range(len(rewards))]
    scales = LOGITS / (usual - usual.mean(2, keepdim=True)).flatten(1).std(1)
    best = [torch.stack([agent.best_z for agent in agents])]
    for question in track(range(questions), name, console=Console(stderr=True)):
        tasks = [agent.preferences.sample(CANDIDATES, rng) for agent, rng in zip(agents, rngs, strict=True)]
        drawn = torch.stack([agent.z_for(task) for agent, task in zip(agents, tasks, strict=True)])
        kept = torch.stack([agent.best_z for agent in agents])
        shown = place.clips(torch.cat([kept[:, None], drawn], 1), 5_000 * seed + question)
        for agent, reward, clips, scale, rng in zip(agents, rewards, shown, scales, rngs, strict=True):
            i, j = zscout.most_telling(agent, list(clips))
            apart = reward(clips[i]).double().mean() - reward(clips[j]).double().mean()
            likes_first = FLIPS + (1 - 2 * FLIPS) * torch.sigmoid(scale * apart)
            if torch.rand((), generator=rng) > likes_first:
                i, j = j, i
            agent.prefer(clips[i], clips[j])
        if (question + 1) % EVERY == 0:
            best.append(torch.stack([agent.best_z for agent in agents]))
    return torch.stack(best, 1), [float(agent.preferences.flip_rate) for agent in agents]


def usual_rewards(place: Place, rewards: Sequence[Reward]) -> Float[Tensor, "K 8 8"]:
    """Mean rewards of the clips of eight random z at each of eight starts, by task."""
    z = place.bfm.sample_z(64, 0)
    clips = place.clips(z.reshape(8, 8, -1), 10**6).flatten(0, 1)
    return torch.stack([reward(clips).double().mean(1).reshape(8, 8) for reward in rewards])


def equal_pairs(usual: Float[Tensor, "K 8 8"]) -> float:
    """The share of pairs of these clips, from the same start, that have the same reward: the answer is then random."""
    first, second = torch.triu_indices(8, 8, 1)
    return float((usual[..., first] == usual[..., second]).double().mean())


def measured(name: str, place: Place, tasks: int, questions: int, seed: int = 0) -> Found:
    """Values along the answers, for each task."""
    rewards = place.rewards(tasks)
    usual = usual_rewards(place, rewards)
    best, flips = asked(place, rewards, usual, questions, name, seed)
    values = [place.value(task, z) for task, z in enumerate(best)]
    return Found(name, torch.stack(values), sum(flips) / len(flips), equal_pairs(usual))


def joined(parts: Sequence[Found]) -> Found:
    """Several kinds of tasks of one world as one row."""
    values = torch.cat([part.values for part in parts])
    flips = sum(part.flip_rate * len(part.values) for part in parts) / len(values)
    equal = sum(part.equal * len(part.values) for part in parts) / len(values)
    return Found(parts[0].name, values, flips, equal)


def main(
    only: tuple[str, ...] = ("grid", "point maze", "point maze, linear", "walker", "cheetah"),
    tasks: int = 20,
    questions: int = 60,
    seed: int = 0,
    quick: bool = False,
) -> None:
    """Count answers on a grid, in the point maze and with the walker and the cheetah (extra mujoco)."""
    places: dict[str, Callable[[], Sequence[Place]]] = {
        "grid": lambda: [Grid()],
        "point maze": lambda: [Vectors(PointArena(), length=40, horizon=70, starts=16)],
        "point maze, linear": lambda: [Vectors(PointArena(rewards="linear"), length=40, horizon=70, starts=16)],
        "walker": lambda: [
            Vectors(BodyArena("walker-fb", rewards, body="walker"), length=40, horizon=250, starts=4)
            for rewards in (SUITE, HELD_OUT)
        ],
        "cheetah": lambda: [Vectors(BodyArena("cheetah-fb", body="cheetah"), length=50, horizon=250, starts=4)],
    }
    print(" | ".join(HEAD))
    for name in only:
        count = (2, 5) if quick else (tasks, questions)
        found = [measured(name, place, *count, seed) for place in places[name]()]
        print(" | ".join(joined(found).row()), flush=True)


if __name__ == "__main__":
    tyro.cli(main)
