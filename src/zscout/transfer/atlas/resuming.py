"""Whether a chart that was stopped may go on: what its chunks depend on must be the same."""

import hashlib
import json
import re
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.files import opened_tensors, parse_json, write_tensors
from zscout.transfer.atlas.atlas import FILE, features_of
from zscout.transfer.atlas.behaviours import Behaviours

if TYPE_CHECKING:
    from zscout.transfer.atlas.charting import Charting

PARTIAL = "chart.safetensors"  # the chunks so far, while a chart is made
REPLAYED, ROWS = 20, 16  # steps of a behaviour that are followed again, and of how many; of ``Behaviours`` all
SAME = 1e-4  # another processor differs in last digits
NUDGE = 1e-6  # of z: steps that it changes say nothing, because last digits decide them
ADVICE = "overwrite=True (zscout chart: --overwrite)"


def check_finished(folder: str | Path, overwrite: bool) -> None:
    """Raise if the folder has a finished atlas, unless it is to be replaced."""
    done = Path(folder, FILE)
    if done.is_file() and not overwrite and not Path(folder, PARTIAL).is_file():
        raise ValueError(f"{done} is a finished atlas: {ADVICE} replaces it")


def _settings(chart: "Charting") -> dict[str, Any]:
    """What the chunks depend on, as far as it has a name."""
    bfm, env, features, z = chart.bfm, chart.env, chart.features, chart.given
    world: Any = env.unwrapped if isinstance(env, gymnasium.Env | VectorEnv) else env
    world = world.envs[0].unwrapped if isinstance(env, VectorEnv) and hasattr(world, "envs") else world
    world = getattr(world, "world", world)
    grid, repeat = getattr(world, "grid", world), getattr(world, "repeat", None)
    moves = getattr(grid, "next_state", None) if hasattr(grid, "from_map") else None  # a grid or a point maze
    spaces = (getattr(of, f"{kind}_space", None) for of in (bfm, env) for kind in ("observation", "action"))
    return {
        "model": list(bfm.names) if isinstance(bfm, Behaviours) else type(bfm).__qualname__,
        "z": None if z is None else _digest(torch.as_tensor(z).float().cpu().numpy().tobytes()),
        "features": getattr(features, "__qualname__", type(features).__name__),
        "environment": [type(env).__qualname__, type(world).__qualname__],
        "spec": re.sub(" at 0x[0-9a-f]+", "", str(getattr(env, "spec", None))),
        "spaces": list(map(str, spaces)),
        "map": None if moves is None else _digest(f"{world} {grid!r} {moves.tolist()}".encode()),
        "repeat": repeat if isinstance(repeat, int) else None,
        "number of environments": getattr(env, "num_envs", None),
        **{name: int(getattr(chart, name)) for name in ("behaviours", "starts", "steps", "seed")},
    }


def save_chunks(chart: "Charting", path: Path) -> None:
    """Save the chunks so far, with what the behaviours of the last one do."""
    for name, answers in {"actions": _actions, "features": _features}.items():
        chart.parts.setdefault(name, []).append(answers(chart, -1))
    tensors = {f"{name}.{k}": part for name, parts in chart.parts.items() for k, part in enumerate(parts)}
    write_tensors(path, tensors, {"chart": json.dumps(_settings(chart))})


def chunks_so_far(chart: "Charting", path: Path) -> dict[str, list[Tensor]]:
    """The parts of the chunks that were saved; raises if another model, world or settings made them."""
    if chart.overwrite:
        path.unlink(missing_ok=True)
    if not path.is_file():
        return {}
    try:
        chart.parts = _read(path, _settings(chart))
        _check_same(chart)
    except (KeyError, ValueError) as error:
        raise ValueError(f"cannot go on with {path}: {error}; {ADVICE} begins again") from None
    return chart.parts


def _read(path: Path, settings: dict[str, Any]) -> dict[str, list[Tensor]]:
    parts: dict[str, list[Tensor]] = {}
    with opened_tensors(path) as file:
        found = parse_json((file.metadata() or {}).get("chart", "null"))
        if not isinstance(found, dict):
            raise ValueError("another version of zscout made it")
        other = [name for name, now in settings.items() if found.get(name) != now]
        shown = (f"{k} ({found.get(k)}, now {settings[k]})" if type(settings[k]) is int else k for k in other)
        if other:
            raise ValueError(f"it was made with other settings: {', '.join(shown)}")
        for name in sorted(file.keys(), key=lambda name: int(name.rpartition(".")[2])):
            parts.setdefault(name.rpartition(".")[0], []).append(file.get_tensor(name))
    return parts


@torch.no_grad()
def _check_same(chart: "Charting") -> None:
    """Follow the first steps of some rows again; raise if they, or the model, are not as they were."""
    parts, bfm = chart.parts, chart.bfm
    z = torch.cat(parts["z"])
    rows = np.linspace(0, len(z) - 1, min(ROWS, len(z))).round().astype(int).tolist()
    names, acts = [f"row {row}" for row in range(len(z))], "the weights of the model have"
    if isinstance(bfm, Behaviours):
        rows, names, acts = list(range(len(z))), [repr(bfm.name_of(each)) for each in z], "its function has"
    if _others(parts["z"][0], lambda _: chart._z(0, len(parts["z"][0]))):
        raise ValueError("the model draws other z: it has changed")
    for number in sorted({row // chart.chunk for row in rows}):
        first = names[number * chart.chunk :]
        if other := _others(parts["actions"][number], partial(_actions, chart, number)):
            raise ValueError(f"{first[other[0]]} acts otherwise: {acts} changed")
        if other := _others(parts["features"][number], partial(_features, chart, number)):
            raise ValueError(f"{first[other[0]]} has other features: the model or the features have changed")
    opening = torch.cat(parts["opening"])[rows]
    if other := _others(opening, partial(_followed, chart, rows)):
        raise ValueError(f"{names[rows[other[0]]]} enters other states: the world's physics or starts have changed")


def _actions(chart: "Charting", number: int, _: float = 0.0) -> Float[Tensor, "n t a"]:
    """What the behaviours of a chunk do in the states that they entered first."""
    z, opening = chart._on_model(chart.parts["z"][number]), chart.parts["opening"][number]
    rng, single = Generator().manual_seed(chart.seed), isinstance(chart.env, gymnasium.Env)
    seen: Any = chart._on_model(opening)
    if single or isinstance(chart.env, VectorEnv):
        seen = opening.numpy().astype(chart.bfm.observation_space.dtype)
    found = []
    for t in range(opening.shape[1]):
        asked = zip(seen[:, t], z, strict=True) if single else [(seen[:, t], z)]  # a policy may know one at a time only
        found.append([torch.as_tensor(chart.bfm.act(obs, own, rng)).cpu().float() for obs, own in asked])
    return torch.stack([torch.stack(done).reshape(len(z), -1) for done in found], 1)


def _features(chart: "Charting", number: int, _: float = 0.0) -> Float[Tensor, "n D"]:
    """The features of the last of these states."""
    return features_of(chart._map, chart.parts["opening"][number][:, -1], chart._place).cpu().float()


def _followed(chart: "Charting", rows: list[int], nudge: float) -> Float[Tensor, "n t o"]:
    """The first steps of rows from their first start, followed again; with z changed by a relative ``nudge``."""
    groups: dict[tuple[int, int], Tensor] = {}
    found = []
    for row in rows:
        number, place = divmod(row, chart.chunk)
        z = chart.parts["z"][number]
        z = z * (1 + nudge * torch.randn(z.shape, generator=Generator().manual_seed(0)))
        together = chart.together(len(z))
        begin = place * chart.starts // together * together
        if (number, begin) not in groups:
            entered = islice(chart.entered(z, row - place, begin), REPLAYED)
            groups[number, begin] = torch.stack(list(entered), 1)
        found.append(groups[number, begin][place * chart.starts - begin])
    return torch.stack(found)


def _others(was: Float[Tensor, "n ..."], make: Callable[[float], Tensor]) -> list[int]:
    """The rows in which what is made now is another; from where on two tries differ nothing is said."""
    now = make(0.0)
    if now.shape != was.shape:
        return list(range(len(was)))
    other = ~_alike(now, was)
    if other.any():
        sure = _alike(make(NUDGE), now, SAME / 10).byte()
        other &= (sure.cummin(-1).values if sure.ndim > 1 else sure).bool()
    return other.reshape(len(was), -1).any(1).nonzero()[:, 0].tolist()


def _alike(one: Tensor, other: Tensor, within: float = SAME) -> Tensor:
    return torch.isclose(one, other, rtol=within, atol=within, equal_nan=True).all(-1)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
