"""The state of an agent, and its file: safetensors with a JSON header, no pickle."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from zscout.base.edge import as_finite
from zscout.base.files import parse_json, write_bytes
from zscout.base.types import Action, Obs
from zscout.transfer.atlas import charted
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.atlas.charted import Experience
from zscout.transfer.atlas.limits import CostBelief
from zscout.transfer.baselines import explorers, rollout_searches
from zscout.transfer.baselines.rollout_searches import Memory
from zscout.transfer.belief import change
from zscout.transfer.belief.forecast_errors import ForecastErrors
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.belief.preferences import Preferences, Sites
from zscout.transfer.methods import Method
from zscout.transfer.score import acquisition, confidence, search

FILE = "agent.safetensors"
FORMAT = 10
EXPERIENCE, ERRORS, SITES, COST, ROW = "experience.", "errors.", "sites.", "cost.", "row."  # begin names of tensors
LEARNS_BY = ("ridge", "prior", "forgetting", "intercept")  # settings that a posterior depends on
OBSERVED = ("asked", "action", "entered")  # of any type; tensors in the file, one for each entry of a dict
ROLES: dict[str, tuple[ModuleType, ...]] = {
    "confidence": (confidence,),
    "acquisition": (acquisition,),
    "score": (acquisition,),
    "search": (search, rollout_searches, explorers, charted),
    "then": (search,),
    "explorer": (explorers,),
    "change": (change,),
}
"""Modules allowed for each field of a method; a file cannot name any other."""


@dataclass(frozen=True, eq=False)
class AgentState:
    """The state of an agent; a call that succeeds replaces it."""

    posterior: TaskPosterior
    age: Float[Tensor, "*b"]  # steps for which the last z was followed; infinite: choose a new one
    t: int = 0  # number of tells
    last: Float[Tensor, "*b d"] | None = None  # Z_{t−1}
    z: Float[Tensor, "*b d"] | None = None  # Z_t, from ask to tell
    asked: Obs | None = None  # S_t, from ask or act to tell
    entered: Obs | None = None  # the observation of the last tell
    action: Action | None = None  # A_t, from act to tell
    memory: Memory = field(default_factory=dict)  # of a rollout search or an explorer
    answers: Float[Tensor, "*b n d"] | None = None  # Φ_better − Φ_worse of each preference
    sites: Sites | None = None  # of the answers, before the last reward
    recent: Memory = field(default_factory=dict)  # the last rewards, for a change test
    experience: Experience | None = None  # of the behaviours followed, with an atlas
    errors: ForecastErrors | None = None  # of their forecasts
    costs: tuple[CostBelief, ...] = ()  # of each limit

    @cached_property
    def preferences(self) -> Preferences:
        """Rewards and answers mixed."""
        return Preferences.of(self.posterior.with_likely_prior, self.answers, self.sites)

    @property
    def belief(self) -> TaskPosterior:
        """The posterior of z given rewards and answers; ``posterior`` has the rewards only, with the first prior."""
        return self.posterior.with_likely_prior if self.answers is None else self.preferences.posterior

    @property
    def measured_belief(self) -> TaskPosterior:
        """The belief with its misfit, if it is known."""
        belief = self.belief
        return belief if self.errors is None else replace(belief, misfit=self.errors.misfit(belief))

    def numbers(self) -> dict[str, Any]:
        """The fields that are not tensors, and which of ``OBSERVED`` are."""
        return {"t": self.t, "tensors": [name for name, value in self._observed().items() if isinstance(value, Tensor)]}

    def tensors(self) -> dict[str, Tensor]:
        """The other fields as tensors, by name."""
        optional = {"task_root": self.posterior.task_root, "last": self.last, "z": self.z, "answers": self.answers} | {
            name: value if value is None or isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
            for name, value in self._observed().items()
        }
        return (
            {f"posterior.{name}": value for name, value in self.posterior.tensors().items()}
            | {"age": self.age}
            | {name: value for name, value in optional.items() if value is not None}
            | {f"memory.{name}": value for name, value in self.memory.items()}
            | {f"recent.{name}": value for name, value in self.recent.items()}
            | ({} if self.experience is None else {f"{EXPERIENCE}{n}": v for n, v in vars(self.experience).items()})
            | ({} if self.errors is None else {f"{ERRORS}{n}": v for n, v in vars(self.errors).items()})
            | {f"{COST}{k}.{n}": v for k, cost in enumerate(self.costs) for n, v in cost.tensors().items()}
            | ({} if self.sites is None else {f"{SITES}{n}": v for n, v in vars(self.sites).items()})
        )

    def rows(self, atlas: Atlas) -> dict[str, Tensor]:
        """The rows of its z in an atlas; a saved atlas may round z, but keeps the order."""
        found = {"last": self.last, "z": self.z}
        return {ROW + name: atlas.index_of(z.float()) for name, z in found.items() if z is not None}

    def _observed(self) -> dict[str, Any]:
        return {key: value for name in OBSERVED for key, value in _flattened(getattr(self, name), name).items()}

    def restored(
        self, numbers: dict[str, Any], tensors: dict[str, Tensor], dim: int, atlas: Atlas | None
    ) -> "AgentState":
        """The saved state, checked against this new one; ``dim``: entries of z."""
        z = self.posterior.z_hat.new_empty(*self.posterior.runs, dim)
        like = self.tensors() | {name: z for name in ("last", "z") if name in tensors}
        like = {name: value for name, value in like.items() if not name.startswith(EXPERIENCE)}
        if not _same_prior(self.posterior.task_root, tensors.get("task_root")):
            raise ValueError("it learned with another prior over tasks than this model's: pass the same model")
        checked = {name: _like(tensors.get(name), value, name) for name, value in like.items()}
        experience = None
        if self.experience is not None and atlas is not None:
            experience = self._experience(self.experience, tensors, len(atlas.z))
            for name in {"last", "z"} & checked.keys():
                row = _rows(_like(tensors.get(ROW + name), experience.row, ROW + name), len(atlas.z), ROW + name)
                checked[name] = torch.where(row[..., None] < 0, checked[name], atlas.z.to(z)[row])
        posterior = {name: checked[f"posterior.{name}"] for name in self.posterior.tensors()}
        t, weight = numbers.get("t"), posterior["weight"]
        if type(t) is not int or not 0 <= t < 2**53 or (weight < 0).any():
            raise ValueError(f"its counts are invalid: t = {str(t)[:40]}, weight = {weight.tolist()}")
        kept = numbers.get("tensors", ())
        device = self.age.device
        return AgentState(
            self.posterior.with_tensors(posterior),
            checked["age"],
            t=t,
            last=checked.get("last"),
            z=checked.get("z"),
            answers=self._answers(tensors.get("answers")),
            sites=self._sites(tensors),
            **_unflattened(
                {
                    name: value if name in kept else value.numpy()[()]
                    for name, value in tensors.items()
                    if name in OBSERVED or name.startswith("[")
                }
            ),
            recent={name: checked[f"recent.{name}"] for name in self.recent},
            experience=experience,
            errors=self.errors and ForecastErrors(*(checked[ERRORS + name] for name in vars(self.errors))),
            costs=tuple(
                cost.with_tensors({name: checked[f"{COST}{k}.{name}"] for name in cost.tensors()})
                for k, cost in enumerate(self.costs)
            ),
            memory={  # counters (scalars) stay on the CPU
                name.removeprefix("memory."): value.to(device) if value.ndim else value
                for name, value in tensors.items()
                if name.startswith("memory.")
            },
        )

    def _experience(self, new: Experience, tensors: dict[str, Tensor], behaviours: int) -> Experience:
        found = {name: tensors[EXPERIENCE + name] for name in vars(new)}
        room = found["tried"].shape[-1] if found["tried"].ndim else 0
        like = vars(new.with_room(room))
        seen = Experience(**{name: _like(value, like[name], name) for name, value in found.items()})
        _rows(torch.cat([seen.row.flatten(), seen.tried.flatten()]), behaviours, "its experience")
        if any((count < 0).any() for count in (seen.steps, seen.counts)):
            raise ValueError("its experience has counts below 0")
        return seen

    def _answers(self, saved: Tensor | None) -> Tensor | None:
        if saved is None:
            return None
        like = self.posterior.z_hat
        if saved.ndim != like.ndim + 1 or not saved.shape[-2]:
            raise ValueError(f"answers have shape {tuple(saved.shape)}, expected [*b n d] with n ≥ 1")
        return _like(saved, like[..., None, :].expand(*like.shape[:-1], saved.shape[-2], -1), "answers")

    def _sites(self, tensors: dict[str, Tensor]) -> Sites | None:
        found = {name: tensors[name] for name in tensors if name.startswith(SITES)}
        if not found:
            return None
        like = vars(Sites.none(self.posterior, tensors["answers"].shape[-2]))
        return Sites(**{name: _like(found.get(SITES + name), value, SITES + name) for name, value in like.items()})


def _flattened(value: Any, *path: str) -> dict[str, Any]:
    """The value by its name, such as asked; the entries of a dict by names such as ["asked", "goal"]."""
    if isinstance(value, Mapping):
        return {name: entry for key, part in value.items() for name, entry in _flattened(part, *path, key).items()}
    return {json.dumps(path) if len(path) > 1 else path[0]: value}


def _unflattened(entries: dict[str, Any]) -> dict[str, Any]:
    """What ``_flattened`` took apart, by the first name of each path."""
    found: dict[str, Any] = {}
    for name, value in entries.items():
        *path, last = [name] if name in OBSERVED else parse_json(name)
        into = found
        for key in path:
            into = into.setdefault(key, {})
        into[last] = value
    return found


def _same_prior(own: Tensor | None, saved: Tensor | None) -> bool:
    if own is None or saved is None:
        return own is saved
    return torch.allclose(_like(saved, own, "task_root"), own, rtol=1e-4, atol=1e-6)


def _like(value: Tensor | None, like: Tensor, name: str) -> Tensor:
    if value is None:
        raise ValueError(f"{name} is missing")
    if value.shape != like.shape or value.dtype != like.dtype:
        raise ValueError(f"{name} is {value.dtype} {tuple(value.shape)}, expected {like.dtype} {tuple(like.shape)}")
    if name != "age" and not torch.isfinite(value).all():  # an infinite age: choose a new z
        raise ValueError(f"{name} holds NaN or inf")
    return value.to(like.device)


def _rows(value: Int[Tensor, "*n"], behaviours: int, name: str) -> Int[Tensor, "*n"]:
    if (value < -1).any() or (value >= behaviours).any():
        raise ValueError(f"{name} names behaviours outside 0 … {behaviours - 1}")
    return value


def write_agent(
    folder: Path,
    method: Method,
    seeds: Int[Tensor, "*b"],
    state: AgentState,
    more: dict[str, Tensor],
    **given: object,
) -> None:
    """Write one file atomically; ``more`` and ``given``: what else the agent was made with."""
    shape = {"dim": state.posterior.dim, "runs": len(seeds) if seeds.ndim else None}
    learns_by = {name: getattr(method, name) for name in LEARNS_BY}
    description = {"format": FORMAT, "method": method_to_json(method), "state": state.numbers()}
    header = {"agent": json.dumps(description | learns_by | shape | given, allow_nan=False)}
    tensors = {"seeds": seeds} | state.tensors() | more
    content = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    write_bytes(folder / FILE, to_bytes(content, metadata=header))


def read_agent(
    folder: Path, method: Method | None, with_atlas: Callable[[Method], Method]
) -> tuple[Method, dict[str, Tensor], dict[str, Any]]:
    """Method, tensors and the rest of what ``write_agent`` wrote; pass a method with parts from outside zscout.

    ``with_atlas``: what an agent with an atlas makes of a method.
    """
    path = folder / FILE
    if not path.is_file():
        raise ValueError(f"no agent in {folder}: {FILE} is missing")
    try:
        with safe_open(path, framework="pt") as file:
            description = parse_json((file.metadata() or {})["agent"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a saved agent: {error}") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ValueError(f"{path} has an unknown format: this version reads format {FORMAT}")
    if method is None and description["method"] is None:
        raise ValueError("its method has parts from outside zscout: pass method=")
    found: Method = method or _from_json(description["method"], "method", (Method,))
    if method is not None and description.get("atlas") is not None:
        found = with_atlas(method)
    for piece in LEARNS_BY:
        if getattr(found, piece) != description.get(piece):
            raise ValueError(f"it learned with {piece} = {description.get(piece)}, this method has a different value")
    shape, runs = tuple(tensors["seeds"].shape), description["runs"]
    if shape != (() if runs is None else (runs,)):
        raise ValueError(f"seeds have shape {shape}, runs = {runs}")
    return found, tensors, description


# Methods as JSON


def method_to_json(piece: Any) -> Any:
    """A method's parts as names and numbers; None if it has parts from outside zscout."""
    try:
        return _to_json(piece)
    except TypeError:
        return None


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
