"""Comparison of methods on the same tasks and seeds: entrants, outcomes, ranked rows and table cells."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from zscout.lab.arenas.arena import FINAL_STEPS, NUMBERS, Arena, Task, Tasks
from zscout.lab.arenas.source import UserObject
from zscout.lab.compare.statistics import Bootstrap, Estimate, ranks
from zscout.lab.compare.tables import TextTable
from zscout.lab.runs.spec import Spec, named, settings_json
from zscout.lab.runs.store import Store
from zscout.transfer.methods import Method

EPISODES = ("return_", "oracle_")  # numbers of each episode, in arenas whose episodes end
DECOYED = "decoyed"  # the share of runs that keep to a decoy, in arenas with one


@dataclass(frozen=True)
class Entrant:
    """One method with its settings in one arena, on tasks and seeds that are the same for every method."""

    arena: Arena
    method: str
    settings: str = "{}"  # JSON, so that an entrant is hashable
    tasks: Tasks = field(default_factory=Tasks)
    noise: float = 0.3
    steps: int = 200
    outside: float = 0.0
    offset: float = 0.0
    value: UserObject | None = None  # a Method: then ``method`` is its name

    @classmethod
    def of(
        cls,
        arena: Arena,
        method: str | Method,
        settings: Mapping[str, Any],
        tasks: Tasks,
        name: str = "own",
        **rest: Any,
    ) -> "Entrant":
        """An entrant with settings from a dict; a Method has none, but a name."""
        method, value = named(method, name)
        return cls(arena, method, settings_json(dict(settings)), tasks, value=value, **rest)

    @property
    def label(self) -> str:
        """The method and its settings."""
        return _labelled(self.method, json.loads(self.settings))

    @cached_property
    def specs(self) -> list[Spec]:
        """Its runs, task by task."""
        runs = zip(self.tasks.draw(self.arena), self.tasks.run_seeds, strict=True)
        return [self._spec(task, seed) for task, seed in runs]

    def check(self) -> None:
        """Raise if it cannot run."""
        self._spec((), 0).check()

    def _spec(self, task: Task, seed: int) -> Spec:
        shared = {name: getattr(self, name) for name in ("settings", "outside", "offset", "noise", "steps", "value")}
        return Spec(self.arena, self.method, task, seed=seed, **shared)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The results of an entrant: tables of one number for each run [tasks seeds], or why runs failed."""

    entrant: Entrant
    tables: Mapping[str, np.ndarray]  # by NUMBERS; empty if runs failed
    failures: Sequence[str] = ()

    @classmethod
    def of(cls, entrant: Entrant, store: Store) -> "Outcome":
        """The outcome of the stored runs."""
        found = [store.numbers(spec) for spec in entrant.specs]
        there = [numbers for numbers in found if numbers is not None]
        if len(there) < len(found):
            missing = [spec for spec, numbers in zip(entrant.specs, found, strict=True) if numbers is None]
            return cls(entrant, {}, [store.failure(spec) or "it was not run" for spec in missing])
        shape = (entrant.tasks.count, entrant.tasks.seeds)
        names = [name for name in there[0] if name in (*NUMBERS, DECOYED) or name.startswith(EPISODES)]
        return cls(entrant, {n: np.array([run[n] for run in there]).reshape(shape) for n in names})

    @property
    def settings(self) -> dict[str, Any]:
        """The entrant's settings."""
        settings: dict[str, Any] = json.loads(self.entrant.settings)
        return settings

    def to_json(self) -> dict[str, Any]:
        """Everything that decided the runs, their numbers, and their seeds."""
        return {
            **{field.name: getattr(self.entrant, field.name) for field in fields(Entrant) if field.name != "value"},
            "arena": self.entrant.arena.to_json(),
            "tasks": asdict(self.entrant.tasks),
            "settings": self.settings,
            "seeds": self.entrant.tasks.run_seeds,
            "digests": [spec.digest for spec in self.entrant.specs],
            "runs": {name: table.flatten().tolist() for name, table in self.tables.items()},
            "failures": list(self.failures),
        }


@dataclass(frozen=True)
class Row:
    """One row of a comparison."""

    method: str
    settings: dict[str, Any]
    rank: tuple[int, int]  # the best and the worst possible
    lost: Estimate
    lost_iqm: Estimate
    lost_own: Estimate
    settled: Estimate
    final: Estimate
    error: Estimate
    runs: int
    alike: Sequence[str] = ()  # methods without a significant difference
    ratio: Estimate | None = None  # of lost steps to the reference's, paired
    difference: Estimate | None = None
    improvement: Estimate | None = None  # probability of fewer lost steps than the reference on the same task
    note: str = ""  # where its settings are from
    decoyed: Estimate | None = None  # share of runs whose best z stays at the decoy
    episodes: Sequence[Estimate] = ()  # return of each episode ÷ the oracle's, over all runs

    @property
    def label(self) -> str:
        """The method and its settings."""
        return _labelled(self.method, self.settings)

    @property
    def noted(self) -> str:
        """The label, and where its settings are from."""
        return f"{self.label} ({self.note})" if self.note else self.label

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        estimates = {name: value.to_json() for name, value in vars(self).items() if isinstance(value, Estimate)}
        return vars(self) | estimates | {"episodes": [share.to_json() for share in self.episodes]}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Row":
        """The inverse of ``to_json``."""
        estimates = {
            name: Estimate.from_json(value)
            for name, value in content.items()
            if isinstance(value, dict) and name != "settings"
        }
        episodes = [Estimate.from_json(share) for share in content.get("episodes", ())]
        return cls(**{**content, **estimates, "rank": tuple(content["rank"]), "episodes": episodes})


def comparison(outcomes: Sequence[Outcome], against: str = "") -> list[Row]:
    """One row for each method whose runs all finished, fewest lost steps first; paired with ``against`` if given."""
    whole = [outcome for outcome in outcomes if outcome.tables]
    if not whole:
        return []
    bootstrap = Bootstrap(*whole[0].tables["lost"].shape)
    placed = ranks({outcome.entrant: outcome.tables["lost"] for outcome in whole}, bootstrap)
    reference = next((outcome.tables["lost"] for outcome in whole if outcome.entrant.method == against), None)
    rows = []
    for outcome in whole:
        lost, (best, worst, alike) = outcome.tables["lost"], placed[outcome.entrant]
        found: dict[str, Any] = {name: bootstrap.mean(outcome.tables[name]) for name in NUMBERS}
        found["lost_iqm"] = bootstrap.iqm(lost)
        if DECOYED in outcome.tables:
            found[DECOYED] = bootstrap.mean(outcome.tables[DECOYED])
        ran = sum(name.startswith("return_") for name in outcome.tables)
        episodes = [[outcome.tables[f"{name}{k}"] for name in EPISODES] for k in range(1, ran + 1)]
        found["episodes"] = [bootstrap.ratio(own, oracle) for own, oracle in episodes]
        if reference is not None:
            found["difference"] = bootstrap.difference(lost, reference)
            found["improvement"] = bootstrap.improvement(lost, reference)
            if reference.mean():  # there is no ratio to an oracle, which loses 0 steps
                found["ratio"] = bootstrap.ratio(lost, reference)
        labels = [other.label for other in alike]
        rows.append(Row(outcome.entrant.method, outcome.settings, (best, worst), runs=lost.size, alike=labels, **found))
    return sorted(rows, key=lambda row: row.lost.value)


def _labelled(method: str, settings: Mapping[str, Any]) -> str:
    words = " ".join(f"{name}={value}" for name, value in settings.items())
    return f"{method}, {words}" if words else method


Cells = tuple[list[str], list[list[str]]]  # the head and the rows


def ranking_table(name: str, caption: str, rows: Sequence[Row]) -> TextTable:
    """A ranking: means with 95 % intervals; *own π*, against the model's π(·,z_r), if that is not optimal."""
    head, further = _further_cells(rows)
    lines = []
    for row, cells in zip(rows, further, strict=True):
        first, last = row.rank
        rank = f"{first}" if first == last else f"{first}–{last}"
        lines.append([rank, row.noted, f"{row.lost:.1f}", f"{row.lost_iqm:.1f}", *cells])
    return TextTable(name, caption, ["rank", "method", "lost steps", "IQM", *head], lines, note=_note(rows))


def _note(rows: Sequence[Row]) -> str:
    """What lost steps and the final reward are."""
    negative = "; below 0: it earns more than the oracle" if any(row.lost.low < 0 for row in rows) else ""
    return (
        f"Lost steps: regret in steps of random walking{negative}. Final: mean reward of the last {FINAL_STEPS} steps; "
        "0 is random actions, 1 the best policy or, where that is unknown, the oracle."
    )


def _further_cells(rows: Sequence[Row]) -> Cells:
    """The columns after lost steps."""
    own = any(abs(row.lost.value - row.lost_own.value) > 1e-6 for row in rows)
    cells = [[f"{row.settled.value:.0%}", f"{row.final.value:.3f}", f"{row.error.value:.2f}"] for row in rows]
    head = ["settled", "final", "‖ẑ−z_r‖"]
    if any(row.decoyed is not None for row in rows):
        shares = ["" if row.decoyed is None else f"{row.decoyed.value:.0%}" for row in rows]
        head, cells = ["at decoy", *head], [[share, *line] for share, line in zip(shares, cells, strict=True)]
    if not own:
        return head, cells
    return ["own π", *head], [[f"{row.lost_own.value:.1f}", *line] for row, line in zip(rows, cells, strict=True)]


def episode_cells(rows: Sequence[Row]) -> Cells:
    """The return of each episode ÷ the oracle's; no rows if nothing ended, no number where a method reset before."""
    count = max((len(row.episodes) for row in rows), default=0)
    told = [(row.noted, [f"{share:.2f}" for share in row.episodes]) for row in rows if count]
    lines = [[name, *shares, *[""] * (count - len(shares))] for name, shares in told]
    return ["return ÷ oracle's, by episode", *map(str, range(1, count + 1))], lines


def paired_cells(rows: Sequence[Row], against: str) -> Cells:
    """Each method against one, paired by run; no rows if there is no such method."""
    head = [f"against {against}", "lost steps ÷ its", "lost steps − its", "P(fewer than it)"]
    return head, [
        [row.method, "" if row.ratio is None else f"{row.ratio:.2f}", f"{row.difference:.1f}", f"{row.improvement:.2f}"]
        for row in rows
        if row.difference is not None and row.method != against
    ]


def compare_csv(rows: Sequence[Row]) -> str:
    """Every number of a comparison, one column each."""
    flat = []
    for row in rows:
        cells: dict[str, Any] = {}
        for name, value in row.to_json().items():
            if isinstance(value, dict) and name != "settings":
                cells |= {name if part == "value" else f"{name}_{part}": number for part, number in value.items()}
            elif name == "episodes":
                for k, share in enumerate(value, 1):
                    cells |= {f"episode_{k}_{part}": number for part, number in share.items()}
            elif name == "rank":
                cells |= {"rank": value[0], "rank_worst": value[1]}
            elif value is not None:
                cells[name] = json.dumps(value) if name == "settings" else value
        flat.append(cells)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(dict.fromkeys(name for cells in flat for name in cells)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return file.getvalue()
