"""Recorded runs and methods run afresh beside each other, on the very same reward."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.edge import as_size
from zscout.lab.arena import Ground
from zscout.lab.comparison import NUMBERS, Row
from zscout.lab.evaluation import FINAL, settled, value_of_estimate
from zscout.lab.exact_values import FLAT
from zscout.lab.simulation import Trace, simulated, trace_of
from zscout.lab.spec import Spec, settings_json
from zscout.lab.statistics import Bootstrap
from zscout.lab.trace_file import TraceFile
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import Method

AT_ONCE = 2**24  # numbers of visits to each state that are held at once


@dataclass(frozen=True, eq=False)
class MeasuredRuns:
    """A row's runs on one reward: a number for each of them."""

    method: str
    settings: Mapping[str, Any]
    seeds: Sequence[int]
    numbers: Mapping[str, np.ndarray]  # by NUMBERS

    def to_json(self) -> dict[str, Any]:
        """Every run's numbers."""
        runs = {name: column.tolist() for name, column in self.numbers.items()}
        return {"method": self.method, "settings": dict(self.settings), "seeds": list(self.seeds), "runs": runs}


@dataclass(frozen=True)
class Heard:
    """What can be said of a run that a person rewarded: whatever they want, no regret is known."""

    method: str
    steps: int
    told: int  # rewards
    mean: float | None  # of them

    def to_json(self) -> dict[str, Any]:
        """As plain numbers."""
        return asdict(self)


class TraceComparison:
    """Files that agree on everything but who was there; methods can be run on their reward."""

    def __init__(self, files: Mapping[str, TraceFile], device: str = "cpu") -> None:
        self.files = dict(files)
        self.first = next(iter(self.files.values()))
        self.arena = replace(self.first.arena, device=device)
        for name, file in self.files.items():
            if different := _differences(self.first, file):
                first = next(iter(self.files))
                raise ValueError(
                    f"{first} and {name} differ in {', '.join(different)}: only runs on one reward are compared"
                )

    @classmethod
    def read(cls, paths: Sequence[Path], device: str = "cpu") -> "TraceComparison":
        """The files, each by its name, or by its path where two have the same name."""
        if twice := [path for path in paths if paths.count(path) > 1]:
            raise ValueError(f"{twice[0]} is named twice")
        names = [path.name for path in paths]
        labels = [path.name if names.count(path.name) == 1 else str(path) for path in paths]
        return cls({label: TraceFile.read(path) for label, path in zip(labels, paths, strict=True)}, device)

    @property
    def by_person(self) -> bool:
        """Whether nobody knows the reward."""
        return self.first.who == "person"

    def heard(self) -> list[Heard]:
        """Of each run, what can be said without knowing the reward."""
        return [
            Heard(label, file.steps, len(told), sum(told) / len(told) if told else None)
            for label, file, number in self._runs()
            for told in [file.runs[number].told]
        ]

    def recorded(self) -> list[MeasuredRuns]:
        """The runs of the files, each a row of its own."""
        return [
            MeasuredRuns(label, {}, [file.seed], self._measured(file.trace(number)))
            for label, file, number in self._runs()
        ]

    def spec(self, method: str, settings: Mapping[str, Any]) -> Spec:
        """A method as it would be run here, checked."""
        file = self.first
        spec = Spec(self.arena, method, (), settings_json(dict(settings)), noise=file.noise, steps=file.steps)
        spec.check()
        if method == "oracle" and len(file.tables()[0]) > 1:
            raise ValueError("the oracle knows one task from the beginning, this reward was repainted on the way")
        return spec

    def afresh(self, spec: Spec, settings: Mapping[str, Any], seeds: int) -> MeasuredRuns:
        """A method on the same reward, noise and steps, with the first file's memory and seed, and those after it."""
        file, ground = self.first, self.arena.ground
        numbers = [file.seed + run for run in range(as_size(seeds, "seeds", 1, 1_000))]
        size = max(1, AT_ONCE // (file.steps * ground.world.n_states))
        parts = []
        for first in range(0, len(numbers), size):
            some = numbers[first : first + size]
            task = _fit(ground, file.tables()[0][-1:]).expand(len(some), -1)
            method = replace(spec.build(ground, task), forgetting=file.forgetting)
            parts.append(self._measured(_repeat(file, ground, method, some)))
        measured = {name: np.concatenate([part[name] for part in parts]) for name in NUMBERS}
        return MeasuredRuns(spec.method, settings, numbers, measured)

    def _runs(self) -> Iterator[tuple[str, TraceFile, int]]:
        """Every run of every file with its label."""
        for name, file in self.files.items():
            methods = [run.method for run in file.runs]
            for number, method in enumerate(methods):
                which = f", run {number}" if methods.count(method) > 1 else ""
                yield f"{method} ({name}{which})", file, number

    def _measured(self, trace: Trace) -> dict[str, np.ndarray]:
        tables, which = self.first.tables()
        numbers = measured_on(trace, self.arena.ground, tables, which)
        return {name: column.numpy() for name, column in numbers.items()}


def measured_on(
    trace: Trace, ground: Ground, tables: Float[Tensor, "K S"], which: Int[Tensor, " T"]
) -> dict[str, Float[Tensor, " R"]]:
    """What runs were worth on rewards [K S], of which the ``which[t]``-th was in force at step t.

    Lost steps are regret  (eq. 2, from t = 0) ÷ the mean over states of v* − v_random for the reward in force, 0 where
    that is flat. z_r is the least-squares fit of a table.
    """
    exact, state = ground.by_state.exact, trace.state
    best, random = exact.value(tables).cpu(), tables @ ground.by_state.random.T  # [K S]
    gap = (best - random).mean(1)
    lost = torch.where(gap > FLAT * tables.abs().amax(1), 1 / gap, 0.0)[which][:, None]  # steps, of one unit of regret
    now, task = tables[which][:, None], _fit(ground, tables)  # [T 1 S], [K d]

    def value(z: Float[Tensor, "T R d"]) -> Float[Tensor, "T R"]:
        return (ground.by_state.psi(state, z) * now).sum(-1)

    achieved = torch.where(trace.exploring[:, None], random[which].gather(1, state), value(trace.z))
    own = value(task[which][:, None].expand_as(trace.z))
    learnable = ground.yardstick.without_constant(task[which[-1]]) if trace.intercept else task[which[-1]]
    mean, most = tables.mean(1)[which][:, None], tables.amax(1)[which][:, None]
    reward = tables[which].gather(1, trace.entered)
    normalised = torch.where(most > mean, (reward - mean) / (most - mean), 0.0)
    worth = value_of_estimate(trace, ground.by_state, now.expand(*state.shape, -1))
    return {
        "lost": (lost * (best[which].gather(1, state) - achieved)).sum(0),
        "lost_own": (lost * (own - achieved)).sum(0),
        "settled": settled(worth).double(),
        "final": normalised[-FINAL:].mean(0),
        "error": (trace.final_z_hat - learnable).norm(dim=-1),
    }


def rows_of(found: Sequence[MeasuredRuns]) -> list[Row]:
    """Fewest lost steps first; one reward ranks nothing, and intervals are over its runs, where there are several."""
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


def _repeat(file: TraceFile, ground: Ground, method: Method, seeds: list[int]) -> Trace:
    """Runs of a method under the rewards of the file, each from its step on."""
    (tables, which), noises = file.tables(), file.noises()
    agent = OnlineTransfer(ground.model, method, seed=seeds, runs=len(seeds))
    reward, noise, rows = tables[which[0]].repeat(len(seeds), 1), noises[:1].clone(), []
    for step in islice(simulated(agent, ground.world, reward, noise), file.steps):
        rows.append(step)
        following = min(step.t + 1, file.steps - 1)
        reward.copy_(tables[which[following]].expand_as(reward))
        noise.copy_(noises[following])
    return trace_of(agent, torch.full((len(seeds), ground.exact.dim), math.nan, dtype=torch.float64), rows)


def _fit(ground: Ground, tables: Float[Tensor, "K S"]) -> Float[Tensor, "K d"]:
    """z_r: φ·z_r is nearest to the table."""
    inverse: Tensor = torch.linalg.pinv(ground.exact.features.cpu())
    return tables @ inverse.T


def _differences(one: TraceFile, other: TraceFile) -> list[str]:
    names = {"who": "who was the reward"} | {n: n for n in ("world", "features", "model", "memory", "steps")}
    different = [words for name, words in names.items() if getattr(one, name) != getattr(other, name)]
    if not different and one.who == "hidden":
        (tables, which), (others, whose) = one.tables(), other.tables()
        different = [] if torch.equal(tables[which], others[whose]) else ["rewards"]
        different += [] if torch.equal(one.noises(), other.noises()) else ["noise"]
    return different
