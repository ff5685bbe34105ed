"""Atomic file writes; safetensors and JSON from untrusted files, as dataclasses, whose annotations are the check."""

import contextlib
import hashlib
import json
import os
import reprlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from safetensors import SafetensorError, safe_open

LARGEST_JSON = 16_000_000  # bytes of a JSON file
WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "an object",
    type(None): "null",
}
DTYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL")  # of tensors in our own files
LONGEST_TEXT = 1_000  # letters
short = reprlib.repr


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
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error  # a full disk names no file
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


def read_json(path: Path) -> Any:
    """The content of a JSON file; raises ValueError, before reading, if it is larger than any of ours."""
    if path.stat().st_size > LARGEST_JSON:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes, expected at most {LARGEST_JSON:,}")
    try:
        return parse_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None


@contextlib.contextmanager
def opened_tensors(path: Path) -> Iterator[Any]:
    """A safetensors file whose tensors are read one by one; a damaged one raises ValueError."""
    try:
        with safe_open(str(path), framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is damaged or not a safetensors file: {error}") from None


def read_tensors(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Metadata and tensors of a safetensors file; raises before any tensor is read if one has a type of no use here."""
    with opened_tensors(path) as file:
        names = list(file.keys())
        for name in names:
            if (dtype := file.get_slice(name).get_dtype()) not in DTYPES:
                raise ValueError(f"{path} holds {name} as {dtype}, expected {', '.join(DTYPES)}")
        return file.metadata() or {}, {name: file.get_tensor(name) for name in names}


def write_tensors(path: Path, tensors: Mapping[str, Any], metadata: dict[str, str] | None = None) -> Path:
    """Write a safetensors file atomically, of tensors on any device."""
    return write_bytes(path, _in_bytes(tensors, metadata))


def _in_bytes(tensors: Mapping[str, Any], metadata: dict[str, str] | None) -> bytes:
    from safetensors.torch import save  # with torch, which a command may not need

    content = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}  # not shared
    return save(content, metadata)


def write_headed(path: Path, kind: str, header: dict[str, Any], tensors: Mapping[str, Any]) -> Path:
    """Write tensors below a JSON header, which has a "format" and gets a checksum; ``kind``: an agent, an atlas."""
    header = {**header, "checksum": _checksum(kind, header, tensors)}
    return write_tensors(path, tensors, {kind: json.dumps(header, allow_nan=False)})


def read_headed(path: Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the tensors that ``write_headed`` wrote; raises ValueError unless the format is ``version``.

    Files of the format before have no checksum; others are refused if they were changed.
    """
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    try:
        metadata, tensors = read_tensors(path)
        header = parse_json(metadata[kind])
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path.name} is damaged or holds no {kind}: {error}") from None
    if not isinstance(header, dict) or header.get("format") not in (version - 1, version):
        raise ValueError(f"{path.name} has an unknown format, this version reads {version - 1} and {version}")
    checked = header["format"] == version or "checksum" in header
    if checked and header.pop("checksum", None) != _checksum(kind, header, tensors):
        raise ValueError(f"{path.name} is damaged: it was changed after it was written")
    return header, tensors


def _checksum(kind: str, header: dict[str, Any], tensors: Mapping[str, Any]) -> str:
    return hashlib.sha256(_in_bytes(tensors, {kind: json.dumps(header, allow_nan=False)})).hexdigest()


def no_number(text: str) -> Any:
    """``parse_constant`` for ``json.loads``: NaN and infinities are refused."""
    raise ValueError(f"it holds {text}, which is not a number")


def parsed(value: Any, kind: Any, name: str) -> Any:
    """The JSON value as an annotation says: a dataclass, a list, or one of several types; raises if it is not.

    A dataclass needs all of its fields and no other. True is not a number; a whole number is one.
    """
    if is_dataclass(kind):
        kinds = {field.name: field.type for field in fields(kind)}
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be an object with {', '.join(kinds)}, got {short(value)}")
        for key in sorted(value.keys() ^ kinds.keys()):
            raise ValueError(f"{name} {'lacks the' if key in kinds else 'has the unknown'} key {short(key)}")
        parts = {key: parsed(value[key], kinds[key], f"{name}: {key}") for key in kinds}
        return kind(**parts)  # type: ignore[operator]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Sequence, tuple):
        if not isinstance(value, list):
            raise ValueError(f"{name} must be a list, got {short(value)}")
        part_kind = arguments[0]
        if origin is tuple:
            return tuple(parsed(part, part_kind, name) for part in value)
        if set(map(type, value)) <= set(get_args(part_kind) or (part_kind,)):  # fast path: a list of numbers
            return value
        return [parsed(part, part_kind, name) for part in value]
    allowed = arguments if origin is UnionType else (origin or kind,)
    if type(value) is int and float in allowed and int not in allowed:
        return float(value)
    if type(value) not in allowed:
        raise ValueError(f"{name} must be {' or '.join(WORDS[one] for one in allowed)}, got {short(value)}")
    if type(value) is str and len(value) > LONGEST_TEXT:
        raise ValueError(f"{name} is text of {len(value)} letters, expected at most {LONGEST_TEXT:,}")
    return value
