"""Trainings and comparisons that `zscout reproduce` shows without repeating them.

    python -m zscout.lab.stored FOLDER > training.json
    python -m zscout.lab.stored FILE.json FILE.json … > league.json

collect the logs of all trainings under a folder (docs/training.md says how to remake each), and what
``zscout compare --json FILE.json`` wrote, into the files that are stored here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from zscout.lab.comparison import Outcome, Row, comparison
from zscout.lab.grid_arena import GridArena
from zscout.lab.tuning import SETTLING, about_settings, stored_settings
from zscout.transfer.methods import METHODS


@dataclass(frozen=True)
class Training:
    """One training as it went: its settings, its verdict, and a few numbers every so many steps."""

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
        """Whether it is a recipe as it stands, in the paper's world."""
        return self.world == "open-grid" and not (self.slip or self.walks or self.changes)


def stored_trainings() -> list[Training]:
    """All that are stored."""
    text = files("zscout.lab.stored").joinpath("training.json").read_text()
    return [Training(**{**entry, "changes": tuple(entry["changes"])}) for entry in json.loads(text)]


@dataclass(frozen=True)
class StoredCell:
    """One comparison that was run elsewhere: a world, features and a model, with every method."""

    name: str
    title: str
    command: str
    rows: list[Row]


def stored_league() -> list[StoredCell]:
    """All comparisons that are stored, best method first in each."""
    text = files("zscout.lab.stored").joinpath("league.json").read_text()
    return [StoredCell(**{**cell, "rows": [Row.from_json(row) for row in cell["rows"]]}) for cell in json.loads(text)]


def collect_league(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Files that ``zscout compare --json`` wrote, those of one arena ranked together; each says its command."""
    cells: dict[GridArena, dict[str, Outcome]] = {}
    for path in paths:
        for content in json.loads(path.read_text())["outcomes"]:
            outcome = Outcome.from_json(content)
            assert isinstance(outcome.entrant.arena, GridArena)
            cells.setdefault(outcome.entrant.arena, {})[outcome.entrant.method + outcome.entrant.settings] = outcome
    return [_cell(arena, list(outcomes.values())) for arena, outcomes in cells.items()]


def _cell(arena: GridArena, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    entrant = outcomes[0].entrant
    where = f"--world {arena.world} --features {arena.features} --model {arena.model}"
    tasks, seeds = entrant.tasks.count, entrant.tasks.seeds
    amount = f"--tasks {tasks} --seeds {seeds}"
    methods = ",".join(name for name in METHODS if name in {outcome.entrant.method for outcome in outcomes})
    chosen = stored_settings().get(arena.key, {})
    rows = [replace(row, note=_choice(row, chosen.get(row.method, {}))) for row in comparison(outcomes)]
    return {
        "name": f"{arena.world}-{arena.features}-{arena.model}",
        "title": f"{arena.world}, {arena.features}, {arena.model} model, {tasks * seeds} runs",
        "command": f"zscout compare {where} --methods {methods} --settings {SETTLING} {amount}",
        "rows": [_rounded(row.to_json()) for row in rows],
    }


def _choice(row: Row, chosen: Mapping[str, Mapping[str, Any]]) -> str:
    """Which of the choices its settings are; for a row without settings, where these are from."""
    if not row.settings:
        return about_settings(row.method, {})
    return " and ".join(name for name, settings in chosen.items() if settings == row.settings)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return _short(value) if isinstance(value, float) else value


def collect(folder: Path) -> list[dict[str, Any]]:
    """The logs of all finished trainings under a folder, thinned to at most 40 lines each."""
    entries = []
    for path in sorted(folder.glob("*/training.json")):
        run = json.loads(path.read_text())
        lines = run["log"][:: max(1, len(run["log"]) // 40)]
        if lines[-1] is not run["log"][-1]:
            lines.append(run["log"][-1])
        verdicts = [line["verdict"] for line in lines]
        curves = {"step": [line["step"] for line in lines], "loss": [_short(line["loss"]) for line in lines]}
        curves |= {name: [_short(v[name]) for v in verdicts] for name in ("value", "value_p5", "psi_error")}
        what = run["what"]
        entries.append(
            {
                "name": path.parent.name,
                **{key: what[key] for key in ("world", "slip", "walks", "recipe", "features", "seed", "changes")},
                "seconds": round(run["seconds"], 1),
                "verdict": {name: _short(value) for name, value in run["verdict"].items()},
                "curves": curves,
            }
        )
    return entries


def _short(value: float) -> float:
    return float(f"{value:.5g}")
