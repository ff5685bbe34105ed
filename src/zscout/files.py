"""Files: written whole or not at all, and JSON of someone else's."""

import json
import os
import secrets
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> Path:
    """Write beside the target, to the disk, then rename onto it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".zscout-{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less the user's umask
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # a rename may reach the disk before the bytes it names
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def write_json(path: Path, content: Any) -> Path:
    """JSON that every reader takes: NaN is refused rather than written."""
    return write_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def parse_json(text: str | bytes, **rest: Any) -> Any:
    """What is no JSON is a ValueError, and so is JSON nested too deeply to be read."""
    try:
        return json.loads(text, **rest)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def no_number(text: str) -> Any:
    """``parse_constant`` for ``json.loads``: NaN and infinities are refused."""
    raise ValueError(f"it holds {text}, which is no number")
