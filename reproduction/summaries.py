"""Summaries of runs: estimates with 95 % intervals, verdicts, and how figures and sentences show them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from reproduction.experiment import FEATURES, Scale
from reproduction.report.model import ClaimVerdict, Curve
from zscout.lab.compare.statistics import LEVELS, Bootstrap, Estimate

Met: TypeAlias = bool | None  # of a condition; None: the interval is too wide to tell


def mean(values: np.ndarray) -> Estimate:
    """The mean over runs [R]."""
    return Bootstrap(len(values), 1).mean(np.asarray(values, dtype=np.float64).reshape(-1, 1))


def median(values: np.ndarray) -> Estimate:
    """The lower median over runs [R], which is one of the values: some may be infinite."""
    drawn = np.quantile(Bootstrap(len(values), 1).runs(values[:, None]), 0.5, axis=1, method="lower")
    low, high = np.quantile(drawn, LEVELS, method="nearest")
    return Estimate(float(np.quantile(values, 0.5, method="lower")), float(low), float(high))


def ratio(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """Mean of ours ÷ mean of theirs over the same tasks [R]."""
    return Bootstrap(len(ours), 1).ratio(ours[:, None], theirs[:, None])


def below(a: Estimate | float, b: Estimate | float) -> Met:
    """Whether a is significantly below b; None if their intervals overlap."""
    (a_low, a_high), (b_low, b_high) = _ends(a), _ends(b)
    return True if a_high < b_low else False if a_low >= b_high else None


def _ends(value: Estimate | float) -> tuple[float, float]:
    return (value.low, value.high) if isinstance(value, Estimate) else (value, value)


def all_met(met: Iterable[Met]) -> Met:
    """Whether all are met: None if that depends on what is open."""
    cases = list(met)
    return False if False in cases else None if None in cases else True


def any_met(met: Iterable[Met]) -> Met:
    """Whether one is met: None if that depends on what is open."""
    cases = list(met)
    return True if True in cases else None if None in cases else False


def verdict(scale: Scale, whole: Met, part: Met) -> ClaimVerdict:
    """The verdict by the claim's rule and its weaker one. A quick test says "in part" only if the rule is refuted."""
    if whole:
        return "holds"
    if part and not (scale.quick and whole is None):
        return "holds in part"
    return "too few runs to tell" if whole is None else "does not hold"


def verdict_over(scale: Scale, met: Iterable[Met]) -> ClaimVerdict:
    """The verdict of a rule with several cases: holds if all are met, in part if some are."""
    cases = list(met)
    return verdict(scale, all_met(cases), any_met(cases))


def both(found: Mapping[str, Any], form: str, join: str = ", ") -> str:
    """A number for each feature set: ``1.0 (0.9–1.1) (clusters), 2.0 (1.9–2.1) (Laplacian)``."""
    return join.join(f"{found[name]:{form}} ({written})" for name, written in FEATURES.items())


def each(form: str, found: Mapping[str, Sequence[Any]]) -> str:
    """Numbers for each feature set: ``each("{:.1f} of {:.1f}", …)``, ``clusters 1.0 of 2.0; Laplacian …``."""
    return "; ".join(f"{written} {form.format(*found[name])}" for name, written in FEATURES.items())


def banded(label: str, rows: np.ndarray, dashed: bool = False) -> Curve:
    """The mean over runs [R T] as a line in its 95 % band."""
    draws = np.random.default_rng(0).integers(len(rows), size=(500, len(rows)))
    weights = np.stack([np.bincount(draw, minlength=len(rows)) for draw in draws]) / len(rows)
    low, high = np.quantile(weights @ rows, LEVELS, axis=0)
    x = list(range(1, 1 + rows.shape[1]))
    return Curve(label, x, _short(rows.mean(0)), _short(low), _short(high), dashed)


def through(label: str, x: Sequence[float], found: Sequence[Estimate], dashed: bool = False) -> Curve:
    """Estimates as a line in their intervals."""
    y, low, high = (_short(np.array([getattr(e, part) for e in found])) for part in ("value", "low", "high"))
    return Curve(label, list(x), y, low, high, dashed)


def _short(values: np.ndarray) -> list[float]:
    """Six digits, nine places: further digits differ by rounding between machines."""
    return [float(f"{round(value, 9):.6g}") for value in values.tolist()]
