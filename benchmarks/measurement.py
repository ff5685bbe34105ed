"""How a benchmark is measured: its setting, interleaved timing, and the rows it produces."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch

from zscout.lab.arenas.grid import GridArena

T = TypeVar("T")

EVEN = 0.999  # share of the reference's objective that counts as equal: other draws of the reference vary by as much


@dataclass(frozen=True)
class Setting:
    """Seed, scale and device of all measurements."""

    seed: int = 0
    quick: bool = False
    device: str = "cpu"

    @property
    def task_seed(self) -> int:
        """The seed of the tasks, of which there are a thousand sets."""
        return self.seed % 1_000

    def of(self, whole: T, quick: T) -> T:
        """``quick`` in a quick run, ``whole`` otherwise."""
        return quick if self.quick else whole

    def arena(self, model: str, features: str) -> GridArena:
        """The open grid with that model and features on the device."""
        return GridArena(features=features, model=model, device=self.device)


@dataclass(frozen=True)
class Timing:
    """Seconds of each call."""

    seconds: tuple[float, ...]

    @property
    def calls(self) -> int:
        """Number of calls."""
        return len(self.seconds)

    @property
    def median(self) -> float:
        """Median seconds."""
        return self.quantile(0.5)

    @property
    def p99(self) -> float:
        """99th percentile of the seconds; of fewer than 100 calls nearly the slowest."""
        return self.quantile(0.99)

    def quantile(self, share: float) -> float:
        """That quantile of the seconds."""
        return float(np.quantile(self.seconds, share))


class Call:
    """A function with its arguments that keeps the last answer."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        self.answer: Any = None
        self._work, self._arguments = work, arguments

    def __call__(self) -> None:
        """Call the function."""
        self.answer = self._work(*self._arguments)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread, then restore the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def interleaved(
    ways: Mapping[str, Callable[[], object]],
    rounds: int,
    times: int | Mapping[str, int] = 1,
    device: str = "cpu",
    warm: bool = True,
    before: Callable[[], object] = lambda: None,
) -> dict[str, Timing]:
    """Time all ways in turn, round after round, so that noise hits each of them alike.

    Args:
        ways: what to call, by name.
        rounds: how often the turn is repeated.
        times: calls of each way in a round.
        device: where the work is done.
        warm: call each way once untimed first, to fill tables and caches.
        before: called untimed before each timed call, for example to clear a cache.
    """
    each = dict.fromkeys(ways, times) if isinstance(times, int) else times
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with one_thread():
        for way in ways.values() if warm else ():
            way()
        for _ in range(rounds):
            for name, way in ways.items():
                for _ in range(each[name]):
                    before()
                    seconds[name].append(seconds_of(way, device))
    return {name: Timing(tuple(taken)) for name, taken in seconds.items()}


def seconds_of(work: Callable[[], object], device: str = "cpu") -> float:
    """Seconds of one call, until the device has finished."""
    wait(device)
    began = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - began


def wait(device: str) -> None:
    """Wait until a CUDA device has finished."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement: its time, its reference, the quality of its answers, and its lower bound."""

    group: str
    what: str
    where: str = ""  # model and features
    amount: int = 1
    unit: str
    seconds: float  # median of the calls, for the whole amount
    low: float  # 5th percentile
    high: float  # 95th percentile
    p99: float
    calls: int
    reference: str = ""
    reference_amount: int = 1
    reference_seconds: float | None = None
    share: float | None = None  # objective reached ÷ the reference's, by the model's own ψ
    true_share: float | None = None  # the same by the true ψ of the policies chosen
    difference: str = ""  # which difference of the answers
    largest: float | None = None  # largest difference of the answers; None: nothing to compare
    limit: float | None = None  # largest difference allowed
    floor: str = ""  # what the lower bound counts
    floor_seconds: float | None = None  # lower bound of the time

    @classmethod
    def of(cls, timing: Timing, **rest: Any) -> "Row":
        """A row with the quantiles of a timing."""
        low, high = timing.quantile(0.05), timing.quantile(0.95)
        return cls(seconds=timing.median, low=low, high=high, p99=timing.p99, calls=timing.calls, **rest)

    def against(self, reference: str, timing: Timing, amount: int = 1) -> "Row":
        """The row with a reference timed in the same rounds."""
        return replace(self, reference=reference, reference_amount=amount, reference_seconds=timing.median)

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.amount / self.seconds

    @property
    def speedup(self) -> float | None:
        """Ratio to the reference, for the same amount of work."""
        return self._faster(self.seconds)

    @property
    def speedup_range(self) -> tuple[float, float] | None:
        """The ratio for the 95th and for the 5th percentile of the calls."""
        slow, fast = self._faster(self.high), self._faster(self.low)
        return None if slow is None or fast is None else (slow, fast)

    @property
    def counts(self) -> bool:
        """Whether the answers are as good as those of the reference."""
        return self.share is None or self.share >= EVEN

    @property
    def agrees(self) -> bool:
        """Whether the difference of the answers is within its limit."""
        return self.limit is None or (self.largest is not None and self.largest <= self.limit)

    @property
    def over_floor(self) -> float | None:
        """Ratio to the lower bound."""
        return None if self.floor_seconds is None else self.seconds / self.floor_seconds

    def to_json(self) -> dict[str, Any]:
        """The fields and the derived numbers."""
        follows = {name: getattr(self, name) for name in ("rate", "speedup", "counts", "agrees", "over_floor")}
        return {**asdict(self), **follows}

    def _faster(self, seconds: float) -> float | None:
        if self.reference_seconds is None:
            return None
        return self.amount / seconds * self.reference_seconds / self.reference_amount


Measure: TypeAlias = Callable[[Setting], Iterator[Row]]
