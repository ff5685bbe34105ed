"""Errors of commands: one line and an exit code."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn


class UsageError(ValueError):
    """An error that the user can fix; any other error is a bug and shows its traceback."""


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn errors during the setup of a command into usage errors."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


class Terminated(KeyboardInterrupt):
    """SIGTERM: stops cleanly like Ctrl-C, with its own exit code."""


@contextlib.contextmanager
def signals_stop_it() -> Iterator[None]:
    """Stop a command cleanly on Ctrl-C or SIGTERM; a second signal stops it at once."""
    seen: list[int] = []

    def stop(number: int, frame: object) -> None:
        seen.append(number)
        if len(seen) > 1:
            os.write(2, b"zscout: stopped at once; finished work is kept\n")
            os._exit(128 + number)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    there = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if there}
    kept = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}  # as under nohup
    for number in kept:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def stopped(message: str, stop: KeyboardInterrupt) -> NoReturn:
    """Print a message and exit with the code of the signal."""
    fail(message, code=128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT))


def fail(message: str, code: int) -> NoReturn:
    """Print one line and exit."""
    print(f"zscout: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)
