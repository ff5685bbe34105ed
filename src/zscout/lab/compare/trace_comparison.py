"""Compares recorded runs with new runs of other methods on the same reward."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zscout.lab.arenas.arena import NUMBERS
from zscout.lab.arenas.simulation import TaskRuns, Trace, simulated, trace_of
from zscout.lab.compare.comparison import Row
from zscout.lab.compare.statistics import Bootstrap
from zscout.lab.compare.trace_file import TraceFile
from zscout.lab.evaluation.exact_evaluation import measured_on, nearest_task
from zscout.lab.runs.spec import Spec, settings_json
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import Method

AT_ONCE = 2**24  # visit counts held in memory at once


@dataclass(frozen=True, eq=False)
class MeasuredRuns:
    """The runs of one table row on one reward, with one value per run for each number."""

    method: str
    settings: Mapping[str, Any]
    seeds: Sequence[int]
    numbers: Mapping[str, np.ndarray]  # by NUMBERS

    def to_json(self) -> dict[str, Any]:
        """The numbers of every run."""
        runs = {name: column.tolist() for name, column in self.numbers.items()}
        return {"method": self.method, "settings": dict(self.settings), "seeds": list(self.seeds), "runs": runs}


class TraceComparison:
    """Trace files with the same setup and reward, on which further methods can be run."""

    def __init__(self, files: Mapping[str, TraceFile], device: str = "cpu") -> None:
        self.files = dict(files)
        (name, self.first), *others = self.files.items()
        self.arena = replace(self.first.arena, device=device)
        self.by_person = self.first.who == "person"  # then the reward has no table
        for other, file in others:
            if different := _differences(self.first, file):
                words = f"{name} and {other} differ in {', '.join(different)}"
                raise ValueError(f"{words}: only runs on one reward are compared")

    @classmethod
    def read(cls, paths: Sequence[Path], device: str = "cpu") -> "TraceComparison":
        """Read the files; each is labelled by its name, or by its path if two have the same name."""
        if twice := [path for path in paths if paths.count(path) > 1]:
            raise ValueError(f"{twice[0]} is named twice")
        names = [path.name for path in paths]
        labels = [path.name if names.count(path.name) == 1 else str(path) for path in paths]
        return cls({label: TraceFile.read(path) for label, path in zip(labels, paths, strict=True)}, device)

    def person_runs(self) -> list[dict[str, Any]]:
        """A summary of each run that needs no reward table, which a person's have not: regret is unknown."""
        return [
            {
                "method": label,
                "steps": file.steps,
                "told": len(told),  # number of rewards
                "mean": sum(told) / len(told) if told else None,
            }
            for label, file, number in self._runs()
            for told in [file.runs[number].told]
        ]

    def recorded(self) -> list[MeasuredRuns]:
        """The runs in the files, one row each."""
        return [
            MeasuredRuns(label, {}, [file.seed], self._measured(file.trace(number)))
            for label, file, number in self._runs()
        ]

    def spec(self, method: str, settings: Mapping[str, Any]) -> Spec:
        """The checked spec of a method in this setup."""
        file = self.first
        spec = Spec(self.arena, method, (), settings_json(dict(settings)), noise=file.noise, steps=file.steps)
        spec.check()
        if method == "oracle" and len(file.tables()[0]) > 1:
            raise ValueError("the oracle knows one task from the beginning, this reward was repainted on the way")
        return spec

    def afresh(self, spec: Spec, seeds: int) -> MeasuredRuns:
        """New runs with the first file's reward, noise, steps and memory; seeds count up from its seed."""
        file, ground = self.first, self.arena.ground
        numbers = [file.seed + run for run in range(seeds)]
        size = max(1, AT_ONCE // (file.steps * ground.world.n_states))
        parts = []
        for some in (numbers[first : first + size] for first in range(0, len(numbers), size)):
            task = nearest_task(ground, file.tables()[0][-1:]).expand(len(some), -1)
            parts.append(self._measured(self._repeated(spec.build(task), some)))
        measured = {name: np.concatenate([part[name] for part in parts]) for name in NUMBERS}
        return MeasuredRuns(spec.method, json.loads(spec.settings), numbers, measured)

    def _runs(self) -> Iterator[tuple[str, TraceFile, int]]:
        """Every run of every file with its label."""
        for name, file in self.files.items():
            methods = [run.method for run in file.runs]
            for number, method in enumerate(methods):
                which = f", run {number}" if methods.count(method) > 1 else ""
                yield f"{method} ({name}{which})", file, number

    def _measured(self, trace: Trace) -> dict[str, np.ndarray]:
        numbers = measured_on(trace, self.arena.ground, *self.first.tables())
        return {name: column.numpy() for name, column in numbers.items()}

    def _repeated(self, method: Method, seeds: list[int]) -> Trace:
        """Runs of a method in which the reward changes when it changed in the first file."""
        file, ground = self.first, self.arena.ground
        (tables, which), noises = file.tables(), file.noises()
        agent = OnlineTransfer(ground.model, method, seed=seeds, runs=len(seeds))
        reward, noise, rows = tables[which[0]].repeat(len(seeds), 1), noises[:1].clone(), []
        for step in islice(simulated(agent, TaskRuns(ground.world, reward, noise, agent.seeds)), file.steps):
            rows.append(step)
            following = min(step.t + 1, file.steps - 1)
            reward.copy_(tables[which[following]].expand_as(reward))
            noise.copy_(noises[following])
        return trace_of(agent, torch.full((len(seeds), ground.exact.dim), math.nan, dtype=torch.float64), rows)


def rows_of(found: Sequence[MeasuredRuns]) -> list[Row]:
    """Rows, fewest lost steps first; one reward gives no ranking, and intervals are over a method's runs."""
    rows = []
    for runs in found:
        count = len(runs.seeds)
        bootstrap = Bootstrap(count, 1)
        tables = {name: column.reshape(count, 1) for name, column in runs.numbers.items()}
        means: dict[str, Any] = {name: bootstrap.mean(table) for name, table in tables.items()}
        iqm, rank = bootstrap.iqm(tables["lost"]), (1, len(found))
        rows.append(Row(runs.method, dict(runs.settings), rank, lost_iqm=iqm, runs=count, **means))
    alike = [replace(row, alike=[other.label for other in rows if other is not row]) for row in rows]
    return sorted(alike, key=lambda row: row.lost.value)


def _differences(one: TraceFile, other: TraceFile) -> list[str]:
    names = {"who": "who was the reward"} | {n: n for n in ("world", "features", "model", "memory", "steps")}
    different = [words for name, words in names.items() if getattr(one, name) != getattr(other, name)]
    if not different and one.who == "hidden":
        (tables, which), (others, whose) = one.tables(), other.tables()
        different = [] if torch.equal(tables[which], others[whose]) else ["rewards"]
        different += [] if torch.equal(one.noises(), other.noises()) else ["noise"]
    return different
