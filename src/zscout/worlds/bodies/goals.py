"""Goal features of bodies from observations, without physics: the geometry they need is in ``geometry.json``.

A model of a body loads with this alone. ``python -m benchmarks.geometry`` writes the file from MuJoCo.
"""

import json
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor

FILE = "geometry.json"
GEOMETRY: dict[str, Any] = json.loads(files("zscout.worlds.bodies").joinpath(FILE).read_text())  # by body

# Entries of the goal features of planar bodies.
HEIGHT, COS_PITCH, SIN_PITCH, SPEED, PITCH_RATE, SPIN = range(6)
NAMES = ("height", "upright", "pitched down", "speed", "pitch rate", "angular momentum")


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Links that turn about y in a plane; the first one, the root, also slides. The point (x, z) is the number x + iz.

    Link k has the absolute angle θ_k = Σ_j turns[k, j] q_j, with q_j the angle of the hinge of link j. With the
    directions e_k = exp(−iθ_k), a point that is fixed to a link is at root + Σ_k e_k a_k, for constant numbers a, its
    chain.
    """

    turns: Float[Tensor, "links links"]  # ±1 for the hinges between a link and the world
    radii: Float[Tensor, " segments"]
    inertia: Float[Tensor, " links"]  # about y, at the link's centre of mass
    root: Complex[Tensor, ""]  # the root's hinge when the slides are at 0
    centres: Complex[Tensor, "links links"]  # chains of the links' centres of mass
    centre: Complex[Tensor, " links"]  # chain of the body's centre of mass
    coupling: Complex[Tensor, "links links"]  # Σ_b m_b ā_k a_l of the centres relative to the body's, m the masses
    ends: Complex[Tensor, "segments 2 links"]  # chains of the ends of the capsules

    def to(self, like: Tensor) -> "Skeleton":
        """A copy with the device and precision of a tensor of real numbers."""
        parts = [getattr(self, part.name) for part in fields(self)]
        return Skeleton(
            *(part.to(like.device, like.dtype.to_complex() if part.is_complex() else like.dtype) for part in parts)
        )

    def angles(self, hinges: Float[Tensor, "*b links"]) -> Float[Tensor, "*b links"]:
        """θ of the links from the hinges, or θ̇ from their velocities."""
        return hinges @ self.turns.T

    @cached_property
    def real(self) -> "Real":
        """Real and imaginary parts of what ``goal_features`` needs: ONNX has no complex numbers."""
        chains = (self.root, self.centre, self.coupling)
        return Real(*(part.contiguous() for chain in chains for part in (chain.real, chain.imag)))

    def drift(self, cos: Float[Tensor, "*b links"], sin: Tensor, rate: Tensor) -> Float[Tensor, "*b"]:
        """The horizontal velocity of the centre of mass relative to the root, Re Σ_k −iθ̇_k e_k a_k."""
        return (rate * cos) @ self.real.centre_up - (rate * sin) @ self.real.centre_across

    def angular_momentum(self, cos: Float[Tensor, "*b links"], sin: Tensor, rate: Tensor) -> Float[Tensor, "*b"]:
        """L = Σ_b m_b (r_b × v_b) + I_b θ̇_b about y, with r and v relative to the centre of mass."""
        along, across = self.real.coupling_along, self.real.coupling_across
        # Re Σ_b m_b r̄_b e_l a_bl, for each l
        orbital = (cos @ along - sin @ across) * cos + (cos @ across + sin @ along) * sin
        return ((orbital + self.inertia) * rate).sum(-1)


@dataclass(frozen=True, eq=False)
class Real:
    """Parts of a skeleton's complex numbers."""

    root_across: Float[Tensor, ""]
    root_up: Float[Tensor, ""]
    centre_across: Float[Tensor, " links"]
    centre_up: Float[Tensor, " links"]
    coupling_along: Float[Tensor, "links links"]
    coupling_across: Float[Tensor, "links links"]


def directions(angles: Float[Tensor, "*b links"]) -> Complex[Tensor, "*b links"]:
    """exp(−iθ)."""
    return torch.complex(angles.cos(), -angles.sin())


@dataclass(frozen=True, eq=False)
class PlanarGoals:
    """Height of the torso, cosine and sine of its pitch, horizontal speed of the body, pitch rate, angular momentum.

    The speed is that of the centre of mass; the momentum is about it.
    """

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
    """The cosine of the torso's tilt, its velocity forward, to the left and upward, and its rates, about its own axes.

    Rates are of roll, pitch and turn to the left. The last feature is how far the torso is above the toes, along its
    axis, on average.
    """

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


def check_entries(rows: Tensor, name: str, entries: int) -> None:
    """Raise ValueError unless the last dimension has that many entries; a Box takes longer than a whole step."""
    if not rows.ndim or rows.shape[-1] != entries:
        raise ValueError(f"{name} has shape {tuple(rows.shape)}, expected [*b {entries}]")


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
