"""Recorded runs in a JSON file: the live page writes it, ``zscout replay`` reads and checks it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

import zscout
from zscout.base.edge import as_size, in_range, known_name
from zscout.base.files import no_number, parsed, short
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.ground import OF_ARENAS, Ground
from zscout.lab.arenas.simulation import Trace
from zscout.transfer.methods import METHODS
from zscout.worlds.registry import of_kind

KIND, FORMAT = "trace", 2
MODELS, WHO = ("network", "exact"), ("hidden", "person")  # who gives the reward
LARGEST_NUMBER = 1e50  # of any number: sums of squares of values stay finite
MOST_BYTES = 64 * 2**20
STATES, VECTORS, FINAL_VECTORS = ("state", "action", "entered"), ("z", "z_hat", "best_z"), ("final_z", "final_z_hat")
Number: TypeAlias = int | float


@dataclass(frozen=True)
class Painting:
    """The hidden reward of each state and its σ, for every step t ≥ since until the next one; t counts from 0."""

    since: int
    table: Sequence[Number]  # [S]
    noise: Number


@dataclass(frozen=True)
class TracedRun:
    """A run of one method; row t is the step from S_t to S_{t+1}."""

    method: str
    state: Sequence[int]  # S_t [T]
    action: Sequence[int]  # A_t
    entered: Sequence[int]  # S_{t+1}
    z: Sequence[Sequence[Number]]  # Z_t [T d]; for an explorer's step, the best z
    exploring: Sequence[bool]  # whether an explorer chose the action
    reward: Sequence[Number | None]  # R_{t+1}; None: not seen
    z_hat: Sequence[Sequence[Number]]  # ẑ_t, before the step
    best_z: Sequence[Sequence[Number]]  # the best z, before the step
    radius: Sequence[Number]  # √β_t
    final_z: Sequence[Number]  # [d] the best z after the last reward
    final_z_hat: Sequence[Number]
    intercept: bool  # whether r ≈ φ·z + c was fitted: then ẑ has no constant part

    @property
    def told(self) -> list[Number]:
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
        shapes = dict.fromkeys(VECTORS, (steps, dim)) | dict.fromkeys(FINAL_VECTORS, (dim,))
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
    noise: Number  # σ at the beginning
    memory: int | None  # as in the page's set-up
    seed: int
    rewards: Sequence[Painting]  # in order; none if a person gave the rewards
    runs: Sequence[TracedRun]
    version: str = zscout.__version__

    def __post_init__(self) -> None:
        grids = of_kind("grid")
        known_name(self.world, grids, "world")
        known_name(self.features, OF_ARENAS, "feature set")
        known_name(self.model, MODELS, "model")
        known_name(self.who, WHO, "kind of reward")
        if self.model == "network" and self.features not in grids[self.world].models:
            raise ValueError(f"no network ships for {self.features} in {self.world}")
        in_range(self.noise, "noise", 0.0, LARGEST_NUMBER)
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
            in_range(painting.noise, "the noise of a reward", 0.0, LARGEST_NUMBER)

    @property
    def steps(self) -> int:
        """T."""
        return len(self.runs[0].state)

    @property
    def arena(self) -> GridArena:
        """The arena of the runs."""
        return GridArena(self.world, self.features, self.model)

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
            intercept=it.intercept,
            exploring=torch.tensor(it.exploring),
            reward=_tensor([nan if reward is None else reward for reward in it.reward])[:, None],
            **{name: torch.tensor(getattr(it, name))[:, None] for name in STATES},
            **{name: _tensor(getattr(it, name))[:, None] for name in (*VECTORS, "radius")},
            **{name: _tensor(getattr(it, name))[None] for name in FINAL_VECTORS},
        )

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        return {"zscout": KIND, "format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, content: Any) -> "TraceFile":
        """The inverse of ``to_json``; checks everything."""
        if not isinstance(content, dict) or content.get("zscout") != KIND:
            raise ValueError('it is not a trace of zscout, which begins with {"zscout": "trace", …}')
        if content.get("format") != FORMAT:
            raise ValueError(f"its format is {short(content.get('format'))}, this version reads {FORMAT}")
        entries = {name: value for name, value in content.items() if name not in ("zscout", "format")}
        file: TraceFile = parsed(entries, cls, "the trace")
        return file

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
            raise ValueError(f"{path} is not valid JSON") from None
        except ValueError as error:
            raise ValueError(f"{path} cannot be used: {error}") from None


def _tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def array_in(values: Any, name: str, shape: tuple[int, ...], below: int | None = None) -> np.ndarray:
    """An array of finite numbers of this shape; with ``below``, of indices from 0 on."""
    try:
        array = np.array(values, dtype=np.float64)
    except (ValueError, OverflowError, TypeError):
        raise ValueError(f"{name} must be numbers {list(shape)}, its rows alike and none too large") from None
    if array.shape != shape:
        raise ValueError(f"{name} has shape {list(array.shape)}, expected {list(shape)}")
    if not (np.abs(array) <= LARGEST_NUMBER).all():
        raise ValueError(f"{name} holds NaN, inf or a number beyond {LARGEST_NUMBER:g}")
    if below is not None and ((array < 0) | (array >= below)).any():
        outside = array[(array < 0) | (array >= below)][0]
        raise ValueError(f"{name} {outside:g} is outside 0 … {below - 1}")
    return array
