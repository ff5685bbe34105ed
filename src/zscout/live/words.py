"""One sentence of what the agent is doing and why, for someone who has not read the paper."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from zscout.lab.watching import Cell, Mode

Doing: TypeAlias = Mode | Literal["begins"]
ROWS, COLUMNS = ("top", "middle", "bottom"), ("left", "centre", "right")


@dataclass(frozen=True)
class Thought:
    """What the sentence is made from."""

    doing: Doing
    place: str  # where it is going or is
    expected: float  # φ·ẑ there
    possible: float  # φ·ẑ + √β_t ‖φ‖ there, in V⁻¹
    least_known: bool  # no place is much less known
    nothing_found: bool  # every reward so far was 0, or there was none
    told: int  # rewards so far


def sentence(thought: Thought) -> str:
    """In plain words."""
    place, expected = thought.place, number(thought.expected)
    if thought.doing == "begins":
        return "Nothing is known yet: any place could be the best."
    if thought.doing == "wanders":
        return "Wandering, to see a bit of everything."
    if thought.nothing_found:
        found = "no reward was given yet" if not thought.told else "no place was worth anything so far"
        return f"Going to the {place}: {found}, so it looks where it knows least."
    if thought.doing == "tries":
        why = "least known" if thought.least_known else f"about {expected} so far, not sure"
        if thought.possible <= thought.expected:
            return f"Going to the {place}: another behaviour looks better from here."
        return f"Going to the {place}: {why}, could be worth {number(thought.possible)}."
    known = f"the best place it knows, about {expected}"
    return f"Staying at the {place}: {known}." if thought.doing == "stays" else f"Going to the {place}: {known}."


def place_of(cell: Cell, shape: Cell) -> str:
    """Which of nine parts of the map a cell is in."""
    row, column = (3 * at // size for at, size in zip(cell, shape, strict=True))
    if row == column == 1:
        return "middle"
    if row == 1:
        return f"{COLUMNS[column]} side"
    return ROWS[row] if column == 1 else f"{ROWS[row]} {COLUMNS[column]}"


def number(value: float) -> str:
    """Two digits that matter, and a minus sign that is one."""
    text = f"{value:.1f}" if abs(value) >= 0.95 else f"{value:.2f}"
    return "0" if not float(text) else text.replace("-", "−")
