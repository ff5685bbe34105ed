"""Visitors' runs: each with its clock and the page that watches it; kept for a while when a visitor disconnects."""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from zscout.live.server.connections import PageSocket
from zscout.live.server.limits import Limits
from zscout.live.server.messages import NOT_KEPT, MessageError, Reply, RunLostError, encode, notice
from zscout.live.server.workers import Worker

SendToPage: TypeAlias = Callable[[bytes], Awaitable[None]]
ELSEWHERE = 4409  # close code: the run was opened in another tab

log = logging.getLogger("zscout.live")


class Visit:
    """A run in a worker process, its clock, and where its frames go; it stands still while nobody watches."""

    def __init__(self, key: str, worker: Worker, limits: Limits, memory: Path | None = None) -> None:
        self.key, self._memory = key, memory
        self.send: SendToPage | None = None  # None: nobody watches
        self.left = time.monotonic()  # when a page last came or went
        self._worker, self._limits = worker, limits
        self._speed = 5.0  # steps a second
        self._playing = self._asks = self._ended = False
        self._settings: dict[str, Any] = {}
        self._running = asyncio.Event()
        self._lock = asyncio.Lock()  # one command at a time: its messages arrive together and in order
        worker.runs += 1
        self._clock = asyncio.create_task(self._run_clock())

    def attach(self, send: SendToPage | None) -> None:
        """Send frames there from now on; None: to nobody."""
        self.send, self.left = send, time.monotonic()
        self._update_clock()

    async def detach(self) -> None:
        """Stop sending; returns when nothing is on its way."""
        self.attach(None)
        async with self._lock:
            pass

    async def open(self, send: SendToPage, name: str, *arguments: Any) -> None:
        """Begin or resume the run in a page."""
        await self.detach()  # what is on its way is for the old page; the new one gets all of it
        self.attach(send)
        async with self._lock:
            await self._ask(name, self.key, *arguments)

    async def end(self) -> None:
        """Delete the run."""
        self._clock.cancel()
        self._worker.runs -= 1
        with contextlib.suppress(RunLostError):
            await self._worker.call("forget", self.key)

    async def do(self, name: str, fields: dict[str, Any]) -> None:
        """Do one valid message of the page."""
        was_playing = self._playing
        if name == "speed":
            speed, low, high = fields["value"], self._limits.slowest, self._limits.fastest
            if isinstance(speed, bool) or not isinstance(speed, int | float) or not low <= speed <= high:
                raise MessageError(f"speed must be from {low} to {high} steps a second")
        if name in ("pause", "reset", "step"):
            self._playing = False  # no further step starts
            self._update_clock()
        async with self._lock:
            if name == "speed":
                self._speed = float(fields["value"])
            elif name == "play":
                self._playing = True
            if name in ("play", "pause", "speed") or (name == "step" and was_playing):
                await self._send_status()
            if name == "reset":
                await self._ask("reset", self.key, self._limits.steps, self._memory)
            elif name not in ("play", "pause", "speed"):
                await self._ask("command", self.key, name, fields)

    async def _ask(self, name: str, *arguments: Any) -> None:
        """Call the worker and send its messages; also the status, if it changed or nothing else is sent."""
        # Long work waits where other runs share the process, so that their steps stay on time.
        long = self._worker.runs > 1 and (name == "resume" or "trace" in arguments)
        async with self._worker.long_work.turn() if long else contextlib.nullcontext():
            reply: Reply = await self._worker.call(name, *arguments)
        before = self._status()  # after the call: a change meanwhile sends its own status
        self._asks, self._ended, self._settings = reply.asks, reply.ended, reply.settings
        self._playing = self._playing and not reply.ended
        for message in reply.messages:
            await self._send_message(message)
        if self._status() != before or name != "command" or not reply.messages:
            await self._send_status()
        self._update_clock()

    async def _run_clock(self) -> None:
        """One step every 1/speed seconds while it plays; a delay of up to a second is made up for."""
        due = time.monotonic()
        while True:
            paused = not self._running.is_set()
            await self._running.wait()
            now = time.monotonic()
            due = (now if paused or now - due > 1.0 else due) + 1 / self._speed
            while (left := due - time.monotonic()) > 0 and self._running.is_set():
                await asyncio.sleep(min(left, 0.1))  # the speed may change meanwhile
                due = min(due, time.monotonic() + 1 / self._speed)
            try:
                async with self._lock:
                    if self._running.is_set():  # a command before this step may have stopped it
                        await self._ask("command", self.key, "step", {})
            except RunLostError as lost:
                with contextlib.suppress(ConnectionError):
                    await self._send_message(notice("gone", lost))
                self.attach(None)
            except ConnectionError:
                self.attach(None)
            except Exception:
                log.exception("a step of a live run failed")
                self._playing = False
                self._update_clock()

    def _status(self) -> dict[str, Any]:
        waiting = bool(self._asks and self._settings.get("wait"))
        return {"playing": self._playing, "waiting": waiting, "ended": self._ended, **self._settings}

    async def _send_status(self) -> None:
        await self._send_message(encode({"is": "status", "speed": self._speed, **self._status()}))
        self._update_clock()

    async def _send_message(self, message: bytes) -> None:
        send = self.send
        if send is not None:
            try:
                await send(message)
            except ConnectionError:
                if self.send is send:  # no other page has taken over
                    raise

    def _update_clock(self) -> None:
        status = self._status()
        if status["playing"] and not status["waiting"] and not status["ended"] and self.send is not None:
            self._running.set()
        else:
            self._running.clear()


class Visits:
    """All runs by key, which nobody can guess, and by the page that watches."""

    def __init__(self, limits: Limits, memory: Path | None = None) -> None:
        self._limits, self._memory = limits, memory
        self._by_key: dict[str, Visit] = {}
        self._by_page: dict[PageSocket, Visit] = {}
        self.workers: Sequence[Worker] = ()

    def __len__(self) -> int:
        return len(self._by_key)

    async def do(self, page: PageSocket, name: str, fields: dict[str, Any]) -> None:
        """Do one valid message of a page."""
        visit = self._by_page.get(page)
        if name == "begin":
            await self._begin(page, fields["setup"])
        elif name == "resume":
            await self._resume(page, fields["run"], fields["after"])
        elif visit is None:
            raise MessageError("there is no run yet: begin one")
        else:
            await visit.do(name, fields)

    async def _begin(self, page: PageSocket, setup: Any) -> None:
        """Start a run; it replaces the page's old run if the set-up is valid."""
        away = self._away()
        while len(self) >= self._limits.visitors and away:  # make room: the longest away goes first
            await self._end(away.pop(0))
        worker = min(self.workers, key=lambda worker: worker.runs)
        visit = Visit(secrets.token_urlsafe(16), worker, self._limits, self._memory)
        old = self._by_page.get(page)
        if old is not None:
            await old.detach()  # no frame of the old run may follow the start of the new one
        try:
            await visit.open(page.send, "begin", setup, self._limits.steps, self._memory)
        except BaseException:
            await visit.end()
            if old is not None and self._by_page.get(page) is old:
                old.attach(page.send)
            raise
        self._by_key[visit.key] = self._by_page[page] = visit
        if old is not None:
            await self._end(old)

    async def _resume(self, page: PageSocket, key: Any, after: Any) -> None:
        """Continue a run in this page; another page that has it is closed."""
        if type(after) is not int or not -1 <= after <= self._limits.last_step:
            raise MessageError(f"after must be the last step that was seen, from -1 to {self._limits.last_step}")
        visit = self._by_key.get(key) if isinstance(key, str) else None
        if visit is None:
            raise RunLostError(NOT_KEPT)
        other = next((one for one, its in self._by_page.items() if its is visit and one is not page), None)
        old, self._by_page[page] = self._by_page.get(page), visit
        if other is not None:
            del self._by_page[other]
            visit.attach(None)
            await other.close(ELSEWHERE, "opened in another tab")
        if old is not None and old is not visit:
            await self._end(old)
        await visit.open(page.send, "resume", after)

    def disconnect(self, page: PageSocket) -> None:
        """A page is gone; its run is kept."""
        visit = self._by_page.pop(page, None)
        if visit is not None:
            visit.attach(None)

    async def sweep(self) -> None:
        """End the runs whose visitors stay away too long; never returns."""
        while True:
            await asyncio.sleep(5.0)
            for visit in self._away():
                if visit.left < time.monotonic() - self._limits.keep_seconds:
                    await self._end(visit)

    def _away(self) -> list[Visit]:
        return sorted((visit for visit in self._by_key.values() if visit.send is None), key=lambda visit: visit.left)

    async def _end(self, visit: Visit) -> None:
        if self._by_key.pop(visit.key, None) is not None:
            await visit.end()
