"""Open connections: how many and for how long without the token; and the WebSocket to one page."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeAlias, TypeVar

from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from zscout.live.server.limits import Limits

Address: TypeAlias = tuple[str, int]  # host and port, different for each connection
T = TypeVar("T")


class Connections:
    """Counts connections from when they open, before a byte is read.

    One that has not sent the token is a stranger, and is closed after a few seconds. At the limit of strangers, a new
    one replaces the oldest of the host that has most. So a page that sends the token at once always gets in.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[Address, asyncio.Transport] = {}
        self.strangers: dict[Address, asyncio.TimerHandle] = {}  # the deadline of each, the oldest first

    def __len__(self) -> int:
        return len(self._open)

    def add(self, address: Address, transport: asyncio.Transport) -> None:
        """Count a new connection; close a stranger for it, or the new one if there are too many with the token."""
        # Ask the transport: a WebSocket replaces the protocol object that saw the connection open.
        for closed in [other for other, its in self._open.items() if its.is_closing()]:
            self._close(closed)
        if len(self.strangers) >= self._limits.strangers:
            most, _ = Counter(host for host, _ in self.strangers).most_common(1)[0]
            self._close(next(other for other in self.strangers if other[0] == most))
        elif len(self) >= self._limits.connections:
            transport.abort()
            return
        loop = asyncio.get_running_loop()
        self.strangers[address] = loop.call_later(self._limits.token_seconds, self._close, address)
        self._open[address] = transport

    def admit(self, address: Address | None) -> None:
        """Keep a connection that has sent the token."""
        if address in self.strangers:
            self.strangers.pop(address).cancel()

    def protocol(self) -> type[H11Protocol]:
        """Uvicorn's protocol class, changed to report each connection here."""
        connections = self

        class Counted(H11Protocol):
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                if self.client is not None:
                    connections.add(self.client, transport)

        return Counted

    def _close(self, address: Address) -> None:
        self.admit(address)
        self._open.pop(address).abort()


class PageSocket:
    """The WebSocket to one page; raises ``ConnectionError`` when the page is gone or has not read for too long."""

    def __init__(self, socket: WebSocket, send_seconds: float) -> None:
        self._socket, self._send_seconds = socket, send_seconds
        self._closed = asyncio.get_running_loop().create_future()

    async def receive(self) -> Message:
        """The next message."""
        return await self._unless_closed(self._socket.receive())

    async def send(self, message: bytes) -> None:
        """Send a message; returns when there is room for more."""
        try:
            await self._unless_closed(self._socket.send_text(message.decode()), self._send_seconds)
        except (RuntimeError, WebSocketDisconnect) as lost:
            raise ConnectionError("the page is gone") from lost

    async def close(self, code: int, reason: str) -> None:
        """Close it, with the reason if the page still reads."""
        with contextlib.suppress(TimeoutError, RuntimeError, ConnectionError, WebSocketDisconnect):
            async with asyncio.timeout(1.0):
                await self._socket.close(code, reason)
        self._set_closed()

    async def _unless_closed(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._closed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self._set_closed()
                raise ConnectionError("the page does not read, or was closed")
            return task.result()
        finally:
            task.cancel()

    def _set_closed(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
