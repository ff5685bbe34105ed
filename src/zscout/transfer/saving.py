"""The file of an agent: safetensors with a JSON header, no pickle."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from zscout.base.files import parse_json, read_headed, write_headed
from zscout.base.types import PolicySet
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.atlas.behaviours import columns, names_of
from zscout.transfer.atlas.choice import over_atlas, own_atlas
from zscout.transfer.atlas.experience import Experience, ForecastErrors
from zscout.transfer.atlas.limits import Limit, as_limits, check_costs, known_costs, saved_limits
from zscout.transfer.belief.feedback import Sites
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.inputs import check_model_kind, check_observation
from zscout.transfer.method_json import method_from_json, method_to_json
from zscout.transfer.methods import Method, resolved
from zscout.transfer.state import AgentState

if TYPE_CHECKING:
    from zscout.transfer.agent import OnlineTransfer

FILE = "agent.safetensors"
FORMAT = 12
LEARNS_BY = ("ridge", "prior", "intercept")  # settings that a posterior depends on
OBSERVED = ("asked", "action", "entered")  # of any type; tensors in the file, one for each entry of a dict


def save_agent(agent: "OnlineTransfer", folder: Path) -> None:
    """Write method, seeds and state to one file, atomically."""
    state, method, seeds, atlas = agent._state, agent.method, agent.seeds, agent.atlas
    header = {
        "format": FORMAT,
        "method": method_to_json(method),
        "state": numbers_of(state),
        **{name: getattr(method, name) for name in LEARNS_BY},
        "dim": state.posterior.dim,
        "runs": len(seeds) if seeds.ndim else None,
        "name": agent.method_name,
        "noise": agent.noise,
        "norm_bound": agent.norm_bound,
        "atlas": None if atlas is None else atlas.digest,
        "behaviours": names_of(agent.bfm),
        "limits": [one.about() for one in agent.limits],
    }
    tensors = {"seeds": seeds} | tensors_of(state)
    tensors |= {} if atlas is None else _rows_of(state, atlas) | known_costs(agent.limits, atlas)
    write_headed(folder / FILE, "agent", header, tensors)


def load_agent(
    kind: "type[OnlineTransfer]",
    folder: Path,
    bfm: PolicySet,
    method: Method | None,
    atlas: Atlas | None,
    limit: Limit | Sequence[Limit] | None,
) -> "OnlineTransfer":
    """The agent that ``save_agent`` wrote; see ``OnlineTransfer.load``."""
    atlas = own_atlas(bfm) if atlas is None else atlas
    check_model_kind(bfm, charted=atlas is not None)
    method = None if method is None else resolved(method, bfm.dim)
    try:
        found, tensors, saved = _read(folder, method, atlas)
        order = columns(saved.get("behaviours"), bfm, "it")
        if order is not None:
            if atlas is not None and atlas.names is None:
                raise ValueError(f"its atlas has no names: pass Behaviours in this order: {saved['behaviours']}")
            tensors |= {name: tensors[name][..., order] for name in ("last", "z") if name in tensors}
        digest = saved.get("atlas")
        if digest is not None and (atlas is None or atlas.digest != digest):
            raise ValueError("it learned with another atlas: pass the same atlas=")
        rest = {name: saved[name] for name in ("runs", "noise", "norm_bound")}
        atlas = None if digest is None else atlas
        limits = saved_limits(saved["limits"], as_limits(limit))
        agent = kind(bfm, found, seed=tensors["seeds"].tolist(), atlas=atlas, limit=limits, **rest)
        if agent.atlas is not None:
            check_costs(agent.limits, tensors, agent.atlas)
        if saved["dim"] != agent.model.dim:
            raise ValueError(f"it was saved with {saved['dim']} features, this one has {agent.model.dim}")
        agent.method_name = saved["name"]
        agent._state = state = _restored(agent._state, saved["state"], tensors, bfm.dim, agent.atlas)
        for obs in filter(lambda obs: obs is not None, (state.asked, state.entered)):
            check_observation(obs, bfm.observation_space, agent.runs)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise ValueError(f"cannot restore the agent in {folder}: {error}") from error
    return agent


def _read(folder: Path, method: Method | None, atlas: Atlas | None) -> tuple[Method, dict[str, Tensor], dict[str, Any]]:
    """The method (or the one given, with an atlas if the saved agent had one), the tensors, and the header."""
    description, tensors = read_headed(folder / FILE, "agent", FORMAT)
    if description.get("past"):
        raise ValueError("it began from a memory, which is gone: begin anew, and follow an earlier best_z first")
    if description.get("forgetting", 1.0) != 1:
        raise ValueError("it forgets old rewards, which is gone: begin anew, with change=zscout.ChangeTest()")
    if description["method"] is not None:
        description["method"].pop("forgetting", None)
    if method is None and description["method"] is None:
        raise ValueError("its method has parts from outside zscout: pass method=")
    found = method or method_from_json(description["method"])
    if method is not None and description.get("atlas") is not None:
        found = over_atlas(method, 1 if atlas is None else atlas.hold)
    for piece in LEARNS_BY:
        if getattr(found, piece) != description.get(piece):
            raise ValueError(f"it learned with {piece} = {description.get(piece)}, this method has a different value")
    shape, runs = tuple(tensors["seeds"].shape), description["runs"]
    if shape != (() if runs is None else (runs,)):
        raise ValueError(f"seeds have shape {shape}, runs = {runs}")
    return found, tensors, description


# The state as tensors


def numbers_of(state: AgentState) -> dict[str, Any]:
    """The fields that are not tensors, and which of ``OBSERVED`` are."""
    return {"t": state.t, "tensors": [name for name, value in _observed(state).items() if isinstance(value, Tensor)]}


def tensors_of(state: AgentState) -> dict[str, Tensor]:
    """The other fields as tensors, by name."""
    whole = {"age": state.age, "task_root": state.posterior.task_root, "last": state.last, "z": state.z}
    whole |= {"answers": state.answers} | _observed(state)
    parts = {"posterior": state.posterior.tensors(), "memory": state.memory, "recent": state.recent}
    parts |= {f"cost.{k}": cost.tensors() for k, cost in enumerate(state.costs)}
    optional = {"experience": state.experience, "errors": state.errors, "sites": state.sites}
    parts |= {name: vars(part) for name, part in optional.items() if part is not None}
    whole |= {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
    return {
        name: value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
        for name, value in whole.items()
        if value is not None
    }


def _rows_of(state: AgentState, atlas: Atlas) -> dict[str, Tensor]:
    """The rows of its z in an atlas; a saved atlas may round z, but keeps the order."""
    found = {"last": state.last, "z": state.z}
    return {f"row.{name}": atlas.index_of(z.float()) for name, z in found.items() if z is not None}


def _observed(state: AgentState) -> dict[str, Any]:
    return {key: value for name in OBSERVED for key, value in _flattened(getattr(state, name), name).items()}


def _restored(
    new: AgentState, numbers: dict[str, Any], tensors: dict[str, Tensor], dim: int, atlas: Atlas | None
) -> AgentState:
    """The saved state, checked against that of a new agent; ``dim``: entries of z."""
    z = new.posterior.z_hat.new_empty(*new.posterior.runs, dim)
    like = tensors_of(replace(new, experience=None)) | {name: z for name in ("last", "z") if name in tensors}
    if not _same_prior(new.posterior.task_root, tensors.get("task_root")):
        raise ValueError("it learned with another prior over tasks than this model's: pass the same model")
    checked = {name: _like(tensors.get(name), value, name) for name, value in like.items()}
    experience = None
    if new.experience is not None and atlas is not None:
        experience = _experience(new.experience, tensors, len(atlas.z))
        for name in {"last", "z"} & checked.keys():
            row = _like(tensors.get(f"row.{name}"), experience.row, f"row.{name}")
            row = _rows(row, len(atlas.z), f"row.{name}")
            checked[name] = torch.where(row[..., None] < 0, checked[name], atlas.z.to(z)[row])
    posterior = _part(checked, "posterior")
    t, weight = numbers.get("t"), posterior["weight"]
    if type(t) is not int or not 0 <= t < 2**53 or (weight < 0).any():
        raise ValueError(f"its counts are invalid: t = {str(t)[:40]}, weight = {weight.tolist()}")
    kept, device = numbers.get("tensors", ()), new.age.device
    observed = {name: value for name, value in tensors.items() if name in OBSERVED or name.startswith("[")}
    memory = _part(tensors, "memory")
    return AgentState(
        new.posterior.with_tensors(posterior),
        checked["age"],
        t=t,
        last=checked.get("last"),
        z=checked.get("z"),
        answers=_answers(tensors.get("answers"), new.posterior),
        sites=_sites(tensors, new.posterior),
        **_unflattened({name: value if name in kept else value.numpy()[()] for name, value in observed.items()}),
        recent=_part(checked, "recent"),
        experience=experience,
        errors=new.errors and ForecastErrors(**_part(checked, "errors")),
        costs=tuple(cost.with_tensors(_part(checked, f"cost.{k}")) for k, cost in enumerate(new.costs)),
        memory={name: value.to(device) if value.ndim else value for name, value in memory.items()},  # counters: CPU
    )


def _part(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors of a part of the state, by the names of its fields."""
    return {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}


def _experience(new: Experience, tensors: dict[str, Tensor], behaviours: int) -> Experience:
    found = _part(tensors, "experience")
    room = found["tried"].shape[-1] if found["tried"].ndim else 0
    like = vars(new.with_room(room))
    seen = Experience(**{name: _like(found.get(name), value, name) for name, value in like.items()})
    _rows(torch.cat([seen.row.flatten(), seen.tried.flatten()]), behaviours, "its experience")
    if any((count < 0).any() for count in (seen.steps, seen.counts)):
        raise ValueError("its experience has counts below 0")
    return seen


def _answers(saved: Tensor | None, prior: TaskPosterior) -> Tensor | None:
    if saved is None:
        return None
    like = prior.z_hat
    if saved.ndim != like.ndim + 1 or not saved.shape[-2]:
        raise ValueError(f"answers have shape {tuple(saved.shape)}, expected [*b n d] with n ≥ 1")
    return _like(saved, like[..., None, :].expand(*like.shape[:-1], saved.shape[-2], -1), "answers")


def _sites(tensors: dict[str, Tensor], prior: TaskPosterior) -> Sites | None:
    found = _part(tensors, "sites")
    if not found:
        return None
    like = vars(Sites.none(prior, tensors["answers"].shape[-2]))
    return Sites(**{name: _like(found.get(name), value, f"sites.{name}") for name, value in like.items()})


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
