"""How a command ends that cannot go on: one line, and an exit code."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn


class UsageError(ValueError):
    """What a user can mend; anything else that goes wrong is ours, and shows its traceback."""


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """What is refused while a command is set up is the user's to mend."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


class Terminated(KeyboardInterrupt):
    """SIGTERM: the same clean end as Ctrl-C, with its own exit code."""


@contextlib.contextmanager
def signals_stop_it() -> Iterator[None]:
    """While a command runs, Ctrl-C and SIGTERM end it cleanly; a second one ends it at once, in a line too."""
    seen: list[int] = []

    def stop(number: int, frame: object) -> None:
        seen.append(number)
        if len(seen) > 1:
            os.write(2, b"zscout: stopped at once; what was finished is kept\n")
            os._exit(128 + number)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    there = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if there}
    kept = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}  # as nohup sets it
    for number in kept:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def stopped(message: str, stop: KeyboardInterrupt) -> NoReturn:
    """Say how far it came, with the exit code that shells give to a signal."""
    fail(message, code=128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT))


def fail(message: str, code: int) -> NoReturn:
    """Say it in one line and end."""
    print(f"zscout: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)
