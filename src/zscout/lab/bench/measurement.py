"""The rows of a benchmark: plain numbers, whatever was measured."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from zscout.lab.bench.clock import Timing

EVEN = 0.999  # of the reference's objective: as near as the reference comes to itself with other draws


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was done how fast, against what, how good it was beside it, and how far from what is possible."""

    group: str
    what: str
    where: str = ""  # model and features
    amount: int = 1
    unit: str
    seconds: float  # for the amount: the median of the calls …
    low: float  # … between these nine of ten lie
    high: float
    p99: float
    calls: int
    reference: str = ""
    reference_amount: int = 1
    reference_seconds: float | None = None
    share: float | None = None  # objective reached ÷ the reference's, by the model's own ψ
    true_share: float | None = None  # the same by the true ψ of the policies chosen
    difference: str = ""  # what is compared
    largest: float | None = None  # how far apart the answers are, None where there is nothing to compare
    limit: float | None = None  # what it must stay under
    floor: str = ""  # what is counted
    floor_seconds: float | None = None  # that no way to do the same could be under
    peak_bytes: int | None = None  # of memory

    @classmethod
    def of(cls, timing: Timing, **rest: Any) -> "Row":
        """From the seconds of its calls."""
        low, high = timing.quantile(0.05), timing.quantile(0.95)
        return cls(seconds=timing.median, low=low, high=high, p99=timing.p99, calls=timing.calls, **rest)

    def against(self, reference: str, timing: Timing, amount: int = 1) -> "Row":
        """Beside a way that was timed in the same rounds."""
        return replace(self, reference=reference, reference_amount=amount, reference_seconds=timing.median)

    @property
    def rate(self) -> float:
        """Units a second."""
        return self.amount / self.seconds

    @property
    def speedup(self) -> float | None:
        """How many times faster than the reference, for the same amount of work."""
        return self._faster(self.seconds)

    @property
    def speedup_range(self) -> tuple[float, float] | None:
        """The same for the slow and the fast calls."""
        slow, fast = self._faster(self.high), self._faster(self.low)
        return None if slow is None or fast is None else (slow, fast)

    @property
    def counts(self) -> bool:
        """Whether it is as good as the reference: faster by doing less of worth is not faster."""
        return self.share is None or self.share >= EVEN

    @property
    def agrees(self) -> bool:
        """Whether the answers are as close as they must be."""
        return self.limit is None or (self.largest is not None and self.largest <= self.limit)

    @property
    def over_floor(self) -> float | None:
        """How many times the least possible."""
        return None if self.floor_seconds is None else self.seconds / self.floor_seconds

    def to_json(self) -> dict[str, Any]:
        """The row with what follows from it."""
        follows = {name: getattr(self, name) for name in ("rate", "speedup", "counts", "agrees", "over_floor")}
        return {**asdict(self), **follows}

    def _faster(self, seconds: float) -> float | None:
        if self.reference_seconds is None:
            return None
        return self.amount / seconds * self.reference_seconds / self.reference_amount


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What the same work costs as one size grows."""

    group: str
    what: str
    axis: str  # what grows
    sizes: tuple[int, ...]  # ascending
    seconds: tuple[float, ...]
    peak_bytes: tuple[int, ...] = ()  # beyond what the process had before

    @property
    def exponent(self) -> float | None:
        """Of time: the cost grows as size to this power."""
        return exponent(self.sizes, self.seconds)

    @property
    def memory_exponent(self) -> float | None:
        """Of memory."""
        return exponent(self.sizes, self.peak_bytes) if self.peak_bytes else None

    def to_json(self) -> dict[str, Any]:
        """The row with what follows from it."""
        return {**asdict(self), "exponent": self.exponent, "memory_exponent": self.memory_exponent}


Line: TypeAlias = Row | Growth


def exponent(sizes: Sequence[int], numbers: Sequence[float | int]) -> float | None:
    """Slope of log number over log size, least squares; of the upper half: what a call costs anyway hides the rest."""
    pairs = list(zip(sizes, numbers, strict=True))[(len(sizes) - 1) // 2 :]
    upper = [(size, number) for size, number in pairs if number > 0]
    if len(upper) < 2:
        return None
    x, y = np.log(np.array(upper, dtype=np.float64)).T
    return float(np.polyfit(x, y, 1)[0])
