"""The process that holds the run: the server never waits for a step."""

import asyncio
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from zscout.base.processes import WorkerPool
from zscout.live.server.messages import RunLostError

ATTEMPTS = {"hello": 3, "begin": 3}  # calls that can be repeated in a new process


class Worker:
    """One process; it does its calls one by one, in order."""

    def __init__(self) -> None:
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
