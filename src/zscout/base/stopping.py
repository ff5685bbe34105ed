"""Ctrl-C and SIGTERM end a command in one line, also while its modules are imported.

This module is the first to be imported, so it imports nothing that takes time, such as typing.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], None]


class Terminated(KeyboardInterrupt):
    """SIGTERM: stops cleanly like Ctrl-C, with its own exit code."""


def stop_at_once(number: int, frame: FrameType | None) -> None:
    """Print one line and exit without cleaning up."""
    os.write(2, b"zscout: stopped at once; finished work is kept\n")
    os._exit(128 + number)


def stop_cleanly() -> Handler:
    """A handler that raises KeyboardInterrupt; at a second signal, or during an import, it stops at once."""
    seen: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        importing = frame  # an import that is interrupted may raise anything, or abort
        while importing is not None and not importing.f_code.co_filename.startswith("<frozen importlib"):
            importing = importing.f_back
        if len(seen) > 1 or importing is not None:
            stop_at_once(number, frame)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    return stop


def handle_ctrl_c(handler: Handler) -> None:
    """Set the handler of Ctrl-C, unless Ctrl-C is ignored, as under nohup, or handled."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handler)


def is_command() -> bool:
    """Whether this process is ``zscout``, ``python -m zscout`` or ``python -m reproduction``."""
    program = sys.orig_argv[-len(sys.argv) :][:1]  # a script's path, or the module of python -m
    return [word.rpartition(os.sep)[2].removesuffix(".exe") for word in program] in (["zscout"], ["reproduction"])
