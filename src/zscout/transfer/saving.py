"""An agent in a file: safetensors, whose header says in JSON what it is. Nothing is unpickled."""

import json
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from zscout.files import parse_json, write_bytes
from zscout.transfer import acquisition, confidence, direct, explorers, search, trials
from zscout.transfer.method import Method

FILE = "agent.safetensors"
FORMAT = 3
BEFORE_INTERCEPT = 2  # the format of agents that fit no intercept
HOMES = (confidence, acquisition, search, direct, trials, explorers)
"""Where the pieces of a method may come from: a file can name nothing else."""


def write(folder: Path, description: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """One file, there whole or not at all."""
    content = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    header = {"agent": json.dumps({"format": FORMAT, **description}, allow_nan=False)}
    write_bytes(folder / FILE, to_bytes(content, metadata=header))


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What ``write`` wrote."""
    path = folder / FILE
    if not path.is_file():
        raise ValueError(f"there is no agent in {folder}: {FILE} is missing")
    try:
        with safe_open(path, framework="pt") as file:
            description = parse_json((file.metadata() or {})["agent"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is no saved agent: {error}") from error
    if not isinstance(description, dict) or description.get("format") not in (BEFORE_INTERCEPT, FORMAT):
        raise ValueError(f"{path} is not of format {BEFORE_INTERCEPT} or {FORMAT}, which this version reads")
    if description["format"] == BEFORE_INTERCEPT:
        description["intercept"] = False
        if isinstance(description.get("method"), dict):
            description["method"]["intercept"] = False
    return description, tensors


def method_to_json(piece: Any) -> Any:
    """A method's pieces as names and numbers; None for a method with pieces that are not ours."""
    try:
        return _to_json(piece)
    except TypeError:
        return None


def method_from_json(value: Any) -> Any:
    """The pieces that ``method_to_json`` wrote."""
    if not isinstance(value, dict):
        return value
    kind = value.get("is")
    if kind == "tensor":
        return torch.tensor(value["values"], dtype=torch.float64)
    if kind not in _pieces():
        raise ValueError(f"it names a piece {kind!r} that this version does not have")
    return _pieces()[kind](**{name: method_from_json(part) for name, part in value.items() if name != "is"})


def _to_json(piece: Any) -> Any:
    if is_dataclass(piece) and type(piece) is _pieces().get(type(piece).__name__):
        return {"is": type(piece).__name__} | {f.name: _to_json(getattr(piece, f.name)) for f in fields(piece)}
    if isinstance(piece, Tensor):
        return {"is": "tensor", "values": piece.tolist()}
    if piece is None or isinstance(piece, bool | int | float | str):
        return piece
    raise TypeError(f"{piece!r} is no piece of zscout's own")


@cache
def _pieces() -> dict[str, type]:
    found: dict[str, type] = {"Method": Method}
    for home in HOMES:
        for name, thing in vars(home).items():
            if isinstance(thing, type) and is_dataclass(thing) and thing.__module__ == home.__name__:
                found[name] = thing
    return found
