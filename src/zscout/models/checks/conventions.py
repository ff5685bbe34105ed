"""Check ψ by rollouts of its own policy, and name the convention that a wrong ψ follows."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_discount, as_size
from zscout.base.types import BehaviorModel
from zscout.models.checks.rollouts import Pairs, check_env, horizon, rollout_pairs

SHORT_ROLLOUTS = (1, 3, 10)  # steps before the model's own ψ bootstraps the rest
HORIZONS = np.geomspace(1.25, 1_000.0, 49)  # 1/(1 − γ) of the discounts tried


class Passed:
    """What ``check_model`` returns: all checks passed."""

    def __repr__(self) -> str:
        return "all checks passed"


@dataclass(frozen=True, repr=False)
class PsiReport(Passed):
    """The error of ψ against rollouts of its own policy, relative to the size of ψ."""

    error: float  # √(mean ‖ψ − E G‖² ÷ mean ‖E G‖²)
    low: float  # error minus two standard errors
    high: float  # error plus two standard errors
    gamma: float  # the model's gamma, or the best fit
    pairs: int  # number of pairs of rollouts, each with its own z and start
    length: float  # mean steps of a rollout
    bootstrapped: float  # mean weight γᴸ of the model's own ψ after truncated rollouts
    terminated: int  # number of rollouts that terminated

    def __repr__(self) -> str:
        return (
            f"{super().__repr__()}: ψ error {self.error:.2g} of its size ({self.low:.2g} to {self.high:.2g}) "
            f"at γ = {self.gamma:g}, {self.pairs} pairs of rollouts of {self.length:.0f} steps, {self.terminated} of "
            f"them terminated, {self.bootstrapped:.1%} bootstrapped"
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """How well ψ = scale · E Σ_{k≥0} γᵏ φ(S_{t+k+begins}) holds; correct: begins = 1 and scale = 1."""

    gamma: float
    begins: int
    scaled: bool  # scale = 1 − γ
    squares: Float[Tensor, " pairs"]  # (ψ − G)·(ψ − G′), whose mean is ‖ψ − E G‖²
    sizes: Float[Tensor, " pairs"]  # G·G′, whose mean is ‖E G‖²

    @classmethod
    def of(cls, pairs: Pairs, gamma: float, begins: int = 1, scaled: bool = False, most: int | None = None) -> "Fit":
        """Compare ψ at all starts with a convention; after ``most`` steps the model's own ψ bootstraps."""
        one, other = pairs.discounted(gamma, begins, 1 - gamma if scaled else 1.0, most)
        psi = pairs.psi[0, :, 0]
        return cls(gamma, begins, scaled, ((psi - one) * (psi - other)).sum(-1), (one * other).sum(-1))

    @property
    def square(self) -> float:
        """Mean ‖ψ − E G‖²; with few rollouts its estimate may be below 0."""
        return float(self.squares.mean())

    def error(self, standard_errors: float = 0.0) -> float:
        """Relative error of ψ plus this many standard errors."""
        square = max(self.square, 0.0) + standard_errors * _standard_error(self.squares)
        return math.sqrt(max(square, 0.0)) / math.sqrt(max(float(self.sizes.mean()), 1e-300))

    def clearly_better(self, given: "Fit", tolerance: float) -> bool:
        """Whether it has at most half the error, significantly (three standard errors), and is within the tolerance."""
        gain = given.squares - self.squares
        sure = float(gain.mean()) > 3.0 * _standard_error(gain)
        return sure and self.square < 0.25 * given.square and self.error() <= tolerance

    def fault(self, own: float | None) -> str:
        """What is wrong with a ψ of this convention."""
        found = {
            "ψ counts the current state": self.begins == 0,
            "φ is of the state before the step, or ψ begins one state late": self.begins == 2,
            f"ψ is scaled by 1 − γ = {1 - self.gamma:.3g}": self.scaled,
            f"ψ has γ = {self.gamma:.3g}, the model's gamma is {own or 0:g}": own is not None and self.gamma != own,
        }
        return " and ".join(text for text, holds in found.items() if holds)


def check_psi(model: BehaviorModel, env: Any, tolerance: float, steps: int, seed: int) -> PsiReport:
    """Raise ValueError if ψ follows a wrong convention or its error exceeds ``tolerance``; else return the report."""
    as_size(steps, "steps", 1_000)
    as_size(seed, "seed", 0, 2**31)
    made = None if isinstance(env, gymnasium.Env) or not callable(env) else env()
    own = None if getattr(model, "gamma", None) is None else as_discount(model.gamma)  # type: ignore[attr-defined]
    try:
        there = check_env(model, env if made is None else made)
        pairs = rollout_pairs(model, there, horizon(0.99 if own is None else own), steps - steps // 4, seed)
        short = rollout_pairs(model, there, SHORT_ROLLOUTS[-1], steps // 4, seed + 1)
    finally:
        if made is not None:
            made.close()
    given = Fit.of(pairs, own) if own is not None else _best_gamma(pairs)
    report = PsiReport(
        error=given.error(),
        low=given.error(-2.0),
        high=given.error(2.0),
        gamma=given.gamma,
        pairs=pairs.length.shape[1],
        length=float(pairs.length.double().mean()),
        bootstrapped=float((given.gamma ** pairs.length.double() * ~pairs.terminated).mean()),
        terminated=int(pairs.terminated.sum()),
    )
    if report.bootstrapped > 0.5:
        raise ValueError(
            f"check_model: rollouts of {report.length:.0f} steps are too short for γ = {report.gamma:g}: pass more "
            "steps, or an environment with a longer time limit"
        )
    said = f"{report.pairs} pairs of rollouts at γ = {report.gamma:g}"
    if found := _wrong_convention(given, own, pairs, short, tolerance):
        before, after = found
        raise ValueError(
            f"check_model: {after.fault(own)}: relative error {before.error():.3g} as given, "
            f"{after.error():.3g} under that convention ({said}); ψ should be E Σ_{{k≥0}} γᵏ φ(S_{{t+k+1}}), "
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


def _wrong_convention(
    given: Fit, own: float | None, pairs: Pairs, short: Pairs, tolerance: float
) -> tuple[Fit, Fit] | None:
    """The fits of the correct and of a wrong convention, if the wrong one explains ψ clearly better."""

    def of(begins: int, scaled: bool) -> Fit:
        return _best_gamma(pairs, begins, scaled) if own is None else Fit.of(pairs, own, begins, scaled)

    def best(fits: list[Fit], so_far: Fit) -> Fit:
        better = (fit for fit in fits if fit.clearly_better(so_far, tolerance))
        return min(better, key=lambda fit: fit.square, default=so_far)

    one_fault = [of(0, False), of(2, False), of(1, True)]
    if own is not None:
        free = _best_gamma(pairs)
        # A slightly too small ψ looks like a slightly too small γ: that is approximation error.
        ratio = (1 - own) / (1 - free.gamma)
        one_fault += [free] if abs(math.log(ratio)) > math.log1p(tolerance) else []
    found = best([of(0, True), of(2, True)], best(one_fault, given))  # two faults only if one does not explain ψ
    if found is not given:
        return given, found
    # Over a whole horizon a ψ that begins too early or too late differs only by 1 − γ of ψ, which noise may hide; short
    # rollouts have less noise.
    for most in SHORT_ROLLOUTS:
        right = Fit.of(short, given.gamma, most=most)
        found = best([Fit.of(short, given.gamma, begins, most=most) for begins in (0, 2)], right)
        if found is not right:
            return right, found
    return None


def _best_gamma(pairs: Pairs, begins: int = 1, scaled: bool = False) -> Fit:
    """The discount that fits ψ best: coarse grid of horizons, then a finer one."""

    def best(horizons: Iterable[float]) -> Fit:
        tried = [Fit.of(pairs, 1 - 1 / float(horizon), begins, scaled) for horizon in horizons]
        return min(tried, key=lambda fit: fit.square)

    near = 1 / (1 - best(HORIZONS).gamma)
    step = float(HORIZONS[1] / HORIZONS[0])
    return best(np.geomspace(max(near / step, 1.0), near * step, 21))


def _standard_error(values: Float[Tensor, " pairs"]) -> float:
    return float(values.std() / len(values) ** 0.5)
