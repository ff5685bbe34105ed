"""Claims that take more runs than a test has: their rules, fed with made-up numbers or with runs of another method."""

from dataclasses import replace
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np
import wrong
from claim_runs import SHORT, Records, Small, Verdicts, changed, made_up, told, with_exact_model

from reproduction.experiment import features_of, posteriors
from reproduction.experiments import (
    bonus_horizon,
    model_errors,
    network_training,
    regret_bounds,
    searches,
)
from reproduction.experiments.bonus_horizon import HORIZON, NEAR
from reproduction.experiments.continuous import CONTINUOUS
from reproduction.experiments.model_errors import ONE, OUTSIDE_FEATURES, WRONG_PSI
from reproduction.experiments.network_training import END_TO_END, TRAINING
from reproduction.experiments.online_transfer import PAPERS
from reproduction.experiments.regret_bounds import OPTIMISM, PLAIN, POTENTIAL
from reproduction.experiments.searches import GRADIENT
from reproduction.paper import Scale
from reproduction.stored_results import stored_pipeline, stored_trainings
from zscout.lab.runs.spec import Spec
from zscout.lab.runs.store import Record

DRAWN = 10 + 20 * np.random.default_rng(0).random(100)  # lost steps of 100 tasks


@cache
def potential(broken: str = "") -> Verdicts:
    """By right runs: the sum does not grow faster than log det. Widths of bandits · 100 must say the same."""
    runs = {spec: record for spec, record in with_exact_model().items() if spec.method == PAPERS}
    if broken == "ψ that is φ/(1 − γ)":
        runs = changed(runs, width=lambda run: 100 * _bandit_width(run))
    elif broken == "a width without V":
        runs = changed(runs, width=lambda run: np.full_like(run.steps["width"], 300.0))
    return told((POTENTIAL,), SHORT, runs)


def _bandit_width(run: Record) -> np.ndarray:
    features = features_of(run.spec.arena)
    phi, (V, _) = features[run.steps["entered"]], posteriors(run, features)
    squares: np.ndarray = np.einsum("td,td->t", phi, np.linalg.solve(V[:-1], phi[..., None])[..., 0])
    width: np.ndarray = np.sqrt(squares)
    return width


@cache
def bonuses(broken: str = "") -> Verdicts:
    """With M = (1 − γ)ψψᵀ both bonuses are one; with a ψ that has one horizon all γ of the bonus are one."""
    scale, runs = Scale(), Records()
    for key, specs in bonus_horizon._runs(scale).items():
        if key[1:] == (NEAR,) or len(key) == 3:
            gained = 1.0 if key[-1] == 0.8 and broken != "one horizon" else 2.0
            lost = DRAWN[: len(specs)] * (1.3 if broken == "one horizon" else 1.0)
        else:
            gained, lost = 0.0, DRAWN * (1.3 if key[1] != "usf-ucb" else 1.0 if broken == "M that is ψψᵀ" else 0.8)
        runs |= made_up(specs, lost, {"log_det": np.full(100, gained) + np.arange(100) / 1e3})
    with wrong.rank_one_moment() if broken == "M that is ψψᵀ" else wrong.nothing():
        return told((HORIZON,), scale, runs)


@cache
def optimism(broken: str = "") -> Verdicts:
    found, runs = regret_bounds._optimists(Scale()), Records()
    for (_, method), specs in found.items():
        runs |= made_up(specs, DRAWN[: len(specs)] * ((4.0 if broken else 1.0) if method == PLAIN else 2.0))
    identity = regret_bounds._identity
    context = wrong.width_without_v if broken else wrong.nothing
    few = partial(identity, Small(count=3))
    with context(), patch.multiple(regret_bounds, POOL=2_000, _identity=lambda scale, name: few(name)):
        return told((OPTIMISM,), Scale(), runs)


@cache
def ascents(broken: str = "") -> Verdicts:
    """An ascent [3 P T+1]: ‖z‖/√d, objective by the network, and by the exact ψ."""
    noise = 0.02 * np.random.default_rng(0).standard_normal((3, 20, 1))

    def climb(scale: Scale, features: str, project: bool) -> np.ndarray:
        kept = broken == "a projection in free ascent" or (project and broken != "no projection")
        ends = (1.0, 1.0, 1.0) if kept else (2.7, 1.9, 0.8)
        return np.linspace(1, np.array(ends)[:, None] + noise[..., 0], searches.ASCENT + 1, axis=-1)

    with patch.object(searches, "_climb", climb):
        return told((GRADIENT,), Scale(), {})


@cache
def outside_features(broken: str = "") -> Verdicts:
    """The value by the share of the reward outside φ. If the reward stays within φ, it is that of the share 0."""
    runs = Records()
    for (_, share, _), specs in model_errors._outside(Scale()).items():
        values = (1.0 if broken else 1 - share) - DRAWN[: len(specs)] / 1e3
        runs |= {spec: Record(spec, {"value": value}, {}, {}) for spec, value in zip(specs, values, strict=True)}
    return told((OUTSIDE_FEATURES,), Scale(), runs)


@cache
def wrong_psi(broken: str = "") -> Verdicts:
    """If the error is left out, nothing depends on it. If heads are equal, no use of them helps."""
    runs = Records()
    for (_, error, way), specs in model_errors._wrong(Scale()).items():
        degree = 0.0 if error == "network" else error
        helped = 1.0 if way == ONE or error == 0 or broken == "equal heads" else 0.7  # without errors heads are equal
        lost = np.roll(DRAWN, round(10 * degree))[: len(specs)] * (1.0 if broken == "no error in ψ" else 1 + 2 * degree)
        runs |= made_up(specs, helped * lost)
    return told((WRONG_PSI,), Scale(), runs)


@cache
def trainings(broken: str = "") -> Verdicts:
    """The stored ones reach .5. A recipe whose z is permuted learns as little as a random walk knows."""

    def given() -> list[Any]:
        found = stored_trainings()
        if broken == "permuted features":
            return [replace(t, curves={**t.curves, "value": [0.1 * v for v in t.curves["value"]]}) for t in found]
        if broken == "a dropout that does nothing":
            plain = {(t.recipe, t.features): t for t in found if t.plain and t.seed == 0}
            return [
                replace(t, curves=plain[t.recipe, t.features].curves, verdict=plain[t.recipe, t.features].verdict)
                if t.changes in (("dropout=0",), ("dropout=0.15",)) and t.world == "open-grid"
                else t
                for t in found
            ]
        return found

    with patch.object(network_training, "stored_trainings", given):
        return told((TRAINING,), Scale(), {})


@cache
def pipeline(broken: str = "") -> Verdicts:
    """Runs of a pipeline with permuted features end at the reward of a mean state; swapped names swap the arms."""

    def given() -> dict[str, Any]:
        found = stored_pipeline()
        for arms in found.values():
            if broken == "permuted features":
                for arm in arms.values():
                    arm["runs"] = {**arm["runs"], "final": [0.0] * 100, "error": [4.0] * 100}
            elif broken == "networks in the place of searches":
                ours, theirs = network_training.NETWORK_CHANGED, network_training.SEARCH_CHANGED
                arms[ours], arms[theirs] = arms[theirs], arms[ours]
        return found

    with patch.object(network_training, "stored_pipeline", given):
        return told((END_TO_END,), Scale(), {})


class Returns:
    """A store of the point maze: lost steps, and returns ÷ the oracle's that spread by a tenth over tasks."""

    def __init__(self, second_episode: float) -> None:
        self.second = second_episode

    def numbers(self, spec: Spec) -> dict[str, float]:
        rest = dict.fromkeys(("lost", "lost_own", "settled", "final", "error"), 1.0)
        share = self.second + 0.1 * np.sin(spec.seed)
        return {**rest, "return_1": 0.7, "return_2": share, "oracle_1": 1.0, "oracle_2": 1.0}


@cache
def point_maze(broken: str = "") -> Verdicts:
    return told((CONTINUOUS,), Scale(), {}, Returns(0.4 if broken else 1.0))
