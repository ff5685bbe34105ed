"""The suite's planar bodies: walker and cheetah."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import known_name
from zscout.worlds.bodies.goals import HEIGHT, NAMES, SPEED, directions, skeleton_like
from zscout.worlds.bodies.physics import Body, Mapped, load_model


@dataclass(frozen=True)
class Kind:
    """How the suite steps, starts and observes a planar body."""

    physics_steps: int  # in one control step
    any_pitch: bool = True  # a start has a uniformly random pitch
    settling: int = 0  # physics steps without control before an episode
    sees_angles: bool = True  # the observation is of angles; else of the links' cosines and sines and of the height


PLANAR = {
    "walker": Kind(10, sees_angles=False),
    "cheetah": Kind(1, any_pitch=False, settling=200),
}


class PlanarBody(Body):
    """A body that moves in a plane, without sensors."""

    mapped = (Mapped(HEIGHT, 0.0, 2.0), Mapped(SPEED, -6.0, 6.0))

    def __init__(self, name: str, *, repeat: int = 1, threads: int | None = None) -> None:
        self.name = self.geometry = known_name(name, PLANAR, "planar body")
        self.kind = PLANAR[name]
        model = load_model(name, sensors=False)
        super().__init__(model, (), repeat, threads)
        self.physics_steps = self.kind.physics_steps
        self.goal_names = NAMES
        self._joints = joints = int(model.nq)
        self._x, self._z = (int(model.joint(slide).qposadr[0]) for slide in ("rootx", "rootz"))
        self.observation_size = 2 * joints - 1 if self.kind.sees_angles else 2 * (joints - 2) + 1 + joints

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
        if self.kind.settling:
            state, _ = self._simulate(state, np.zeros((n, len(self._half))), self.kind.settling)
        return state.to(rng.device)

    def observe(self, state: Float[Tensor, "*b k"]) -> Float[Tensor, "*b o"]:
        """dm_control's observations of states."""
        position, velocity, *_ = self.parts(state)
        if self.kind.sees_angles:  # all but the horizontal position
            return torch.cat([position[..., 1:], velocity], -1)
        skeleton = skeleton_like(self.geometry, state)
        angles = skeleton.angles(position[..., 2:])
        orientations = torch.stack([angles.cos(), angles.sin()], -1).flatten(-2)
        height = position[..., self._z, None] + skeleton.root.imag
        return torch.cat([orientations, height, velocity], -1)

    def segments(self, state: Float[Tensor, "*b k"]) -> tuple[Float[Tensor, "*b s 2 2"], Float[Tensor, " s"]]:
        """Ends (x, z) of the capsules that the body is made of, and the capsules' radii."""
        skeleton, position = skeleton_like(self.geometry, state), self.parts(state).position
        root = torch.complex(position[..., self._x], position[..., self._z]) + skeleton.root
        direction = directions(skeleton.angles(position[..., 2:]))
        ends = root[..., None] + direction @ skeleton.ends.flatten(0, 1).T
        return torch.view_as_real(ends).unflatten(-2, (-1, 2)), skeleton.radii

    @property
    def far(self) -> list[bool]:
        """The left ones."""
        return [self.model.geom(k).name.startswith("left") for k in np.flatnonzero(self.model.geom_bodyid)]
