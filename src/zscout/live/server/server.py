"""The web server: the page, its files, and the page's WebSocket."""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from zscout.live.server.connections import Connections, PageSocket
from zscout.live.server.limits import Limits, TokenBucket
from zscout.live.server.messages import MessageError, RunLostError, encode, notice, parse
from zscout.live.server.watched_run import WatchedRun
from zscout.live.server.worker import Worker

PAGE = Path(__file__).parents[1] / "page"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
NO_TOKEN, TOO_MANY, BROKEN = 4401, 4429, 1011  # close codes
PAUSES = (1.0, 4.0)  # seconds between attempts to start the worker process

log = logging.getLogger("zscout.live")


class LiveServer:
    """The page's server, an ASGI application, for one person."""

    def __init__(self, token: str, hosts: list[str], limits: Limits | None = None, seed: int = 0) -> None:
        self.token, self.limits = token, limits or Limits()
        self._worker, self._seed = Worker(), seed
        self.run, self.connections = WatchedRun(self._worker, self.limits), Connections(self.limits)
        self._offers: asyncio.Task[dict[str, Any]] | None = None
        self._app = Starlette(
            routes=[
                Route("/", self._index),
                Mount("/static", StaticFiles(directory=PAGE)),
                WebSocketRoute("/ws", self._serve_page),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
            lifespan=self._lifespan,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request or serve one WebSocket; adds the security headers."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] != "lifespan" and self._has_token(HTTPConnection(scope)):
            self.connections.admit(scope.get("client"))
        await self._app(scope, receive, send_with_headers)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._ready()  # start the process now, so that it is ready when the page is
        clock = asyncio.create_task(self.run.keep_time())
        try:
            yield
        finally:
            clock.cancel()
            if self._offers is not None:
                self._offers.cancel()
            self._worker.end()

    async def _index(self, request: Request) -> Response:
        given = request.query_params.get("token")
        if not self._has_token(request) or (given is not None and not self._is_token(given)):
            return FileResponse(PAGE / "token.html", status_code=403)
        if given is None:
            return FileResponse(PAGE / "index.html")
        # Move the token from the address bar to a cookie: addresses are copied, logged and seen by others.
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(_cookie(request), self.token, httponly=True, samesite="lax", path="/")
        return answer

    def _has_token(self, connection: HTTPConnection) -> bool:
        """Whether the token is in the cookie, or in the address as in the printed link."""
        sent = (connection.cookies.get(_cookie(connection), ""), connection.query_params.get("token", ""))
        return any(map(self._is_token, sent))

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.token.encode())

    async def _serve_page(self, socket: WebSocket) -> None:
        origin = socket.headers.get("origin")  # browsers always send it, other programs need not
        if origin is not None and origin != f"http://{socket.headers.get('host')}":
            await socket.close(1008)  # before accept: the answer is 403
            return
        await socket.accept()
        page = PageSocket(socket, self.limits.send_seconds)
        if not self._has_token(socket):
            await page.close(NO_TOKEN, "this needs the token of the printed link")
            return
        greeting = asyncio.create_task(self._greet(page))  # a task: a page that leaves meanwhile is noticed
        try:
            await self.run.take_over(page)
            await self._listen(page)
        except (ConnectionError, asyncio.CancelledError):  # the page is gone, or the server stops
            pass
        finally:
            greeting.cancel()
            self.run.leave(page)

    def _ready(self) -> "asyncio.Task[dict[str, Any]]":
        """What the page offers, once the worker process is ready; asked again if it ended before."""
        if self._offers is None or (self._offers.done() and self._offers.exception() is not None):
            self._offers = asyncio.create_task(self._worker.call("hello", self.limits.steps, self._seed))
        return self._offers

    async def _greet(self, page: PageSocket) -> None:
        with contextlib.suppress(ConnectionError):
            for pause in (*PAUSES, None):
                try:
                    offers = await asyncio.shield(self._ready())
                    await page.send(encode({"is": "hello", "run": self.run.key, **offers}))
                    return
                except RunLostError:
                    if pause is not None:
                        await page.send(
                            notice("notice", "A server process ended before it was ready. It is restarted.")
                        )
                        await asyncio.sleep(pause)
            await page.close(BROKEN, "the worker process crashed while starting")

    async def _listen(self, page: PageSocket) -> None:
        """Do message after message; no message can end the run."""
        bucket, strikes = TokenBucket(self.limits.burst, self.limits.rate), 0
        while True:
            received = await page.receive()
            if received["type"] == "websocket.disconnect":
                return
            try:
                if bucket.take():
                    if received.get("text") is None:
                        raise MessageError("messages must be text")
                    await self.run.do(page, *parse(received["text"], self.limits.bytes))
                    continue
                strikes += 1
                if strikes > self.limits.strikes:
                    await page.close(TOO_MANY, "too many messages")
                    return
                if strikes == 1 or not strikes % 100:
                    await page.send(
                        notice("error", f"at most {self.limits.rate:.0f} messages a second: some were ignored")
                    )
            except (ValueError, RunLostError) as refused:
                await page.send(notice("gone" if isinstance(refused, RunLostError) else "error", refused))
            except ConnectionError:
                raise
            except Exception:
                log.exception("a message could not be answered")
                await page.send(notice("error", "something went wrong on the server; the run continues"))


def _cookie(connection: HTTPConnection) -> str:
    """The cookie's name, with the port: all servers of a host share cookies."""
    _, port = connection.scope["server"]  # the port the server listens on, whatever the page calls it
    return f"zscout-{port}"
