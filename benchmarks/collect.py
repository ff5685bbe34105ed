"""Collect stored results for ``zscout reproduce``.

    python -m benchmarks.collect FOLDER > training.json
    python -m benchmarks.collect FILE.json FILE.json … > league.json, or point_maze_online.json

collect the logs of all trainings in a folder (docs/training.md has the command of each), or files written by
``zscout compare --json``. The results belong into ``src/zscout/lab/stored/``.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from zscout.lab.arenas.arena import Arena
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.patches import PatchArena
from zscout.lab.arenas.point import POINT_MAZE, PointArena
from zscout.lab.compare.comparison import Entrant, Outcome, Row, comparison
from zscout.lab.compare.tuning import SETTLING, about_settings, stored_settings
from zscout.transfer.methods import METHODS

SETUP = ("world", "slip", "walks", "recipe", "features", "seed", "changes")  # what decides a training


def collect_league(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The outcomes in files of ``zscout compare --json``, ranked together by arena."""
    cells: dict[tuple[Arena, float], dict[str, Outcome]] = {}
    for path in paths:
        for content in json.loads(path.read_text())["outcomes"]:
            outcome = Outcome.from_json(content)
            entrant = outcome.entrant
            cells.setdefault((entrant.arena, entrant.noise), {})[entrant.method + entrant.settings] = outcome
    return [_cell(arena, list(outcomes.values())) for (arena, _), outcomes in cells.items()]


def _cell(arena: Arena, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    one = outcomes[0].entrant
    tasks, seeds = one.tasks.count, one.tasks.seeds
    methods = ",".join(name for name in METHODS if name in {outcome.entrant.method for outcome in outcomes})
    name, title, where = _described(one)
    chosen = stored_settings().get(arena.key, {})
    settings = SETTLING if any(outcome.settings for outcome in outcomes) else "default"

    def note(row: Row) -> str:
        """The choices that have the row's settings, or where a row without settings has its from."""
        choices = chosen.get(row.method, {}).items()
        same = " and ".join(name for name, settings in choices if settings == row.settings)
        return same if row.settings else about_settings(row.method, {})

    return {
        "name": name,
        "title": f"{title}, {tasks * seeds} runs",
        "command": f"zscout compare {where} --methods {methods} --settings {settings} --tasks {tasks} --seeds {seeds}"
        + (f" --seed {one.tasks.seed}" if one.tasks.seed else ""),
        "rows": [_rounded(replace(row, note=note(row)).to_json()) for row in comparison(outcomes)],
    }


def _described(entrant: Entrant) -> tuple[str, str, str]:
    """Name and title of a cell, and the options of its command."""
    arena = entrant.arena
    if isinstance(arena, GridArena):
        names = arena.world, arena.features, arena.model
        options = "--world {} --features {} --model {}".format(*names)
        if isinstance(arena, PatchArena):
            rewards = f"--rewards {arena.rewards} --steps {entrant.steps}"
            return arena.rewards, f"{arena.rewards}, {', '.join(names)} model", f"{options} {rewards}"
        return "-".join(names), "{}, {}, {} model".format(*names), options
    assert isinstance(arena, PointArena)
    model, kind = Path(arena.model).name, POINT_MAZE + ("" if arena.rewards == "named" else f"-{arena.rewards}")
    options = f"--arena {kind} --model {model} --noise {entrant.noise:g} --steps {entrant.steps}"
    return f"{kind}-{model}-{entrant.noise:g}", f"{kind}, {model}, σ = {entrant.noise:g}", options


def collect(folder: Path) -> list[dict[str, Any]]:
    """The logs of all finished trainings in a folder, thinned to about 40 lines each."""
    entries = []
    for path in sorted(folder.glob("*/training.json")):
        run = json.loads(path.read_text())
        lines = run["log"][:: max(1, len(run["log"]) // 40)]
        if lines[-1] is not run["log"][-1]:
            lines.append(run["log"][-1])
        curves = {name: [line[name] for line in lines] for name in ("step", "loss")}
        curves |= {name: [line["verdict"][name] for line in lines] for name in ("value", "value_p5", "psi_error")}
        about = {"name": path.parent.name, **{key: run["what"][key] for key in SETUP}}
        about["seconds"] = round(run["seconds"], 1)
        entries.append(about | {"verdict": _rounded(run["verdict"]), "curves": _rounded(curves)})
    return entries


def _rounded(value: Any) -> Any:
    """Floats with five digits, in dicts and lists too."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    paths = [Path(word) for word in sys.argv[1:]]
    found = collect_league(paths) if all(path.is_file() for path in paths) else collect(paths[0])
    print("[\n" + ",\n".join(json.dumps(entry) for entry in found) + "\n]")
