"""Means, interquartile means, paired differences and ranks of many runs, with 95 % intervals.

Intervals come from a bootstrap over tasks, and over seeds within each task. All methods have the same tasks and seeds,
so one draw serves all of them, and differences are paired. With few tasks a bootstrap interval is too narrow: it is
widened by the ratio of Student's t to the normal quantile. One task gives no interval. Intervals are not corrected for
multiple comparisons.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm, t

ROUNDING = 1e-9
TAIL = 0.025  # of an interval, on each side
LEVELS = (TAIL, 1 - TAIL)
ANYWHERE = (-math.inf, math.inf)


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        """``15.6 (14.9–16.3)``, or ``-0.2 (-1.8…1.4)`` if a dash could be read as a minus sign."""
        value, low, high = (_written(number, spec) for number in (self.value, self.low, self.high))
        if math.isnan(self.low):
            return f"{value} (too few tasks)"
        return f"{value} ({low}{'…' if low.startswith('-') else '–'}{high})"

    def to_json(self) -> dict[str, float | None]:
        """Plain numbers, null where there is no interval."""
        return {name: None if math.isnan(number) else number for name, number in vars(self).items()}

    @classmethod
    def from_json(cls, content: Mapping[str, float | None]) -> "Estimate":
        """The inverse of ``to_json``."""
        return cls(**{name: math.nan if number is None else number for name, number in content.items()})


def _written(number: float, spec: str) -> str:
    text = f"{number:{spec}}"
    return text if text.strip("-0.%") else text.lstrip("-")  # no minus sign on a zero


class Bootstrap:
    """The same draws for every table of runs [tasks seeds]."""

    def __init__(self, tasks: int, seeds: int, draws: int = 2_000, seed: int = 0, tail: float = TAIL) -> None:
        self._levels = (tail, 1 - tail)  # smaller to correct for several comparisons
        rng = np.random.default_rng(seed)
        self._tasks = rng.integers(tasks, size=(draws, tasks, 1))
        self._seeds = rng.integers(seeds, size=(draws, tasks, seeds))
        few = t.ppf(1 - tail, tasks - 1) / norm.ppf(1 - tail) * math.sqrt(tasks / (tasks - 1)) if tasks > 1 else None
        self._wider = few  # the factor by which intervals are widened

    def estimate(self, value: float, drawn: np.ndarray, limits: tuple[float, float] = ANYWHERE) -> Estimate:
        """A value with the interval of its bootstrap draws, clipped to its possible range."""
        if self._wider is None:
            return Estimate(float(value), math.nan, math.nan)
        low, high = (value + self._wider * (quantile - value) for quantile in np.quantile(drawn, self._levels))
        return Estimate(float(value), float(max(low, limits[0])), float(min(high, limits[1])))

    def runs(self, table: np.ndarray) -> np.ndarray:
        """[draws, tasks · seeds]."""
        return self._drawn(table).reshape(len(self._tasks), -1)

    def mean(self, table: np.ndarray) -> Estimate:
        """The mean."""
        return self.estimate(table.mean(), self.runs(table).mean(1), _limits(table))

    def iqm(self, table: np.ndarray) -> Estimate:
        """The mean of the middle half of the runs, robust to outliers."""
        value, drawn = interquartile_mean(table.reshape(1, -1))[0], interquartile_mean(self.runs(table))
        return self.estimate(value, drawn, _limits(table))

    def ratio(self, ours: np.ndarray, theirs: np.ndarray) -> Estimate:
        """Mean of ours ÷ mean of theirs, paired; without an interval if theirs is 0 in a draw of few tasks."""
        above, below = self.runs(ours).mean(1), self.runs(theirs).mean(1)
        value = ours.mean() / theirs.mean() if theirs.mean() else math.nan
        if not below.all():
            return Estimate(float(value), math.nan, math.nan)
        positive = min(ours.min(), theirs.min()) >= -ROUNDING
        return self.estimate(value, above / below, (0.0, math.inf) if positive else ANYWHERE)

    def difference(self, ours: np.ndarray, theirs: np.ndarray) -> Estimate:
        """Mean of ours − mean of theirs, paired."""
        return self.mean(ours - theirs)

    def improvement(self, ours: np.ndarray, theirs: np.ndarray) -> Estimate:
        """Probability that a run of ours is below a run of theirs on the same task; ties count half."""
        # In 20 parts, to save memory.
        parts = zip(*(np.array_split(self._drawn(table), 20) for table in (ours, theirs)), strict=True)
        drawn = np.concatenate([_wins(a, b).mean(1) for a, b in parts])
        return self.estimate(_wins(ours, theirs).mean(), drawn, (0.0, 1.0))

    def _drawn(self, table: np.ndarray) -> np.ndarray:
        """[draws tasks seeds]."""
        return np.asarray(table[self._tasks, self._seeds])


def _limits(table: np.ndarray) -> tuple[float, float]:
    """The range of a mean: lengths and shares are ≥ 0, shares ≤ 1, correlations within ±1."""
    least, most = table.min(), table.max()
    low = 0.0 if least >= -ROUNDING else -1.0 if least >= -1 and most <= 1 else -math.inf
    return low, 1.0 if most <= 1 and least >= -1 else 0.0 if most <= 0 else math.inf


def _wins(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Share of pairs of seeds, for each task."""
    a, b = ours[..., :, None], theirs[..., None, :]
    return np.asarray(((a < b) + 0.5 * (a == b)).mean((-2, -1)))


def interquartile_mean(rows: np.ndarray) -> np.ndarray:
    """The mean of the middle half of each row; runs at its edges count in part."""
    ordered, n = np.sort(rows, axis=1), rows.shape[1]
    edges = np.arange(n + 1) / n
    weight = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0, None)
    return np.asarray(ordered @ weight / weight.sum())


def ranks(tables: Mapping[Any, np.ndarray], bootstrap: Bootstrap) -> dict[Any, tuple[int, int, list[Any]]]:
    """For each table: its best and worst possible rank (1 has the lowest mean), and those that it may be equal to.

    A is better than B if the interval of their paired difference excludes 0.
    """
    means = {name: (table.mean(), bootstrap.runs(table).mean(1)) for name, table in tables.items()}
    answer = {}
    for name, (mean, drawn) in means.items():
        gaps = {other: bootstrap.estimate(mean - m, drawn - d) for other, (m, d) in means.items() if other != name}
        better = sum(gap.low > 0 for gap in gaps.values())
        worse = sum(gap.high < 0 for gap in gaps.values())
        alike = [other for other, gap in gaps.items() if not (gap.low > 0 or gap.high < 0)]
        answer[name] = (1 + better, len(tables) - worse, alike)
    return answer
