"""The web server: one page, its files, and a WebSocket for each visitor."""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from zscout.live.door import Door
from zscout.live.limits import PRICES, Limits, Rate
from zscout.live.line import Line
from zscout.live.messages import MessageError, error, gone, notice, understood
from zscout.live.visits import Visits
from zscout.live.workers import LostError, Workers

PAGE = Path(__file__).parent / "page"
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
NO_TOKEN, TOO_MANY, BROKEN = 4401, 4429, 1011  # why a connection was closed
PAUSES = (1.0, 4.0)  # seconds between attempts to get the processes ready for a visitor

log = logging.getLogger("zscout.live")


class LiveServer:
    """The page's server, as an ASGI application."""

    def __init__(self, token: str, hosts: list[str], workers: int, limits: Limits | None = None, seed: int = 0) -> None:
        self.token, self.limits = token, limits or Limits()
        self.visits, self.door = Visits(self.limits), Door(self.limits)
        self._count, self._seed = workers, seed
        self._lines: set[Line] = set()
        app = Starlette(
            routes=[
                Route("/", self._index),
                Mount("/static", StaticFiles(directory=PAGE)),
                WebSocketRoute("/ws", self._visit),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
            lifespan=self._lifespan,
        )
        self.app = _WithHeaders(_Admitting(app, self.door, self._may))

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        workers = Workers(self._count)
        self._workers: Workers = workers
        self.visits.open(workers)
        self._hello: asyncio.Task[list[bytes]] | None = None
        self._ready()  # begun now, so that they are ready when the page is; whoever comes earlier waits for it
        sweeper = asyncio.create_task(self.visits.sweep())
        try:
            yield
        finally:
            sweeper.cancel()
            if self._hello is not None:
                self._hello.cancel()
            workers.end()

    # The page

    async def _index(self, request: Request) -> Response:
        given = request.query_params.get("token")
        if not self._may(request) or (given is not None and not _same(given, self.token)):
            return FileResponse(PAGE / "door.html", status_code=403)
        if given is None:
            return FileResponse(PAGE / "index.html")
        # Out of the address bar and into a cookie: an address is copied, logged and looked at.
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(_cookie(request), self.token, httponly=True, samesite="lax", path="/")
        return answer

    def _may(self, connection: HTTPConnection) -> bool:
        """Whether the token was shown, in the cookie or, as by programs and by the printed link, in the address."""
        shown = (connection.cookies.get(_cookie(connection), ""), connection.query_params.get("token", ""))
        return any(_same(token, self.token) for token in shown)

    # The visitors

    async def _visit(self, socket: WebSocket) -> None:
        if not _of_this_page(socket.headers):
            await socket.close(1008)  # before it was accepted: the answer is 403
            return
        await socket.accept()
        line = Line(socket, self.limits.patience)
        if not self._may(socket):
            await line.close(NO_TOKEN, "this needs the token of the printed link")
            return
        if len(self._lines) >= self.limits.visitors:
            await line.close(TOO_MANY, f"{self.limits.visitors} visitors are here already")
            return
        self._lines.add(line)
        greeting = asyncio.create_task(self._greet(line))  # beside: who leaves before it is ready is noticed
        try:
            await self._listen(line)
        except (ConnectionError, asyncio.CancelledError):  # the page is gone, or the server ends
            pass
        finally:
            greeting.cancel()
            self._lines.discard(line)
            self.visits.left_by(line)

    def _ready(self) -> "asyncio.Task[list[bytes]]":
        """What each process says when it is ready; asked again where a process ended before it could say it."""
        if self._hello is None or (self._hello.done() and self._hello.exception() is not None):
            self._hello = asyncio.create_task(self._workers.call_all("hello", self.limits.shown, self._seed))
        return self._hello

    async def _greet(self, line: Line) -> None:
        """What can be chosen, as soon as that is known."""
        with contextlib.suppress(ConnectionError):
            for pause in (*PAUSES, None):
                try:
                    hello, *_ = await asyncio.shield(self._ready())
                    await line.send(hello)
                    return
                except LostError:
                    if pause is not None:
                        await line.send(notice("A process of the server ended before it was ready. It starts again."))
                        await asyncio.sleep(pause)
            await line.close(BROKEN, "the processes of the server end before they are ready")

    async def _listen(self, line: Line) -> None:
        """Message by message; whatever one of them says, the run lives on."""
        rate, strikes = Rate(self.limits.burst, self.limits.rate), 0
        while True:
            came = await line.receive()
            if came["type"] == "websocket.disconnect":
                return
            extra = 0.0  # beyond that of a plain message
            try:
                if rate.takes():
                    if came.get("text") is None:
                        raise MessageError("messages are text")
                    what, fields = understood(came["text"], self.limits.bytes)
                    wanted = PRICES.get(what, 1.0)
                    if rate.takes(wanted - 1):
                        extra = wanted - 1
                        await self._do(line, what, fields)
                        continue
                    over = f"{what} counts for {wanted:.0f} of {self.limits.rate:.0f} messages a second: wait a moment"
                else:
                    over = f"at most {self.limits.rate:.0f} messages a second: some were left out"
                strikes += 1
                if strikes > self.limits.strikes:
                    await line.close(TOO_MANY, "too many messages")
                    return
                if strikes == 1 or not strikes % 100:
                    await line.send(error(over))
            except ValueError as refused:
                rate.give_back(extra)  # it was not done
                await line.send(error(refused))
            except LostError as lost:
                rate.give_back(extra)
                await line.send(gone(lost))
            except ConnectionError:
                raise
            except Exception:
                log.exception("a message could not be answered")
                await line.send(error("something went wrong here; the run goes on"))

    async def _do(self, line: Line, what: str, fields: dict[str, object]) -> None:
        if what == "begin":
            await self.visits.begin(line, fields["setup"])
        elif what == "resume":
            await self.visits.resume(line, fields["run"], fields["after"])
        else:
            visit = self.visits.of(line)
            if visit is None:
                raise MessageError("there is no run yet: begin one")
            await visit.do(what, dict(fields))


class _Admitting:
    """Tells the door of every connection on which the token was shown."""

    def __init__(self, app: ASGIApp, door: Door, may: Callable[[HTTPConnection], bool]) -> None:
        self.app, self.door, self.may = app, door, may

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and self.may(HTTPConnection(scope)):
            self.door.admit(scope.get("client"))
        await self.app(scope, receive, send)


class _WithHeaders:
    """Every answer says what a page may do."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(answer: Message) -> None:
            if answer["type"] == "http.response.start":
                MutableHeaders(scope=answer).update(HEADERS)
            await send(answer)

        await self.app(scope, receive, sent)


def _of_this_page(headers: Headers) -> bool:
    """Whether the page that opens a connection came from here; programs other than browsers say nothing of it."""
    origin = headers.get("origin")
    return origin is None or origin == f"http://{headers.get('host')}"


def _cookie(connection: HTTPConnection) -> str:
    """Its name has the port: cookies are shared by all servers of a host."""
    _, port = connection.scope["server"]  # the one that is listened at, whatever the page calls it
    return f"zscout-{port}"


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
