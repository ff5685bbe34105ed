"""What commands print and write: text, files, and errors of one line with an exit code."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console


class UsageError(ValueError):
    """An error that the user can fix; any other error is a bug and shows its traceback."""


def fail(message: str, code: int) -> NoReturn:
    """Print one line and exit."""
    print(f"zscout: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)


@contextlib.contextmanager
def silent_without_reader() -> Iterator[None]:
    """End silently if nobody reads stdout any more, as in ``zscout --help | head -1``."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the flush at exit fails, too
        raise SystemExit(1) from None


def say(console: Console, text: str, style: str = "") -> None:
    """Print plain text, without wrapping: paths and names stay whole."""
    console.print(text, highlight=False, soft_wrap=True, style=style)


def write_files(console: Console, *files: tuple[Path | None, Any]) -> None:
    """Write each content to its file, if there is one: bytes unchanged, anything else as JSON."""
    from zscout.base.files import write_bytes, write_json

    for path, content in files:
        if path is not None:
            say(console, f"wrote {(write_bytes if isinstance(content, bytes) else write_json)(path, content)}")


def writable_folder(path: Path) -> None:
    """Raise before anything runs if files cannot be written to the folder."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file; --out names a folder")
    writable(path / "any")


def writable(*paths: Path | None) -> None:
    """Raise before anything runs if a file cannot be written; its folder is made when it is."""
    for path in filter(None, paths):
        if path.is_dir():
            raise UsageError(f"{path} is a folder, expected a file")
        there = next(parent for parent in path.parents if parent.exists() or parent.is_symlink())
        if not there.is_dir():
            raise UsageError(f"{path} cannot be written: {there} is not a folder")
        if not os.access(path if path.exists() else there, os.W_OK):
            raise UsageError(f"no permission to write {path}")
