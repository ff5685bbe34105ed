"""Claims decided by a few short runs, of the right implementation or of a wrong one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import wrong

from reproduction.experiment import FEATURES, Experiment, posteriors
from reproduction.experiments import (
    feature_maps,
    model_errors,
    pure_exploration,
    regret_bounds,
)
from reproduction.experiments.feature_maps import FEATURES_AND_POLICIES
from reproduction.experiments.model_errors import SWITCHING
from reproduction.experiments.online_transfer import ERRORS, PAPERS, STRIPS, random_tasks
from reproduction.experiments.pure_exploration import COUNTS, EIGENVALUES, EXHAUSTIVE, LOG_DET, PATHS, RANDOM
from reproduction.experiments.regret_bounds import LEMMA, POTENTIAL, SAFE_BETA, _runs
from reproduction.paper import Runs, Scale
from reproduction.report.model import ClaimVerdict
from zscout.lab.runs.chunks import run_batch
from zscout.lab.runs.spec import Spec
from zscout.lab.runs.store import Record, Store

Records = dict[Spec, Record]
Verdicts = Mapping[str, ClaimVerdict]  # by the number of the claim


@dataclass(frozen=True)
class Small(Scale):
    """Few runs of few steps; of several values the first and the last."""

    count: int = 8
    length: int = 200

    def runs(self, full: int) -> int:
        return min(full, self.count)

    def some(self, values: tuple[float, ...]) -> tuple[float, ...]:
        return values[:: len(values) - 1]

    def steps(self, full: int) -> int:
        return min(full, self.length)


DECIDED: set[Experiment] = set()


def told(experiments: Iterable[Experiment], scale: Scale, records: Records, store: object = None) -> Verdicts:
    experiments, runs = tuple(experiments), Runs(cast(Store, store), records)
    DECIDED.update(experiments)
    claims = [claim for experiment in experiments for claim in experiment.tell(scale, runs).claims]
    return {claim.number: claim.verdict for claim in claims}


def simulated(specs: Iterable[Spec]) -> Records:
    groups: dict[Spec, list[Spec]] = {}
    for spec in specs:
        groups.setdefault(spec.group, []).append(spec)
    return {record.spec: record for group in groups.values() for record in run_batch(group)}


def in_place_of(specs: Sequence[Spec], others: Sequence[Spec], records: Records) -> Records:
    """Records of other runs, for these specs."""
    return {spec: records[other] for spec, other in zip(specs, others, strict=True)}


def changed(records: Records, **columns: Callable[[Record], np.ndarray]) -> Records:
    """Records with other columns of steps."""
    return {
        spec: replace(record, steps={**record.steps, **{name: of(record) for name, of in columns.items()}})
        for spec, record in records.items()
    }


def made_up(specs: Iterable[Spec], values: np.ndarray, columns: Mapping[str, Any] | None = None) -> Records:
    """Records with these lost steps, one for each run."""
    return {
        spec: Record(spec, {"lost": float(value)}, dict(columns or {}), {})
        for spec, value in zip(specs, values, strict=True)
    }


# Right and wrong, both run

SMALL, SHORT = Small(count=6), Small(count=5, length=100)


@cache
def explored() -> Records:
    """Figures also draw runs that no rule reads: the random walk stands in for them."""
    found = pure_exploration.explorers(SMALL)
    drawn = [key for key in found if key[1] == pure_exploration.NEAR or key == ("laplacian", pure_exploration.EXACT)]
    runs = simulated(spec for key, specs in found.items() if key not in drawn for spec in specs)
    for key in drawn:
        runs |= in_place_of(found[key], found[key[0], RANDOM], runs)
    return runs


@cache
def explorations(broken: str = "") -> Verdicts:
    found, runs = pure_exploration.explorers(SMALL), dict(explored())
    if broken == "a bonus without V":
        with wrong.bonus_without_v():
            runs |= simulated(spec for name in FEATURES for spec in found[name, pure_exploration.OURS])
    elif broken == "z = N in place of 1/N":
        with wrong.counts_upside_down():
            runs |= simulated(found["clusters", COUNTS])
    elif broken == "an exhaustive explorer that does not count":
        runs |= in_place_of(found["clusters", EXHAUSTIVE], found["clusters", RANDOM], runs)
    v_of = wrong.present_state_in_v if broken == "V of the present state" else posteriors
    with patch.object(pure_exploration, "posteriors", v_of):
        return told((PATHS, LOG_DET, EIGENVALUES), SMALL, runs)


@cache
def transfers(broken: str = "") -> Verdicts:
    """Rules read the paper's method with networks; its runs stand in for all others."""
    context = {"a bonus without V": wrong.bonus_without_v, "permuted features": wrong.permuted_features}
    experiments = (ERRORS,) if broken == "a bonus without V" else (STRIPS,) if broken else (ERRORS, STRIPS)
    papers = {name: random_tasks(SMALL, name, "network", PAPERS) for name in FEATURES}
    with context.get(broken, wrong.nothing)():
        specs = [spec for name in FEATURES for spec in papers[name]] if ERRORS in experiments else []
        runs = simulated([*specs, *(STRIPS.specs(SMALL) if STRIPS in experiments else ())])
    if ERRORS in experiments:
        rest: dict[Any, list[Spec]] = {}
        for spec in ERRORS.specs(SMALL):
            rest.setdefault(spec.group, []).append(spec)
        for group, others in rest.items():
            runs |= in_place_of(others, papers[cast(Any, group.arena).features], runs)
    return told(experiments, SMALL, runs)


@cache
def with_exact_model() -> Records:
    return simulated([*LEMMA.specs(SHORT), *POTENTIAL.specs(SHORT)])


@cache
def bounds(broken: str = "") -> Verdicts:
    """Claim 9d takes little and has its full scale. A bound that does not shrink is made from right runs."""
    runs, variance = dict(with_exact_model()), regret_bounds._variance
    certain = [spec for name in FEATURES for spec in _runs(SHORT)[name, SAFE_BETA]]
    context = wrong.nothing
    if broken == "a width without V":
        context = wrong.width_without_v
        with context():
            runs |= simulated(spec for spec in runs if spec.method == PAPERS)
    elif broken == "a constant radius":
        with wrong.constant_radius():
            runs |= simulated(certain)
    elif broken == "a V that is not updated":
        runs |= changed(
            {spec: runs[spec] for spec in certain},
            bound=lambda run: np.full_like(run.steps["bound"], run.steps["bound"][0]),
        )
    with context(), patch.object(regret_bounds, "_variance", lambda scale, name: variance(Scale(), name)):
        return told((LEMMA,), SHORT, runs)


@cache
def trained_policies(broken: str = "") -> Verdicts:
    context = wrong.permuted_z if broken else wrong.nothing
    with context(), patch.multiple(feature_maps, FIGURES={}, HELD_OUT=400):
        return told((FEATURES_AND_POLICIES,), SMALL, {})


@cache
def switching(broken: str = "") -> Verdicts:
    with patch.object(model_errors, "OTHERS", 0 if broken else model_errors.OTHERS):
        return told((SWITCHING,), Scale(), {})
