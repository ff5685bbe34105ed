"""All visits: who is there, whose run waits for them to come back, and who must make room."""

import asyncio
import secrets
import time
from typing import Any

from zscout.live.limits import Limits
from zscout.live.line import Line
from zscout.live.messages import MessageError
from zscout.live.visit import Visit
from zscout.live.workers import NOT_KEPT, LostError, Workers

ELSEWHERE = 4409  # why a connection was closed
SWEEP = 5.0  # seconds between two looks at who has been away too long


class Visits:
    """Runs by their keys, which nobody can guess, and by the connections that watch them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_key: dict[str, Visit] = {}
        self._by_line: dict[Line, Visit] = {}
        self._workers: Workers | None = None

    def open(self, workers: Workers) -> None:
        """Where runs are held from now on."""
        self._workers = workers

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, line: Line) -> Visit | None:
        """The run that a page watches."""
        return self._by_line.get(line)

    async def begin(self, line: Line, setup: Any) -> None:
        """A new run, in the place of the page's old one once it is known to be possible."""
        assert self._workers is not None
        await self._make_room()
        visit, old = Visit(secrets.token_urlsafe(16), self._workers.least_busy(), self._limits), self._by_line.get(line)
        if old is not None:
            await old.hush()  # no frame of the old run may come after the new one has begun
        try:
            await visit.begin(line.send, setup)
        except BaseException:
            await visit.end()
            if old is not None and self._by_line.get(line) is old:
                old.heard_by(line.send)
            raise
        self._by_key[visit.key] = self._by_line[line] = visit
        if old is not None:
            await self._end(old)

    async def resume(self, line: Line, key: Any, after: Any) -> None:
        """Take a run up again; another page that has it is told that it is now elsewhere."""
        if type(after) is not int or not -1 <= after <= self._limits.steps:
            raise MessageError(f"after is the last step that was seen, from -1 to {self._limits.steps}")
        visit = self._by_key.get(key) if isinstance(key, str) else None
        if visit is None:
            raise LostError(NOT_KEPT)
        other = next((there for there, its in self._by_line.items() if its is visit and there is not line), None)
        old, self._by_line[line] = self._by_line.get(line), visit
        if other is not None:
            del self._by_line[other]
            visit.leave()
            await other.close(ELSEWHERE, "opened in another tab")
        if old is not None and old is not visit:
            await self._end(old)
        await visit.resume(line.send, after)

    def left_by(self, line: Line) -> None:
        """A page is gone; its run waits."""
        visit = self._by_line.pop(line, None)
        if visit is not None:
            visit.leave()

    async def sweep(self) -> None:
        """End the runs whose visitors do not come back."""
        while True:
            await asyncio.sleep(SWEEP)
            oldest = time.monotonic() - self._limits.keep
            for visit in self._waiting():
                if visit.left < oldest:
                    await self._end(visit)

    def _waiting(self) -> list[Visit]:
        """Runs that nobody watches, the longest first."""
        return sorted((v for v in self._by_key.values() if v.there is None), key=lambda visit: visit.left)

    async def _make_room(self) -> None:
        """Never more runs than visitors: whoever has been away longest gives way."""
        waiting = self._waiting()
        while len(self._by_key) >= self._limits.visitors and waiting:
            await self._end(waiting.pop(0))

    async def _end(self, visit: Visit) -> None:
        if self._by_key.pop(visit.key, None) is not None:
            await visit.end()
