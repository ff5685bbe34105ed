"""The clock of a visit and its messages, with a fake worker: no process, no socket."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from zscout.live.server.limits import PRICES, Limits, TokenBucket
from zscout.live.server.messages import Reply, encode
from zscout.live.server.visits import Visit
from zscout.live.server.workers import TimeShare, Worker

SETTINGS = {"noise": 0.1, "silence": "nothing", "wait": True}


class FakeWorker(Worker):
    """Answers each call when the test allows it."""

    def __init__(self) -> None:
        self.runs = 0
        self.long_work = TimeShare()
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


def test_no_status_says_playing_after_a_pause_was_confirmed(sleep: Sleep) -> None:
    async def scene() -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = []

        async def send(answer: bytes) -> None:
            said.append(json.loads(answer))

        worker = FakeWorker()
        visit = Visit("key", worker, Limits(fastest=1_000.0))
        await visit.open(send, "begin", {})
        await visit.do("speed", {"value": 1_000.0})
        await visit.do("play", {})
        worker.let.clear()
        worker.asked.clear()
        await worker.asked.wait()  # a step is in progress
        said.clear()
        pausing = asyncio.create_task(visit.do("pause", {}))
        for _ in range(10):
            await sleep(0)
        assert said == []  # the pause waits for the step
        worker.let.set()
        await pausing
        for _ in range(50):  # fifty steps, if it did not pause
            await sleep(0.001)
        await visit.do("speed", {"value": 2})
        await visit.end()
        return said

    frame, paused, changed = asyncio.run(scene())
    assert (frame["is"], paused["is"], changed["is"]) == ("frame", "status", "status")
    assert (paused["playing"], paused["speed"]) == (False, 1_000)
    assert (changed["playing"], changed["speed"]) == (False, 2)


def test_expensive_messages_count_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    bucket, taken = TokenBucket(Limits().burst, Limits().rate), {"trace": 0, "pause": 0}
    for tick in range(45 * 20):  # 45 traces a second for 20 seconds
        now = tick / 45
        taken["trace"] += bucket.take(PRICES["trace"])
    assert taken["trace"] == pytest.approx(4 + 2 * 20, abs=1)  # four at once, then two a second
    now += 10
    for _ in range(45 * 20):
        now += 1 / 45
        taken["pause"] += bucket.take()
    assert taken["pause"] == 45 * 20  # plain messages are all allowed


def test_long_work_is_done_in_turn_and_takes_a_quarter_of_the_time(sleep: Sleep) -> None:
    done: list[str] = []

    async def scene() -> None:
        share = TimeShare(0.25)

        async def visitor(name: str, times: int) -> None:
            for _ in range(times):
                async with share.turn():
                    await sleep(0.1)  # a trace
                    done.append(name)

        await asyncio.gather(visitor("greedy", 20), visitor("other", 3))

    asyncio.run(scene())
    assert done[:6] == ["greedy", "other"] * 3
    assert time.monotonic() == pytest.approx(23 * 0.1 + 22 * 0.3)


def test_long_work_waits_only_where_others_have_runs() -> None:
    async def scene() -> list[str]:
        worker, order = FakeWorker(), []
        visits = [Visit(key, worker, Limits()) for key in ("one", "other")]

        async def send(_: bytes) -> None:
            pass

        for visit in visits:
            await visit.open(send, "begin", {})
        async with worker.long_work.turn():
            waiting = asyncio.create_task(visits[0].do("trace", {}))
            waiting.add_done_callback(lambda _: order.append("trace"))
            for _ in range(5):
                await visits[1].do("step", {})
            order.append("steps")
        await waiting
        await visits[1].end()
        async with worker.long_work.turn():
            await visits[0].do("trace", {})  # alone: at once
        await visits[0].end()
        return order

    assert asyncio.run(scene()) == ["steps", "trace"]
