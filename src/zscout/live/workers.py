"""Processes that hold the runs: visitors use all cores, and the server never waits for a step."""

import asyncio
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from zscout.live.limits import TimeShare
from zscout.live.messages import RunLostError
from zscout.processes import WorkerPool

ATTEMPTS = {"hello": 3, "begin": 3}  # calls that can be repeated in a new process


class Worker:
    """One process; it does its calls one by one, in order. A run stays in the process where it began."""

    def __init__(self) -> None:
        self.runs = 0
        self.long_work = TimeShare()
        self._pool = WorkerPool(1)

    async def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of ``live.run`` in the process; raises ``RunLostError`` if the run or process is gone."""
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

    from zscout.live import run

    with torch.inference_mode():
        return getattr(run, name)(*arguments)
