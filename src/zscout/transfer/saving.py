"""Saved agents: one safetensors file with a JSON header, no pickle."""

import json
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from zscout.edge import as_finite
from zscout.files import parse_json, write_bytes
from zscout.transfer import acquisition, confidence, explorers, rollout_searches, search
from zscout.transfer.methods import Method

FILE = "agent.safetensors"
FORMAT = 3
BEFORE_INTERCEPT = 2  # the format before intercepts existed
LEARNS_BY = ("ridge", "forgetting", "intercept")  # settings that a saved posterior depends on
HOMES = (confidence, acquisition, search, rollout_searches, explorers)
"""Modules that the parts of a method may come from; a file cannot name any other."""
ROLES: dict[str, tuple[ModuleType, ...]] = {
    "confidence": (confidence,),
    "acquisition": (acquisition,),
    "score": (acquisition,),
    "search": (search, rollout_searches),
    "start": (search,),
    "explorer": (explorers,),
}
"""Modules allowed for each field of a method."""


@dataclass(frozen=True, eq=False)
class SavedAgent:
    """Everything that determines an agent's future behaviour."""

    method: Method
    method_name: str | None
    noise: float | None
    norm_bound: float | None
    dim: int
    seeds: Int[Tensor, "*b"]
    t: dict[str, Any]  # the state's numbers
    tensors: dict[str, Tensor]  # the state's tensors

    @property
    def seed(self) -> int | list[int]:
        """One seed, or one for each run."""
        found: int | list[int] = self.seeds.tolist()
        return found

    @property
    def runs(self) -> int | None:
        """The number of runs; None for a single agent."""
        return len(self.seeds) if self.seeds.ndim else None

    def write(self, folder: Path) -> None:
        """Write one file atomically."""
        description = {
            "format": FORMAT,
            "name": self.method_name,
            "method": method_to_json(self.method),
            **{name: getattr(self.method, name) for name in LEARNS_BY},
            "noise": self.noise,
            "norm_bound": self.norm_bound,
            "dim": self.dim,
            "runs": self.runs,
            "state": self.t,
        }
        tensors = {"seeds": self.seeds} | self.tensors
        content = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        header = {"agent": json.dumps(description, allow_nan=False)}
        write_bytes(folder / FILE, to_bytes(content, metadata=header))

    @classmethod
    def read(cls, folder: Path, dim: int, method: Method | None) -> "SavedAgent":
        """Read the agent in ``folder``; pass ``method`` if it has parts from outside zscout."""
        description, tensors = _content(folder)
        found = method or method_from_json(description["method"])
        if found is None:
            raise ValueError("its method has parts from outside zscout: pass method=")
        for piece in LEARNS_BY:
            if getattr(found, piece) != description[piece]:
                raise ValueError(f"it learned with {piece} = {description[piece]}, this method has a different value")
        if description["dim"] != dim:
            raise ValueError(f"it was saved with a model of {description['dim']} features, this one has {dim}")
        seeds, runs = tensors.pop("seeds"), description["runs"]
        if tuple(seeds.shape) != (() if runs is None else (runs,)):
            raise ValueError(f"seeds have shape {tuple(seeds.shape)}, runs = {runs}")
        name, noise, norm_bound = (description[name] for name in ("name", "noise", "norm_bound"))
        return cls(found, name, noise, norm_bound, dim, seeds, description["state"], tensors)


def _content(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    path = folder / FILE
    if not path.is_file():
        raise ValueError(f"no agent in {folder}: {FILE} is missing")
    try:
        with safe_open(path, framework="pt") as file:
            description = parse_json((file.metadata() or {})["agent"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a saved agent: {error}") from error
    if not isinstance(description, dict) or description.get("format") not in (BEFORE_INTERCEPT, FORMAT):
        raise ValueError(f"{path} has an unknown format: this version reads {BEFORE_INTERCEPT} and {FORMAT}")
    tensors = {name.replace("visits.", "memory.", 1): value for name, value in tensors.items()}  # the old name
    if description["format"] == BEFORE_INTERCEPT:
        description["intercept"] = False
        if isinstance(description.get("method"), dict):
            description["method"]["intercept"] = False
    return description, tensors


def method_to_json(piece: Any) -> Any:
    """A method's parts as names and numbers; None if it has parts from outside zscout."""
    try:
        return _to_json(piece)
    except TypeError:
        return None


def method_from_json(value: Any) -> Method | None:
    """The method written by ``method_to_json``; every part must be of the type that its field expects."""
    if value is None:
        return None
    found = _from_json(value, "method", (Method,))
    assert isinstance(found, Method)
    return found


def _from_json(value: Any, place: str, wanted: tuple[Any, ...]) -> Any:
    if isinstance(value, dict):
        kind = value.get("is")
        if kind == "tensor":
            found: Any = as_finite(value.get("values"), place)
        elif kind not in _pieces():
            raise ValueError(f"it names an unknown part {kind!r}")
        else:
            made, hints = _pieces()[kind], get_type_hints(_pieces()[kind])
            names = {f.name for f in fields(made)}
            if unknown := sorted(value.keys() - names - {"is"}):
                raise ValueError(f"{kind} has no {unknown[0]!r}")
            parts = {name: part for name, part in value.items() if name != "is"}
            found = made(**{name: _from_json(part, name, _kinds(name, hints[name])) for name, part in parts.items()})
    else:
        found = value
    if not any(_is(found, kind) for kind in wanted):
        raise ValueError(f"its {place} has an invalid value, {str(found)[:40]}")
    return float(found) if float in wanted and type(found) is int and int not in wanted else found


def _kinds(name: str, hint: Any) -> tuple[Any, ...]:
    """The types that a field may hold: parts by the module of their role, else by the annotation."""
    if name in ROLES:
        return (*ROLES[name], *([type(None)] if type(None) in get_args(hint) else []))
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)


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


@cache
def _pieces() -> dict[str, type]:
    found: dict[str, type] = {"Method": Method}
    for home in HOMES:
        for name, thing in vars(home).items():
            if isinstance(thing, type) and is_dataclass(thing) and thing.__module__ == home.__name__:
                found[name] = thing
    return found
