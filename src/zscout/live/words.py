"""One sentence of what the agent is doing and why, for someone who has not read the paper."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from zscout.lab.viewer import Mode
from zscout.worlds.grid import Cell

Doing: TypeAlias = Mode | Literal["begins"]
ROWS, COLUMNS = ("top", "middle", "bottom"), ("left", "centre", "right")


NEAR = 0.05  # of the best: a place within that is as good


@dataclass(frozen=True)
class Thought:
    """What the sentence is made from."""

    doing: Doing
    place: str  # where it is going, or is
    there: bool  # it is in that part of the map
    expected: float  # reward expected where it is going
    best: float  # the largest of all places
    possible: float  # expected + √β_t times its width
    least_known: bool  # no place is much less known
    weighs: bool  # the method looks at what is not known; others have no reason of that kind
    told: int  # rewards so far
    largest: float  # of them, whatever its sign
    limit: float = 1.0  # no reward is larger, whatever its sign


def sentence(thought: Thought) -> str:
    """In plain words, and nothing that the method does not think."""
    if thought.doing == "begins":
        return "Nothing is known yet: any place could be the best."
    if thought.doing == "wanders":
        return "Wandering, to see a bit of everything."
    around = "Looking around" if thought.doing == "tries" else "Staying around"
    return f"{around if thought.there else 'Going to'} the {thought.place}: {_why(thought)}."


def _why(thought: Thought) -> str:
    expected, possible = (number(within(value, thought.limit)) for value in (thought.expected, thought.possible))
    if not thought.largest:
        found = "no place was worth anything so far" if thought.told else "no reward was given yet"
        return f"{found}, so it looks where it knows least" if thought.weighs else found
    if thought.doing == "tries":
        if not thought.weighs:
            return f"another behaviour than what seems best; about {expected} there so far"
        if number(thought.possible) == number(thought.expected) or thought.possible <= thought.expected:
            return f"about {expected}, and hardly a doubt about it"
        if possible == expected:  # the most there can be, if it is right
            return f"about {expected} so far, not sure"
        known = "least known" if thought.least_known else f"about {expected} so far, not sure"
        far = min(thought.possible, thought.limit) > 2 * thought.largest
        return f"{known}, could be worth {'more than anything so far' if far else possible}"
    if thought.expected >= thought.best - NEAR * max(abs(thought.best), thought.largest):
        return f"the best place it knows, about {expected}"
    return f"it seemed best, now about {expected}"


def place_of(cell: Cell, shape: Cell) -> str:
    """Which of nine parts of the map a cell is in."""
    row, column = (3 * at // size for at, size in zip(cell, shape, strict=True))
    if row == column == 1:
        return "middle"
    if row == 1:
        return f"{COLUMNS[column]} side"
    return ROWS[row] if column == 1 else f"{ROWS[row]} {COLUMNS[column]}"


def within(value: float, limit: float) -> float:
    """An estimate can overshoot; what is said of it does not go beyond what is possible."""
    return max(-limit, min(limit, value))


def number(value: float) -> str:
    """Two digits that matter, and a minus sign that is one."""
    text = f"{value:.1f}" if abs(value) >= 0.95 else f"{value:.2f}"
    return "0" if not float(text) else text.replace("-", "−")
