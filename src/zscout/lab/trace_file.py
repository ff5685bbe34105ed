"""Recorded runs in a JSON file: the live page writes it, ``zscout compare --traces`` reads and checks it."""

import json
import reprlib
from collections.abc import Mapping, Sequence
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
NUMBER = (int, float)
LARGEST = 1e50  # of any number: sums of squares of values stay finite
BEFORE_INTERCEPT = 1  # the format of runs that fit no intercept
MOST_BYTES = 64 * 2**20
WHO = ("hidden", "person")  # who was the reward
MODELS = ("network", "exact")
short = reprlib.repr


@dataclass(frozen=True)
class Painting:
    """The hidden reward of each state and its σ, for every step t ≥ since until the next one; t counts from 0."""

    since: int
    table: Sequence[float | int]  # [S]
    noise: float | int


@dataclass(frozen=True)
class TracedRun:
    """What one method did, row by row; row t is of the step from S_t to S_{t+1}."""

    method: str
    state: Sequence[int]  # S_t [T]
    action: Sequence[int]  # A_t
    entered: Sequence[int]  # S_{t+1}
    z: Sequence[Sequence[float | int]]  # Z_t [T d]; while an explorer acts, what would be settled for
    exploring: Sequence[bool]  # an explorer chose the action
    reward: Sequence[float | int | None]  # R_{t+1}; None: none was seen
    z_hat: Sequence[Sequence[float | int]]  # ẑ_t, before the step
    best_z: Sequence[Sequence[float | int]]  # what would have been settled for, before the step
    radius: Sequence[float | int]  # √β_t
    final_z: Sequence[float | int]  # [d] what is settled for after the last reward
    final_z_hat: Sequence[float | int]
    intercept: bool  # whether it fitted r ≈ φ·z + c, so that ẑ has no constant part

    @classmethod
    def of(cls, trace: Trace, method: str, run: int = 0) -> "TracedRun":
        """One run of the laboratory's."""
        columns = ("state", "action", "entered", "z", "reward", "z_hat", "best_z", "radius")
        return cls(
            method=method,
            exploring=trace.exploring.tolist(),
            final_z=trace.final_z[run].tolist(),
            final_z_hat=trace.final_z_hat[run].tolist(),
            intercept=trace.intercept,
            **{name: getattr(trace, name)[:, run].tolist() for name in columns},
        )

    @property
    def told(self) -> list[float | int]:
        """The rewards that were seen."""
        return [reward for reward in self.reward if reward is not None]

    def check(self, ground: Ground, steps: int) -> None:
        """Refuse what cannot have happened there."""
        known_name(self.method, METHODS, "method")
        world, dim = ground.world, ground.exact.dim
        state, action, entered = (
            array_in(getattr(self, name), name, (steps,), below=limit)
            for name, limit in (("state", world.n_states), ("action", world.n_actions), ("entered", world.n_states))
        )
        for name in ("z", "z_hat", "best_z"):
            array_in(getattr(self, name), name, (steps, dim))
        for name in ("final_z", "final_z_hat"):
            array_in(getattr(self, name), name, (dim,))
        array_in(self.radius, "radius", (steps,))
        array_in([0.0 if reward is None else reward for reward in self.reward], "reward", (steps,))
        array_in(self.exploring, "exploring", (steps,))
        leads = world.successors[state.astype(int), action.astype(int)].numpy()  # [T K]
        if (wrong := (leads != entered[:, None]).all(1)).any():
            t = int(wrong.argmax())
            raise ValueError(f"step {t} goes from {state[t]:g} to {entered[t]:g}, where its action cannot lead")
        # A method that tries whole rollouts may begin each at the start.
        if (wrong := (state[1:] != entered[:-1]) & (state[1:] != state[0])).any():
            t = int(wrong.argmax()) + 1
            raise ValueError(f"step {t} begins in {state[t]:g}; it can in {entered[t - 1]:g}, or at the start")


@dataclass(frozen=True)
class TraceFile:
    """Runs side by side on one hidden reward, or one run that a person rewarded; what cannot be is refused."""

    world: str
    features: str
    model: str
    who: str  # hidden: the reward is a table; person: nobody knows it
    noise: float | int  # σ at the beginning
    memory: int | None  # ρ = 1 − 1/memory; None: nothing is forgotten
    seed: int
    rewards: Sequence[Painting]  # as they came; none where a person was the reward
    runs: Sequence[TracedRun]
    version: str = zscout.__version__

    def __post_init__(self) -> None:
        known_name(self.world, WORLDS, "world")
        known_name(self.features, OF_ARENAS, "feature set")
        known_name(self.model, MODELS, "model")
        known_name(self.who, WHO, "kind of reward")
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
        """Where it was."""
        return GridArena(self.world, self.features, self.model)

    @property
    def forgetting(self) -> float:
        """ρ."""
        return 1.0 if self.memory is None else 1 - 1 / self.memory

    def tables(self) -> tuple[Float[Tensor, "K S"], Int[Tensor, " T"]]:
        """The rewards that were in force at some step, and at each step which of them."""
        used, which = self._in_force().unique(return_inverse=True)
        return torch.tensor([self.rewards[k].table for k in used.tolist()], dtype=torch.float64), which

    def noises(self) -> Float[Tensor, " T"]:
        """σ at each step."""
        return torch.tensor([painting.noise for painting in self.rewards], dtype=torch.float64)[self._in_force()]

    def _in_force(self) -> Int[Tensor, " T"]:
        """Which of the rewards counts at each step: of several since the same one the last."""
        since = torch.tensor([painting.since for painting in self.rewards])
        return torch.searchsorted(since, torch.arange(self.steps), right=True) - 1

    def trace(self, run: int) -> Trace:
        """One of its runs as the laboratory has them; λ and the task are not known: NaN."""
        it, nan = self.runs[run], float("nan")
        rewards = [nan if reward is None else reward for reward in it.reward]
        vectors = {name: _tensor(getattr(it, name))[:, None] for name in ("z", "z_hat", "best_z", "radius")}
        states = {name: torch.tensor(getattr(it, name))[:, None] for name in ("state", "action", "entered")}
        return Trace(
            task=_tensor([[nan] * len(it.final_z)]),
            seeds=torch.tensor([self.seed]),
            ridge=nan,
            forgetting=self.forgetting,
            intercept=it.intercept,
            exploring=torch.tensor(it.exploring),
            reward=_tensor(rewards)[:, None],
            final_z=_tensor(it.final_z)[None],
            final_z_hat=_tensor(it.final_z_hat)[None],
            **vectors,
            **states,
        )

    # In files

    @staticmethod
    def about() -> dict[str, Any]:
        """How a file says what it is."""
        return {"zscout": KIND, "format": FORMAT, "version": zscout.__version__}

    def to_json(self) -> dict[str, Any]:
        """As plain lists and numbers."""
        return {**self.about(), **asdict(self)}

    @classmethod
    def from_json(cls, content: Any) -> "TraceFile":
        """What ``to_json`` wrote, if it is that."""
        if not isinstance(content, dict) or content.get("zscout") != KIND:
            raise ValueError('it is no trace of zscout: it would begin with {"zscout": "trace", …}')
        if content.get("format") not in (BEFORE_INTERCEPT, FORMAT):
            raise ValueError(
                f"its format is {short(content.get('format'))}, this version reads {BEFORE_INTERCEPT} and {FORMAT}"
            )
        entries = {name: value for name, value in content.items() if name not in ("zscout", "format")}
        keys_of(entries, cls, "the trace")
        if content["format"] == BEFORE_INTERCEPT:
            runs = list_in(entries["runs"], "runs")
            entries["runs"] = [{"intercept": False, **run} if isinstance(run, dict) else run for run in runs]
        for name in ("world", "features", "model", "who", "version"):
            check_kind(entries[name], (str,), name)
        check_kind(entries["noise"], NUMBER, "noise")
        check_kind(entries["seed"], (int,), "seed")
        check_kind(entries["memory"], (int, type(None)), "memory")
        entries["rewards"] = [_painting(value) for value in list_in(entries["rewards"], "rewards")]
        entries["runs"] = [_run(value) for value in list_in(entries["runs"], "runs")]
        return cls(**entries)

    @classmethod
    def read(cls, path: Path) -> "TraceFile":
        """The file, or one line that says what is wrong with it."""
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


VECTORS = ("z", "z_hat", "best_z")
KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("state", "action", "entered"), (int,)),
    **dict.fromkeys((*VECTORS, "radius", "final_z", "final_z_hat"), NUMBER),
    "exploring": (bool,),
    "reward": (*NUMBER, type(None)),
}


def _run(value: Any) -> TracedRun:
    keys_of(value, TracedRun, "a run")
    check_kind(value["method"], (str,), "method")
    check_kind(value["intercept"], (bool,), "intercept")
    for name, kinds in KINDS.items():
        for entry in list_in(value[name], name):
            for number in list_in(entry, name) if name in VECTORS else (entry,):
                check_kind(number, kinds, name)
    return TracedRun(**value)


def _painting(value: Any) -> Painting:
    keys_of(value, Painting, "a reward")
    check_kind(value["since"], (int,), "since")
    check_kind(value["noise"], NUMBER, "noise")
    for number in list_in(value["table"], "table"):
        check_kind(number, NUMBER, "table")
    return Painting(**value)


def _tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def keys_of(value: Any, wanted: type, what: str) -> None:
    """An object with the fields of a dataclass, all of them and no other."""
    names = [field.name for field in fields(wanted)]
    if not isinstance(value, dict):
        raise ValueError(f"{what} is an object with {', '.join(names)}, got {short(value)}")
    for name in sorted(value.keys() ^ set(names)):
        raise ValueError(f"{what} has no {name}" if name in names else f"{what} has {short(name)}, which is not known")


def list_in(value: Any, name: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {short(value)}")
    return value


def check_kind(value: Any, kinds: tuple[type, ...], name: str) -> None:
    """A value of one of these types."""
    if type(value) not in kinds:  # True is no number
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
        raise ValueError(f"{name} holds {short(value)}, wanted is {' or '.join(words[kind] for kind in kinds)}")
    if type(value) is str and len(value) > 100:
        raise ValueError(f"{name} is text of {len(value)} letters")


def array_in(values: Any, name: str, shape: tuple[int, ...], below: int | None = None) -> np.ndarray:
    """Finite numbers of this shape, or whole ones from 0 on."""
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
