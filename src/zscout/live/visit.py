"""One visitor's run with its clock: it outlives its connection, and stands still while nobody is there."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from zscout.live.limits import Limits
from zscout.live.messages import MessageError, Told, gone, message
from zscout.live.workers import LostError, Worker

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
MADE_UP = 1.0  # seconds of delay that a clock makes up for
NAP = 0.1  # seconds after which a clock looks whether its speed was changed

log = logging.getLogger("zscout.live")


class Visit:
    """A run, whether it plays, and to whom its frames go."""

    def __init__(self, key: str, worker: Worker, limits: Limits) -> None:
        self.key = key
        self.left = time.monotonic()  # when its visitor was last there
        self._worker, self._limits = worker, limits
        self._send: Send | None = None
        self._speed = 5.0
        self._playing = self._asks = self._ended = False
        self._settings: dict[str, Any] = {}
        self._goes = asyncio.Event()
        self._turn = asyncio.Lock()  # one command at a time: its answers arrive together, and in order
        worker.runs += 1
        self._clock = asyncio.create_task(self._tick())

    # Coming and going

    async def begin(self, send: Send, setup: Any) -> None:
        """The first thing that is asked of it."""
        self._send = send
        await self._ask("begin", self.key, setup, self._limits.steps)

    async def resume(self, send: Send, after: Any) -> None:
        """Another connection takes it up, after a step that it has seen."""
        await self.hush()  # what was on its way is not for the new one, which is told of all of it
        self._send = send
        await self._ask("resume", self.key, after)

    @property
    def there(self) -> Send | None:
        """To whom frames go; None while nobody is there."""
        return self._send

    async def hush(self) -> None:
        """Nothing more goes to its visitor; what is on its way has arrived."""
        self.leave()
        async with self._turn:
            pass

    def heard_by(self, send: Send) -> None:
        """Its visitor is there again, as if nothing had been."""
        self._send = send
        self._look()

    def leave(self) -> None:
        """The connection is lost; the run waits."""
        self._send, self.left = None, time.monotonic()
        self._look()

    async def end(self) -> None:
        """For good."""
        self._clock.cancel()
        self._worker.runs -= 1
        with contextlib.suppress(LostError):
            await self._worker.call("forget", self.key)

    # What the page says

    async def do(self, what: str, fields: dict[str, Any]) -> None:
        """One message that was understood."""
        match what:
            case "play":
                async with self._turn:
                    self._playing = True
                    await self._status()
            case "pause":
                await self._pause()
            case "speed":
                speed = self._within(fields["value"])
                async with self._turn:
                    self._speed = speed
                    await self._status()
            case "reset":
                self._stop()
                await self._ask("reset", self.key, self._limits.steps)
            case "step":
                if self._playing:
                    await self._pause()
                await self._ask("tell", self.key, what, fields)
            case _:
                await self._ask("tell", self.key, what, fields)

    # How

    async def _pause(self) -> None:
        """No step begins from now on; the answer comes after the one that was on its way."""
        self._stop()
        async with self._turn:
            await self._status()

    async def _ask(self, name: str, *arguments: Any) -> None:
        """Have it done over there, send the answers, and the status where it changed or is the answer."""
        async with self._turn:
            await self._ask_now(name, *arguments)

    async def _ask_now(self, name: str, *arguments: Any) -> None:
        told: Told = await self._call(name, *arguments)
        before = self._now()  # only now: what was said meanwhile has a status of its own
        self._asks, self._ended, self._settings = told.asks, told.ended, told.settings
        self._playing = self._playing and not told.ended
        for answer in told.answers:
            await self._say(answer)
        if self._now() != before or name != "tell" or not told.answers:
            await self._status()
        self._look()

    async def _call(self, name: str, *arguments: Any) -> Any:
        """What takes long waits where others have runs in the same process, so that their steps keep their pace."""
        if self._worker.runs > 1 and (name == "resume" or "trace" in arguments):
            async with self._worker.share.turn():
                return await self._worker.call(name, *arguments)
        return await self._worker.call(name, *arguments)

    async def _tick(self) -> None:
        """A step each 1/speed seconds while it plays; a delay is made up for, unless it was a long one."""
        due = time.monotonic()
        while True:
            stood = not self._goes.is_set()
            await self._goes.wait()
            now = time.monotonic()
            due = (now if stood or now - due > MADE_UP else due) + 1 / self._speed
            while (left := due - time.monotonic()) > 0 and self._goes.is_set():
                await asyncio.sleep(min(left, NAP))
                due = min(due, time.monotonic() + 1 / self._speed)
            if self._goes.is_set():
                await self._play_on()

    async def _play_on(self) -> None:
        try:
            async with self._turn:
                if self._goes.is_set():  # still: what came before may have stopped it
                    await self._ask_now("tell", self.key, "step", {})
        except LostError as lost:
            with contextlib.suppress(ConnectionError):
                await self._say(gone(lost))
            self.leave()
        except ConnectionError:
            self.leave()
        except Exception:
            log.exception("a step of a live run failed")
            self._playing = False
            self._look()

    def _now(self) -> dict[str, Any]:
        waiting = bool(self._asks and self._settings.get("wait"))
        return {"playing": self._playing, "waiting": waiting, "ended": self._ended, **self._settings}

    async def _status(self) -> None:
        await self._say(message({"is": "status", "speed": self._speed, **self._now()}))
        self._look()

    async def _say(self, answer: bytes) -> None:
        send = self._send
        if send is not None:
            try:
                await send(answer)
            except ConnectionError:
                if self._send is send:  # and nobody else has come for it
                    raise

    def _stop(self) -> None:
        self._playing = False
        self._look()

    def _look(self) -> None:
        """Whether the clock goes."""
        now = self._now()
        if now["playing"] and not now["waiting"] and not now["ended"] and self._send is not None:
            self._goes.set()
        else:
            self._goes.clear()

    def _within(self, speed: Any) -> float:
        low, high = self._limits.slowest, self._limits.fastest
        if isinstance(speed, bool) or not isinstance(speed, int | float) or not low <= speed <= high:
            raise MessageError(f"speed is from {low} to {high} steps a second")
        return float(speed)
