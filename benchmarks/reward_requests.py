"""How many rewards a run needs that gets only those it asks for.

    python -m benchmarks.reward_requests

prints a table of results/feedback.md (a minute; ``--quick`` takes seconds).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
import tyro
from jaxtyping import Float, Int
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from zscout.base.edge import as_size
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.ground import Ground
from zscout.lab.arenas.simulation import TaskRuns, trace_of
from zscout.lab.compare.statistics import Bootstrap, Estimate
from zscout.lab.evaluation.exact_evaluation import settled, value_of_estimate
from zscout.lab.runs.spec import Spec
from zscout.loop.rollout import Environment, Step, Walk
from zscout.transfer.agent import OnlineTransfer

LEAST = (0.0, 0.25, 0.35, 0.5, 0.7, 1.0)  # 0: every reward
HEAD = ("features", "least", "rewards told", "lost steps", "settled")


@dataclass(frozen=True)
class Gated:
    """Runs that get a reward only where the width of the expected reward, in σ, is over ``least``."""

    features: str
    least: float
    told: Estimate  # rewards a run
    lost: Estimate  # steps
    settled: Estimate

    @property
    def cells(self) -> list[str]:
        """The row as printed below HEAD."""
        least = f"{self.least:g}" if self.least else "0 (every one)"
        told = f"{self.told:.1f}" if self.told.low < self.told.high else f"{self.told.value:.0f}"
        return [self.features, least, told, f"{self.lost:.1f}", f"{self.settled.value:.0%}"]


def gated(agent: OnlineTransfer, env: Environment, least: float) -> Iterator[Step]:
    """Endless steps of the agent, with beliefs; it only gets the rewards that it ``wants_reward``."""
    walk = Walk(agent, env, seed=0, beliefs=True)
    while True:
        step = walk.move()
        seen = torch.as_tensor(agent.wants_reward(step.next_obs, least))
        walk.tell(step, step.reward, seen)
        yield replace(step, seen=seen)


def gated_runs(
    ground: Ground,
    spec: Spec,
    tasks: Float[Tensor, "R d"],
    seeds: Int[Tensor, " R"],
    least: float,
) -> dict[str, Float[Tensor, " R"]]:
    """Runs of the spec's group in one batch, each told only what it wants to know: a few numbers for each."""
    agent = OnlineTransfer(ground.model, spec.build(tasks), seed=seeds.tolist(), runs=len(tasks))
    reward = tasks @ ground.exact.features.cpu().T
    rows = list(
        islice(
            gated(agent, TaskRuns(ground.world, reward, spec.noise, agent.seeds), least),
            as_size(spec.steps, "steps", 1),
        )
    )
    trace = trace_of(agent, tasks, rows)
    told = torch.stack([row.seen.cpu() for row in rows]).double()
    value = value_of_estimate(trace, ground.yardstick, tasks.expand(len(rows), -1, -1))
    return {
        "told": told.sum(0),
        "lost": ground.yardstick.regret(trace).sum(0) / ground.gap,
        "settled": settled(value).double(),
    }


def gates(
    features: Sequence[str], tasks: Tasks, *, method: str = "usf-ucb", noise: float = 0.3, steps: int = 200
) -> Iterator[Gated]:
    """One row for each feature set and each of LEAST, on the same runs of the exact model in the 9×9 grid."""
    bootstrap = Bootstrap(tasks.count, tasks.seeds)
    for name in features:
        arena = GridArena(features=name)
        spec = Spec(arena, method, (), noise=noise, steps=steps)
        z, seeds = arena.ground.draw(tasks)
        for least in LEAST:
            numbers = gated_runs(arena.ground, spec, z, seeds, least)
            shape = (tasks.count, tasks.seeds)
            means = {key: bootstrap.mean(column.numpy().reshape(shape)) for key, column in numbers.items()}
            yield Gated(name, least, **means)


def main(
    features: str = "clusters,laplacian", tasks: int = 100, seeds: int = 3, seed: int = 0, quick: bool = False
) -> None:
    """Print a Markdown table of rewards told and steps lost; quick: five tasks, one seed, 50 steps.

    Args:
        features: clusters, laplacian, or both with a comma between.
        tasks: number of hidden z_r, the first of those of ``zscout compare``.
        seeds: runs of each task.
        seed: decides tasks and seeds.
        quick: a first look.
    """
    torch.set_num_threads(1)  # these tensors are small
    names = features.split(",")
    drawn = Tasks(5 if quick else tasks, 1 if quick else seeds, seed=seed)
    lines = []
    with Progress(console=Console(stderr=True), transient=True) as bar:
        work = bar.add_task("running", total=len(names) * len(LEAST))
        for row in gates(names, drawn, steps=50 if quick else 200):
            lines.append(row.cells)
            bar.update(work, advance=1, description=f"{row.features}, least {row.least:g}")
    for line in (HEAD, ["---"] * len(HEAD), *lines):
        print("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    tyro.cli(main, prog="python -m benchmarks.reward_requests")
