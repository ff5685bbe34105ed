"""How a command ends that cannot go on: one line, and an exit code."""

import contextlib
import sys
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


def fail(message: str, code: int) -> NoReturn:
    """Say it in one line and end."""
    print(f"zscout: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)
