"""A visit's clock and its answers, with a worker that the test holds back: no process, no socket."""

import asyncio
import json
from typing import Any

from zscout.live.limits import Limits
from zscout.live.messages import Told, message
from zscout.live.visit import Visit
from zscout.live.workers import Worker

SETTINGS = {"noise": 0.1, "silence": "nothing", "wait": True}


class Held(Worker):
    """Does each call only when the test lets it."""

    def __init__(self) -> None:
        self.runs = 0
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
            return Told([message({"is": "frame", "step": self.step})], settings=SETTINGS)
        return Told([], settings=SETTINGS)


def test_nothing_says_that_it_runs_after_the_pause_was_answered() -> None:
    async def scene() -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = []

        async def send(answer: bytes) -> None:
            said.append(json.loads(answer))

        worker = Held()
        visit = Visit("key", worker, Limits(fastest=1_000.0))
        await visit.begin(send, {})
        await visit.do("speed", {"value": 1_000.0})
        await visit.do("play", {})
        worker.let.clear()
        worker.asked.clear()
        await worker.asked.wait()  # a step is on its way
        said.clear()
        pausing = asyncio.create_task(visit.do("pause", {}))
        for _ in range(10):
            await asyncio.sleep(0)
        assert said == []  # it still has to come
        worker.let.set()
        await pausing
        await asyncio.sleep(0.05)  # fifty steps, if it went on
        await visit.do("speed", {"value": 2})
        await visit.end()
        return said

    frame, paused, changed = asyncio.run(scene())
    assert (frame["is"], paused["is"], changed["is"]) == ("frame", "status", "status")
    assert (paused["playing"], paused["speed"]) == (False, 1_000)
    assert (changed["playing"], changed["speed"]) == (False, 2)
