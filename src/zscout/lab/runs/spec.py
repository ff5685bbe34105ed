"""The frozen description of a run, its digest, and the loop that runs it."""

import hashlib
import json
import math
import warnings
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

import zscout
from zscout.base.edge import as_size, in_range
from zscout.lab.arenas.arena import Arena, Batch, Task
from zscout.lab.arenas.simulation import simulated
from zscout.lab.arenas.source import UserObject, digest_of_code
from zscout.loop.rollout import Step
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.method_json import method_to_json
from zscout.transfer.methods import METHODS, Method


@dataclass(frozen=True)
class Spec:
    """One run: the same spec, weights and code give the same states, actions and rewards, alone or in a batch."""

    arena: Arena
    method: str  # one of METHODS, or the name of ``value``
    task: Task
    settings: str = "{}"  # JSON, so that a spec is hashable
    outside: float | int = 0.0  # share of the reward's variance over states that no φ·z expresses
    offset: float | int = 0.0  # a constant added to every reward
    noise: float | int = 0.3
    seed: int = 0
    steps: int = 200
    value: UserObject | None = None  # a Method

    def __post_init__(self) -> None:
        for name in ("outside", "offset", "noise"):  # 0 and 0.0 must give the same digest
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def group(self) -> "Spec":
        """The spec without task and seed: runs of one group can share a batch."""
        return replace(self, task=(), seed=0)

    @property
    def digest(self) -> str:
        """The name of the run in a store."""
        method = "" if self.value else self.method  # another name of a Method is no other run
        content = {**self.to_json(), "method": method, "decided": _decided(self.group)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]

    @property
    def is_stored(self) -> bool:
        """Whether the sources of all its objects are known: else a change of one would be missed."""
        return all(it is None or it.has_source for it in (self.value, self.arena.objects))

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the device, which changes nothing."""
        content = {it.name: getattr(self, it.name) for it in fields(self) if it.name not in ("arena", "value")}
        task = self.task if isinstance(self.task, str) else list(self.task)
        return {**self.arena.to_json(), **content, "task": task}

    def build(self, task: Float[Tensor, "R d"]) -> Method:
        """The method for runs with these z_r."""
        if self.value:
            value: Method = self.value.value
            return value
        settings = json.loads(self.settings)
        return METHODS[self.method](dim=self.arena.bfm.dim, noise=self.noise, task=task, **settings)

    def check(self) -> None:
        """Raise if it cannot run."""
        as_size(self.steps, "steps", 1)
        in_range(self.noise, "noise", 0.0, math.inf, open_end=True)
        in_range(self.outside, "outside", 0.0, 1.0, open_end=True)
        in_range(self.offset, "offset", -1e9, 1e9)
        tasks = self.arena.sample_tasks(1, Generator().manual_seed(0))  # loads the model, which may raise
        if not self.value:
            METHODS[self.method].check(**json.loads(self.settings))
        if not (self.value or self.arena.objects):  # errors of user code are recorded with its runs
            walk(self, Batch(tasks, [0], self.noise, self.outside, self.offset), steps=2)


def named(method: str | Method, name: str = "own") -> tuple[str, UserObject | None]:
    """The name and the value of a method, as a spec has them."""
    return (method, None) if isinstance(method, str) else (name, UserObject.of(method))


def walk(group: Spec, batch: Batch, steps: int) -> tuple[OnlineTransfer, list[Step]]:
    """Run the method on every task of the batch: the agent after its last step, and the steps."""
    arena = group.arena
    method = group.build(arena.vectors(batch.tasks))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* has no effect")  # a grid may hold settings that some models do not use
        agent = OnlineTransfer(arena.bfm, method, seed=list(batch.seeds), runs=len(batch.seeds))
    return agent, list(islice(simulated(agent, arena.environment(batch)), steps))


def settings_json(settings: dict[str, Any]) -> str:
    """Settings as text; equal settings give equal text."""
    return json.dumps(settings, sort_keys=True)


@cache
def _decided(group: Spec) -> list[Any]:
    """Everything besides its names that decides a run: the world, the weights, the method's parts, and the code."""
    if group.value:
        return [group.arena.fingerprint, group.value.digest, code_digest()]
    pieces = method_to_json(group.build(torch.ones(1, group.arena.bfm.dim)))
    return [group.arena.fingerprint, pieces, code_digest()]


DECIDES = ("base", "features", "lab/arenas", "lab/evaluation", "lab/runs", "loop", "models", "transfer", "worlds")


@cache
def code_digest() -> str:
    """SHA-256 of the code that decides a record, without its comments and docstrings."""
    root = Path(zscout.__file__).parent
    sources = [path for part in DECIDES for path in sorted((root / part).rglob("*.py"))]
    return hashlib.sha256(b"".join(digest_of_code(path.read_bytes()) for path in sources)).hexdigest()
