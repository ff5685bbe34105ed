"""What numbers of many runs say, and how sure that is: means, interquartile means, paired differences, ranks.

All intervals are of 95 %, by a bootstrap that is stratified by task: tasks are drawn with replacement and, within each
drawn task, its seeds. Every method has the same tasks and seeds, so that one draw serves all of them and differences
are paired.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

DRAWS = 2_000
LEVELS = (0.025, 0.975)


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        """``15.6 (14.9–16.3)``, and ``-0.2 (-1.8…1.4)`` where a minus sign could be taken for the dash."""
        value, low, high = (_written(number, spec) for number in (self.value, self.low, self.high))
        return f"{value} ({low}{'…' if low.startswith('-') else '–'}{high})"

    def to_json(self) -> dict[str, float]:
        """As plain numbers."""
        return vars(self)


def _written(number: float, spec: str) -> str:
    text = f"{number:{spec}}"
    return text if float(text.rstrip("%").replace(",", "")) else text.lstrip("-")  # no minus sign on a zero


def estimate(value: float, drawn: np.ndarray) -> Estimate:
    """A value with the interval that bootstrap draws of it give."""
    low, high = np.quantile(drawn, LEVELS)
    return Estimate(float(value), float(low), float(high))


class Bootstrap:
    """The same draws for every table of runs [tasks seeds]."""

    def __init__(self, tasks: int, seeds: int, draws: int = DRAWS, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._tasks = rng.integers(tasks, size=(draws, tasks, 1))
        self._seeds = rng.integers(seeds, size=(draws, tasks, seeds))

    def runs(self, table: np.ndarray) -> np.ndarray:
        """[draws, tasks · seeds]."""
        return np.asarray(table[self._tasks, self._seeds].reshape(len(self._tasks), -1))

    def mean(self, table: np.ndarray) -> Estimate:
        """The mean."""
        return estimate(table.mean(), self.runs(table).mean(1))

    def iqm(self, table: np.ndarray) -> Estimate:
        """The mean of the middle half of the runs: what a few lost runs do not move."""
        return estimate(interquartile_mean(table.reshape(1, -1))[0], interquartile_mean(self.runs(table)))

    def ratio(self, ours: np.ndarray, theirs: np.ndarray) -> Estimate:
        """Mean of ours ÷ mean of theirs, paired."""
        drawn = self.runs(ours).mean(1) / self.runs(theirs).mean(1)
        return estimate(ours.mean() / theirs.mean(), drawn)

    def difference(self, ours: np.ndarray, theirs: np.ndarray) -> Estimate:
        """Mean of ours − mean of theirs, paired."""
        return self.mean(ours - theirs)

    def improvement(self, ours: np.ndarray, theirs: np.ndarray) -> Estimate:
        """Probability that a run of ours has less than a run of theirs on the same task; ties count half."""
        a, b = ours[:, :, None], theirs[:, None, :]
        wins = ((a < b) + 0.5 * (a == b)).mean((1, 2))  # of each task
        return estimate(wins.mean(), wins[self._tasks[..., 0]].mean(1))


def interquartile_mean(rows: np.ndarray) -> np.ndarray:
    """Of each row, the mean of its middle half; the runs at its edges count in part."""
    ordered, n = np.sort(rows, axis=1), rows.shape[1]
    edges = np.arange(n + 1) / n
    weight = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0, None)
    return np.asarray(ordered @ weight / weight.sum())


def ranks(tables: Mapping[Any, np.ndarray], bootstrap: Bootstrap) -> dict[Any, tuple[int, int]]:
    """From the best rank that each can have to the worst, the least mean being best.

    A method is behind those that are surely better: the interval of the paired difference lies below 0.
    """
    drawn = {name: bootstrap.runs(table).mean(1) for name, table in tables.items()}
    answer = {}
    for name in tables:
        others = [np.quantile(drawn[name] - drawn[other], LEVELS) for other in tables if other != name]
        better = sum(bool(low > 0) for low, _ in others)
        worse = sum(bool(high < 0) for _, high in others)
        answer[name] = (1 + better, len(tables) - worse)
    return answer
