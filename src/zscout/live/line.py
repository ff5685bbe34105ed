"""The line to one page."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

CLOSING = 1.0  # seconds for a page to be told why

T = TypeVar("T")


class Line:
    """A page that does not read holds up itself alone, and not for ever; whoever is lost is a ``ConnectionError``."""

    def __init__(self, socket: WebSocket, patience: float) -> None:
        self._socket, self._patience = socket, patience
        self._cut = asyncio.get_running_loop().create_future()

    async def receive(self) -> Message:
        """The next message."""
        return await self._while_there(self._socket.receive())

    async def send(self, answer: bytes) -> None:
        """Done when there is room for more."""
        try:
            await self._while_there(self._socket.send_text(answer.decode()), self._patience)
        except (RuntimeError, WebSocketDisconnect) as lost:
            raise ConnectionError("the page is gone") from lost

    async def close(self, code: int, reason: str) -> None:
        """Say why, if it still reads, and be done with it."""
        with contextlib.suppress(TimeoutError, RuntimeError, ConnectionError, WebSocketDisconnect):
            async with asyncio.timeout(CLOSING):
                await self._socket.close(code, reason)
        self._give_up()

    async def _while_there(self, doing: Coroutine[Any, Any, T], patience: float | None = None) -> T:
        task = asyncio.ensure_future(doing)
        try:
            await asyncio.wait({task, self._cut}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self._give_up()
                raise ConnectionError("the page does not read, or was closed")
            return task.result()
        finally:
            task.cancel()

    def _give_up(self) -> None:
        """Whatever still waits for it need not."""
        if not self._cut.done():
            self._cut.set_result(None)
