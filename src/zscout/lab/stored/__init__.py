"""Trainings that `zscout reproduce` draws without repeating them; docs/training.md says how to remake each.

    python -m zscout.lab.stored FOLDER > training.json

collects the logs (training.json) of all trainings under a folder into the one file that is stored here.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any


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
