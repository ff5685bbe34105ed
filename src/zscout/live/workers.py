"""Processes that hold the runs: one thread each, so that visitors share all cores and the page's server never waits."""

import asyncio
import itertools
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from zscout.live.messages import NoRunError
from zscout.live.shares import Share
from zscout.processes import begin_worker

FRESH = ("hello", "begin")  # calls that lose nothing by being made again in a new process
TRIES = 3  # of those
ENDED = "The process that held this run ended and was started again."
NOT_KEPT = "The server no longer keeps this run."


class LostError(Exception):
    """A run is gone, and why, in words for the page."""


class Worker:
    """One process; calls are done one after the other, in the order they came."""

    def __init__(self) -> None:
        self.runs = 0
        self.share = Share()  # of what takes long
        self._pool = _pool()

    async def call(self, name: str, *arguments: Any) -> Any:
        """What a function of ``holding`` answers over there; ``LostError`` if its run or its process is gone."""
        for _ in range(TRIES if name in FRESH else 1):
            pool = self._pool
            try:
                return await asyncio.wrap_future(pool.submit(_held, name, *arguments))
            except NoRunError:
                raise LostError(NOT_KEPT) from None
            except BrokenProcessPool:
                if pool is self._pool:  # of several that waited, the first one mends it
                    self._pool = _pool()
        raise LostError(ENDED)

    def end(self) -> None:
        """Now, whatever it does."""
        for process in list((self._pool._processes or {}).values()):
            process.terminate()
        self._pool.shutdown(cancel_futures=True)  # with nobody left to wait for, the threads that watched end at once


class Workers:
    """Several; a run stays where it was begun."""

    def __init__(self, count: int) -> None:
        self._all = [Worker() for _ in range(count)]
        self._turn = itertools.cycle(self._all)

    def least_busy(self) -> Worker:
        """The one with the fewest runs, each in its turn."""
        return min((next(self._turn) for _ in self._all), key=lambda worker: worker.runs)

    async def call_all(self, name: str, *arguments: Any) -> list[Any]:
        """The same of each."""
        return list(await asyncio.gather(*(worker.call(name, *arguments) for worker in self._all)))

    def end(self) -> None:
        """All of them."""
        for worker in self._all:
            worker.end()


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=begin_worker)


def _held(name: str, *arguments: Any) -> Any:
    # Imported over there only: the process that serves the page needs no torch.
    import torch

    from zscout.live import holding

    with torch.inference_mode():
        return getattr(holding, name)(*arguments)
