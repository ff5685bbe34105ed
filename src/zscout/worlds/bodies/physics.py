"""A body of the DeepMind control suite on MuJoCo, thousands at once; needs the extra ``mujoco``."""

import contextlib
import ctypes
import os
import threading
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.spaces import Box
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from zscout.base.edge import as_positive, as_rows, as_size, check_entries
from zscout.base.hints import MissingExtraError, known_name
from zscout.base.types import Action, Obs
from zscout.worlds.bodies.goals import goal_features
from zscout.worlds.registry import of_kind

STATE = ("qpos", "qvel", "qacc_warmstart", "act")  # MuJoCo's names of the parts of a state before its sensors


class Parts(NamedTuple):
    """A state taken apart."""

    position: Float[Tensor, "*b nq"]
    velocity: Float[Tensor, "*b nv"]
    warm_start: Float[Tensor, "*b nv"]
    activation: Float[Tensor, "*b na"]
    sensors: Float[Tensor, "*b ns"]


class Mapped(NamedTuple):
    """A goal feature that tells rare states from common ones; what is beyond its range counts as its end."""

    feature: int
    low: float
    high: float


class Body(ABC):
    """A body of the control suite, stepped by MuJoCo; its physics equals dm_control's bit for bit.

    A state is (qpos, qvel, qacc_warmstart, act, sensors), in float64. qacc_warmstart is where MuJoCo's solver starts:
    without it the next state changes by 1e-13, and chaos makes that a different episode after 300 steps. Sensors are
    those that an observation needs and that follow from forces, of the last physics step.

    An action is in [−1, 1]ᵃ, scaled to the actuators' ranges, and held for ``repeat`` control steps of the suite.
    Episodes do not terminate: a run is marked as terminated only if its simulation diverged, and is then near MuJoCo's
    initial state.

    Observations are dm_control's, flat, in the order of its dict. The suite's rewards follow exactly from them, so goal
    features and tasks are functions of the observation.
    """

    name: str
    geometry: str  # its name in geometry.json
    physics_steps: int  # in one control step
    observation_size: int
    goal_names: tuple[str, ...]  # of the goal features
    mapped: tuple[Mapped, Mapped]

    def __init__(self, model: Any, sensors: Sequence[int], repeat: int, threads: int | None) -> None:
        self.model = model
        self.repeat = as_size(repeat, "repeat", 1, 100)
        self.threads = _cores() if threads is None else as_size(threads, "threads", 1, 1_024)
        self._simulator = _Simulator()
        self._sensors = list(sensors)  # columns of MuJoCo's sensordata
        self._sizes = [int(n) for n in (model.nq, model.nv, model.nv, model.na, len(self._sensors))]
        low, high = model.actuator_ctrlrange.T
        self._centre, self._half = (high + low) / 2, (high - low) / 2

    @property
    def state_size(self) -> int:
        """Entries of a state."""
        return sum(self._sizes)

    @property
    def observation_space(self) -> Box:
        """dm_control's observation, flat."""
        return Box(-np.inf, np.inf, (self.observation_size,), np.float32)

    @property
    def action_space(self) -> Box:
        """The controls of the actuators."""
        return Box(-1.0, 1.0, self._half.shape, np.float32)

    @property
    def seconds(self) -> float:
        """Simulated seconds of one action."""
        return float(self.model.opt.timestep) * self.physics_steps * self.repeat

    @property
    def rest(self) -> Float[Tensor, " k"]:
        """The pose of the suite's model, without velocity."""
        state = torch.zeros(self.state_size, dtype=torch.float64)
        state[: self._sizes[0]] = torch.tensor(self.model.qpos0)
        return state

    def parts(self, state: Float[Tensor, "*b k"]) -> Parts:
        """A state's parts."""
        check_entries(state, "state", self.state_size)
        return Parts(*state.split(self._sizes, -1))

    def step(self, state: Obs, action: Action) -> tuple[Float[Tensor, "*b k"], Bool[Tensor, "*b"]]:
        """The next states, and which of them diverged; actions beyond [−1, 1] are clipped."""
        runs, *rows = as_rows(state, action, (self.state_size, len(self._half)), "action")
        entered, terminated = self.advance(*rows)
        return entered.reshape(*runs, -1), terminated.reshape(runs)

    def advance(
        self, state: Float[Tensor, "n k"], action: Float[Tensor, "n a"]
    ) -> tuple[Float[Tensor, "n k"], Bool[Tensor, " n"]]:
        """``step`` without checks, for training loops; the physics runs on the CPU."""
        controls = self._centre + self._half * action.detach().cpu().numpy()
        return self._simulate(state, controls, self.physics_steps * self.repeat)

    @abstractmethod
    def random_states(self, n: int, rng: Generator) -> Float[Tensor, "n k"]:
        """Starts of episodes, drawn as by dm_control."""

    @abstractmethod
    def observe(self, state: Float[Tensor, "*b k"]) -> Float[Tensor, "*b o"]:
        """dm_control's observations of states."""

    def goal_features(self, obs: Float[Tensor, "*b o"]) -> Float[Tensor, "*b g"]:
        """What tasks are made of, in metres, seconds and kilograms, from observations: see ``goals``."""
        return goal_features(self.geometry, obs)

    @abstractmethod
    def segments(self, state: Float[Tensor, "*b k"]) -> tuple[Float[Tensor, "*b s 2 2"], Float[Tensor, " s"]]:
        """Ends of the capsules that a picture shows, from the left and from the floor, and the capsules' radii."""

    @property
    @abstractmethod
    def far(self) -> list[bool]:
        """Which of these capsules are on the far side of a body that moves to the right."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_simulator": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _simulator=_Simulator())

    def __repr__(self) -> str:
        return f"Body({self.name!r}, repeat={self.repeat}, threads={self.threads})"

    def _simulate(
        self, state: Float[Tensor, "n k"], controls: np.ndarray, steps: int
    ) -> tuple[Float[Tensor, "n k"], Bool[Tensor, " n"]]:
        """States after physics steps; without any, only the sensors are computed."""
        n, rows = len(state), state.detach().cpu().numpy()
        which = np.arange(n, dtype=np.int32)
        with self._simulator.lock:
            batch = self._simulator.batch_of(self.model, n, self.threads)
            given = np.split(rows, np.cumsum(self._sizes[:-1]), 1)
            parts = [batch.bind(name)[:n] for name, size in zip(STATE, self._sizes, strict=False) if size]
            for part, values in zip(parts, (each for each in given[:4] if each.shape[1]), strict=True):
                part[:] = values
            batch.bind("ctrl")[:n] = controls
            if self._sensors:
                sensed = batch.bind("sensordata")  # what is bound later is not filled
            batch.warning[:] = 0
            with _no_log():
                if steps:
                    batch.step(which, steps)
                else:
                    batch.forward(which)
            diverged = torch.from_numpy(batch.warning[:n].any((1, 2)))
            if self._sensors:
                parts.append(sensed[:n, self._sensors])
            entered = torch.from_numpy(np.concatenate(parts, 1))
        return entered.to(state), diverged.to(state.device)


class _Simulator:
    """MuJoCo's batch of bodies with its threads; copies of a body get their own, and so does a forked process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._batch: Any = None  # with room for the largest number of bodies so far
        SIMULATORS.add(self)

    def batch_of(self, model: Any, n: int, threads: int) -> Any:
        """A batch with room for n bodies."""
        if self._batch is None or self._batch.nsim < n:
            from mujoco.batch import Batch

            self._batch = Batch(model, max(n, 1), threads)
        return self._batch

    def leave(self) -> None:
        """Forget the batch without freeing it: that would wait for threads that are not in this process."""
        if self._batch is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._batch))
        self.lock, self._batch = threading.Lock(), None


SIMULATORS: weakref.WeakSet[_Simulator] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: list(map(_Simulator.leave, SIMULATORS)))


@contextlib.contextmanager
def _no_log() -> Iterator[None]:
    """Keep MuJoCo from printing its warnings and writing MUJOCO_LOG.TXT: ``step`` says which runs diverged."""
    import mujoco

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def load_model(name: str, change: Callable[[Any], None] | None = None, *, sensors: bool) -> Any:
    """The suite's model, read from the installed dm_control, without what only pictures and dm_control's loop need."""
    try:
        import mujoco
        import mujoco.batch  # new in 3.17

        path = resources.files("dm_control") / "suite" / f"{name}.xml"
    except ModuleNotFoundError as error:
        raise MissingExtraError("bodies need MuJoCo and dm_control", "mujoco") from error
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # the XML has attributes that will be removed
        spec = mujoco.MjSpec.from_file(str(path))
        if change is not None:
            change(spec)
        model = spec.compile()
    flags = mujoco.mjtDisableBit.mjDSBL_ISLAND  # a single body is one island
    if not sensors:
        flags |= mujoco.mjtDisableBit.mjDSBL_SENSOR
    model.opt.disableflags |= flags
    return model


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def body(name: str, *, repeat: int = 1, threads: int | None = None, scale: Mapping[str, float] | None = None) -> Body:
    """A body of the registry, such as "walker"; its physics has by default all cores of the process.

    ``scale`` multiplies what no model was trained with: ``{"torso": 1.5}`` its torso's mass, ``{"friction": 0.5}``.
    """
    bodies = of_kind("body")
    found: Body = bodies[known_name(name, bodies, "body")].make(repeat=repeat, threads=threads)
    for part, factor in (scale or {}).items():
        _scale(found, known_name(part, ("torso", "friction"), "part of a body's physics"), as_positive(factor, part))
    return found


def _scale(found: Body, part: str, factor: float) -> None:
    if part == "friction":
        found.model.geom_friction[:] *= factor
        return
    import mujoco

    torso = found.model.body("torso").id
    found.model.body_mass[torso] *= factor
    found.model.body_inertia[torso] *= factor
    mujoco.mj_setConst(found.model, mujoco.MjData(found.model))
