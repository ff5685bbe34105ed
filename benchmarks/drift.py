"""Lost steps after the task has changed, and what a change test costs if it has not: ``python -m benchmarks.drift``.

Runs of the default in the 9×9 grid, noise .3. In the middle of each run the hidden task becomes another one. Rows:
without and with a ``ChangeTest``. With ``--fixed`` the task stays the same, and only the test runs: a run without a
restart is the same as without the test.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.progress import track

from zscout.lab.arenas.arena import Batch, Task, Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.simulation import Trace, simulated, trace_of
from zscout.lab.compare.statistics import Bootstrap
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.belief.change import ChangeTest
from zscout.transfer.methods import METHODS

HEAD = ("features", "model", "test", "lost before", "lost after (95 %)", "restarts before", "after", "found late")
LATE = 20  # steps after the change


@dataclass(frozen=True)
class Drift:
    """Which runs, and for how long."""

    tasks: int = 100
    """Number of pairs of tasks, one run each."""
    steps: int = 200
    """Steps before the change, and as many after it."""
    noise: float = 0.3
    """Standard deviation of the reward noise."""
    models: tuple[str, ...] = ("exact",)
    """exact, network."""
    features: tuple[str, ...] = ("laplacian", "clusters")
    """Feature sets."""
    fixed: bool = False
    """The task does not change: what the test costs."""
    quick: bool = False
    """Four tasks, 40 steps."""

    def row(self, features: str, model: str, test: ChangeTest | None) -> tuple[str, ...]:
        """Mean lost steps in both halves of the runs if the task changes, and how often the test restarted them."""
        steps, count = (40, 4) if self.quick else (self.steps, self.tasks)
        arena, tasks = GridArena("open-grid", features, model), Tasks(2 * count, 1)
        ground, drawn, seeds = arena.ground, tasks.draw(arena), tasks.run_seeds[:count]
        halves = drawn[:count], drawn[: count if self.fixed else 2 * count][-count:]
        method = replace(METHODS["usf-ucb"](dim=arena.bfm.dim), change=test)
        agent = OnlineTransfer(arena.bfm, method, seed=seeds, runs=count)
        env = arena.environment(Batch(halves[0], seeds, self.noise))
        moving, taken, restarts = simulated(agent, env), [], [torch.zeros(count)]
        for half in halves:
            env.reward.copy_(ground.rewards(arena.vectors(half), seeds, 0.0))
            for _ in range(steps):
                taken.append(next(moving))
                restarts.append(torch.as_tensor(agent.changes))
        lost = [""] * 2 if self.fixed else self._lost(trace_of(agent, arena.vectors(halves[0]), taken), arena, halves)
        first, soon, last = (np.asarray(restarts[t]) for t in (steps, min(steps + LATE, 2 * steps), 2 * steps))
        shown = (
            (f"{first.sum():.0f}", f"{(last - first).sum():.0f}", "" if self.fixed else f"{(soon == first).sum()}")
            if test
            else ("", "", "")
        )
        return features, model, "change test" if test else "none", *lost, *shown

    def _lost(self, trace: Trace, arena: GridArena, halves: Sequence[Sequence[Task]]) -> list[str]:
        """Lost steps of each half, for its own tasks."""
        ground, steps = arena.ground, len(trace.state) // 2
        found, means = [], Bootstrap(len(halves[0]), 1)
        for which, half in enumerate(halves):
            part, z_r = slice(which * steps, (which + 1) * steps), arena.vectors(half)
            state = trace.state[part]
            achieved = (ground.yardstick.psi(state, trace.z[part]) * z_r).sum(-1)
            regret = ground.yardstick.best(state, z_r) - achieved
            found.append(f"{means.mean(np.asarray(regret.sum(0) / ground.gap)[:, None]):.1f}")
        return found

    def run(self) -> None:
        """Print a table."""
        cells = list(product(self.features, self.models, [ChangeTest()] if self.fixed else [None, ChangeTest()]))
        with torch.inference_mode():
            rows = [self.row(*cell) for cell in track(cells, console=Console(stderr=True))]
        print(" | ".join(HEAD))
        for row in rows:
            print(" | ".join(row))


if __name__ == "__main__":
    tyro.cli(Drift, prog="python -m benchmarks.drift").run()
