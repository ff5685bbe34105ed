"""The clock of a run and its messages, with a fake worker: no process, no socket."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from zscout.live.server.connections import PageSocket
from zscout.live.server.limits import Limits
from zscout.live.server.messages import Reply, encode
from zscout.live.server.watched_run import WatchedRun
from zscout.live.server.worker import Worker

SETTINGS = {"noise": 0.1, "silence": "nothing", "wait": True}


class FakeWorker(Worker):
    """Answers each call when the test allows it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let = asyncio.Event()
        self.let.set()
        self.step = 0

    async def call(self, name: str, *arguments: Any) -> Any:
        self.asked.set()
        await self.let.wait()
        self.asked.clear()
        if "step" in arguments:
            self.step += 1
            return Reply([encode({"is": "frame", "step": self.step})], settings=SETTINGS)
        return Reply([], settings=SETTINGS)


class FakePage:
    """Records what it is sent."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []
        self.code = 0

    async def send(self, message: bytes) -> None:
        self.said.append(json.loads(message))

    async def close(self, code: int, reason: str) -> None:
        self.code = code


Sleep = Callable[[float], Awaitable[None]]


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> Sleep:
    """Time goes on by what is slept, at once."""
    now, yields = [0.0], asyncio.sleep

    async def sleep(seconds: float) -> None:
        now[0] += seconds
        await yields(0)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(asyncio, "sleep", sleep)
    return sleep


async def playing(run: WatchedRun, page: PageSocket) -> "asyncio.Task[None]":
    clock = asyncio.create_task(run.keep_time())
    await run.take_over(page)
    await run.do(page, "begin", {"setup": {}})
    await run.do(page, "speed", {"value": 1_000.0})
    await run.do(page, "play", {})
    return clock


def test_no_status_says_playing_after_a_pause_was_confirmed(sleep: Sleep) -> None:
    async def scene() -> list[dict[str, Any]]:
        worker, fake = FakeWorker(), FakePage()
        run, page = WatchedRun(worker, Limits(fastest=1_000.0)), cast(PageSocket, fake)
        clock = await playing(run, page)
        worker.let.clear()
        worker.asked.clear()
        await worker.asked.wait()  # a step is in progress
        fake.said.clear()
        pausing = asyncio.create_task(run.do(page, "pause", {}))
        for _ in range(10):
            await sleep(0)
        assert fake.said == []  # the pause waits for the step
        worker.let.set()
        await pausing
        for _ in range(50):  # fifty steps, if it did not pause
            await sleep(0.001)
        await run.do(page, "speed", {"value": 2})
        clock.cancel()
        return fake.said

    frame, paused, changed = asyncio.run(scene())
    assert (frame["is"], paused["is"], changed["is"]) == ("frame", "status", "status")
    assert (paused["playing"], paused["speed"]) == (False, 1_000)
    assert (changed["playing"], changed["speed"]) == (False, 2)


def test_a_page_that_takes_over_gets_nothing_before_it_resumes(sleep: Sleep) -> None:
    async def scene() -> tuple[FakePage, FakePage]:
        worker, first, second = FakeWorker(), FakePage(), FakePage()
        run, old, new = WatchedRun(worker, Limits(fastest=1_000.0)), cast(PageSocket, first), cast(PageSocket, second)
        clock = await playing(run, old)
        worker.let.clear()
        worker.asked.clear()
        await worker.asked.wait()  # a step is in progress
        first.said.clear()
        await run.take_over(new)
        worker.let.set()
        for _ in range(50):
            await sleep(0.001)
        steps = worker.step
        with pytest.raises(ConnectionError, match="taken over"):
            await run.do(old, "pause", {})
        assert (first.said, second.said, first.code, second.code) == ([], [], 4409, 0)
        await run.do(new, "resume", {"run": run.key, "after": -1})
        for _ in range(50):
            await sleep(0.001)
        assert worker.step > steps
        clock.cancel()
        return first, second

    first, second = asyncio.run(scene())
    assert first.said == []
    assert [second.said[0]["is"], second.said[0]["playing"], second.said[1]["is"]] == ["status", True, "frame"]
