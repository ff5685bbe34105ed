"""Does ψ say what the policy will meet? Where the world is not known, rollouts decide, and name the convention."""

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

UNKNOWN = 0.99  # the γ that decides how long rollouts are for a model that does not tell its own
SURE = 3.0  # standard errors by which a wrong convention must be better
SHORT = (1, 3, 10)  # steps after which the model's own ψ may stand for the rest
HORIZONS = np.geomspace(1.25, 1_000.0, 49)  # 1/(1 − γ) of the discounts that are tried


@dataclass(frozen=True)
class PsiReport:
    """How far ψ is from the rollouts of its own policy, as a share of its size."""

    error: float  # √(mean ‖ψ − E G‖² ÷ mean ‖E G‖²)
    low: float  # error, two standard errors down …
    high: float  # … and up
    gamma: float  # the model's own, or the nearest found
    pairs: int  # of rollouts, each with its own z and start
    length: float  # steps of a rollout, on average
    bootstrapped: float  # weight γᴸ of the model's own ψ behind rollouts that were cut, on average
    terminated: int  # rollouts that ended by themselves

    def __str__(self) -> str:
        return (
            f"ψ error {self.error:.2g} of its size ({self.low:.2g} to {self.high:.2g}) at γ = {self.gamma:g}: "
            f"{self.pairs} pairs of rollouts of {self.length:.0f} steps, {self.terminated} of them terminated, "
            f"{self.bootstrapped:.1%} bootstrapped"
        )


@dataclass(frozen=True)
class Convention:
    """ψ = scale · E Σ_{k≥0} γᵏ φ(S_{t+k+begins}); right is begins = 1 and scale = 1."""

    gamma: float
    begins: int = 1
    scaled: bool = False  # scale = 1 − γ

    def fault(self, own: float | None) -> str:
        """What is wrong with a ψ that is so."""
        found = []
        if self.begins == 0:
            found.append("ψ counts the present state")
        if self.begins == 2:
            found.append("φ is of the state before the step, or ψ begins one state late")
        if self.scaled:
            found.append(f"ψ is scaled by 1 − γ = {1 - self.gamma:.3g}")
        if own is not None and self.gamma != own:
            found.append(f"ψ has γ = {self.gamma:.3g}, the model says gamma = {own:g}")
        return " and ".join(found)


@dataclass(frozen=True, eq=False)
class Fit:
    """How well a convention explains ψ."""

    convention: Convention
    squares: Float[Tensor, " pairs"]  # (ψ − G)·(ψ − G′), on average ‖ψ − E G‖²
    sizes: Float[Tensor, " pairs"]  # G·G′, on average ‖E G‖²

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
        """Relative error of ψ, so many standard errors up."""
        square = max(self.square, 0.0) + standard_errors * standard_error(self.squares)
        return math.sqrt(max(square, 0.0)) / self.size


def check_psi(model: BehaviorModel, env: Any, tolerance: float, steps: int, seed: int) -> PsiReport:
    """Raise ValueError if ψ follows a wrong convention or is off by more than ``tolerance``, else say by how much."""
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
            f"check_model: {after.convention.fault(own)}: relative error {before.error:.3g} as ψ is, {after.error:.3g} "
            f"by that convention ({said}); ψ should be E Σ_{{k≥0}} γᵏ φ(S_{{t+k+1}}), φ of the states entered"
        )
    if report.low > tolerance:
        raise ValueError(
            f"check_model: ψ(s;z) differs from {said} of the model's own policy by {report.error:.3g} of its size "
            f"({report.low:.3g} to {report.high:.3g}; tolerance {tolerance:.3g}): is it of this policy, these "
            "features, this environment, and trained enough? (Noise that the environment draws from anything but its "
            "np_random counts as error.)"
        )
    if report.high > 2 * tolerance:
        raise ValueError(
            f"check_model: {steps} steps are too few to tell: ψ error {report.low:.3g} to {report.high:.3g} of its "
            f"size by {said}: pass more steps"
        )
    return report


def wrong_convention(
    given: Fit, own: float | None, pairs: Pairs, short: Pairs, tolerance: float
) -> tuple[Fit, Fit] | None:
    """The fit of ψ as it should be beside that of the convention which explains it clearly better, if one does."""
    best = given
    for convention in conventions(own, pairs, tolerance):  # two faults at once only where one does not explain ψ
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
        # A ψ that is a little too small looks like a γ that is: that is an error of approximation.
        ratio = (1 - own) / (1 - free.convention.gamma)
        one += [free] if abs(math.log(ratio)) > math.log1p(tolerance) else []
    return one, [of(0, True), of(2, True)]


def shifted(given: Fit, pairs: Pairs, tolerance: float) -> tuple[Fit, Fit] | None:
    """A ψ that begins too early or too late, by rollouts of a few steps.

    Over a whole horizon that is a share 1 − γ of ψ, which noise may hide: a few steps have less of it.
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
    """At most half the error, by more than chance, and itself within the tolerance."""
    gain = given.squares - other.squares
    sure = float(gain.mean()) > SURE * standard_error(gain)
    return sure and other.square < 0.25 * given.square and other.error <= tolerance


def best_gamma(pairs: Pairs, begins: int, scaled: bool) -> Fit:
    """The discount that explains ψ best, on a grid of horizons and on a finer one around the best of them."""

    def best(horizons: Iterable[float]) -> Fit:
        tried = [fit(Convention(1 - 1 / float(horizon), begins, scaled), pairs) for horizon in horizons]
        return min(tried, key=lambda found: found.square)

    near = 1 / (1 - best(HORIZONS).convention.gamma)
    step = float(HORIZONS[1] / HORIZONS[0])
    return best(np.geomspace(max(near / step, 1.0), near * step, 21))


def fit(convention: Convention, pairs: Pairs, most: int | None = None) -> Fit:
    """ψ at all starts beside what it would be by a convention, after ``most`` steps by the model's own ψ."""
    gamma, scale = convention.gamma, 1 - convention.gamma if convention.scaled else 1.0
    one, other = pairs.discounted(gamma, convention.begins, scale, most)
    psi = pairs.psi[0, :, 0]
    return Fit(convention, ((psi - one) * (psi - other)).sum(-1), (one * other).sum(-1))


def report_of(given: Fit, pairs: Pairs) -> PsiReport:
    """What was measured."""
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
    """Of their mean."""
    return float(values.std() / len(values) ** 0.5)


def _square(found: Fit) -> float:
    return found.square
