"""The suite: the default against tuned rivals in a fixed list of arenas, and one score.

    python -m benchmarks.suite --quick            about 3 minutes; too few runs to decide anything
    python -m benchmarks.suite --json FILE        everything, into a file
    python -m benchmarks.suite --score FILE       the score of such a file, without running anything

Rivals are all methods with settings to tune but our own two defaults: each with its tuned settings (those that settle),
or as published where the arena has none. A rival settles as often as the default if its share of settled runs is at
most .02 below. Only these count: in each arena the ratio is the default's lost steps ÷ the fewest of such a rival, and
the rank is 1 + the number of such rivals with fewer lost steps. If no rival settles as often, both are 1. Lost steps
below 1 count as 1. The score: mean rank, mean ratio, and the arena with the largest ratio.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console

from zscout.base.files import parse_json, write_json
from zscout.cli.parts.output import say
from zscout.cli.parts.progress import outcomes_with_bar
from zscout.lab.arenas.arena import Arena, Tasks
from zscout.lab.arenas.body import BodyArena
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.patches import DECOY, PATCH, PatchArena
from zscout.lab.arenas.point import PointArena
from zscout.lab.compare.comparison import Entrant, Outcome, Row, comparison
from zscout.lab.compare.report_model import TextTable
from zscout.lab.compare.stored_results import StoredCell
from zscout.lab.compare.tuning import DEFAULTS_OF_OURS, SETTLING, about_settings, settings_named
from zscout.lab.runs.executor import executor_named
from zscout.report.tables import terminal_table

DEFAULT = DEFAULTS_OF_OURS[0]
RIVALS = ("usf-ucb-paper", "opti", "thompson", "greedy")
CHEAP = (
    "usf-ucb-paper",
    "thompson",
    "greedy",
)  # where OpTI, which solves 128 tasks in each step, takes over 10 minutes
NOT_RIVALS = (*DEFAULTS_OF_OURS, "oracle", "random", "exhaustive")
MARGIN = 0.02  # of the share of settled runs
HEAD = ("arena", "runs", "default: lost", "settled", "best rival", "lost", "settled", "ratio", "rank")


@dataclass(frozen=True)
class SuiteArena:
    """One arena of the suite: how long its runs are, how many there are, and who runs in it."""

    name: str
    arena: Arena
    steps: int = 200
    noise: float = 0.3
    tasks: int = 100
    rivals: tuple[str, ...] = RIVALS
    quick_steps: int = 100

    def entrants(self, quick: bool = False, seed: int = 0) -> list[Entrant]:
        """The default and its rivals on the same tasks and seeds; ``quick``: few tasks, short runs, cheap rivals."""
        count, steps = (QUICK_TASKS, min(self.steps, self.quick_steps)) if quick else (self.tasks, self.steps)
        tasks, chosen = Tasks(count, 1, "report", seed), settings_named("auto", self.arena)
        rivals = [name for name in self.rivals if not quick or name in CHEAP]
        return [
            Entrant.of(self.arena, name, chosen.get(name, {}), tasks, noise=self.noise, steps=steps)
            for name in (DEFAULT, *rivals)
        ]

    def cell(self, outcomes: Iterable[Outcome]) -> StoredCell:
        """The rows of its outcomes."""
        rows = [replace(row, note=note_of(row)) for row in comparison(list(outcomes))]
        runs = max((row.runs for row in rows), default=0)
        return StoredCell(self.name, f"{self.name}, {runs} runs", "python -m benchmarks.suite", rows)


def note_of(row: Row) -> str:
    """Where a row has its settings from, in the words of the stored comparisons."""
    return SETTLING if row.settings else about_settings(row.method, {})


def _grids() -> list[SuiteArena]:
    open_grid = [GridArena("open-grid", features, model) for model in MODELS for features in ("clusters", "laplacian")]
    rooms = [GridArena("four-rooms", "laplacian", model) for model in MODELS]
    mazes = [GridArena("maze", "laplacian", model) for model in MODELS]
    return [
        *(SuiteArena(named(arena), arena) for arena in (*open_grid, *rooms)),
        *(SuiteArena(named(arena), arena, steps=500, tasks=50, rivals=CHEAP) for arena in mazes),
    ]


def named(arena: GridArena) -> str:
    """The name of the arena's stored comparison."""
    return f"{arena.world}-{arena.features}-{arena.model}"


MODELS = ("exact", "network")
QUICK_TASKS = 8
ARENAS: Sequence[SuiteArena] = (
    *_grids(),
    *(SuiteArena(kind, PatchArena(rewards=kind), steps=500, tasks=40, rivals=CHEAP) for kind in (PATCH, DECOY)),
    *(SuiteArena(f"point-maze-{noise:g}", PointArena(), steps=350, noise=noise, tasks=24) for noise in (0.0, 0.3)),
    SuiteArena("cheetah", BodyArena("cheetah-fb", body="cheetah"), steps=1_000, noise=0.0, tasks=8, quick_steps=50),
)
"""The maze's runs are longer, because its diameter is. Tasks of the cheetah are a fixed list."""


@dataclass(frozen=True)
class Standing:
    """The default in one arena."""

    name: str
    ours: Row
    best: Row | None  # the rival with the fewest lost steps of those that settle as often
    rank: int
    rivals: int  # all of them
    tuned: bool  # whether every rival has tuned settings

    @property
    def ratio(self) -> float:
        """The default's lost steps ÷ the best rival's."""
        return 1.0 if self.best is None else _steps(self.ours) / _steps(self.best)

    @property
    def cells(self) -> list[str]:
        """A row of the table."""
        best = ["none settles as often", "", ""]
        if self.best is not None:
            method = self.best.method + ("" if self.best.settings else " (untuned)")
            best = [method, f"{self.best.lost.value:.1f}", f"{self.best.settled.value:.0%}"]
        ours = [f"{self.ours.lost.value:.1f}", f"{self.ours.settled.value:.0%}"]
        return [self.name, f"{self.ours.runs}", *ours, *best, f"{self.ratio:.2f}", f"{self.rank}"]


def _steps(row: Row) -> float:
    return max(1.0, row.lost.value)  # relative to an oracle they may be negative


def standing(cell: StoredCell) -> Standing | None:
    """Where the default stands; None if it or every rival is missing."""
    ours = next((row for row in cell.rows if row.method == DEFAULT and not row.settings), None)
    rivals = _rivals(cell.rows)
    if ours is None or not rivals:
        return None
    level = [row for row in rivals if row.settled.value >= ours.settled.value - MARGIN]
    best = min(level, key=lambda row: row.lost.value, default=None)
    rank = 1 + sum(_steps(row) < _steps(ours) for row in level)
    return Standing(cell.name, ours, best, rank, len(rivals), all(row.settings for row in rivals))


def _rivals(rows: Sequence[Row]) -> list[Row]:
    """One row for each rival: with the settings that settle, else as published."""
    found: dict[str, Row] = {}
    for row in rows:
        tuned = SETTLING in row.note.split(" and ")
        if row.method not in NOT_RIVALS and (tuned or (not row.settings and row.method not in found)):
            found[row.method] = row
    return list(found.values())


@dataclass(frozen=True)
class Score:
    """The default in all arenas."""

    standings: Sequence[Standing]

    @classmethod
    def of(cls, cells: Iterable[StoredCell]) -> "Score":
        """The score of comparisons; those without the default or without rivals do not count."""
        found = [where for cell in cells if (where := standing(cell)) is not None]
        if not found:
            raise ValueError("no comparison has the default and a rival")
        return cls(found)

    @property
    def rank(self) -> float:
        """Mean rank."""
        return sum(where.rank for where in self.standings) / len(self.standings)

    @property
    def ratio(self) -> float:
        """Mean ratio."""
        return sum(where.ratio for where in self.standings) / len(self.standings)

    @property
    def worst(self) -> Standing:
        """The arena with the largest ratio."""
        return max(self.standings, key=lambda where: where.ratio)

    @property
    def table(self) -> TextTable:
        """One row for each arena."""
        return TextTable("suite", str(self), HEAD, [where.cells for where in self.standings])

    def __str__(self) -> str:
        """One line."""
        worst = f"worst arena {self.worst.name}, {self.worst.ratio:.2f}"
        return f"{len(self.standings)} arenas: mean rank {self.rank:.2f}, mean ratio {self.ratio:.2f}; {worst}"

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"arenas": len(self.standings), "rank": self.rank, "ratio": self.ratio, "worst": self.worst.name}


def cells_of(path: Path) -> list[StoredCell]:
    """The comparisons in a file of this command."""
    return [StoredCell.from_json(cell) for cell in parse_json(path.read_bytes())["cells"]]


def runnable(quick: bool, seed: int, console: Console) -> dict[SuiteArena, list[Entrant]]:
    """Those that can run, by arena; an arena that needs an extra that is not installed is left out."""
    found: dict[SuiteArena, list[Entrant]] = {}
    for place in ARENAS:
        try:
            entrants = place.entrants(quick, seed)
            entrants[0].check()
        except ModuleNotFoundError as error:
            say(console, f"left out: {place.name} ({error})")
            continue
        found[place] = entrants
    return found


def main(
    out: Path = Path("out/compare"),
    jobs: int = 1,
    seed: int = 0,
    quick: bool = False,
    json: Path | None = None,
    score: Path | None = None,
) -> None:
    """Run what is not stored yet; print one row for each arena, and the score.

    Args:
        out: Folder for runs.sqlite, which stores every step of every run.
        jobs: Number of worker processes.
        seed: Seed of the tasks and of every run.
        quick: 8 tasks of at most 100 steps, without OpTI.
        json: Also write the score and the rows of each arena to this file.
        score: Run nothing: print the score of this file.
    """
    console = Console()
    if score is not None:
        console.print(terminal_table(Score.of(cells_of(score)).table))
        return
    entrants = runnable(quick, seed, console)
    everyone = [one for of_place in entrants.values() for one in of_place]
    with contextlib.closing(executor_named("local", jobs=jobs, address="")) as executor:
        outcomes = outcomes_with_bar(everyone, out, executor, console)
    cells = [place.cell(outcomes[one] for one in of_place) for place, of_place in entrants.items()]
    found = Score.of(cells)
    console.print(terminal_table(found.table))
    untuned = [where.name for where in found.standings if not where.tuned]
    if untuned:
        say(console, f"No stored settings, so rivals run as published: {', '.join(untuned)}")
    if json is not None:
        rows = [{**vars(cell), "rows": [row.to_json() for row in cell.rows]} for cell in cells]
        write_json(json, {"score": found.to_json(), "cells": rows})


if __name__ == "__main__":
    tyro.cli(main)
