"""The suite: the default against tuned rivals in a fixed list of arenas, and one score.

    python -m zscout.lab.compare.suite            the score of the stored comparisons, without running anything
    python -m zscout.lab.compare.suite FILE.json  the score of a file written by zscout compare --suite --json

Rivals are all methods with settings to tune but our own two defaults: each with its tuned settings (those that settle),
or as published where the arena has none. A rival settles as often as the default if its share of settled runs is at
most .02 below. Only these count: in each arena the ratio is the default's lost steps ÷ the fewest of such a rival, and
the rank is 1 + the number of such rivals with fewer lost steps. If no rival settles as often, both are 1. Lost steps
below 1 count as 1. The score: mean rank, mean ratio, and the arena with the largest ratio.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zscout.base.files import parse_json
from zscout.lab.arenas.arena import Arena, Tasks
from zscout.lab.arenas.body import BodyArena
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.patches import DECOY, PATCH, PatchArena
from zscout.lab.arenas.point import PointArena
from zscout.lab.compare.comparison import Entrant, Outcome, Row, comparison
from zscout.lab.compare.report_model import TextTable
from zscout.lab.compare.stored_results import StoredCell, stored_league
from zscout.lab.compare.tuning import DEFAULTS_OF_OURS, SETTLING, about_settings, settings_named, stored

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
class Place:
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
        return StoredCell(self.name, f"{self.name}, {runs} runs", "zscout compare --suite", rows)


def note_of(row: Row) -> str:
    """Where a row has its settings from, in the words of the stored comparisons."""
    return SETTLING if row.settings else about_settings(row.method, {})


def _grids() -> list[Place]:
    open_grid = [GridArena("open-grid", features, model) for model in MODELS for features in ("clusters", "laplacian")]
    rooms = [GridArena("four-rooms", "laplacian", model) for model in MODELS]
    mazes = [GridArena("maze", "laplacian", model) for model in MODELS]
    return [
        *(Place(named(arena), arena) for arena in (*open_grid, *rooms)),
        *(Place(named(arena), arena, steps=500, tasks=50, rivals=CHEAP) for arena in mazes),
    ]


def named(arena: GridArena) -> str:
    """The name of the arena's stored comparison."""
    return f"{arena.world}-{arena.features}-{arena.model}"


MODELS = ("exact", "network")
QUICK_TASKS = 8
PLACES: Sequence[Place] = (
    *_grids(),
    *(Place(kind, PatchArena(rewards=kind), steps=500, tasks=40, rivals=CHEAP) for kind in (PATCH, DECOY)),
    *(Place(f"point-maze-{noise:g}", PointArena(), steps=350, noise=noise, tasks=24) for noise in (0.0, 0.3)),
    Place("cheetah", BodyArena("cheetah-fb", body="cheetah"), steps=1_000, noise=0.0, tasks=8, quick_steps=50),
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


def stored_suite() -> list[StoredCell]:
    """The stored comparisons of the suite's arenas: those of the league, then those of the suite alone."""
    cells = {cell.name: cell for cell in (*stored_league(), *cells_from_json(stored("suite.json")))}
    return [cells[place.name] for place in PLACES if place.name in cells]


def cells_from_json(content: Sequence[dict[str, Any]]) -> list[StoredCell]:
    """The inverse of ``cells_to_json``."""
    return [StoredCell(**{**cell, "rows": [Row.from_json(row) for row in cell["rows"]]}) for cell in content]


def cells_to_json(cells: Iterable[StoredCell]) -> list[dict[str, Any]]:
    """Names and rows."""
    return [{**vars(cell), "rows": [row.to_json() for row in cell.rows]} for cell in cells]


def main(words: Sequence[str]) -> None:
    """Print the score."""
    cells = stored_suite()
    if words:
        cells = cells_from_json(parse_json(Path(words[0]).read_bytes())["cells"])
    score = Score.of(cells)
    for line in (HEAD, *score.table.rows):
        print(" | ".join(line))
    print(score)
    if missing := [place.name for place in PLACES if place.name not in [cell.name for cell in cells]]:
        print(f"not stored: {', '.join(missing)}")


if __name__ == "__main__":
    main(sys.argv[1:])
