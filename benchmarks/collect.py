"""Collect stored results for ``python -m reproduction``.

    python -m benchmarks.collect FOLDER > training.json
    python -m benchmarks.collect LEAGUE.json open-grid four-rooms maze > league.json
    python -m benchmarks.collect LEAGUE.json point-maze > point_maze_online.json

collect the logs of all trainings in a folder (docs/training.md has the command of each), or the rows of methods in a
file of ``benchmarks.league``, in arenas whose names begin so. The results belong into ``reproduction/stored/``.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.league import CELLS, entries
from benchmarks.league_table import reported
from reproduction.variants import ALTERNATIVES
from zscout.lab.compare.comparison import Outcome, comparison
from zscout.lab.runs.spec import settings_json
from zscout.transfer.methods import METHODS

SETUP = ("world", "slip", "walks", "recipe", "features", "seed", "changes")  # what decides a training


def collect_league(path: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of methods in a file of ``benchmarks.league``, by arena, of arenas whose names begin with these."""
    found = entries(path)
    for cell in CELLS:
        choices = {one: choice for one, choice in reported(cell, found) if one.method in {*METHODS, *ALTERNATIVES}}
        if not choices or not cell.name.startswith(tuple(names)):
            continue
        shape, name = (cell.report.count, cell.report.seeds), cell.name.removesuffix(f"-{cell.noise:g}")
        outcomes = [
            Outcome(one, {number: np.array(runs).reshape(shape) for number, runs in found[one]["runs"].items()})
            for one in choices
        ]
        notes = {(one.method, one.settings): choice for one, choice in choices.items()}
        rows = [replace(row, note=notes[row.method, settings_json(row.settings)]) for row in comparison(outcomes)]
        yield {
            "name": cell.name,
            "title": f"{name}, {shape[0] * shape[1]} runs of {cell.steps} steps, σ = {cell.noise:g}",
            "command": "python -m benchmarks.league --out FILE",
            "rows": [_rounded(row.to_json()) for row in rows],
        }


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
    first, *names = sys.argv[1:]
    cells = [*collect_league(Path(first), names)] if names else collect(Path(first))
    print("[\n" + ",\n".join(json.dumps(entry) for entry in cells) + "\n]")
