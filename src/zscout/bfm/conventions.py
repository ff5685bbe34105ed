"""Check ψ by rollouts of its own policy, and name the convention that a wrong ψ follows."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float
from torch import Tensor

from zscout.bfm.rollouts import Pairs, check_env, horizon, rollout_pairs
from zscout.edge import as_discount, as_size
from zscout.types import BehaviorModel

UNKNOWN = 0.99  # γ for the length of rollouts if the model has no gamma
SURE = 3.0  # standard errors by which a wrong convention must fit better
SHORT = (1, 3, 10)  # steps before the model's own ψ bootstraps the rest
HORIZONS = np.geomspace(1.25, 1_000.0, 49)  # 1/(1 − γ) of the discounts tried


@dataclass(frozen=True)
class PsiReport:
    """The error of ψ against rollouts of its own policy, relative to the size of ψ."""

    error: float  # √(mean ‖ψ − E G‖² ÷ mean ‖E G‖²)
    low: float  # error minus two standard errors
    high: float  # error plus two standard errors
    gamma: float  # the model's gamma, or the best fit
    pairs: int  # number of pairs of rollouts, each with its own z and start
    length: float  # mean steps of a rollout
    bootstrapped: float  # mean weight γᴸ of the model's own ψ after truncated rollouts
    terminated: int  # number of rollouts that terminated

    def __str__(self) -> str:
        return (
            f"ψ error {self.error:.2g} of its size ({self.low:.2g} to {self.high:.2g}) at γ = {self.gamma:g}: "
            f"{self.pairs} pairs of rollouts of {self.length:.0f} steps, {self.terminated} of them terminated, "
            f"{self.bootstrapped:.1%} bootstrapped"
        )


@dataclass(frozen=True)
class Convention:
    """ψ = scale · E Σ_{k≥0} γᵏ φ(S_{t+k+begins}); correct: begins = 1 and scale = 1."""

    gamma: float
    begins: int = 1
    scaled: bool = False  # scale = 1 − γ

    def fault(self, own: float | None) -> str:
        """What is wrong with a ψ of this convention."""
        found = []
        if self.begins == 0:
            found.append("ψ counts the current state")
        if self.begins == 2:
            found.append("φ is of the state before the step, or ψ begins one state late")
        if self.scaled:
            found.append(f"ψ is scaled by 1 − γ = {1 - self.gamma:.3g}")
        if own is not None and self.gamma != own:
            found.append(f"ψ has γ = {self.gamma:.3g}, the model's gamma is {own:g}")
        return " and ".join(found)


@dataclass(frozen=True, eq=False)
class Fit:
    """How well a convention explains ψ."""

    convention: Convention
    squares: Float[Tensor, " pairs"]  # (ψ − G)·(ψ − G′), whose mean is ‖ψ − E G‖²
    sizes: Float[Tensor, " pairs"]  # G·G′, whose mean is ‖E G‖²

    @property
    def square(self) -> float:
        """Mean ‖ψ − E G‖²; with few rollouts its estimate may be below 0."""
        return float(self.squares.mean())

    @property
    def size(self) -> float:
        """√(mean ‖E G‖²)."""
        return math.sqrt(max(float(self.sizes.mean()), 1e-300))

    @property
    def error(self) -> float:
        """Relative error of ψ."""
        return self.off_by(0.0)

    def off_by(self, standard_errors: float) -> float:
        """Relative error of ψ plus this many standard errors."""
        square = max(self.square, 0.0) + standard_errors * standard_error(self.squares)
        return math.sqrt(max(square, 0.0)) / self.size


def check_psi(model: BehaviorModel, env: Any, tolerance: float, steps: int, seed: int) -> PsiReport:
    """Raise ValueError if ψ follows a wrong convention or its error exceeds ``tolerance``; else return the report."""
    as_size(steps, "steps", 1_000)
    as_size(seed, "seed", 0, 2**31)
    made = None if isinstance(env, gymnasium.Env) or not callable(env) else env()
    own = None if getattr(model, "gamma", None) is None else as_discount(model.gamma)  # type: ignore[attr-defined]
    try:
        there = check_env(model, env if made is None else made)
        pairs = rollout_pairs(model, there, horizon(UNKNOWN if own is None else own), steps - steps // 4, seed)
        short = rollout_pairs(model, there, SHORT[-1], steps // 4, seed + 1)
    finally:
        if made is not None:
            made.close()
    given = fit(Convention(own), pairs) if own is not None else best_gamma(pairs, 1, False)
    report = report_of(given, pairs)
    if report.bootstrapped > 0.5:
        raise ValueError(
            f"check_model: rollouts of {report.length:.0f} steps are too short for γ = {report.gamma:g}: pass more "
            "steps, or an environment with a longer time limit"
        )
    said = f"{report.pairs} pairs of rollouts at γ = {report.gamma:g}"
    if found := wrong_convention(given, own, pairs, short, tolerance):
        before, after = found
        raise ValueError(
            f"check_model: {after.convention.fault(own)}: relative error {before.error:.3g} as given, "
            f"{after.error:.3g} under that convention ({said}); ψ should be E Σ_{{k≥0}} γᵏ φ(S_{{t+k+1}}), "
            "φ of the states entered"
        )
    if report.low > tolerance:
        raise ValueError(
            f"check_model: ψ(s;z) differs from {said} of the model's own policy by {report.error:.3g} of its size "
            f"({report.low:.3g} to {report.high:.3g}; tolerance {tolerance:.3g}): does it match this policy, these "
            "features and this environment, and is it trained enough? (Environment noise that is not drawn from "
            "np_random counts as error.)"
        )
    if report.high > 2 * tolerance:
        raise ValueError(
            f"check_model: {steps} steps are too few to decide: ψ error {report.low:.3g} to {report.high:.3g} of its "
            f"size by {said}: pass more steps"
        )
    return report


def wrong_convention(
    given: Fit, own: float | None, pairs: Pairs, short: Pairs, tolerance: float
) -> tuple[Fit, Fit] | None:
    """The fits of the correct and of a wrong convention, if the wrong one explains ψ clearly better."""
    best = given
    for convention in conventions(own, pairs, tolerance):  # try two faults at once only if one does not explain ψ
        best = min((other for other in convention if clearly_better(other, best, tolerance)), key=_square, default=best)
    return (given, best) if best is not given else shifted(given, short, tolerance)


def conventions(own: float | None, pairs: Pairs, tolerance: float) -> tuple[list[Fit], list[Fit]]:
    """ψ with one fault, and with two at once."""

    def of(begins: int, scaled: bool) -> Fit:
        if own is None:
            return best_gamma(pairs, begins, scaled)
        return fit(Convention(own, begins, scaled), pairs)

    one = [of(0, False), of(2, False), of(1, True)]
    if own is not None:
        free = best_gamma(pairs, 1, False)
        # A slightly too small ψ looks like a slightly too small γ: that is approximation error.
        ratio = (1 - own) / (1 - free.convention.gamma)
        one += [free] if abs(math.log(ratio)) > math.log1p(tolerance) else []
    return one, [of(0, True), of(2, True)]


def shifted(given: Fit, pairs: Pairs, tolerance: float) -> tuple[Fit, Fit] | None:
    """The fit of a ψ that begins too early or too late, from rollouts of a few steps.

    Over a whole horizon the difference is only 1 − γ of ψ, which noise may hide; short rollouts have less noise.
    """
    gamma = given.convention.gamma
    for most in SHORT:
        right = fit(Convention(gamma), pairs, most)
        wrong = [fit(Convention(gamma, begins), pairs, most) for begins in (0, 2)]
        found = min((other for other in wrong if clearly_better(other, right, tolerance)), key=_square, default=None)
        if found is not None:
            return right, found
    return None


def clearly_better(other: Fit, given: Fit, tolerance: float) -> bool:
    """Whether ``other`` has at most half the error, significantly, and is within the tolerance."""
    gain = given.squares - other.squares
    sure = float(gain.mean()) > SURE * standard_error(gain)
    return sure and other.square < 0.25 * given.square and other.error <= tolerance


def best_gamma(pairs: Pairs, begins: int, scaled: bool) -> Fit:
    """The discount that fits ψ best: coarse grid of horizons, then a finer one."""

    def best(horizons: Iterable[float]) -> Fit:
        tried = [fit(Convention(1 - 1 / float(horizon), begins, scaled), pairs) for horizon in horizons]
        return min(tried, key=lambda found: found.square)

    near = 1 / (1 - best(HORIZONS).convention.gamma)
    step = float(HORIZONS[1] / HORIZONS[0])
    return best(np.geomspace(max(near / step, 1.0), near * step, 21))


def fit(convention: Convention, pairs: Pairs, most: int | None = None) -> Fit:
    """Compare ψ at all starts with a convention; after ``most`` steps the model's own ψ bootstraps."""
    gamma, scale = convention.gamma, 1 - convention.gamma if convention.scaled else 1.0
    one, other = pairs.discounted(gamma, convention.begins, scale, most)
    psi = pairs.psi[0, :, 0]
    return Fit(convention, ((psi - one) * (psi - other)).sum(-1), (one * other).sum(-1))


def report_of(given: Fit, pairs: Pairs) -> PsiReport:
    """The report of a fit."""
    gamma = given.convention.gamma
    return PsiReport(
        error=given.error,
        low=given.off_by(-2.0),
        high=given.off_by(2.0),
        gamma=gamma,
        pairs=pairs.length.shape[1],
        length=float(pairs.length.double().mean()),
        bootstrapped=float((gamma ** pairs.length.double() * ~pairs.terminated).mean()),
        terminated=int(pairs.terminated.sum()),
    )


def standard_error(values: Float[Tensor, " pairs"]) -> float:
    """Standard error of the mean."""
    return float(values.std() / len(values) ** 0.5)


def _square(found: Fit) -> float:
    return found.square
