"""Recorded runs in a JSON file: the live page writes it, ``zscout compare --traces`` reads and checks it."""

import json
import reprlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

import zscout
from zscout.edge import as_size, in_range, known_name
from zscout.files import no_number
from zscout.lab.grid_arena import GridArena
from zscout.lab.ground import OF_ARENAS, SHIPPED, Ground
from zscout.lab.simulation import Trace
from zscout.transfer.methods import METHODS
from zscout.worlds.maps import WORLDS

KIND, FORMAT = "trace", 2
BEFORE_INTERCEPT = 1  # the format of runs without an intercept
LARGEST = 1e50  # of any number: sums of squares of values stay finite
MOST_BYTES = 64 * 2**20
STATES, VECTORS, FINAL = ("state", "action", "entered"), ("z", "z_hat", "best_z"), ("final_z", "final_z_hat")
NUMBER = (int, float)
KINDS: dict[str, tuple[tuple[type, ...], int]] = {  # the types of a JSON value (none: any), and the depth of its lists
    **dict.fromkeys(("world", "features", "model", "who", "version", "method"), ((str,), 0)),
    **dict.fromkeys(("seed", "since"), ((int,), 0)),
    "noise": (NUMBER, 0),
    "memory": ((int, type(None)), 0),
    "intercept": ((bool,), 0),
    **dict.fromkeys(STATES, ((int,), 1)),
    **dict.fromkeys((*FINAL, "radius", "table"), (NUMBER, 1)),
    **dict.fromkeys(VECTORS, (NUMBER, 2)),
    "exploring": ((bool,), 1),
    "reward": ((*NUMBER, type(None)), 1),
    **dict.fromkeys(("rewards", "runs"), ((), 1)),
}
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
short = reprlib.repr


@dataclass(frozen=True)
class Painting:
    """The hidden reward of each state and its σ, for every step t ≥ since until the next one; t counts from 0."""

    since: int
    table: Sequence[float | int]  # [S]
    noise: float | int


@dataclass(frozen=True)
class TracedRun:
    """A run of one method; row t is the step from S_t to S_{t+1}."""

    method: str
    state: Sequence[int]  # S_t [T]
    action: Sequence[int]  # A_t
    entered: Sequence[int]  # S_{t+1}
    z: Sequence[Sequence[float | int]]  # Z_t [T d]; for an explorer's step, the z to use without further learning
    exploring: Sequence[bool]  # whether an explorer chose the action
    reward: Sequence[float | int | None]  # R_{t+1}; None: not seen
    z_hat: Sequence[Sequence[float | int]]  # ẑ_t, before the step
    best_z: Sequence[Sequence[float | int]]  # the z to use without further learning, before the step
    radius: Sequence[float | int]  # √β_t
    final_z: Sequence[float | int]  # [d] the z to use after the last reward
    final_z_hat: Sequence[float | int]
    intercept: bool  # whether r ≈ φ·z + c was fitted: then ẑ has no constant part

    @classmethod
    def of(cls, trace: Trace, method: str, run: int = 0) -> "TracedRun":
        """One run of a trace."""
        columns = {name: getattr(trace, name)[:, run].tolist() for name in (*STATES, *VECTORS, "reward", "radius")}
        final = {name: getattr(trace, name)[run].tolist() for name in FINAL}
        return cls(method, exploring=trace.exploring.tolist(), intercept=trace.intercept, **columns, **final)

    @property
    def told(self) -> list[float | int]:
        """The rewards that were seen."""
        return [reward for reward in self.reward if reward is not None]

    def check(self, ground: Ground, steps: int) -> None:
        """Raise if the run is impossible in this world."""
        known_name(self.method, METHODS, "method")
        world, dim = ground.world, ground.exact.dim
        limits = (world.n_states, world.n_actions, world.n_states)
        state, action, entered = (
            array_in(getattr(self, name), name, (steps,), below=limit)
            for name, limit in zip(STATES, limits, strict=True)
        )
        shapes = dict.fromkeys(VECTORS, (steps, dim)) | dict.fromkeys(FINAL, (dim,))
        for name, shape in {**shapes, "radius": (steps,), "exploring": (steps,)}.items():
            array_in(getattr(self, name), name, shape)
        array_in([0.0 if reward is None else reward for reward in self.reward], "reward", (steps,))
        leads = world.successors[state.astype(int), action.astype(int)].numpy()  # [T K]
        if (wrong := (leads != entered[:, None]).all(1)).any():
            t = int(wrong.argmax())
            raise ValueError(f"step {t} goes from {state[t]:g} to {entered[t]:g}, where its action cannot lead")
        # Methods of whole rollouts may begin each one at the start.
        if (wrong := (state[1:] != entered[:-1]) & (state[1:] != state[0])).any():
            t = int(wrong.argmax()) + 1
            raise ValueError(f"step {t} begins in {state[t]:g}; it can in {entered[t - 1]:g}, or at the start")


@dataclass(frozen=True)
class TraceFile:
    """Runs side by side on one hidden reward, or one run that a person rewarded; invalid content raises."""

    world: str
    features: str
    model: str
    who: str  # hidden: the reward is a table; person: it is unknown
    noise: float | int  # σ at the beginning
    memory: int | None  # ρ = 1 − 1/memory; None: no forgetting
    seed: int
    rewards: Sequence[Painting]  # in order; none if a person gave the rewards
    runs: Sequence[TracedRun]
    version: str = zscout.__version__

    def __post_init__(self) -> None:
        known_name(self.world, WORLDS, "world")
        known_name(self.features, OF_ARENAS, "feature set")
        known_name(self.model, ("network", "exact"), "model")
        known_name(self.who, ("hidden", "person"), "kind of reward")
        if self.model == "network" and (self.world, self.features) not in SHIPPED:
            raise ValueError(f"no network ships for {self.features} in {self.world}")
        in_range(self.noise, "noise", 0.0, LARGEST)
        as_size(self.seed, "seed", 0, 2**61)
        if self.memory is not None:
            as_size(self.memory, "memory", 2, 10**9)
        if not self.runs or not self.runs[0].state:
            raise ValueError("it holds no step of any run")
        ground = self.arena.ground
        for number, run in enumerate(self.runs):
            try:
                run.check(ground, self.steps)
            except ValueError as error:
                raise ValueError(f"run {number}: {error}") from None
        since = [painting.since for painting in self.rewards]
        if bool(since) != (self.who == "hidden"):
            raise ValueError("a hidden reward has a table, a person's has none")
        if since and (since[0] != 0 or since != sorted(since) or since[-1] > self.steps):
            raise ValueError(f"rewards are since {short(since)}: the first since 0, then in order, within the run")
        for painting in self.rewards:
            array_in(painting.table, "the table of a reward", (ground.world.n_states,))
            in_range(painting.noise, "the noise of a reward", 0.0, LARGEST)

    @property
    def steps(self) -> int:
        """T."""
        return len(self.runs[0].state)

    @property
    def arena(self) -> GridArena:
        """The arena of the runs."""
        return GridArena(self.world, self.features, self.model)

    @property
    def forgetting(self) -> float:
        """ρ."""
        return 1.0 if self.memory is None else 1 - 1 / self.memory

    def tables(self) -> tuple[Float[Tensor, "K S"], Int[Tensor, " T"]]:
        """The rewards that were in force at some step, and the index of the one at each step."""
        used, which = self._in_force().unique(return_inverse=True)
        return _tensor([self.rewards[k].table for k in used.tolist()]), which

    def noises(self) -> Float[Tensor, " T"]:
        """σ at each step."""
        return _tensor([painting.noise for painting in self.rewards])[self._in_force()]

    def _in_force(self) -> Int[Tensor, " T"]:
        """The index of the reward at each step: the last of those since the same step."""
        since = torch.tensor([painting.since for painting in self.rewards])
        return torch.searchsorted(since, torch.arange(self.steps), right=True) - 1

    def trace(self, run: int) -> Trace:
        """One of its runs as a trace; λ and the task are unknown: NaN."""
        it, nan = self.runs[run], float("nan")
        return Trace(
            task=_tensor([[nan] * len(it.final_z)]),
            ridge=nan,
            forgetting=self.forgetting,
            intercept=it.intercept,
            exploring=torch.tensor(it.exploring),
            reward=_tensor([nan if reward is None else reward for reward in it.reward])[:, None],
            **{name: torch.tensor(getattr(it, name))[:, None] for name in STATES},
            **{name: _tensor(getattr(it, name))[:, None] for name in (*VECTORS, "radius")},
            **{name: _tensor(getattr(it, name))[None] for name in FINAL},
        )

    @staticmethod
    def about() -> dict[str, Any]:
        """The head of a file."""
        return {"zscout": KIND, "format": FORMAT, "version": zscout.__version__}

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        return {**self.about(), **asdict(self)}

    @classmethod
    def from_json(cls, content: Any) -> "TraceFile":
        """The inverse of ``to_json``; checks everything."""
        if not isinstance(content, dict) or content.get("zscout") != KIND:
            raise ValueError('it is no trace of zscout: it would begin with {"zscout": "trace", …}')
        if content.get("format") not in (BEFORE_INTERCEPT, FORMAT):
            raise ValueError(
                f"its format is {short(content.get('format'))}, this version reads {BEFORE_INTERCEPT} and {FORMAT}"
            )
        entries = {name: value for name, value in content.items() if name not in ("zscout", "format")}
        _check_fields(entries, cls, "the trace")
        old = {"intercept": False} if content["format"] == BEFORE_INTERCEPT else {}
        for name, kind, what in (("rewards", Painting, "a reward"), ("runs", TracedRun, "a run")):
            parts = [old | part if kind is TracedRun and isinstance(part, dict) else part for part in entries[name]]
            for part in parts:
                _check_fields(part, kind, what)
            entries[name] = [kind(**part) for part in parts]
        return cls(**entries)

    @classmethod
    def read(cls, path: Path) -> "TraceFile":
        """The content of a file; raises one line that says what is wrong with it."""
        try:
            with path.open("rb") as file:
                text = file.read(MOST_BYTES + 1)
            if len(text) > MOST_BYTES:
                raise ValueError(f"it is larger than {MOST_BYTES // 2**20} MB: no run is so long")
            return cls.from_json(json.loads(text, parse_constant=no_number))
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from None
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            raise ValueError(f"{path} is no JSON, which a trace is") from None
        except ValueError as error:
            raise ValueError(f"{path} cannot be used: {error}") from None


def _tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _check_fields(value: Any, wanted: type, what: str) -> None:
    """Raise unless the value is an object with exactly the fields of a dataclass, of the types in ``KINDS``."""
    names = [field.name for field in fields(wanted)]
    if not isinstance(value, dict):
        raise ValueError(f"{what} is an object with {', '.join(names)}, got {short(value)}")
    for name in sorted(value.keys() ^ set(names)):
        raise ValueError(f"{what} has no {name}" if name in names else f"{what} has {short(name)}, which is not known")
    for name in names:
        _check_kind(value[name], *KINDS[name], name)


def _check_kind(value: Any, kinds: tuple[type, ...], depth: int, name: str) -> None:
    if depth and not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {short(value)}")
    if depth:
        for part in value:
            _check_kind(part, kinds, depth - 1, name)
    elif kinds and type(value) not in kinds:  # True is no number
        raise ValueError(f"{name} holds {short(value)}, wanted is {' or '.join(WORDS[kind] for kind in kinds)}")
    elif type(value) is str and len(value) > 100:
        raise ValueError(f"{name} is text of {len(value)} letters")


def array_in(values: Any, name: str, shape: tuple[int, ...], below: int | None = None) -> np.ndarray:
    """An array of finite numbers of this shape; with ``below``, of indices from 0 on."""
    try:
        array = np.array(values, dtype=np.float64)
    except (ValueError, OverflowError, TypeError):
        raise ValueError(f"{name} must be numbers {list(shape)}, its rows alike and none too large") from None
    if array.shape != shape:
        raise ValueError(f"{name} has shape {list(array.shape)}, wanted is {list(shape)}")
    if not (np.abs(array) <= LARGEST).all():
        raise ValueError(f"{name} holds NaN, inf or a number beyond {LARGEST:g}")
    if below is not None and ((array < 0) | (array >= below)).any():
        outside = array[(array < 0) | (array >= below)][0]
        raise ValueError(f"{name} {outside:g} is outside 0 … {below - 1}")
    return array
