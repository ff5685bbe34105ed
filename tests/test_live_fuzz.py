"""Thousands of hostile messages: each is answered, none has an effect, and the run continues."""

import asyncio
import json
import logging
import os
import random
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette

from live import SERVE, SMALL, SMALL_MAZE, Page, page, resident, served
from waiting import PATIENCE
from zscout.live.server import server
from zscout.live.server import worker_calls as worker_side
from zscout.live.server.limits import Limits
from zscout.live.server.messages import FIELDS, RunLostError
from zscout.live.server.worker import Worker

TAINTED = ("etc/passwd", "zscout_hostile", "os:system", "__import__")
RAW = {  # what json.dumps would not write
    "@nan@": "NaN",
    "@infinity@": "-Infinity",
    "@overflow@": "1e999",
    "@zero@": "-0",
    "@octal@": "01",
    "@long@": "9" * 3_900,
    "@deep@": "[" * 700 + "]" * 700,
    "@nested@": "[" * 40 + "1" + "]" * 40,
    "@objects@": '{"a":' * 300 + "0" + "}" * 300,
    "@open@": '{"a":' * 50,
    "@undefined@": "undefined",
}
VALUES: list[Any] = [
    *RAW,
    *(None, True, False, 0, -1, 1, 5, 80, 81, 0.5, -0.0, 1e308, 5e-324, 2**31, 2**63, 2**64 - 1, -(10**400)),
    *("", "0", "x" * 3_000, "\ud800", "\udfff\x00", "\x00", "\u202e", "🎉" * 200, "usf-ucb", "hidden", "nothing"),
    *("<script>alert(1)</script>", "'; DROP TABLE runs;--", "${jndi:ldap://x}", "%s%n%x", "{{7*7}}", "toString"),
    *("../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "..\\..\\etc/passwd", "C:\\etc/passwd", "os:system"),
    *("zscout_hostile:run", "zscout_hostile", "__import__('os').system('true')", "random.__class__", "maze\n", "Maze"),
    *([], {}, [[]], [{}], [None], [0], [0, 80], [81], [1.0], [True], ["0"], list(range(81)), [0] * 900, [[1], [2, 3]]),
    *({"task": 1}, {"task": None}, {"table": [0.0] * 81}, {"table": [10**400]}, {"task": 1, "table": []}, {"": {}}),
    *({"__proto__": {"polluted": True}}, {"constructor": {"prototype": {}}}, {"do": "step"}, {"world": {"world": 1}}),
    *([416], {"table": [0.0] * 416}),  # sizes of the point maze
]
NAMES = ("", "do", "Do", "step", "value", "key", "self", "__proto__", "__class__", "constructor", "x" * 500, "\x00")
PARTS = (
    "world",
    "features",
    "model",
    "methods",
    "who",
    "noise",
    "may_change",
    "silence",
    "wait",
    "seed",
    "reward",
    "task",
)


def valid(rng: random.Random) -> dict[str, Any]:
    """A valid message."""
    said: list[dict[str, Any]] = [
        {"do": "step"},
        {"do": "play"},
        {"do": "pause"},
        {"do": "speed", "value": rng.choice((0.5, 5, 30))},
        {"do": "paint", "cells": rng.sample(range(81), 3), "value": rng.randint(-10, 10)},
        {"do": "task", "number": rng.randrange(10**6)},
        {"do": "clear"},
        {"do": "noise", "value": rng.random()},
        {"do": "give", "step": rng.randrange(4), "value": rng.randint(-10, 10)},
        {"do": "skip", "step": rng.randrange(4)},
        {"do": "silence", "value": rng.choice(("nothing", "zero"))},
        {"do": "wait", "value": rng.random() < 0.5},
        {"do": "export"},
        {"do": "behaviour"},
        {"do": "clips"},
        {"do": "prefer", "number": rng.randrange(3), "better": rng.choice((0, 1, None))},
        {"do": "show", "z": rng.choice((None, [0.1] * 50))},
        {"do": "thumb", "step": rng.randrange(4), "value": rng.randint(-10, 10), "pace": rng.choice((0.5, 30))},
        {"do": "reset"},
        {"do": "resume", "run": "A" * 22, "after": rng.randrange(10)},
        {"do": "begin", "setup": {**SMALL, "seed": rng.randrange(99), "who": rng.choice(("hidden", "person"))}},
        {"do": "begin", "setup": {**SMALL_MAZE, "seed": rng.randrange(99), "who": rng.choice(("hidden", "person"))}},
    ]
    return rng.choice(said)


def hostile(rng: random.Random) -> str:
    """A message with something wrong; a few are valid by chance."""
    said = valid(rng)
    kind = rng.randrange(10)
    if kind <= 3 and len(said) > 1:
        said[rng.choice([name for name in said if name != "do"])] = rng.choice(VALUES)
    elif kind == 4:
        said[rng.choice(NAMES)] = rng.choice(VALUES)
    elif kind == 5:
        del said[rng.choice(list(said))]
    elif kind == 6:
        said["do"] = rng.choice([*VALUES, *NAMES, *FIELDS, "forget", "begun", "_hide", "_frames", "setup", "hello"])
    else:
        setup = rng.choice((SMALL, SMALL_MAZE))
        said = {"do": "begin", "setup": {**setup, rng.choice((*PARTS, *NAMES)): rng.choice(VALUES)}}
    text = json.dumps(said, ensure_ascii=rng.random() < 0.5)
    for name, raw in RAW.items():
        text = text.replace(f'"{name}"', raw)
    kind = rng.randrange(20)
    if kind == 0:
        return text[: rng.randrange(len(text))]
    if kind == 1:  # one character replaced
        place = rng.randrange(len(text))
        return text[:place] + chr(rng.choice((0, 34, 44, 58, 91, 123, 125, 0x20AC))) + text[place + 1 :]
    if kind == 2:  # duplicate keys
        return text.replace("{", '{"do":"step","value":1,"step":0,', 1)
    if kind == 3:
        return text + rng.choice((" " * 5_000, "{}", "]", "\n\n", "//"))
    if kind == 4:
        return rng.choice(("", "null", "0", '"do"', "[]", "[{}]", "\ufeff" + text, "[" + text + "]", "x" * 60_000))
    return text


# Without a socket: the whole server and its runs in this process


class Here(Worker):
    """Runs in this process."""

    def __init__(self) -> None:
        pass

    async def call(self, name: str, *arguments: Any) -> Any:
        return getattr(worker_side, name)(*arguments)

    def end(self) -> None:
        worker_side.RUNS.clear()


class Visitor:
    """The client end of an ASGI WebSocket."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._listens = asyncio.Event()
        self._asked = 0

    async def say(self, text: str | bytes) -> list[dict[str, Any]]:
        """Send a message; returns the answers."""
        self.answers.clear()
        self._listens.clear()
        self._said.put_nowait({"type": "websocket.receive", "text" if isinstance(text, str) else "bytes": text})
        await self._listens.wait()
        return list(self.answers)

    async def receive(self) -> dict[str, Any]:
        self._listens.set()
        self._asked += 1
        return await self._said.get()

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.send":
            self.answers.append(json.loads(message["text"]))

    @asynccontextmanager
    async def visiting(self, app: Any) -> AsyncIterator[None]:
        """Connect, and disconnect at the end."""
        self._said.put_nowait({"type": "websocket.connect"})
        headers = [(b"host", b"127.0.0.1")]
        scope = {"type": "websocket", "path": "/ws", "query_string": b"token=token", "headers": headers}
        scope |= {"server": ("127.0.0.1", 80), "scheme": "ws", "root_path": "", "subprotocols": []}
        visit = asyncio.create_task(app(scope, self.receive, self.send))
        while self._asked < 2 or not self.answers:  # the server listens and has sent its hello
            await asyncio.sleep(0)
        yield
        self._said.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await visit


_heard: list[tuple[str, str]] | None = None


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _heard is not None and event in ("import", "open", "compile", "exec", "os.listdir", "os.scandir", "os.system"):
        told = repr(arguments)
        if event == "os.system" or any(name in told for name in TAINTED):
            _heard.append((event, told[:200]))


@pytest.fixture
def heard() -> Iterator[list[tuple[str, str]]]:
    """Imports, file accesses and system calls with a name from a hostile message."""
    global _heard
    sys.addaudithook(_listen)  # an audit hook cannot be removed
    _heard = []
    yield _heard
    _heard = None


@pytest.mark.parametrize("count", [800, pytest.param(12_000, marks=pytest.mark.long)])
def test_hostile_messages_change_nothing(
    count: int, monkeypatch: pytest.MonkeyPatch, heard: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "Worker", Here)
    caplog.set_level(logging.WARNING)
    counts = asyncio.run(_told(random.Random(0), count))
    assert counts["hostile"] >= 0.85 * count
    assert counts["refused"] > 0.8 * counts["hostile"]
    assert counts["steps"] > count / 400  # valid messages still work
    assert counts["grown"] < 60 * 2**20
    assert heard == []
    assert not [name for name in sys.modules if "hostile" in name]
    assert caplog.records == []


async def _told(rng: random.Random, count: int) -> dict[str, int]:
    live = server.LiveServer("token", ["127.0.0.1"], Limits(steps=60, rate=1e9, burst=1e9))
    visitor, counts = Visitor(), dict.fromkeys(("hostile", "refused", "steps", "grown"), 0)
    async with live._lifespan(Starlette()), visitor.visiting(live):
        await visitor.say(json.dumps({"do": "begin", "setup": SMALL}))
        for number in range(count):
            if number == count // 6:
                before = resident(os.getpid())
            right = rng.random() < 0.1
            text = json.dumps(valid(rng)) if right else hostile(rng)
            runs = dict(worker_side.RUNS)
            await visitor.say(json.dumps({"do": "pause"}))  # so that only the next message can change something
            known = [(run, len(run._frames), run.setup) for run in runs.values()]
            answers = await visitor.say(text.encode("utf-8", "replace") if rng.random() < 0.02 else text)
            counts["hostile"] += not right
            counts["steps"] += any(answer["is"] == "frame" and answer["step"] for answer in answers)
            assert answers, text
            for answer in answers:
                assert "went wrong" not in answer.get("about", ""), text
            if answers[-1]["is"] in ("error", "gone"):
                counts["refused"] += not right
                assert len(answers) == 1, (text, answers)
                assert len(answers[0].get("about", "")) <= 241
                assert "\n" not in answers[0].get("about", "")
                assert dict(worker_side.RUNS) == runs, text
                assert [(run, len(run._frames), run.setup) for run in runs.values()] == known, text
            assert [*worker_side.RUNS] == [live.run.key]
        counts["grown"] = resident(os.getpid()) - before
        await visitor.say(json.dumps({"do": "begin", "setup": SMALL}))
        [frame] = [answer for answer in await visitor.say('{"do":"step"}') if answer["is"] == "frame"]
        assert frame["step"] == 1
    assert worker_side.RUNS == {}
    return counts


def test_processes_that_are_not_ready_at_first_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    class Late(Here):
        async def call(self, name: str, *arguments: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked <= 2:
                raise RunLostError("not ready")
            return await super().call(name, *arguments)

    async def scene() -> None:
        live = server.LiveServer("token", ["127.0.0.1"])
        async with live._lifespan(Starlette()):
            for first in ("notice", "hello"):
                visitor = Visitor()
                async with asyncio.timeout(PATIENCE), visitor.visiting(live):
                    while visitor.answers[-1]["is"] != "hello":
                        await asyncio.sleep(0.01)
                    assert visitor.answers[0]["is"] == first
                    assert "restarted" in visitor.answers[0].get("about", "restarted")

    monkeypatch.setattr(server, "Worker", Late)
    monkeypatch.setattr(server, "PAUSES", (0.0, 0.0))
    asyncio.run(scene())


# Over a socket


@pytest.mark.long
def test_two_thousand_hostile_messages_over_a_socket_change_nothing() -> None:
    rng, batches, size = random.Random(1), 45, 50
    with served(script=SERVE.format(limits="steps=60, rate=1e9, burst=1e9")) as running:
        with page(running) as visitor:
            visitor.begin()
            for batch in range(batches):
                for _ in range(size):
                    text = json.dumps(valid(rng)) if rng.random() < 0.1 else hostile(rng)
                    visitor.socket.send(text.encode("utf-8", "replace").decode())
                _until_answered(visitor, 1 + batch / 100)
                if batch == 5:
                    before = running.memory
            visitor.begin()
            visitor.say("step")
            assert visitor.frame(1)["step"] == 1
            assert running.memory - before < 60 * 2**20
            assert len(running.workers) == 1
        assert running.said == []


def _until_answered(visitor: Page, speed: float) -> None:
    """Wait until all earlier messages were answered."""
    visitor.say("speed", value=speed)
    while True:
        answer = json.loads(visitor.socket.recv(PATIENCE))
        assert "went wrong" not in answer.get("about", "")
        if answer.get("speed") == speed:
            return
