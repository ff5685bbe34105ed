"""zscout live."""

import contextlib
import importlib.util
import ipaddress
import os
import secrets
import signal
import socket
import sys
import webbrowser
from dataclasses import dataclass

from rich.console import Console

from zscout.base.hints import how_to_install
from zscout.cli.parts.options import Quick
from zscout.cli.parts.output import UsageError, say


@dataclass(frozen=True)
class Live:
    """Open a web page where you give the rewards, or hide a reward and watch the agent find it."""

    host: str = "127.0.0.1"  # Address to listen on; other than the default, anyone with the link can connect.
    port: int = 8730  # Port; 0 picks a free one.
    no_browser: Quick = False  # Print the link, do not open a browser.
    steps: int = 1000  # Most steps of a run; of a body 20 times as many.
    seed: int = 0  # Seed of the first run; the page can change it.

    def run(self, console: Console) -> None:
        """Serve until Ctrl-C."""
        missing = [name for name in ("starlette", "uvicorn", "websockets") if importlib.util.find_spec(name) is None]
        if missing:
            raise UsageError(f"the page needs {', '.join(missing)}: {how_to_install('live')}")
        sizes = {"port": (0, 65535), "steps": (1, 10_000), "seed": (0, 2**31 - 1)}
        for name, (low, high) in sizes.items():
            if not low <= getattr(self, name) <= high:
                raise UsageError(f"--{name} must be from {low} to {high}, got {getattr(self, name)}")
        import uvicorn

        from zscout.live.server.limits import Limits, limit_log
        from zscout.live.server.server import LiveServer

        listening = _listen(self.host, self.port)
        host, port = listening.getsockname()[:2]
        token = secrets.token_urlsafe(24)
        everywhere = not ipaddress.ip_address(host).is_loopback
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
        link = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/?token={token}"
        hosts = ["*"] if everywhere else ["localhost", "[::1]", host]
        server = LiveServer(token, hosts, Limits(steps=self.steps), self.seed)
        if everywhere:
            who = "Whoever has the link can use this page, and what is sent is not encrypted."
            say(console, f"Warning: {host} can be reached from other machines. {who}", style="bold yellow")
        say(console, f"zscout live: {link}", style="bold")
        if host in ("0.0.0.0", "::"):
            say(console, f"From elsewhere: {link.replace(shown, socket.gethostname(), 1)}")
        say(console, "Ctrl-C ends it.")
        limit_log()
        config = uvicorn.Config(
            server,
            http=server.connections.protocol(),
            backlog=64,  # also limits connections that are accepted but not yet counted
            log_config=None,
            log_level="warning",
            proxy_headers=False,  # no proxy: trust only the address of the socket
            ws_max_size=2**20,  # a larger message closes the connection; the page then reconnects
            ws_ping_interval=15,
            ws_ping_timeout=20,
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        serving = uvicorn.Server(config)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM stops it cleanly too
        if not self.no_browser and _has_screen():
            webbrowser.open(link)
        with listening, contextlib.suppress(KeyboardInterrupt):
            serving.run(sockets=[listening])
        say(console, "zscout live has ended.")


def _has_screen() -> bool:
    """Whether there is a display; without one, a terminal browser would open and block."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _listen(host: str, port: int) -> socket.socket:
    """A socket at that port; if it is in use, the error names a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return _bound(family, host, port)
    except OSError as error:
        if error.errno in (98, 48):  # in use: Linux, macOS
            near = range(port + 1, min(port + 20, 65536))
            free = next((other for other in near if _is_free(family, host, other)), 0)
            raise UsageError(f"port {port} is in use; --port {free} is free") from error
        if isinstance(error, socket.gaierror):
            raise UsageError(f"there is no host {host!r}: {error.strerror}") from error
        raise UsageError(f"{host} port {port} is not available: {error.strerror}") from error


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)  # socket.create_server would hide the kind of the error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening


def _is_free(family: socket.AddressFamily, host: str, port: int) -> bool:
    try:
        _bound(family, host, port).close()
    except OSError:
        return False
    return True
