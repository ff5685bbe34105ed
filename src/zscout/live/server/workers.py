"""Processes that hold the runs: visitors use all cores, and the server never waits for a step."""

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager
from typing import Any

from zscout.base.processes import WorkerPool
from zscout.live.server.messages import RunLostError

ATTEMPTS = {"hello": 3, "begin": 3}  # calls that can be repeated in a new process


class TimeShare:
    """Long work one at a time, in order of arrival, for at most a share of the time; the rest is for steps.

    After work of t seconds, nothing starts for t (1/share − 1) seconds.
    """

    def __init__(self, share: float = 0.25) -> None:
        self._rest = 1 / share - 1
        self._lock = asyncio.Lock()
        self._next = time.monotonic()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for this work's turn."""
        async with self._lock:
            if (left := self._next - time.monotonic()) > 0:
                await asyncio.sleep(left)
            began = time.monotonic()
            try:
                yield
            finally:
                now = time.monotonic()
                self._next = now + self._rest * (now - began)


class Worker:
    """One process; it does its calls one by one, in order. A run stays in the process where it began."""

    def __init__(self) -> None:
        self.runs = 0
        self.long_work = TimeShare()
        self._pool = WorkerPool(1)

    async def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of ``live.worker_calls`` there; raises ``RunLostError`` if the run or process is gone."""
        for _ in range(ATTEMPTS.get(name, 1)):
            pool = self._pool
            try:
                return await asyncio.wrap_future(pool.submit(_call, name, *arguments))
            except BrokenProcessPool:
                if pool is self._pool:  # several calls can fail together: the first one restarts it
                    self._pool = WorkerPool(1)
        raise RunLostError("The process of this run ended and was restarted.")

    def end(self) -> None:
        """Stop the process at once."""
        self._pool.terminate()
        self._pool.shutdown(cancel_futures=True)


def _call(name: str, *arguments: Any) -> Any:
    # Imported in the worker only: the server process does not load torch.
    import torch

    from zscout.live.server import worker_calls

    with torch.inference_mode():
        return getattr(worker_calls, name)(*arguments)
