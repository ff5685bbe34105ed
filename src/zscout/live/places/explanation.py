"""What the agent does and why in words, for readers who do not know the paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from torch import Tensor

from zscout.watch.viewer import Mode
from zscout.worlds.grids.grid import Cell
from zscout.worlds.registry import Goal

# A body follows its best z, is sure of it, or shows a behaviour that a person chose.
LiveMode: TypeAlias = Mode | Literal["begins", "keeps", "done", "shows"]
DIGITS = 4  # of numbers that are sent to the page
WORTH_SAYING = 0.25  # correlations below this are not put into words
MOST_GOALS = 3  # goal features in a sentence


@dataclass(frozen=True)
class Explanation:
    """The facts that the sentence is made from."""

    mode: LiveMode
    place: str  # the part of the map where its behaviour leads
    there: bool  # whether it is in that part now
    expected: float  # reward expected at the target
    best: float  # largest expected reward of all states
    possible: float  # upper bound at the target: expected + √β_t times its width
    least_known: bool  # whether hardly any state is more uncertain than the target
    weighs: bool  # whether the method uses uncertainty to choose
    told: int  # number of rewards so far
    largest: float  # largest absolute reward so far
    limit: float = 1.0  # largest possible absolute reward

    @property
    def sentence(self) -> str:
        """The sentence; it gives only reasons that the method really has."""
        if self.mode == "begins":
            return "Nothing is known yet: any place could be the best."
        if self.mode == "wanders":
            return "Moving at random to see a bit of everything."
        around = "Looking around" if self.mode == "tries" else "Staying around"
        return f"{around if self.there else 'Going to'} the {self.place}: {self._reason()}."

    def _reason(self) -> str:
        # An estimate can overshoot, a reward cannot: the sentence stays within what is possible.
        expected, possible = (number(max(-self.limit, min(self.limit, x))) for x in (self.expected, self.possible))
        if not self.largest:
            found = "every reward so far was 0" if self.told else "no reward yet"
            return f"{found}, so it goes where it knows least" if self.weighs else found
        if self.mode == "tries":
            if not self.weighs:
                return f"not what looks best now; about {expected} expected there"
            if number(self.possible) == number(self.expected) or self.possible <= self.expected:
                return f"about {expected} expected, almost certain"
            if possible == expected:  # already the largest possible reward
                return f"about {expected} expected, not certain"
            known = "least known" if self.least_known else f"about {expected} expected, not certain"
            far = min(self.possible, self.limit) > 2 * self.largest
            return f"{known}, could be worth {'more than anything so far' if far else possible}"
        if self.expected >= self.best - 0.05 * max(abs(self.best), self.largest):  # as good as the best
            return f"the best place it knows, about {expected}"
        return f"it looked best before, now about {expected}"


def place_of(cell: Cell, shape: Cell) -> str:
    """Which of nine parts of the map a cell is in."""
    row, column = (3 * at // size for at, size in zip(cell, shape, strict=True))
    if row == 1:
        return ("left side", "middle", "right side")[column]
    return f"{('top', 'middle', 'bottom')[row]} {('left', '', 'right')[column]}".strip()


def in_words(goals: Sequence[Goal], correlations: Sequence[float]) -> str:
    """The features that go with a reward, the strongest first: "forward (0.8), upright (0.5)"; "" if there are none."""
    strongest = sorted(zip(goals, correlations, strict=True), key=lambda pair: -abs(pair[1]))[:MOST_GOALS]
    words = [(goal.high if r > 0 else goal.low, abs(r)) for goal, r in strongest if abs(r) >= WORTH_SAYING]
    return ", ".join(f"{word} ({share:.1f})" for word, share in words)


def number(value: float) -> str:
    """One or two decimals, with a real minus sign and no minus zero."""
    text = f"{value:.1f}" if abs(value) >= 0.95 else f"{value:.2f}"
    return "0" if not float(text) else text.replace("-", "−")


def rounded(values: Tensor | np.ndarray | float | None, digits: int = DIGITS) -> Any:
    """Plain numbers with few digits, as they are sent to the page."""
    return None if values is None else np.round(np.asarray(values), digits).tolist()
