"""Planar kinematics of a MuJoCo model in batches: points, velocities and momentum from the angles of its links."""

from dataclasses import dataclass, fields
from functools import cached_property

import torch
from jaxtyping import Complex, Float
from torch import Tensor


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
        parts = [getattr(self, field.name) for field in fields(self)]
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
