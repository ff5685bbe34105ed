"""Planar kinematics of a MuJoCo model in batches: points, velocities and momentum from the angles of its links."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Links in the plane (x, z) that turn about y, all of them children of one root link that also slides.

    Link k has the absolute angle θ_k = Σ_j turns[k, j] q_j, with q_j the angle of the hinge of link j. A point that is
    fixed to a link is at

        root + Σ_k R(θ_k) a_k,   R(θ)(x, z) = (x cos θ + z sin θ, z cos θ − x sin θ),

    with constant vectors a, its chain [links 2].
    """

    root: Float[Tensor, " 2"]  # where the root's hinge is when the slides are at 0
    turns: Float[Tensor, "links links"]  # ±1 for the hinges between a link and the world
    centres: Float[Tensor, "links links 2"]  # chains of the links' centres of mass
    centre: Float[Tensor, "1 links 2"]  # chain of the centre of mass of the body
    mass: Float[Tensor, " links"]
    inertia: Float[Tensor, " links"]  # about y, at the link's centre of mass
    ends: Float[Tensor, "ends links 2"]  # chains of the ends of the capsules, two for each
    radii: Float[Tensor, " segments"]

    @classmethod
    def of(cls, model: Any) -> "Skeleton":
        """The skeleton of a ``mujoco.MjModel`` with one hinge for each link; the root's follows its two slides."""
        import mujoco

        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)  # all angles 0: a chain is a sum of vectors between hinges
        links = model.nbody - 1
        hinge = model.body_jntadr[1:] + model.body_jntnum[1:] - 1
        anchor = data.xanchor[hinge][:, ::2]
        turns, origins = np.zeros((links, links)), np.zeros((links, links, 2))
        for link, parent in enumerate(model.body_parentid[1:] - 1):
            if parent >= 0:  # −1 is the world
                turns[link], origins[link] = turns[parent], origins[parent]
                origins[link, parent] = anchor[link] - anchor[parent]
            turns[link, link] = model.jnt_axis[hinge[link], 1]
        capsules = np.flatnonzero(model.geom_bodyid > 0)
        owner, axis = model.geom_bodyid[capsules] - 1, data.geom_xmat[capsules].reshape(-1, 3, 3)[:, ::2, 2]
        reach = model.geom_size[capsules, 1, None] * axis
        middle, each, mass = data.geom_xpos[capsules, ::2] - anchor[owner], np.arange(links), model.body_mass[1:]
        centres, ends = origins.copy(), origins[owner][:, None].repeat(2, 1)
        centres[each, each] = data.xipos[1:, ::2] - anchor
        ends[np.arange(len(owner)), :, owner] = np.stack([middle - reach, middle + reach], 1)
        across = data.ximat[1:].reshape(-1, 3, 3)[:, 1]  # y along the principal axes of each link
        parts = (
            anchor[0],
            turns,
            centres,
            np.tensordot(mass / mass.sum(), centres, 1)[None],
            mass,
            (across**2 * model.body_inertia[1:]).sum(1),
            ends.reshape(-1, links, 2),
            model.geom_size[capsules, 0],
        )
        return cls(*map(torch.tensor, parts))

    def to(self, like: Tensor) -> "Skeleton":
        """A copy with the device and dtype of a tensor."""
        return Skeleton(*(part.to(like) for part in vars(self).values()))

    def angles(self, hinges: Float[Tensor, "*b links"]) -> Float[Tensor, "*b links"]:
        """θ of the links from the hinges, or θ̇ from their velocities."""
        return hinges @ self.turns.T

    def angular_momentum(
        self, cos: Float[Tensor, "*b links"], sin: Float[Tensor, "*b links"], rate: Float[Tensor, "*b links"]
    ) -> Float[Tensor, "*b"]:
        """L = Σ_k m_k (r_k × v_k) + I_k θ̇_k about y, r and v relative to the body's centre of mass."""
        relative = self.centres - self.centre
        x, z = points(relative, cos, sin).unbind(-1)
        vx, vz = velocities(relative, cos, sin, rate).unbind(-1)
        return (self.mass * (z * vx - x * vz)).sum(-1) + (self.inertia * rate).sum(-1)


def points(
    chains: Float[Tensor, "p links 2"], cos: Float[Tensor, "*b links"], sin: Float[Tensor, "*b links"]
) -> Float[Tensor, "*b p 2"]:
    """Σ_k R(θ_k) a_k, the points of chains relative to the root."""
    x, z = chains[..., 0].T, chains[..., 1].T
    return torch.stack([cos @ x + sin @ z, cos @ z - sin @ x], -1)


def velocities(
    chains: Float[Tensor, "p links 2"],
    cos: Float[Tensor, "*b links"],
    sin: Float[Tensor, "*b links"],
    rate: Float[Tensor, "*b links"],
) -> Float[Tensor, "*b p 2"]:
    """d/dt of ``points``: Σ_k θ̇_k R(θ_k)(z, −x) for a_k = (x, z)."""
    turned = torch.stack([chains[..., 1], -chains[..., 0]], -1)
    return points(turned, cos * rate, sin * rate)
