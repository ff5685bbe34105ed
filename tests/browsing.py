"""A visitor in a real Chromium: clicks, paints, presses keys, and records errors."""

import contextlib
import json
import select
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, WebSocket, sync_playwright

from chromium import ADVICE, chromium
from waiting import PATIENCE, until

QUIET = (
    "--no-sandbox",  # containers run as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
Cell = tuple[int, int]


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """The installed Chromium."""
    path = chromium()
    if path is None:
        pytest.skip(ADVICE)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(QUIET), timeout=1000 * PATIENCE)
        try:
            yield running
        finally:
            running.close()


class Visitor:
    """One page, and what a person does there."""

    def __init__(self, page: Page, link: str) -> None:
        self.page, self.link = page, link
        self.wrong: list[str] = []  # console errors, requests to other hosts
        self._worlds: dict[str, list[list[int]]] = {}  # the cells of each
        self._world = ""
        self._frames: dict[int, list[Any]] = {}  # by step: every frame of the run that was received
        page.context.set_default_timeout(1000 * PATIENCE)
        page.on("console", lambda said: self._said(said.type, said.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda request: self._outside(request.url))
        page.on("websocket", self._listen)

    def _said(self, kind: str, text: str) -> None:
        # The server closes a spare connection that sent nothing for ten seconds; the browser may be about to use it.
        if kind in ("error", "warning") and "net::ERR_SOCKET_NOT_CONNECTED" not in text:
            self.wrong.append(text)

    def _outside(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != urlsplit(self.link).netloc:
            self.wrong.append(f"request to {address}")

    def _listen(self, socket: WebSocket) -> None:
        self._outside(socket.url)
        socket.on("framereceived", self._received)

    def _received(self, text: str | bytes) -> None:
        match json.loads(text):
            case {"is": "hello", "worlds": worlds}:
                self._worlds = {world["name"]: world.get("cells", []) for world in worlds}
            case {"is": "begun", "setup": {"world": world}, "resumed": resumed}:
                self._world, self._frames = world, self._frames if resumed else {}
            case {"is": "frame", "step": step, "sides": sides}:
                self._frames[step] = sides

    def arrive(self, toured: bool = True) -> None:
        """Open the link; the tour is for the first time only."""
        if toured:
            self.page.add_init_script("localStorage.setItem('zscout-toured', 'true')")
        self.page.goto(self.link)
        self.until(lambda: self.body("connected") == "true" and self.body("run"), "the page is not connected")
        self.until(lambda: self.page.is_hidden("#starting"), "no first frame: controls are still disabled")

    # What it shows

    def body(self, name: str) -> str:
        return self.page.get_attribute("body", f"data-{name}") or ""

    def step(self) -> int:
        """The newest step; −1: the run has no frame yet."""
        return int(self.body("live-step") or -1)

    def side(self, name: str, which: int = 0) -> str:
        return self.page.get_attribute(f"#side-{which}", f"data-{name}") or ""

    def cell(self, name: str, which: int = 0) -> Cell:
        row, column = self.side(name, which).split(",")
        return int(row), int(column)

    def until(self, true: Callable[[], Any], why: str) -> None:
        """Wait until a condition holds."""
        until(true, why, pause=lambda: self.page.wait_for_timeout(30))

    def until_step(self, step: int) -> None:
        self.until(lambda: self.step() >= step, f"step {step} does not come")

    def until_confirmed(self) -> None:
        """Wait until the server has what was painted."""
        self.page.evaluate("new Promise(requestAnimationFrame)")  # the page draws what was done before
        self.until(lambda: self.body("unsent") == "0", "the server does not confirm what was painted")

    def where(self, first: int, last: int) -> list[Cell]:
        """The agent's cells from step to step, all of them."""
        self.until(lambda: last in self._frames, f"step {last} does not come")
        cells = self._worlds[self._world]
        return [(row, column) for row, column in (cells[self._frames[k][0]["at"]] for k in range(first, last + 1))]

    # What a person does

    def point(self, cell: Cell, rows: int = 9, columns: int = 9) -> tuple[float, float]:
        box = self.page.locator("#world").bounding_box()
        assert box is not None
        return box["x"] + (cell[1] + 0.5) / columns * box["width"], box["y"] + (cell[0] + 0.5) / rows * box["height"]

    def paint(self, brush: str, *cells: Cell, rows: int = 9, columns: int = 9) -> None:
        """One stroke."""
        self.page.click(f"#brush-{brush}")
        self.page.mouse.move(*self.point(cells[0], rows, columns))
        self.page.mouse.down()
        for cell in cells[1:]:
            self.page.mouse.move(*self.point(cell, rows, columns), steps=4)
        self.page.mouse.up()
        if self.body("connected") == "true":
            self.until_confirmed()

    def fast(self) -> None:
        self.page.fill("#speed", "30")

    def play(self) -> None:
        self.page.click("#play")
        self.until(lambda: self.body("playing") == "true", "it does not play")

    def pause(self) -> None:
        self.page.click("#play")
        self.until(lambda: self.body("playing") == "false", "it does not pause")

    def _begun(self, before: str) -> bool:
        return self.body("run") != before and self.step() >= 0

    def choose(self, **choices: str) -> None:
        """In the set-up panel."""
        self.page.click("#setup-open")
        for name, value in choices.items():
            before = self.body("run")
            self.page.select_option(f"#{name.replace('_', '-')}", value)
            self.until(partial(self._begun, before), f"{name} = {value} begins no run")
        self.page.click("#setup-close")


class Cable:
    """A TCP proxy to the server that can be cut; a context manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._connect, daemon=True)]
        self.port = self._listening.getsockname()[1]
        self.whole = True
        self._threads[0].start()

    def __enter__(self) -> "Cable":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join(PATIENCE)
        self._listening.close()

    def cut(self) -> None:
        self.whole = False
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self.whole = True

    def _connect(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            if self.whole:
                passing = threading.Thread(target=self._pass_on, args=(here,), daemon=True)
                self._threads.append(passing)
                passing.start()
            else:
                here.close()

    def _pass_on(self, here: socket.socket) -> None:
        """Forward bytes until either end closes."""
        with here, socket.create_connection(("127.0.0.1", self._port)) as there, contextlib.suppress(OSError):
            self._ends += [here, there]
            other = {here: there, there: here}
            while True:
                for ready in select.select(list(other), [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    other[ready].sendall(data)
