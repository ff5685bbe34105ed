"""Stored trainings, comparisons and measures, which `python -m reproduction` shows without repeating them.

``docs/reproduce.md`` has the commands that make them; ``python -m benchmarks.collect`` collects their output.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zscout.lab.compare.comparison import Row

LEAGUE_FILE, POINT_MAZE_FILE = "league.json", "point_maze_online.json"
LABEL_COUNTS = (50, 150, 500, 1_500, 5_000, 15_000, 50_000)  # of the measures of a point-maze model


@dataclass(frozen=True)
class Training:
    """One training: its settings, its verdict, and curves of at most 41 points."""

    name: str
    world: str
    slip: float
    walks: int
    recipe: str
    features: str
    seed: int
    changes: tuple[str, ...]
    seconds: float
    verdict: dict[str, float | int]
    curves: dict[str, list[float | int]]  # step, loss, value, value_p5, psi_error

    @property
    def plain(self) -> bool:
        """Whether it is an unchanged recipe in the paper's world."""
        return self.world == "open-grid" and not (self.slip or self.walks or self.changes)


@dataclass(frozen=True)
class StoredCell:
    """One comparison of all methods in one arena."""

    name: str
    title: str
    command: str
    rows: list[Row]


@dataclass(frozen=True)
class TaskMeasures:
    """What a point-maze model holds for one task: mean returns of one episode, from the same starts."""

    task: str
    expressed: float  # R² of the reward in φ, over 50,000 observations
    random_z: float  # a z of sample_z
    labels: dict[int, float]  # z from this number of labelled observations
    oracle: float  # z from 50,000
    ceiling: float  # the best z that the cross-entropy method finds by true returns, on other starts
    planner: float

    @property
    def kind(self) -> str:
        """The kind of task."""
        return self.task.split()[0]


def stored(name: str) -> Any:
    """The content of a file in ``stored/``."""
    return json.loads(Path(__file__).with_name("stored").joinpath(name).read_text())


def stored_trainings() -> list[Training]:
    """All stored trainings."""
    return [Training(**{**entry, "changes": tuple(entry["changes"])}) for entry in stored("training.json")]


def stored_cells(name: str) -> list[StoredCell]:
    """The stored comparisons in a file, best method first in each."""
    return [StoredCell(**{**cell, "rows": [Row.from_json(row) for row in cell["rows"]]}) for cell in stored(name)]


def stored_measures() -> dict[str, list[TaskMeasures]]:
    """What point-maze models hold, by model."""
    return {
        model: [TaskMeasures(**{**task, "labels": {int(n): v for n, v in task["labels"].items()}}) for task in tasks]
        for model, tasks in stored("point_maze.json").items()
    }


def stored_pipeline() -> dict[str, dict[str, Any]]:
    """The paper's pipeline, by feature set and arm: curves, and the numbers of each run."""
    found: dict[str, dict[str, Any]] = stored("pipeline.json")
    return found
