"""Goal features of bodies from observations, without physics: the geometry they need is in ``geometry.json``.

A model of a body loads with this alone. ``python -m benchmarks.geometry`` writes the file from MuJoCo.
"""

import json
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.worlds.bodies.physics import check_entries
from zscout.worlds.bodies.skeleton import Skeleton

FILE = "geometry.json"
GEOMETRY: dict[str, Any] = json.loads(files("zscout.worlds.bodies").joinpath(FILE).read_text())  # by body

# Entries of the goal features of planar bodies.
HEIGHT, COS_PITCH, SIN_PITCH, SPEED, PITCH_RATE, SPIN = range(6)
NAMES = ("height", "upright", "pitched down", "speed", "pitch rate", "angular momentum")


@dataclass(frozen=True, eq=False)
class PlanarGoals:
    """Height, cosine and sine of the pitch, speed of the centre of mass, pitch rate, angular momentum."""

    size: int  # entries of an observation
    skeleton: Skeleton
    x: int  # entry of the velocities that is the root's horizontal one
    sees_angles: bool  # the observation is of angles; else of the links' cosines and sines and of the height
    _copies: dict[tuple[torch.device, torch.dtype], Skeleton] = field(default_factory=dict)

    def __call__(self, obs: Float[Tensor, "*b o"]) -> Float[Tensor, "*b g"]:
        """In metres, seconds and kilograms."""
        check_entries(obs, "observation", self.size)
        skeleton, links = self.skeleton_like(obs), len(self.skeleton.turns)
        if self.sees_angles:
            angles = skeleton.angles(obs[..., 1 : links + 1])
            cos, sin = angles.cos(), angles.sin()
            height = obs[..., 0] + skeleton.real.root_up
            velocity = obs[..., links + 1 : 2 * links + 3]
        else:
            cos, sin = obs[..., : 2 * links : 2], obs[..., 1 : 2 * links : 2]
            height = obs[..., 2 * links]
            velocity = obs[..., 2 * links + 1 :]
        rate = skeleton.angles(velocity[..., 2:])
        features = [
            height,
            cos[..., 0],
            sin[..., 0],
            velocity[..., self.x] + skeleton.drift(cos, sin, rate),
            rate[..., 0],
            skeleton.angular_momentum(cos, sin, rate),
        ]
        return torch.stack(features, -1)

    def skeleton_like(self, like: Tensor) -> Skeleton:
        """The skeleton with the device and precision of a tensor."""
        key = like.device, like.dtype
        if key not in self._copies:
            self._copies[key] = self.skeleton.to(like)
        return self._copies[key]


@dataclass(frozen=True, eq=False)
class QuadrupedGoals:
    """The torso's tilt, velocity and rates about its own axes, and how far it is above the toes."""

    size: int  # entries of an observation
    bones: Float[Tensor, "3 2"]  # from joint to joint of a leg, in its plane: outward, up
    _copies: dict[tuple[torch.device, torch.dtype], Tensor] = field(default_factory=dict)

    def __call__(self, obs: Float[Tensor, "*b o"]) -> Float[Tensor, "*b g"]:
        """In metres and seconds."""
        check_entries(obs, "observation", self.size)
        upright, velocity, rates = obs[..., 47:48], obs[..., 44:47], obs[..., 51:54]
        toes = self.legs(obs[..., :16])[..., 3, 1]
        return torch.cat([upright, velocity, rates, -toes.mean(-1, keepdim=True)], -1)

    def legs(self, hinges: Float[Tensor, "*b 16"]) -> Float[Tensor, "*b 4 4 2"]:
        """Hip, knee, ankle and toe of each leg in its plane, from the hip: outward, up along the torso's axis."""
        turn = torch.stack([hinges[..., joint::4] for joint in (1, 2, 3)], -1).cumsum(-1)  # pitch, knee, ankle
        cos, sin = turn.cos(), turn.sin()
        key = hinges.device, hinges.dtype
        if key not in self._copies:  # a captured graph cannot copy
            self._copies[key] = self.bones.T.to(hinges)
        out, up = self._copies[key]
        steps = torch.stack([out * cos + up * sin, up * cos - out * sin], -1)
        return torch.cat([torch.zeros_like(steps[..., :1, :]), steps.cumsum(-2)], -2)


@cache
def goals_of(name: str) -> PlanarGoals | QuadrupedGoals:
    """The goal features of a body of the suite."""
    about = GEOMETRY[name]
    if "bones" in about:
        return QuadrupedGoals(about["size"], torch.tensor(about["bones"], dtype=torch.float64))
    skeleton = Skeleton(**{part: _tensor(value) for part, value in about["skeleton"].items()})
    return PlanarGoals(about["size"], skeleton, about["x"], about["sees_angles"])


def _tensor(value: Any) -> Tensor:
    """Numbers; complex ones are written as {"real": …, "imag": …}."""
    if isinstance(value, dict):
        real, imag = (torch.tensor(value[part], dtype=torch.float64) for part in ("real", "imag"))
        return torch.complex(real, imag)
    return torch.tensor(value, dtype=torch.float64)
