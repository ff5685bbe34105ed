"""Seconds, fairly: all ways in turn and again, so that noise hits each of them alike."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Timing:
    """How long each call of one way took."""

    seconds: tuple[float, ...]

    @property
    def calls(self) -> int:
        """How many."""
        return len(self.seconds)

    @property
    def median(self) -> float:
        """Half of the calls took no longer."""
        return self.quantile(0.5)

    @property
    def p99(self) -> float:
        """All but one in a hundred took no longer; of fewer calls, nearly the slowest."""
        return self.quantile(0.99)

    def quantile(self, share: float) -> float:
        """That share of the calls took no longer."""
        return float(np.quantile(self.seconds, share))


class Kept:
    """A piece of work that keeps its last answer."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        self.answer: Any = None
        self._work, self._arguments = work, arguments

    def __call__(self) -> None:
        """Do it."""
        self.answer = self._work(*self._arguments)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one core, whatever it had before."""
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
    """Each way once untimed if ``warm``, for its tables and caches; then in every round each way so many ``times``.

    ``before`` every timed call, untimed: what a run would not have known by then can be forgotten there.
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
    """One call alone; a device that answers before it has done the work is waited for."""
    wait(device)
    began = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - began


def wait(device: str) -> None:
    """Until everything asked of the device is done."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
