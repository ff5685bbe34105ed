"""Writing results: a file is there whole or not at all."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> Path:
    """Write beside the target, then rename onto it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def write_json(path: Path, content: Any) -> Path:
    """JSON that every reader takes: NaN is refused rather than written."""
    return write_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
