"""The run: its clock, and the page that watches it."""

import asyncio
import logging
import secrets
import time
from typing import Any

from zscout.live.server.connections import PageSocket
from zscout.live.server.limits import Limits
from zscout.live.server.messages import NOT_KEPT, MessageError, Reply, RunLostError, encode, notice
from zscout.live.server.worker import Worker

ELSEWHERE = 4409  # close code: the page was opened in another tab
SPEED = 5.0  # steps a second at first

log = logging.getLogger("zscout.live")


class WatchedRun:
    """The run in the worker process; one page has it at a time, and it stands still while none does."""

    def __init__(self, worker: Worker, limits: Limits) -> None:
        self.key: str | None = None  # nobody can guess it; None: there is no run
        self._page: PageSocket | None = None
        self._shown = False  # whether the page has begun or resumed the run
        self._worker, self._limits = worker, limits
        self._speed = SPEED
        self._playing = self._asks = self._ended = False
        self._settings: dict[str, Any] = {}
        self._running = asyncio.Event()
        self._lock = asyncio.Lock()  # one command at a time: its messages arrive together and in order

    async def take_over(self, page: PageSocket) -> None:
        """The run belongs to this page from now on; the page before is told."""
        before = self._page
        self._change_page(page)
        if before is not None:
            await before.close(ELSEWHERE, "opened in another tab")

    def leave(self, page: PageSocket) -> None:
        """A page is gone; its run is kept."""
        if page is self._page:
            self._change_page(None)

    async def do(self, page: PageSocket, name: str, fields: dict[str, Any]) -> None:
        """Do one valid message of a page."""
        self._check_page(page)
        opens = name in ("begin", "resume")
        if not opens and not self._shown:
            raise MessageError("there is no run yet: begin one")
        was_playing = self._playing
        if name == "speed":
            speed, low, high = fields["value"], self._limits.slowest, self._limits.fastest
            if isinstance(speed, bool) or not isinstance(speed, int | float) or not low <= speed <= high:
                raise MessageError(f"speed must be from {low} to {high} steps a second")
        if name in ("pause", "reset", "step"):
            self._playing = False  # no further step starts
            self._update_clock()
        async with self._lock:
            self._check_page(page)
            if name == "speed":
                self._speed = float(fields["value"])
            elif name == "play":
                self._playing = True
            if name in ("play", "pause", "speed") or (name == "step" and was_playing):
                await self._send_status(page)
            if name == "begin":
                await self._begin(page, fields["setup"])
            elif name == "resume":
                await self._resume(page, fields["run"], fields["after"])
            elif name == "reset":
                await self._ask(page, "reset", self._limits.steps)
            elif name not in ("play", "pause", "speed"):
                await self._ask(page, "command", name, fields)

    async def _begin(self, page: PageSocket, setup: Any) -> None:
        """Start a run; it replaces the old one if the set-up is valid."""
        key = secrets.token_urlsafe(16)
        reply = await self._worker.call("begin", key, setup, self._limits.steps)
        self.key, self._speed, self._playing = key, SPEED, False
        await self._show(page, reply)

    async def _resume(self, page: PageSocket, key: Any, after: Any) -> None:
        """Send a page what it has missed of the run."""
        if type(after) is not int or not -1 <= after <= self._limits.last_step:
            raise MessageError(f"after must be the last step that was seen, from -1 to {self._limits.last_step}")
        if self.key is None or key != self.key:
            raise RunLostError(NOT_KEPT)
        await self._show(page, await self._call("resume", after))

    async def _show(self, page: PageSocket, reply: Reply) -> None:
        self._shown = page is self._page
        await self._answer(page, reply, status=True)

    async def _ask(self, page: PageSocket, name: str, *arguments: Any) -> None:
        """Call the worker and send its messages; also the status, if it changed or nothing else is sent."""
        reply = await self._call(name, *arguments)
        await self._answer(page, reply, status=name != "command" or not reply.messages)

    async def _call(self, name: str, *arguments: Any) -> Reply:
        try:
            reply: Reply = await self._worker.call(name, self.key, *arguments)
        except RunLostError:
            self.key, self._playing = None, False
            raise
        return reply

    async def _answer(self, page: PageSocket, reply: Reply, status: bool) -> None:
        before = self._status()  # after the call: a change meanwhile sends its own status
        self._asks, self._ended, self._settings = reply.asks, reply.ended, reply.settings
        self._playing = self._playing and not reply.ended
        for message in reply.messages:
            await self._send(page, message)
        if status or self._status() != before:
            await self._send_status(page)
        self._update_clock()

    async def keep_time(self) -> None:
        """Take a step every 1/speed seconds while it plays; a delay of up to a second is made up for."""
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
                    page = self._page
                    if self._running.is_set() and page is not None:  # a command before may have stopped it
                        await self._step(page)
            except ConnectionError:
                self._change_page(None)
            except Exception:
                log.exception("a step of a live run failed")
                self._playing = False
                self._update_clock()

    async def _step(self, page: PageSocket) -> None:
        try:
            await self._ask(page, "command", "step", {})
        except RunLostError as lost:
            self._update_clock()
            await self._send(page, notice("gone", lost))

    def _status(self) -> dict[str, Any]:
        waiting = bool(self._asks and self._settings.get("wait"))
        return {"playing": self._playing, "waiting": waiting, "ended": self._ended, **self._settings}

    async def _send_status(self, page: PageSocket) -> None:
        await self._send(page, encode({"is": "status", "speed": self._speed, **self._status()}))
        self._update_clock()

    async def _send(self, page: PageSocket, message: bytes) -> None:
        """Send a message to a page, unless another has taken over: that one asks for all that it has missed."""
        try:
            if page is self._page:
                await page.send(message)
        except ConnectionError:
            if page is self._page:
                raise

    def _check_page(self, page: PageSocket) -> None:
        if page is not self._page:
            raise ConnectionError("another page has taken over")

    def _change_page(self, page: PageSocket | None) -> None:
        self._page, self._shown = page, False
        self._update_clock()

    def _update_clock(self) -> None:
        status = self._status()
        if self._shown and status["playing"] and not status["waiting"] and not status["ended"]:
            self._running.set()
        else:
            self._running.clear()
