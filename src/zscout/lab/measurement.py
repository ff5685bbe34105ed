"""One row of a benchmark: plain numbers, whatever was measured."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One row of the table: what was done how fast, against what, and how far apart the answers are."""

    what: str
    amount: int
    unit: str
    seconds: float
    reference: str
    reference_amount: int
    reference_seconds: float
    difference: str  # what is compared
    largest: float | None  # how far apart, None where there is nothing to compare
    limit: float | None  # what it must stay under

    @property
    def rate(self) -> float:
        """Units a second."""
        return self.amount / self.seconds

    @property
    def speedup(self) -> float:
        """How many times faster than the reference, for the same amount of work."""
        return self.rate * self.reference_seconds / self.reference_amount

    @property
    def agrees(self) -> bool:
        """Whether the answers are as close as they must be."""
        return self.limit is None or (self.largest is not None and self.largest <= self.limit)

    def to_json(self) -> dict[str, Any]:
        """The row with what follows from it."""
        return {**asdict(self), "rate": self.rate, "speedup": self.speedup, "agrees": self.agrees}
