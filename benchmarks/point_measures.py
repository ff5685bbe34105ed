"""How much a point-maze model holds: returns of the planner, of the best z found, and of z from a number of labels.

``python -m benchmarks.point_measures --model NAME --out FILE`` measures a model on the named tasks of zscout compare.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
import tyro
from jaxtyping import Float
from torch import Generator, Tensor

from benchmarks.cross_entropy import cross_entropy
from reproduction.stored_results import LABEL_COUNTS, TaskMeasures
from zscout.base.files import write_json
from zscout.cli.parts.options import usage_errors
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.point import PointArena, task_named
from zscout.lab.arenas.vector import LABELS
from zscout.lab.evaluation.judging import episode_returns
from zscout.worlds.points.planner import PointPlanner

TASKS = 30  # the first tasks of zscout compare
STARTS, SEARCH_STARTS = 64, 24  # of each return; of those that the search for the best z sees
POPULATION, ELITE, ROUNDS, SPREAD = 64, 8, 15, 0.5  # of the cross-entropy method over z


def measure(arena: PointArena, names: Sequence[str], planned: Sequence[float], seed: int = 0) -> list[TaskMeasures]:
    """Measures of named tasks; ``planned`` has the planner's returns."""
    rng = Generator().manual_seed(seed)
    starts, search_starts = (arena.world.random_states(n, rng) for n in (STARTS, SEARCH_STARTS))
    fits = [arena.fit(name) for name in names]
    oracle = torch.stack([fit.z for fit in fits]).cpu()
    few = {n: torch.stack([arena.fit(name, n).z for name in names]).cpu() for n in LABEL_COUNTS if n < LABELS}
    random = arena.bfm.sample_z(len(names), rng.manual_seed(seed + 1)).to(oracle)
    best = best_z(arena, names, oracle, search_starts, rng)
    z = torch.stack([random, oracle, best, *few.values()], 1)
    found = returns(arena, names, z, starts).tolist()
    return [
        TaskMeasures(
            name, fit.expressed, row[0], {**dict(zip(few, row[3:], strict=True)), LABELS: row[1]}, row[1], row[2], plan
        )
        for name, fit, row, plan in zip(names, fits, found, planned, strict=True)
    ]


def planned_return(arena: PointArena, name: str, seed: int = 0) -> float:
    """The planner's mean return from the starts of ``measure``."""
    starts = arena.world.random_states(STARTS, Generator().manual_seed(seed))
    return float(PointPlanner(arena.world).plan(task_named(name), horizon=arena.horizon).execute(starts).mean())


def best_z(
    arena: PointArena, names: Sequence[str], z: Float[Tensor, "K d"], starts: Float[Tensor, "m 4"], rng: Generator
) -> Float[Tensor, "K d"]:
    """The best z that the cross-entropy method finds from z, by returns from ``starts``."""
    *_, (best, _) = cross_entropy(
        lambda tried: returns(arena, names, tried, starts),
        arena.bfm.project_z,
        z,
        rng,
        population=POPULATION,
        elite=ELITE,
        rounds=ROUNDS,
        spread=SPREAD,
    )
    return best


def returns(
    arena: PointArena, names: Sequence[str], z: Float[Tensor, "K n d"], starts: Float[Tensor, "m 4"]
) -> Float[Tensor, "K n"]:
    """Mean return of one episode of π(·,z) from the starts, for n z of each task."""
    tasks = [task_named(name) for name in names]
    return episode_returns(arena.bfm, arena.world, tasks, z, starts.to(arena.device), arena.horizon).mean(-1).cpu()


def main(
    out: Path,
    model: str = PointArena.model,
    tasks: int = TASKS,
    device: str = "cpu",
) -> None:
    """Measure a model: the planner, the best z found, and z from 50 to 50,000 labels; writes a JSON file."""
    arena = PointArena(model, device=device)
    with usage_errors():
        arena.bfm  # noqa: B018 — loaded now, not after minutes
    names = [str(name) for name in Tasks(tasks, 1).draw(arena)]
    planned = [planned_return(arena, name) for name in names]
    write_json(out, [asdict(found) for found in measure(arena, names, planned)])


if __name__ == "__main__":
    tyro.cli(main)
