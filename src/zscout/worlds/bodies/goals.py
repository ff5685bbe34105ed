"""Goal features of bodies from observations, without physics: the geometry they need is in ``geometry.json``.

A model of a body loads with this alone. ``python -m benchmarks.geometry`` writes the file from MuJoCo.
"""

import json
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from zscout.base.edge import check_entries

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

    def angles(self, hinges: Float[Tensor, "*b links"]) -> Float[Tensor, "*b links"]:
        """θ of the links from the hinges, or θ̇ from their velocities."""
        return hinges @ self.turns.T

    @cached_property
    def real(self) -> list[tuple[Tensor, Tensor]]:
        """Real and imaginary parts of root, centre and coupling, for ``planar_goals``: ONNX has no complex numbers."""
        return [(one.real.contiguous(), one.imag.contiguous()) for one in (self.root, self.centre, self.coupling)]

    def drift(self, cos: Float[Tensor, "*b links"], sin: Tensor, rate: Tensor) -> Float[Tensor, "*b"]:
        """The horizontal velocity of the centre of mass relative to the root, Re Σ_k −iθ̇_k e_k a_k."""
        across, up = self.real[1]
        return (rate * cos) @ up - (rate * sin) @ across

    def angular_momentum(self, cos: Float[Tensor, "*b links"], sin: Tensor, rate: Tensor) -> Float[Tensor, "*b"]:
        """L = Σ_b m_b (r_b × v_b) + I_b θ̇_b about y, with r and v relative to the centre of mass."""
        along, across = self.real[2]
        # Re Σ_b m_b r̄_b e_l a_bl, for each l
        orbital = (cos @ along - sin @ across) * cos + (cos @ across + sin @ along) * sin
        return ((orbital + self.inertia) * rate).sum(-1)


def directions(angles: Float[Tensor, "*b links"]) -> Complex[Tensor, "*b links"]:
    """exp(−iθ)."""
    return torch.complex(angles.cos(), -angles.sin())


def goal_features(name: str, obs: Float[Tensor, "*b o"]) -> Float[Tensor, "*b g"]:
    """What tasks are made of, in metres, seconds and kilograms, for a body whose geometry has this name."""
    check_entries(obs, "observation", GEOMETRY[name]["size"])
    return legged_goals(name, obs) if "bones" in GEOMETRY[name] else planar_goals(name, obs)


def planar_goals(name: str, obs: Float[Tensor, "*b o"]) -> Float[Tensor, "*b 6"]:
    """Height of the torso, cosine and sine of its pitch, horizontal speed of the body, pitch rate, angular momentum.

    The speed is that of the centre of mass; the momentum is about it.
    """
    skeleton = skeleton_like(name, obs)
    links = len(skeleton.turns)
    if GEOMETRY[name]["sees_angles"]:
        angles = skeleton.angles(obs[..., 1 : links + 1])
        cos, sin = angles.cos(), angles.sin()
        height = obs[..., 0] + skeleton.real[0][1]
        velocity = obs[..., links + 1 : 2 * links + 3]
    else:  # the links' cosines and sines, and the height
        cos, sin = obs[..., : 2 * links : 2], obs[..., 1 : 2 * links : 2]
        height = obs[..., 2 * links]
        velocity = obs[..., 2 * links + 1 :]
    rate = skeleton.angles(velocity[..., 2:])
    features = [
        height,
        cos[..., 0],
        sin[..., 0],
        velocity[..., GEOMETRY[name]["x"]] + skeleton.drift(cos, sin, rate),  # "x": the root's horizontal velocity
        rate[..., 0],
        skeleton.angular_momentum(cos, sin, rate),
    ]
    return torch.stack(features, -1)


def legged_goals(name: str, obs: Float[Tensor, "*b o"]) -> Float[Tensor, "*b 8"]:
    """The cosine of the torso's tilt, its velocity forward, to the left and upward, and its rates, about its own axes.

    Rates are of roll, pitch and turn to the left. The last feature is how far the torso is above the toes, along its
    axis, on average.
    """
    upright, velocity, rates = obs[..., 47:48], obs[..., 44:47], obs[..., 51:54]
    toes = legs(name, obs[..., :16])[..., 3, 1]
    return torch.cat([upright, velocity, rates, -toes.mean(-1, keepdim=True)], -1)


def legs(name: str, hinges: Float[Tensor, "*b 16"]) -> Float[Tensor, "*b 4 4 2"]:
    """Hip, knee, ankle and toe of each leg in its plane, from the hip: outward, up along the torso's axis."""
    turn = torch.stack([hinges[..., joint::4] for joint in (1, 2, 3)], -1).cumsum(-1)  # pitch, knee, ankle
    cos, sin = turn.cos(), turn.sin()
    out, up = _stored(name, "bones", hinges.device, hinges.dtype)
    steps = torch.stack([out * cos + up * sin, up * cos - out * sin], -1)
    return torch.cat([torch.zeros_like(steps[..., :1, :]), steps.cumsum(-2)], -2)


def skeleton_like(name: str, like: Tensor) -> Skeleton:
    """The skeleton of a planar body, with the device and precision of a tensor of real numbers."""
    found: Skeleton = _stored(name, "skeleton", like.device, like.dtype)
    return found


@cache  # a captured graph cannot copy
def _stored(name: str, part: str, device: torch.device, dtype: torch.dtype) -> Any:
    """A skeleton; or bones [2 3] from joint to joint of a leg, in its plane: outward, up."""

    def numbers(value: Any) -> Tensor:
        if isinstance(value, dict):
            return torch.complex(numbers(value["real"]), numbers(value["imag"]))
        return torch.tensor(value, dtype=torch.float64).to(device, dtype)

    found = GEOMETRY[name][part]
    if part == "bones":
        return numbers(found).T
    return Skeleton(**{key: numbers(value) for key, value in found.items()})
