"""The frozen description of a run and its digest; the rewards it stands for."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import zscout
from zscout.edge import as_size, in_range
from zscout.lab.arena import Arena, Ground
from zscout.lab.code_digest import digest_of_code
from zscout.lab.plugins import is_plugin, method_factory, source_digest
from zscout.lab.simulation import simulate
from zscout.transfer.methods import Method
from zscout.transfer.saving import method_to_json


@dataclass(frozen=True)
class Spec:
    """One run: the same spec, weights and code give the same states, actions and rewards, alone or among others."""

    arena: Arena  # world, features, model
    method: str  # one of METHODS, or module:name
    task: tuple[float, ...]  # z_r
    settings: str = "{}"  # JSON, so that a spec can be a key
    outside: float | int = 0.0  # share of the reward's variance over states that no φ·z expresses
    offset: float | int = 0.0  # a constant added to every reward
    noise: float | int = 0.3
    seed: int = 0
    steps: int = 200

    def __post_init__(self) -> None:
        for name in ("outside", "offset", "noise"):  # 0 and 0.0 are one number, and must be one digest
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def group(self) -> "Spec":
        """What it shares with the runs that can go through one batch with it."""
        return replace(self, task=(), seed=0)

    @property
    def digest(self) -> str:
        """Its name."""
        content = {**self.to_json(), "decided": _decided(self.group)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]

    def to_json(self) -> dict[str, Any]:
        """Flat, without the device, which decides nothing."""
        content = asdict(self)
        arena = content.pop("arena")
        del arena["device"]
        return {**arena, **content, "task": list(self.task)}

    def build(self, ground: Ground, task: Float[Tensor, "R d"]) -> Method:
        """The method; the setting ``exhaustive`` stands for the world's own look-ahead."""
        factory, settings = method_factory(self.method), json.loads(self.settings)
        if self.method == "exhaustive" or settings.pop("exhaustive", False):
            settings["look_ahead"] = ground.world.step
        return factory(dim=ground.exact.dim, noise=self.noise, task=task, **settings)

    def check(self) -> None:
        """Refuse what cannot be run before anything is."""
        as_size(self.steps, "steps", 1)
        in_range(self.noise, "noise", 0.0, math.inf, open_end=True)
        in_range(self.outside, "outside", 0.0, 1.0, open_end=True)
        in_range(self.offset, "offset", -1e9, 1e9)
        ground, seed = self.arena.ground, torch.zeros(1, dtype=torch.long)
        task = torch.ones(1, ground.exact.dim, dtype=torch.float64)
        if is_plugin(self.method) or is_plugin(self.arena.model):  # what else is wrong with it shows in its own runs
            method_factory(self.method).check(**json.loads(self.settings))
        else:
            method = self.build(ground, task)
            simulate(ground.model, ground.world, task, method, seeds=seed, steps=2, noise=self.noise)


def settings_json(settings: dict[str, Any]) -> str:
    """Settings written so that equal ones are the same text."""
    return json.dumps(dict(settings), sort_keys=True)


def rewards(
    ground: Ground, tasks: Float[Tensor, "R d"], seeds: list[int], outside: float, offset: float = 0.0
) -> Float[Tensor, "R S"]:
    """Each run's reward of each state: φ·z_r + offset; with ``outside`` > 0 and a part that no φ·z has, by its seed."""
    features = ground.exact.features.cpu()
    inside = tasks @ features.T + offset
    if not outside:
        return inside
    drawn = torch.stack([torch.randn(len(features), dtype=torch.float64, generator=_generator(seed)) for seed in seeds])
    with_constant = torch.cat([features, torch.ones(len(features), 1, dtype=torch.float64)], dim=1)
    directions, sizes, _ = torch.linalg.svd(with_constant, full_matrices=False)
    span = directions[:, sizes > 1e-9 * sizes[0]]
    beyond = drawn - drawn @ span @ span.T  # of mean 0, orthogonal to every φ·z
    spread: Tensor = inside.std(1, correction=0) / beyond.std(1, correction=0)
    size = spread * math.sqrt(outside / (1 - outside))
    return torch.addcmul(inside, beyond, size[:, None])


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed((seed * 1_000_003 + 17) % 2**62)


@cache
def _decided(group: Spec) -> list[Any]:
    """What names stand for: the map, the weights, the method's pieces, and the code."""
    ground = group.arena.ground
    own = [source_digest(name) for name in (group.method, group.arena.model, group.arena.features) if is_plugin(name)]
    # A stranger's method is its source: to build it may fail, which is for its own runs to find.
    pieces = None if is_plugin(group.method) else method_to_json(group.build(ground, torch.ones(1, ground.exact.dim)))
    return [ground.fingerprint, pieces, own, code_digest()]


@cache
def code_digest() -> str:
    """SHA-256 of the code that decides a record, without its comments and docstrings."""
    root = Path(zscout.__file__).parent
    lab = (
        f"lab/{name}.py"
        for name in ("simulation", "spec", "exact_values", "evaluation", "theory", "arena", "corrupted")
    )
    decides = ("bfm", "features", "transfer", "worlds", "edge.py", "randomness.py", *lab)
    sources = [path for part in decides for path in sorted((root / part).rglob("*.py")) or [root / part]]
    return hashlib.sha256(b"".join(digest_of_code(path.read_bytes()) for path in sources)).hexdigest()
