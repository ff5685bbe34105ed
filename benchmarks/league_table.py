"""Tables of the league: ``python -m benchmarks.league_table results/league.json`` prints one for each arena.

    python -m benchmarks.league_table --keep FILE results/league.json

keeps what tables need of a file of ``benchmarks.league``: every setting tried, and lost steps and settling of each run.

Each row is compared with the default on the same tasks and seeds. *Ratio*: the default's lost steps ÷ the row's,
pooled, with an interval over tasks that is widened for the number of rows in the arena (Bonferroni). *By task*: the
mean over tasks of the ratio, lost steps below 1 counted as 1. *Fewer on*: the share of tasks on which the default loses
fewer steps. *Without one*: pooled, without the task that moves it most. The default is ahead or behind if the interval
excludes 1, level if it lies within ``LEVEL``; else it is not decided.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.league import CELLS, OWN, Cell, entries, tried_in
from benchmarks.variants import factory
from zscout.base.files import write_bytes
from zscout.lab.compare.comparison import Entrant
from zscout.lab.compare.statistics import Bootstrap, Estimate
from zscout.lab.compare.tuning import FEWEST, SETTLING, choose, stored_settings

DEFAULT, PUBLISHED = "usf-ucb", "published"
LEVEL = (0.8, 1.25)
DRAWS = 10_000
ROOT = Path(__file__).parents[1]
RECORD = ROOT / "results" / "league.json"
WORDS = {
    "usf-ucb-paper": "paper's schedule",
    "opti": "OpTI",
    "opti-shipped": "OpTI, its authors' sampler",
    "thompson": "Thompson",
    "lola": "LoLA",
    f"{OWN}paper": "paper's schedule, our regression",
    f"{OWN}opti": "OpTI, our regression",
    f"{OWN}thompson": "Thompson, our regression",
    f"{OWN}greedy": "greedy, our regression",
    f"{OWN}lola_from_labels": "LoLA from the z of 50,000 labels",
    f"{OWN}raw_default": "`usf-ucb`, the network's own ψ",
    f"{OWN}raw_paper": "paper's schedule, the network's own ψ",
    f"{OWN}no_prior": "`usf-ucb` without the prior over tasks",
    f"{OWN}no_evidence": "`usf-ucb` with the prior, λ = 1 throughout",
    f"{OWN}radius_of_nine": "`usf-ucb` without √(p/9)",
}
UNTUNED = ("usf-ucb", "usf-ucb-norm", "oracle", "random", "exhaustive", f"{OWN}raw_default", f"{OWN}lola_from_labels")
ABLATIONS = tuple(f"{OWN}{name}" for name in ("no_prior", "no_evidence", "radius_of_nine"))


@dataclass(frozen=True, eq=False)
class Result:
    """A reported row: a method with settings, its runs, and why it has these settings."""

    method: str
    settings: Mapping[str, Any]
    choice: str  # default, published, fewest, settling, or the last two joined by and
    lost: np.ndarray  # [tasks seeds]
    settled: np.ndarray

    @property
    def title(self) -> str:
        """In words."""
        name = WORDS.get(self.method, f"`{self.method}`")
        if self.method in (*UNTUNED, *ABLATIONS):
            return f"{name}, default" if self.method.startswith("usf-ucb") else name
        if PUBLISHED in self.choice:
            untuned = self.method in ("thompson", "greedy", f"{OWN}greedy") or self.settings
            words = "".join(f", {key} {_short(value)}" for key, value in self.settings.items())
            best_tried = ", the best tried" if FEWEST in self.choice else ""
            return f"{name}, {'untuned' if untuned else 'as published'}{words}{best_tried}"
        return f"{name}, tuned{'' if ' and ' in self.choice else f' ({self.choice})'}"

    @property
    def tuned(self) -> bool:
        """Whether tuning chose its settings."""
        return FEWEST in self.choice or SETTLING in self.choice

    @property
    def mean(self) -> float:
        """Mean lost steps."""
        return float(self.lost.mean())

    @property
    def share(self) -> float:
        """The share of settled runs."""
        return float(self.settled.mean())


@dataclass(frozen=True)
class Versus:
    """The default against a row."""

    ratio: Estimate  # the default's lost steps ÷ the row's
    by_task: float
    fewer_on: float
    without_one: float

    @property
    def verdict(self) -> str:
        """Of the default."""
        if self.ratio.high < 1 or self.ratio.low > 1:
            return "ahead" if self.ratio.high < 1 else "behind"
        return "level" if LEVEL[0] < self.ratio.low and self.ratio.high < LEVEL[1] else "not decided"


class League:
    """All reported rows, by arena."""

    def __init__(self, path: Path = RECORD) -> None:
        self.record: dict[str, Any] = json.loads(path.read_text())

    def rows(self, name: str) -> list[Result]:
        """The rows of an arena, fewest lost steps first."""
        cell = self.record["cells"].get(name, {"rows": []})
        found = [
            Result(row["method"], row["settings"], row["choice"], *(np.array(row[key]) for key in ("lost", "settled")))
            for row in cell["rows"]
        ]
        return sorted(found, key=lambda row: row.mean)

    def default(self, name: str) -> Result:
        """The default in an arena."""
        found = self.find(name, DEFAULT, "default")
        assert found is not None
        return found

    def find(self, name: str, method: str, choice: str) -> Result | None:
        """The row of a method with a choice of settings; of several as published, the one without settings."""
        same = [row for row in self.rows(name) if row.method == method and choice in row.choice.split(" and ")]
        return min(same, key=lambda row: len(row.settings), default=None)

    def rivals(self, name: str) -> list[Result]:
        """Rows that are neither ours nor references."""
        return [row for row in self.rows(name) if row.method not in (*UNTUNED, *ABLATIONS)]

    def versus(self, name: str, row: Result, rows: int | None = None) -> Versus:
        """The default against a row, corrected for all rows of the arena."""
        ours = self.default(name).lost[:, : row.lost.shape[1]]  # a row may have fewer seeds
        others = len(self.rivals(name)) if rows is None else rows
        tasks, seeds = ours.shape
        bootstrap = Bootstrap(tasks, seeds, draws=DRAWS, tail=0.025 / max(1, others))
        own, theirs = ours.mean(1), row.lost.mean(1)
        ratio = np.maximum(own, 1) / np.maximum(theirs, 1)
        pooled = own.sum() / theirs.sum()
        left_out = [(own.sum() - a) / (theirs.sum() - b) for a, b in zip(own, theirs, strict=True)]
        most = max(left_out, key=lambda value: abs(value - pooled))
        fewer = (own < theirs).mean() + (own == theirs).mean() / 2
        return Versus(bootstrap.ratio(ours, row.lost), float(ratio.mean()), float(fewer), float(most))

    def frontier(self, name: str) -> list[Result]:
        """Rows that no other row beats in both lost steps and settling; references left out."""
        kept: list[Result] = []
        for row in self.rows(name):
            if row.method in ("oracle", "usf-ucb-norm", f"{OWN}lola_from_labels", *ABLATIONS):
                continue
            if not kept or row.share > kept[-1].share:
                kept.append(row)
        return kept


def lost(row: Result, digits: int = 1) -> str:
    """Lost steps with a 95 % interval over tasks."""
    return f"{Bootstrap(*row.lost.shape).mean(row.lost):.{digits}f}"


def cell_table(league: League, name: str) -> str:
    """All rows of an arena in Markdown; * marks the frontier of lost steps and settling."""
    front = {(row.method, row.choice) for row in league.frontier(name)}
    lines = [
        "| | settings | lost steps | settled | ratio | by task | fewer on | without one | the default is |",
        "|---" * 9 + "|",
    ]
    for row in league.rows(name):
        mark = "*" if (row.method, row.choice) in front else ""
        settings = ", ".join(f"{key} {_short(value)}" for key, value in row.settings.items())
        cells = [f"{row.title}{mark}", settings, lost(row), f"{row.share:.0%}"]
        if row.method in (DEFAULT, "oracle", "random") or row.mean <= 0:
            cells += [""] * 5
        else:
            it = league.versus(name, row)
            cells += [f"{it.ratio:.2f}", f"{it.by_task:.2f}", f"{it.fewer_on:.0%}", f"{it.without_one:.2f}", it.verdict]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _short(value: Any) -> str:
    return f"{value:g}".removeprefix("0") if isinstance(value, float) else str(value)


def kept(path: Path) -> dict[str, Any]:
    """What tables need of a file of ``benchmarks.league``."""
    found, cells = entries(path), {}
    for cell in CELLS:
        rows = [_row(one, choice, found[one]) for one, choice in reported(cell, found)]
        if any(row["method"] == DEFAULT for row in rows):
            cells[cell.name] = {
                "noise": cell.noise,
                "steps": cell.steps,
                "tasks": vars(cell.report),
                "tried": tried_in(found, cell),
                "rows": rows,
            }
    return {"tuned_on": vars(CELLS[0].tuning), "cells": cells}


def reported(cell: Cell, found: Mapping[Entrant, Mapping[str, Any]]) -> Iterator[tuple[Entrant, str]]:
    """The entrants of a cell's report, each with the choices that have its settings, such as "fewest and settling"."""
    chosen = choose(tried_in(found, cell))
    stored = stored_settings(cell.arena.key)
    chosen |= {name: stored[name] for name in cell.stored if name in stored}
    seen = set()
    for one in sorted(found, key=lambda one: len(one.settings)):
        if (one.arena, one.noise, replace(one.tasks, seeds=cell.report.seeds)) != (cell.arena, cell.noise, cell.report):
            continue
        settings = json.loads(one.settings)
        whole = _whole(one.method, settings)
        choices = [name for name, own in chosen.get(one.method, {}).items() if _whole(one.method, own) == whole]
        if (one.method, settings) in cell.fixed:
            choices = [PUBLISHED if one.method not in (*UNTUNED, *ABLATIONS) else "default", *choices]
        same = one.method, json.dumps(whole, sort_keys=True)
        if choices and same not in seen:  # without choices, it was chosen before an end of a grid was followed
            seen.add(same)
            yield one, " and ".join(choices)


def _row(one: Entrant, choice: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    shape = (one.tasks.count, one.tasks.seeds)
    runs = {
        "lost": np.array([float(f"{number:.4g}") for number in answer["runs"]["lost"]]).reshape(shape).tolist(),
        "settled": np.array(answer["runs"]["settled"], dtype=int).reshape(shape).tolist(),
    }
    return {"method": one.method, "settings": json.loads(one.settings), "choice": choice, **runs}


def _whole(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the defaults of those that are not named."""
    return {**factory(method).settings, **settings}


def written(record: Mapping[str, Any]) -> bytes:
    """JSON with one line for each row and each setting tried."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return text.replace('{"method"', '\n{"method"').replace('{"settings"', '\n{"settings"').encode() + b"\n"


def main(record: tyro.conf.Positional[Path] = RECORD, keep: Path | None = None, commit: str = "") -> None:
    """Print the tables of a record, or first make it of a file of ``benchmarks.league``.

    Args:
        record: The kept file.
        keep: A file of benchmarks.league.
        commit: Of the runs.
    """
    if keep is not None:
        head = {"commit": commit, "command": "python -m benchmarks.league --out FILE"}
        write_bytes(record, written(head | kept(keep)))
    league = League(record)
    for name in league.record["cells"]:
        print(f"\n## {name}\n\n{cell_table(league, name)}")


def best(rows: Sequence[Result]) -> Result:
    """The row with the fewest lost steps."""
    return min(rows, key=lambda row: row.mean)


if __name__ == "__main__":
    tyro.cli(main)
