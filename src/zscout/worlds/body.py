"""Planar bodies of the DeepMind control suite on MuJoCo, thousands at once; needs the extra ``zscout[mujoco]``."""

import os
import threading
import warnings
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from zscout.edge import as_finite, as_size, common_shape, known_name
from zscout.types import Action, Obs
from zscout.worlds.skeleton import Skeleton, directions

# Entries of the goal features. All bodies have the first six; the hopper has the last one, too.
HEIGHT, COS_PITCH, SIN_PITCH, SPEED, PITCH_RATE, SPIN, EXTENSION = range(7)


@dataclass(frozen=True)
class Kind:
    """How the suite steps, starts and observes a body."""

    physics_steps: int  # in one control step
    any_pitch: bool = True  # a start has a uniformly random pitch
    settling: int = 0  # physics steps without control before an episode
    sees_angles: bool = True  # the observation is of angles; else of the links' cosines and sines and of the height
    touch: int = 0  # touch sensors


BODIES = {
    "walker": Kind(10, sees_angles=False),
    "cheetah": Kind(1, any_pitch=False, settling=200),
    "hopper": Kind(4, touch=2),
}


class Body:
    """A body of the control suite, stepped by MuJoCo; its physics equals dm_control's bit for bit.

    A state is (qpos, qvel, qacc_warmstart, touch), in float64. qacc_warmstart is where MuJoCo's solver starts: without
    it the next state changes by 1e-13, and chaos makes that a different episode after 300 steps. Touch is of the last
    physics step; only the hopper has it.

    An action is in [−1, 1]ᵃ and held for ``repeat`` control steps of the suite. Episodes do not terminate: a run is
    marked as terminated only if its simulation diverged, and is then near MuJoCo's initial state.

    Observations are dm_control's, flat, in the order of its dict. The suite's rewards follow exactly from them (the
    speed of the centre of mass, for example, from angles and velocities), except for the control cost of the hopper's
    ``stand``. So goal features and tasks are functions of the observation.
    """

    def __init__(self, name: str, *, repeat: int = 1, threads: int | None = None) -> None:
        self.name = known_name(name, BODIES, "body")
        self.kind = BODIES[name]
        self.repeat = as_size(repeat, "repeat", 1, 100)
        self.threads = _cores() if threads is None else as_size(threads, "threads", 1, 1_024)
        self.model = _load(name)
        self.skeleton = Skeleton.of(self.model)
        self._skeletons: dict[tuple[torch.device, torch.dtype], Skeleton] = {}
        self._batch: Any = None  # mujoco.batch.Batch with room for the largest number of bodies so far
        self._lock = threading.Lock()
        self._joints, self._actions = int(self.model.nq), int(self.model.nu)
        self._x, self._z = (int(self.model.joint(slide).qposadr[0]) for slide in ("rootx", "rootz"))

    @property
    def state_size(self) -> int:
        """Entries of a state."""
        return 3 * self._joints + self.kind.touch

    @property
    def observation_size(self) -> int:
        """Entries of an observation."""
        entries = 2 * self._joints - 1 if self.kind.sees_angles else 2 * (self._joints - 2) + 1 + self._joints
        return entries + self.kind.touch

    @property
    def observation_space(self) -> Box:
        """dm_control's observation, flat."""
        return Box(-np.inf, np.inf, (self.observation_size,), np.float32)

    @property
    def action_space(self) -> Box:
        """The controls of the actuators."""
        return Box(-1.0, 1.0, (self._actions,), np.float32)

    @property
    def seconds(self) -> float:
        """Simulated seconds of one action."""
        return float(self.model.opt.timestep) * self.kind.physics_steps * self.repeat

    def step(self, state: Obs, action: Action) -> tuple[Float[Tensor, "*b k"], Bool[Tensor, "*b"]]:
        """The next states, and which of them diverged; actions beyond [−1, 1] are clipped."""
        device = state.device if isinstance(state, Tensor) else None
        here, force = as_finite(state, "state", device), as_finite(action, "action", device)
        _check_size(here, "state", self.state_size)
        _check_size(force, "action", self._actions)
        runs = common_shape(here.shape[:-1], force.shape[:-1], "states and actions")
        rows = (part.expand(*runs, part.shape[-1]).reshape(-1, part.shape[-1]) for part in (here, force))
        entered, terminated = self.advance(*rows)
        return entered.reshape(*runs, -1), terminated.reshape(runs)

    def advance(
        self, state: Float[Tensor, "n k"], action: Float[Tensor, "n a"]
    ) -> tuple[Float[Tensor, "n k"], Bool[Tensor, " n"]]:
        """``step`` without checks, for training loops; the physics runs on the CPU."""
        return self._simulate(state, action, self.kind.physics_steps * self.repeat)

    def random_states(self, n: int, rng: Generator) -> Float[Tensor, "n k"]:
        """Starts of episodes, drawn as by dm_control: joints uniform within their limits, some settled for a while.

        A start of a body that settles costs as much as ``settling`` physics steps: draw them for the episodes that end.
        """
        limited = torch.tensor(self.model.jnt_limited.astype(bool))
        low, high = torch.tensor(self.model.jnt_range).T.clone()
        if self.kind.any_pitch:
            low[2], high[2], limited[2] = -np.pi, np.pi, True
        draws = torch.rand(n, self._joints, generator=rng, device=rng.device, dtype=torch.float64).cpu()
        state = torch.zeros(n, self.state_size, dtype=torch.float64)
        state[:, : self._joints] = torch.where(limited, low + (high - low) * draws, 0.0)
        if self.kind.settling or self.kind.touch:
            state, _ = self._simulate(state, torch.zeros(n, self._actions), self.kind.settling)
        return state.to(rng.device)

    def upright_states(self, n: int, rng: Generator) -> Float[Tensor, "n k"]:
        """Near the upright pose of the suite's model: a tenth of the angles of random starts, on the ground."""
        state = self.random_states(n, rng)
        joints = self._joints
        angles = 0.1 * state[:, :joints] + 0.9 * torch.tensor(self.model.qpos0).to(state)
        state = torch.cat([angles, torch.zeros_like(state[:, joints:])], 1)
        ends, radii = self.segments(state)
        state[:, self._z] -= (ends[..., 1].amin(-1) - radii.to(state)).amin(-1)
        if self.kind.touch:
            state, _ = self._simulate(state, torch.zeros(n, self._actions), 0)
        return state

    def observe(self, state: Float[Tensor, "*b k"]) -> Float[Tensor, "*b o"]:
        """dm_control's observations of states."""
        _check_size(state, "state", self.state_size)
        joints = self._joints
        position, velocity, touch = state[..., :joints], state[..., joints : 2 * joints], state[..., 3 * joints :]
        if self.kind.sees_angles:  # all but the horizontal position
            return torch.cat([position[..., 1:], velocity, touch.log1p()], -1)
        skeleton = self._skeleton(state)
        angles = skeleton.angles(position[..., 2:])
        orientations = torch.stack([angles.cos(), angles.sin()], -1).flatten(-2)
        height = position[..., self._z, None] + skeleton.root.imag
        return torch.cat([orientations, height, velocity], -1)

    def goal_features(self, obs: Float[Tensor, "*b o"]) -> Float[Tensor, "*b g"]:
        """What tasks are made of, in metres, seconds and kilograms, from observations.

        The torso's height, the cosine and sine of its pitch, the horizontal speed of the body's centre of mass, the
        pitch rate, and the body's angular momentum about its centre of mass; for the hopper also how far the torso is
        above the foot.
        """
        _check_size(obs, "observation", self.observation_size)  # a Box takes longer than all below
        skeleton, links = self._skeleton(obs), self._joints - 2
        if self.kind.sees_angles:
            angles = skeleton.angles(obs[..., 1 : links + 1])
            cos, sin = angles.cos(), angles.sin()
            height = obs[..., 0] + skeleton.real.root_up
            velocity = obs[..., links + 1 : links + 1 + self._joints]
        else:
            cos, sin = obs[..., : 2 * links : 2], obs[..., 1 : 2 * links : 2]
            height = obs[..., 2 * links]
            velocity = obs[..., 2 * links + 1 :]
        rate = skeleton.angles(velocity[..., 2:])
        features = [
            height,
            cos[..., 0],
            sin[..., 0],
            velocity[..., self._x] + skeleton.drift(cos, sin, rate),
            rate[..., 0],
            skeleton.angular_momentum(cos, sin, rate),
        ]
        if self.kind.touch:
            features.append(skeleton.rise(cos, sin))
        return torch.stack(features, -1)

    def segments(self, state: Float[Tensor, "*b k"]) -> tuple[Float[Tensor, "*b s 2 2"], Float[Tensor, " s"]]:
        """Ends (x, z) of the capsules that the body is made of, and the capsules' radii."""
        _check_size(state, "state", self.state_size)
        skeleton = self._skeleton(state)
        root = torch.complex(state[..., self._x], state[..., self._z]) + skeleton.root
        direction = directions(skeleton.angles(state[..., 2 : self._joints]))
        ends = root[..., None] + direction @ skeleton.ends.flatten(0, 1).T
        return torch.view_as_real(ends).unflatten(-2, (-1, 2)), skeleton.radii

    def __repr__(self) -> str:
        return f"Body({self.name!r}, repeat={self.repeat}, threads={self.threads})"

    def _simulate(
        self, state: Float[Tensor, "n k"], action: Float[Tensor, "n a"], steps: int
    ) -> tuple[Float[Tensor, "n k"], Bool[Tensor, " n"]]:
        """States after physics steps; without any, only the sensors are computed."""
        n, joints, rows = len(state), self._joints, state.detach().cpu().numpy()
        which = np.arange(n, dtype=np.int32)
        with self._lock:
            if self._batch is None or self._batch.nsim < n:
                from mujoco.batch import Batch

                self._batch = Batch(self.model, max(n, 1), self.threads)
            batch = self._batch
            parts = [batch.bind(name)[:n] for name in ("qpos", "qvel", "qacc_warmstart")]
            for number, part in enumerate(parts):
                part[:] = rows[:, number * joints : (number + 1) * joints]
            batch.bind("ctrl")[:n] = action.detach().cpu().numpy()
            if self.kind.touch:
                parts.append(batch.bind("sensordata")[:n, -self.kind.touch :])
            batch.warning[:] = 0
            if steps:
                batch.step(which, steps)
            else:
                batch.forward(which)
            diverged = torch.from_numpy(batch.warning[:n].any((1, 2)))
            entered = torch.from_numpy(np.concatenate(parts, 1))
        return entered.to(state), diverged.to(state.device)

    def _skeleton(self, like: Tensor) -> Skeleton:
        key = like.device, like.dtype
        if key not in self._skeletons:
            self._skeletons[key] = self.skeleton.to(like)
        return self._skeletons[key]


def body(name: str, *, repeat: int = 1, threads: int | None = None) -> Body:
    """The suite's walker, cheetah or hopper; ``threads`` of the physics are by default all that the process may use."""
    return Body(name, repeat=repeat, threads=threads)


def _check_size(rows: Tensor, name: str, entries: int) -> None:
    if not rows.ndim or rows.shape[-1] != entries:
        raise ValueError(f"{name} has shape {tuple(rows.shape)}, expected [*b {entries}]")


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _load(name: str) -> Any:
    """The suite's model, read from the installed dm_control, without what only pictures and dm_control's loop need."""
    try:
        import mujoco
        import mujoco.batch  # new in 3.17

        path = resources.files("dm_control") / "suite" / f"{name}.xml"
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("bodies need MuJoCo and dm_control: pip install 'zscout[mujoco]'") from error
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # the XML has attributes that will be removed
        model = mujoco.MjSpec.from_file(str(path)).compile()
    flags = mujoco.mjtDisableBit.mjDSBL_ISLAND  # a single body is one island
    if not BODIES[name].touch:
        flags |= mujoco.mjtDisableBit.mjDSBL_SENSOR
    model.opt.disableflags |= flags
    return model
