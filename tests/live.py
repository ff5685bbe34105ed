"""Starts a live server as a user does, and connects pages to it."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from waiting import PATIENCE

SMALL = {"features": "clusters", "model": "exact", "methods": ["random"]}  # a set-up that costs little
SMALL_MAZE = {"world": "point-maze", "methods": ["random"]}
SERVE = """
import contextlib
import uvicorn
from zscout.live.server.limits import Limits
from zscout.live.server.server import LiveServer
if __name__ == "__main__":
    import socket
    listening = socket.create_server(("127.0.0.1", 0))
    server = LiveServer("token", ["127.0.0.1"], Limits({limits}))
    print(f"http://127.0.0.1:{{listening.getsockname()[1]}}/?token=token", flush=True)
    limits = {{"ws_max_size": 65536, "ws_ping_interval": None, "timeout_graceful_shutdown": 1}}
    config = uvicorn.Config(server, log_level="warning", **limits)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
"""


def family(pid: int) -> list[int]:
    """The ids of a process and of all its descendants."""
    lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [pid, *(grown for line in lists for word in line.split() for grown in family(int(word)))]


def resident(pid: int) -> int:
    """Resident bytes of a process and its descendants."""
    sizes = [re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{one}/status").read_text()) for one in family(pid)]
    return sum(1024 * int(size[1]) for size in sizes if size is not None)


@dataclass
class Served:
    """A server in its own process."""

    process: "subprocess.Popen[str]"
    link: str
    said: list[str] = field(default_factory=list)  # on standard error

    @property
    def port(self) -> int:
        return urlsplit(self.link).port or 0

    @property
    def token(self) -> str:
        return parse_qs(urlsplit(self.link).query)["token"][0]

    @property
    def cookie(self) -> str:
        return f"zscout-{self.port}={self.token}"

    def get(self, path: str, **headers: str) -> HTTPResponse:
        """Response to a GET request, already read; the path is sent unchanged."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.putrequest("GET", path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            answer.body = answer.read()  # type: ignore[attr-defined]
            return answer

    @property
    def children(self) -> list[int]:
        """Its child processes."""
        return family(self.process.pid)[1:]

    @property
    def workers(self) -> list[int]:
        """The child process that holds the run."""
        return [pid for pid in self.children if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]

    @property
    def memory(self) -> int:
        """Resident bytes of all its processes."""
        return resident(self.process.pid)


def zscout(*words: str) -> list[str]:
    """The command line of a live server."""
    return [sys.executable, "-m", "zscout", "live", "--no-browser", "--port", "0", *words]


@contextlib.contextmanager
def served(*words: str, script: str | None = None) -> Iterator[Served]:
    """Run a server; its standard error is kept in ``said``."""
    process = subprocess.Popen(
        zscout(*words) if script is None else [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in background shells
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors = process.stderr
    server = Served(process, "")
    reading = threading.Thread(target=lambda: server.said.extend(errors), daemon=True)
    reading.start()
    try:
        for line in process.stdout:
            if "http://" in line:
                server.link = line[line.index("http://") :].strip()
                break
        assert server.link, server.said
        yield server
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        process.kill()
        process.wait()
        reading.join(PATIENCE)
        process.stdout.close()
        process.stderr.close()


class Page:
    """The WebSocket of a page."""

    def __init__(self, server: Served, token: str | None = None, **options: Any) -> None:
        token = server.token if token is None else token
        address = f"ws://127.0.0.1:{server.port}/ws?token={token}"
        self._until_closed = contextlib.ExitStack()
        connecting = connect(address, open_timeout=PATIENCE, close_timeout=1, max_size=2**24, **options)
        self.socket: ClientConnection = self._until_closed.enter_context(connecting)
        self.key = ""

    def say(self, do: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"do": do, **fields}))

    def hear(self, *kinds: str) -> dict[str, Any]:
        """The next message, or the next of these kinds."""
        while True:
            content: dict[str, Any] = json.loads(self.socket.recv(PATIENCE))
            if not kinds or content["is"] in kinds:
                if content["is"] == "begun":
                    self.key = content["run"]
                return content

    def frame(self, step: int) -> dict[str, Any]:
        """The frame of a step; skips other messages."""
        while True:
            if (content := self.hear("frame"))["step"] >= step:
                return content

    def begin(self, **setup: Any) -> dict[str, Any]:
        """Begin a run; returns its first frame."""
        self.say("begin", setup={**SMALL, **setup})
        self.hear("begun")
        return self.frame(0)

    def refusal(self, do: str, **fields: Any) -> str:
        """Send an invalid message; returns the error."""
        self.say(do, **fields)
        about: str = self.hear("error")["about"]
        return about

    def refused(self, text: str) -> str:
        """Send invalid text; returns the error."""
        self.socket.send(text)
        about: str = self.hear("error")["about"]
        return about

    def closed(self) -> int:
        """Wait until the server closes the connection; returns the close code."""
        with self._until_closed:
            try:
                while True:
                    self.socket.recv(PATIENCE)
            except ConnectionClosed as end:
                return 1006 if end.rcvd is None else end.rcvd.code

    def drop(self) -> None:
        """Drop the connection without closing it."""
        self.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.socket.shutdown(socket.SHUT_RDWR)
        self.socket.socket.close()

    def close(self) -> None:
        self._until_closed.close()


@contextlib.contextmanager
def page(server: Served, **options: Any) -> Iterator[Page]:
    """A connected page that has received the hello."""
    visitor = Page(server, **options)
    try:
        assert visitor.hear()["is"] == "hello"
        yield visitor
    finally:
        visitor.close()
