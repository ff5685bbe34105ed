"""Comparison of methods on the same tasks and seeds: entrants, outcomes, ranked rows and their table cells."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from zscout.lab.arena import NUMBERS, Arena, Tasks
from zscout.lab.grid_arena import GridArena
from zscout.lab.spec import Spec, settings_json
from zscout.lab.statistics import Bootstrap, Estimate, ranks
from zscout.lab.store import Store


@dataclass(frozen=True)
class Entrant:
    """One method with its settings in one arena, on tasks and seeds that are the same for every method."""

    arena: Arena
    method: str
    settings: str = "{}"  # JSON: an entrant can be a key
    tasks: Tasks = field(default_factory=Tasks)
    noise: float = 0.3
    steps: int = 200
    outside: float = 0.0
    offset: float = 0.0

    @classmethod
    def of(cls, arena: Arena, method: str, settings: Mapping[str, Any], tasks: Tasks, **rest: Any) -> "Entrant":
        """With settings as names and values."""
        return cls(arena, method, settings_json(dict(settings)), tasks, **rest)

    @property
    def label(self) -> str:
        """Its method, with what was set."""
        return _labelled(self.method, json.loads(self.settings))

    @cached_property
    def specs(self) -> list[Spec]:
        """Its runs, a task's beside each other."""
        shared = {name: getattr(self, name) for name in ("settings", "outside", "offset", "noise", "steps")}
        runs = zip(self.tasks.draw(self.arena), self.tasks.run_seeds, strict=True)
        return [Spec(self.arena, self.method, task, seed=seed, **shared) for task, seed in runs]

    def check(self) -> None:
        """Refuse what cannot be run before anything is."""
        rest = {"outside": self.outside, "offset": self.offset, "noise": self.noise, "steps": self.steps}
        Spec(self.arena, self.method, (), self.settings, **rest).check()  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of an entrant: tables of a number for each run [tasks seeds], or why some runs failed."""

    entrant: Entrant
    tables: Mapping[str, np.ndarray]  # by NUMBERS; empty where runs failed
    failures: Sequence[str] = ()

    @classmethod
    def of(cls, entrant: Entrant, store: Store) -> "Outcome":
        """From what the store has of its runs."""
        found = [store.numbers(spec) for spec in entrant.specs]
        there = [numbers for numbers in found if numbers is not None]
        if len(there) < len(found):
            missing = [spec for spec, numbers in zip(entrant.specs, found, strict=True) if numbers is None]
            return cls(entrant, {}, [store.failure(spec) or "it was not run" for spec in missing])
        shape = (entrant.tasks.count, entrant.tasks.seeds)
        return cls(entrant, {n: np.array([run[n] for run in there]).reshape(shape) for n in NUMBERS})

    @property
    def settings(self) -> dict[str, Any]:
        """What was set."""
        found: dict[str, Any] = json.loads(self.entrant.settings)
        return found

    def to_json(self) -> dict[str, Any]:
        """Everything: what decided the runs, every run's numbers, and the seeds that they can be repeated with."""
        return {
            **{field.name: getattr(self.entrant, field.name) for field in fields(Entrant)},
            "arena": self.entrant.arena.to_json(),
            "tasks": asdict(self.entrant.tasks),
            "settings": self.settings,
            "seeds": self.entrant.tasks.run_seeds,
            "digests": [spec.digest for spec in self.entrant.specs],
            "runs": {name: table.flatten().tolist() for name, table in self.tables.items()},
            "failures": list(self.failures),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Outcome":
        """What ``to_json`` wrote."""
        arena, tasks = GridArena(**content["arena"]), Tasks(**content["tasks"])
        rest = {name: content[name] for name in ("noise", "steps", "outside")}
        rest["offset"] = content.get("offset", 0.0)
        entrant = Entrant.of(arena, content["method"], content["settings"], tasks, **rest)
        shape = (tasks.count, tasks.seeds)
        tables = {name: np.array(runs).reshape(shape) for name, runs in content["runs"].items()}
        return cls(entrant, tables, content["failures"])


@dataclass(frozen=True)
class Row:
    """One line of a comparison."""

    method: str
    settings: dict[str, Any]
    rank: tuple[int, int]  # the best and the worst that the data allow
    lost: Estimate
    lost_iqm: Estimate
    lost_own: Estimate
    settled: Estimate
    final: Estimate
    error: Estimate
    runs: int
    alike: Sequence[str] = ()  # methods that these data cannot tell it from
    ratio: Estimate | None = None  # of lost steps to those of a reference, paired
    difference: Estimate | None = None
    improvement: Estimate | None = None  # probability of fewer lost steps than the reference on the same task
    note: str = ""  # where its settings are from

    @property
    def label(self) -> str:
        """Its method, with what was set."""
        return _labelled(self.method, self.settings)

    @property
    def noted(self) -> str:
        """Its label, and where its settings are from."""
        return f"{self.label} ({self.note})" if self.note else self.label

    def to_json(self) -> dict[str, Any]:
        """As plain numbers."""
        estimates = {name: value.to_json() for name, value in vars(self).items() if isinstance(value, Estimate)}
        return vars(self) | estimates

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Row":
        """What ``to_json`` wrote."""
        estimates = {
            name: Estimate.from_json(value)
            for name, value in content.items()
            if isinstance(value, dict) and name != "settings"
        }
        return cls(**{**content, **estimates, "rank": tuple(content["rank"])})


def comparison(outcomes: Sequence[Outcome], against: str = "") -> list[Row]:
    """One row a method whose runs all finished, fewest lost steps first; paired with ``against`` where it is named."""
    whole = [outcome for outcome in outcomes if outcome.tables]
    if not whole:
        return []
    bootstrap = Bootstrap(*whole[0].tables["lost"].shape)
    placed = ranks({outcome.entrant: outcome.tables["lost"] for outcome in whole}, bootstrap)
    references = [outcome.tables["lost"] for outcome in whole if outcome.entrant.method == against]
    rows = []
    for outcome in whole:
        lost = outcome.tables["lost"]
        theirs = references[0] if references else None
        means: dict[str, Any] = {name: bootstrap.mean(table) for name, table in outcome.tables.items()}
        rows.append(
            Row(
                method=outcome.entrant.method,
                settings=outcome.settings,
                rank=placed[outcome.entrant][:2],
                alike=[other.label for other in placed[outcome.entrant][2]],
                lost_iqm=bootstrap.iqm(lost),
                runs=lost.size,
                # Nothing can be so many times an oracle's 0.
                ratio=None if theirs is None or not theirs.mean() else bootstrap.ratio(lost, theirs),
                difference=None if theirs is None else bootstrap.difference(lost, theirs),
                improvement=None if theirs is None else bootstrap.improvement(lost, theirs),
                **means,
            )
        )
    return sorted(rows, key=lambda row: row.lost.value)


def _labelled(method: str, settings: Mapping[str, Any]) -> str:
    words = " ".join(f"{name}={value}" for name, value in settings.items())
    return f"{method}, {words}" if words else method


Cells = tuple[list[str], list[list[str]]]  # the head, and the lines under it


def ranking_cells(rows: Sequence[Row]) -> Cells:
    """A ranking: means with 95 % intervals, and against a model's own π(·,z_r) where that is not the best there is."""
    own = _has_own(rows)
    head = ["rank", "method", "lost steps", "IQM", *(["own π"] if own else []), "settled", "final", "‖ẑ−z_r‖"]
    lines = []
    for row in rows:
        first, last = row.rank
        rank = f"{first}" if first == last else f"{first}–{last}"
        lines.append([rank, row.noted, f"{row.lost:.1f}", f"{row.lost_iqm:.1f}", *_further_cells(row, own)])
    return head, lines


def one_reward_cells(rows: Sequence[Row]) -> Cells:
    """Methods on one reward, which ranks nothing: an interval is over a method's runs, where it has several."""
    own, middle = _has_own(rows), max(row.runs for row in rows) > 3  # fewer have no middle half
    names = ["lost steps", *(["IQM"] if middle else []), *(["own π"] if own else [])]
    lines = []
    for row in rows:
        lost = [row.lost, *([row.lost_iqm] if middle else [])]
        cells = [f"{number:.1f}" if row.runs > 1 else f"{number.value:.1f}" for number in lost]
        lines.append([row.label, f"{row.runs}", *cells, *_further_cells(row, own)])
    return ["method", "runs", *names, "settled", "final", "‖ẑ−z_r‖"], lines


def _has_own(rows: Sequence[Row]) -> bool:
    return any(abs(row.lost.value - row.lost_own.value) > 1e-6 for row in rows)


def _further_cells(row: Row, own: bool) -> list[str]:
    return [
        *([f"{row.lost_own.value:.1f}"] if own else []),
        f"{row.settled.value:.0%}",
        f"{row.final.value:.3f}",
        f"{row.error.value:.2f}",
    ]


def paired_cells(rows: Sequence[Row], against: str) -> Cells:
    """Run by run against one method; empty where there is none."""
    head = [f"against {against}", "lost steps ÷ its", "lost steps − its", "P(fewer than it)"]
    return head, [
        [row.method, "" if row.ratio is None else f"{row.ratio:.2f}", f"{row.difference:.1f}", f"{row.improvement:.2f}"]
        for row in rows
        if row.difference is not None and row.method != against
    ]
