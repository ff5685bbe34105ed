"""The paper's pipeline end to end: the network of its recipe, 10,000 fresh z a step, its β.

    python -m benchmarks.pipeline --device cuda > pipeline.json

runs it, each half of it combined with ours, and our default (minutes on a GPU, hours on a CPU). The output is stored as
``reproduction/stored/pipeline.json``. One arm's networks are not shipped:

    zscout pretrain --recipe paper --features F --patience 40 --set policy_steps=80000 --out out/grid9-F-paper-value

trains them, for F clusters and laplacian.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from reproduction.experiment import FEATURES, Scale, explorations, transfers
from reproduction.experiments.network_training import (
    BEST_VALUE,
    CURVES,
    DRAWS,
    NETWORK_CHANGED,
    PAPERS,
    SEARCH_CHANGED,
    SEEDS,
    TASKS,
)
from reproduction.report.model import Curve
from reproduction.summaries import banded
from reproduction.variants import explore
from zscout.lab.arenas.grid import GridArena
from zscout.lab.runs.chunks import run_batch
from zscout.lab.runs.spec import Spec
from zscout.lab.runs.store import Record

STEPS = 200
EVERY = 4  # steps between the points of a stored curve
BATCH = 20  # runs at once, each with 10,000 z


NETWORKS = {
    "ours": "network",
    "paper, best ψ": str(Path(__file__).parents[1] / "reproduction" / "models" / "grid9-{}-paper"),
    "paper, best value": "out/grid9-{}-paper-value",  # not shipped: see the command above
}


@dataclass(frozen=True)
class Arm:
    """A network, a search and a method."""

    label: str
    network: str  # a key of NETWORKS
    draws: int  # fresh z a step; 0: our search
    method: str = "usf-ucb-paper"


ARMS = (
    Arm(PAPERS, "paper, best ψ", DRAWS),
    Arm(SEARCH_CHANGED, "paper, best ψ", 0),
    Arm(NETWORK_CHANGED, "ours", DRAWS),
    Arm("our network, our search", "ours", 0),
    Arm("our default", "ours", 0, "usf-ucb"),
    Arm(BEST_VALUE, "paper, best value", DRAWS),
)


def measure(arm: Arm, features: str, device: str, scale: Scale) -> dict[str, Any]:
    """One arm: 40 explorations without a reward, 100 random tasks."""
    arena = GridArena(features=features, model=NETWORKS[arm.network].format(features), device=device)
    settings = {"draws": arm.draws} if arm.draws else {}
    tasks = _records(transfers(scale, arena, arm.method, TASKS, settings=settings))
    found: dict[str, Any] = {"curves": {name: _curve(tasks, name) for name in CURVES}}
    found["runs"] = {n: [round(r.numbers[n], 4) for r in tasks] for n in ("lost", "settled", "final", "error")}
    if arm.method == "usf-ucb-paper":
        explored = _records(explorations(scale, arena, explore(draws=arm.draws), SEEDS, STEPS))
        found["curves"]["log_det"] = _curve(explored, "log_det")
        found["runs"]["log_det"] = [round(float(r.steps["log_det"][-1]), 4) for r in explored]
    return found


def _records(specs: Sequence[Spec]) -> list[Record]:
    return [record for i in range(0, len(specs), BATCH) for record in run_batch(specs[i : i + BATCH])]


def _curve(records: Sequence[Record], name: str) -> dict[str, list[float]]:
    """The mean of the runs and its 95 % band, every four steps."""
    curve: Curve = banded(name, np.stack([record.steps[name] for record in records]).astype(np.float64))
    points = {"x": curve.x, "y": curve.y, "low": curve.low or [], "high": curve.high or []}
    return {part: [float(f"{v:.4g}") for v in values[EVERY - 1 :: EVERY]] for part, values in points.items()}


def main(device: str = "cpu", quick: bool = False, arms: tuple[str, ...] = ()) -> None:
    """Run all arms, or those named, on both feature sets, and print the results as JSON."""
    found: dict[str, dict[str, Any]] = {}
    for features in FEATURES:
        for arm in (arm for arm in ARMS if not arms or arm.label in arms):
            print(f"{features}: {arm.label}", file=sys.stderr, flush=True)
            found.setdefault(features, {})[arm.label] = measure(arm, features, device, Scale(quick=quick))
    print(json.dumps(found))


if __name__ == "__main__":
    tyro.cli(main)
