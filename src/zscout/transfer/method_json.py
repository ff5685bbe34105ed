"""A method's parts as JSON, by name: no code is loaded from a file."""

from dataclasses import fields, is_dataclass
from functools import cache
from types import ModuleType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from torch import Tensor

from zscout.base.edge import as_finite
from zscout.transfer.atlas import charted
from zscout.transfer.baselines import explorers, rollout_searches
from zscout.transfer.belief import change
from zscout.transfer.methods import Method
from zscout.transfer.score import acquisition, confidence, search

ROLES: dict[str, tuple[ModuleType, ...]] = {
    "confidence": (confidence,),
    "acquisition": (acquisition,),
    "score": (acquisition,),
    "search": (search, rollout_searches, explorers, charted),
    "explorer": (explorers,),
    "change": (change,),
}
"""Modules allowed for each field of a method; a file cannot name any other."""


def method_to_json(piece: Any) -> Any:
    """A method's parts as names and numbers; None if it has parts from outside zscout."""
    try:
        return _to_json(piece)
    except TypeError:
        return None


def method_from_json(content: Any) -> Method:
    """The inverse of ``method_to_json``; raises if a part is unknown or of the wrong kind."""
    found: Method = _from_json(content, "method", (Method,))
    return found


def _to_json(piece: Any) -> Any:
    if is_dataclass(piece) and type(piece) is _pieces().get(type(piece).__name__):
        return {"is": type(piece).__name__} | {f.name: _to_json(getattr(piece, f.name)) for f in fields(piece)}
    if isinstance(piece, np.generic):
        return piece.item()
    if isinstance(piece, Tensor):
        return {"is": "tensor", "values": piece.tolist()}
    if piece is None or isinstance(piece, bool | int | float | str):
        return piece
    raise TypeError(f"{piece!r} is not a part of zscout")


def _from_json(value: Any, place: str, wanted: tuple[Any, ...]) -> Any:
    """The part that ``_to_json`` wrote; raises unless it is of a type that its field expects."""
    found = value
    if isinstance(value, dict):
        kind, parts = value.get("is"), {name: part for name, part in value.items() if name != "is"}
        if kind == "tensor":
            found = as_finite(value.get("values"), place)
        elif kind not in _pieces():
            raise ValueError(f"it names an unknown part {kind!r}")
        else:
            made, hints = _pieces()[kind], get_type_hints(_pieces()[kind])
            if unknown := sorted(parts.keys() - {f.name for f in fields(made)}):
                raise ValueError(f"{kind} has no {unknown[0]!r}")
            found = made(**{name: _from_json(part, name, _kinds(name, hints[name])) for name, part in parts.items()})
    if not any(_is(found, kind) for kind in wanted):
        raise ValueError(f"its {place} has an invalid value, {str(found)[:40]}")
    return float(found) if float in wanted and type(found) is int and int not in wanted else found


def _kinds(name: str, hint: Any) -> tuple[Any, ...]:
    """The types that a field may hold: parts by the module of their role, else by the annotation."""
    if name in ROLES:
        return (*ROLES[name], *([type(None)] if type(None) in get_args(hint) else []))
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, ModuleType):
        return is_dataclass(value) and type(value).__module__ == kind.__name__
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is float:
        return type(value) is float or (type(value) is int and abs(value) < 2**53)
    if kind is int:
        return type(value) is int and abs(value) < 2**62  # fits a tensor
    if kind in (bool, str, type(None)):
        return type(value) is kind
    return isinstance(value, kind if isinstance(kind, type) and is_dataclass(kind) else Tensor)


@cache
def _pieces() -> dict[str, type]:
    found: dict[str, type] = {"Method": Method}
    for home in {home for homes in ROLES.values() for home in homes}:
        for name, thing in vars(home).items():
            if isinstance(thing, type) and is_dataclass(thing) and thing.__module__ == home.__name__:
                found[name] = thing
    return found
