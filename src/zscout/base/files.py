"""Atomic file writes, and JSON from untrusted files."""

import json
import os
import secrets
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> Path:
    """Write atomically: to a temporary file, fsync, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".zscout-{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # minus the user's umask
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else the rename may reach the disk before the content
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def write_json(path: Path, content: Any) -> Path:
    """Write standard JSON; raises on NaN."""
    return write_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; raises ValueError for invalid or too deeply nested JSON."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def no_number(text: str) -> Any:
    """``parse_constant`` for ``json.loads``: NaN and infinities are refused."""
    raise ValueError(f"it holds {text}, which is not a number")
