"""Long work in turn, and only for a part of the time: the rest is for everybody's steps."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

PART = 0.25  # of a process's time


class Share:
    """One at a time, in the order they came; after work of t seconds nothing begins for t (1/part − 1) seconds."""

    def __init__(
        self,
        part: float = PART,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._rest, self._clock, self._sleep = 1 / part - 1, clock, sleep
        self._lock = asyncio.Lock()
        self._next = clock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """When it is this one's turn."""
        async with self._lock:
            if (left := self._next - self._clock()) > 0:
                await self._sleep(left)
            began = self._clock()
            try:
                yield
            finally:
                now = self._clock()
                self._next = now + self._rest * (now - began)
