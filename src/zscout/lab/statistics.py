"""What numbers of many runs say, and how sure that is: means, interquartile means, paired differences, ranks.

All intervals are of 95 %, by a bootstrap whose strata are tasks: seeds are drawn with replacement within each task,
and, since tasks are a sample themselves, tasks too. Every method has the same tasks and seeds, so that one draw serves
all of them and differences are paired. With few tasks a bootstrap is too sure of itself: intervals are widened as
Student's t is against the normal law, and from one task nothing is concluded. Each interval is of 95 % on its own:
nothing is corrected for how many are looked at.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm, t

DRAWS = 2_000
ROUNDING = 1e-9
LEVELS = (0.025, 0.975)
ANYWHERE = (-math.inf, math.inf)
PARTS = 20  # in which pairs of seeds are compared, so that they need little memory


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        """``15.6 (14.9–16.3)``, and ``-0.2 (-1.8…1.4)`` where a minus sign could be taken for the dash."""
        value, low, high = (_written(number, spec) for number in (self.value, self.low, self.high))
        if math.isnan(self.low):
            return f"{value} (one task)"
        return f"{value} ({low}{'…' if low.startswith('-') else '–'}{high})"

    def to_json(self) -> dict[str, float | None]:
        """As plain numbers, null where there is no interval."""
        return {name: None if math.isnan(number) else number for name, number in vars(self).items()}

    @classmethod
    def from_json(cls, content: Mapping[str, float | None]) -> "Estimate":
        """What ``to_json`` wrote."""
        return cls(**{name: math.nan if number is None else number for name, number in content.items()})


def _written(number: float, spec: str) -> str:
    text = f"{number:{spec}}"
    zero = not text.strip("-0.%")
    return text.lstrip("-") if zero else text  # no minus sign on a zero


class Bootstrap:
    """The same draws for every table of runs [tasks seeds]."""

    def __init__(self, tasks: int, seeds: int, draws: int = DRAWS, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._tasks = rng.integers(tasks, size=(draws, tasks, 1))
        self._seeds = rng.integers(seeds, size=(draws, tasks, seeds))
        few = t.ppf(LEVELS[1], tasks - 1) / norm.ppf(LEVELS[1]) * math.sqrt(tasks / (tasks - 1)) if tasks > 1 else None
        self._wider = few  # how many times as wide as the bootstrap says

    def estimate(self, value: float, drawn: np.ndarray, limits: tuple[float, float] = ANYWHERE) -> Estimate:
        """A value with the interval that bootstrap draws of it give, within what it can come to."""
        if self._wider is None:
            return Estimate(float(value), math.nan, math.nan)
        least, most = limits
        low, high = (value + self._wider * (quantile - value) for quantile in np.quantile(drawn, LEVELS))
        return Estimate(float(value), float(max(low, least)), float(min(high, most)))

    def runs(self, table: np.ndarray) -> np.ndarray:
        """[draws, tasks · seeds]."""
        return self._drawn(table).reshape(len(self._tasks), -1)

    def mean(self, table: np.ndarray) -> Estimate:
        """The mean."""
        return self.estimate(table.mean(), self.runs(table).mean(1), _limits(table))

    def iqm(self, table: np.ndarray) -> Estimate:
        """The mean of the middle half of the runs: what a few lost runs do not move."""
        value, drawn = interquartile_mean(table.reshape(1, -1))[0], interquartile_mean(self.runs(table))
        return self.estimate(value, drawn, _limits(table))

    def ratio(self, ours: np.ndarray, theirs: np.ndarray) -> Estimate:
        """Mean of ours ÷ mean of theirs, paired."""
        drawn = self.runs(ours).mean(1) / self.runs(theirs).mean(1)
        positive = min(ours.min(), theirs.min()) >= -ROUNDING
        return self.estimate(ours.mean() / theirs.mean(), drawn, (0.0, math.inf) if positive else ANYWHERE)

    def difference(self, ours: np.ndarray, theirs: np.ndarray) -> Estimate:
        """Mean of ours − mean of theirs, paired."""
        return self.mean(ours - theirs)

    def improvement(self, ours: np.ndarray, theirs: np.ndarray) -> Estimate:
        """Probability that a run of ours has less than a run of theirs on the same task; ties count half."""
        parts = zip(*(np.array_split(self._drawn(table), PARTS) for table in (ours, theirs)), strict=True)
        drawn = np.concatenate([_wins(a, b).mean(1) for a, b in parts])
        return self.estimate(_wins(ours, theirs).mean(), drawn, (0.0, 1.0))

    def _drawn(self, table: np.ndarray) -> np.ndarray:
        """[draws tasks seeds]."""
        return np.asarray(table[self._tasks, self._seeds])


def _limits(table: np.ndarray) -> tuple[float, float]:
    """Of a mean of such numbers: none below 0 of lengths and shares, above 1 of shares, beyond ±1 of correlations."""
    least, most = table.min(), table.max()
    low = 0.0 if least >= -ROUNDING else -1.0 if least >= -1 and most <= 1 else -math.inf
    return low, 1.0 if most <= 1 and least >= -1 else 0.0 if most <= 0 else math.inf


def _wins(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Of each task, over all pairs of its seeds."""
    a, b = ours[..., :, None], theirs[..., None, :]
    return np.asarray(((a < b) + 0.5 * (a == b)).mean((-2, -1)))


def interquartile_mean(rows: np.ndarray) -> np.ndarray:
    """Of each row, the mean of its middle half; the runs at its edges count in part."""
    ordered, n = np.sort(rows, axis=1), rows.shape[1]
    edges = np.arange(n + 1) / n
    weight = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0, None)
    return np.asarray(ordered @ weight / weight.sum())


def ranks(tables: Mapping[Any, np.ndarray], bootstrap: Bootstrap) -> dict[Any, tuple[int, int, list[Any]]]:
    """Of each, from the best rank that it can have to the worst, the least mean being best, and whom it is like.

    A method is behind those that are surely better: the interval of the paired difference lies below 0. It is like
    those of which the interval holds 0.
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
