"""Limits on open connections and on the log."""

import asyncio
import contextlib
import io
import logging
import resource
import socket
import time

import pytest

from live import Served, page, served
from waiting import PATIENCE
from zscout.live.server.connections import Connections
from zscout.live.server.limits import LOG_BURST, LOG_SECONDS, LONGEST_RECORD, LimitedLog, Limits

FILES = 256  # open files per process: the default on macOS


class Transport(asyncio.Transport):
    """A transport that records whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def opened(connections: Connections, host: str, port: int) -> Transport:
    transport = Transport()
    connections.add((host, port), transport)
    return transport


def test_one_more_stranger_takes_the_place_of_the_oldest_of_the_host_that_has_most() -> None:
    async def scene() -> None:
        connections = Connections(Limits(strangers=4))
        first, *crowd = [
            opened(connections, "10.0.0.1", 1),
            *(opened(connections, "10.0.0.2", port) for port in (1, 2, 3)),
        ]
        fifth = opened(connections, "10.0.0.3", 1)
        assert [one.closed for one in (first, *crowd, fifth)] == [False, True, False, False, False]
        assert len(connections) == len(connections.strangers) == 4

    asyncio.run(scene())


def test_who_has_shown_the_token_stays_and_strangers_go_in_time() -> None:
    async def scene() -> None:
        connections = Connections(Limits(strangers=2, token_seconds=0.05))
        visitor = opened(connections, "10.0.0.1", 1)
        connections.admit(("10.0.0.1", 1))
        strangers = [opened(connections, "10.0.0.1", port) for port in range(2, 9)]
        assert (visitor.closed, len(connections)) == (False, 3)
        async with asyncio.timeout(PATIENCE):
            while connections.strangers:
                await asyncio.sleep(0.01)
        assert (visitor.closed, len(connections), all(one.closed for one in strangers)) == (False, 1, True)
        connections.admit(None)
        connections.admit(("10.0.0.9", 9))  # unknown address: no effect

    asyncio.run(scene())


def test_there_is_a_limit_for_those_with_the_token_too_and_who_leaves_makes_room() -> None:
    async def scene() -> None:
        limits = Limits(strangers=1, connections=9)
        connections, there = Connections(limits), []
        for port in range(limits.connections):
            there.append(opened(connections, "10.0.0.1", port))
            connections.admit(("10.0.0.1", port))
        assert not any(one.closed for one in there)
        assert opened(connections, "10.0.0.1", 99).closed
        there[0].abort()
        assert not opened(connections, "10.0.0.1", 100).closed

    asyncio.run(scene())


def crowd(server: Served, count: int, says: bytes = b"") -> list[socket.socket]:
    """Open connections without a token."""
    lines = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
    for line in lines:
        with contextlib.suppress(OSError):  # it was closed already
            line.sendall(says)
    return lines


@pytest.mark.long
def test_four_hundred_silent_connections_keep_no_visitor_waiting() -> None:
    with served() as running:
        # Without our limit the process would run out of files, which stops every visitor and fills the log.
        resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        with page(running) as visitor:
            visitor.begin()
            visitor.say("speed", value=30)
            visitor.say("play")
            visitor.frame(5)
            lines = crowd(running, 400)
            visitor.frame(visitor.hear("frame")["step"] + 60)
            with page(running) as other:
                other.say("resume", run=visitor.key, after=0)
                other.frame(1)
            for line in lines:
                line.close()
    assert running.said == []  # nobody found the process out of files


@pytest.mark.long
def test_garbage_by_the_hundred_leaves_a_short_log() -> None:
    with served() as running:
        for line in crowd(running, 400, b"\0garbage\r\n\r\n"):
            line.close()
        with page(running) as visitor:
            visitor.begin()
    assert sum(map(len, running.said)) < 10_000


def test_a_log_passes_a_few_records_on_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    log, written = logging.Logger("x"), io.StringIO()
    log.addHandler(LimitedLog(written))
    for number in range(1_000):
        log.error("100%% of %s", number)
    assert written.getvalue().splitlines() == [f"100% of {number}" for number in range(LOG_BURST)]
    now += LOG_SECONDS
    log.error("x" * 10_000)
    log.error("not yet")
    *_, last = lines = written.getvalue().splitlines()
    assert len(lines) == LOG_BURST + 1
    assert last.endswith("(980 messages before this one were dropped)")
    assert len(last) < LONGEST_RECORD + 100
