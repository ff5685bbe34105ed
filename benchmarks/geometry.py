"""Write the geometry that goal features of bodies need, from MuJoCo: python -m benchmarks.geometry (extra mujoco)."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import torch

from zscout.worlds.bodies import goals
from zscout.worlds.bodies.goals import Skeleton
from zscout.worlds.bodies.physics import body
from zscout.worlds.bodies.quadruped import LEGS, QUADRUPED
from zscout.worlds.registry import of_kind


def geometry(body: Any) -> dict[str, Any]:
    """What the goal features of a body with physics need, as JSON."""
    if body.name == QUADRUPED:
        joints = [body.model.body(f"{joint}_{LEGS[0]}") for joint in ("knee", "ankle", "toe")]
        return {"size": body.observation_size, "bones": np.stack([joint.pos[[0, 2]] for joint in joints]).tolist()}
    skeleton = skeleton_of(body.model)
    parts = {
        one.name: {"real": part.real.tolist(), "imag": part.imag.tolist()} if part.is_complex() else part.tolist()
        for one in fields(skeleton)
        for part in [getattr(skeleton, one.name)]
    }
    x = int(body.model.joint("rootx").qposadr[0])
    return {"size": body.observation_size, "skeleton": parts, "x": x, "sees_angles": body.kind.sees_angles}


def skeleton_of(model: Any) -> Skeleton:
    """The skeleton of a ``mujoco.MjModel`` with one hinge for each link; the root's follows its two slides."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)  # all angles are 0: a chain is a sum of steps between hinges
    links, mass = model.nbody - 1, model.body_mass[1:]
    hinge = model.body_jntadr[1:] + model.body_jntnum[1:] - 1
    anchor, each = _plane(data.xanchor[hinge]), np.arange(links)
    turns, chains = np.zeros((links, links)), np.zeros((links, links), dtype=complex)
    for link, parent in enumerate(model.body_parentid[1:] - 1):
        if parent >= 0:  # −1 is the world
            turns[link], chains[link] = turns[parent], chains[parent]
            chains[link, parent] = anchor[link] - anchor[parent]
        turns[link, link] = model.jnt_axis[hinge[link], 1]
    centres = chains.copy()
    centres[each, each] = _plane(data.xipos[1:]) - anchor
    centre = mass @ centres / mass.sum()
    capsules = np.flatnonzero(model.geom_bodyid > 0)
    owner, axis = model.geom_bodyid[capsules] - 1, _plane(data.geom_xmat[capsules, 2::3])
    half, middle = model.geom_size[capsules, 1] * axis, _plane(data.geom_xpos[capsules]) - anchor[owner]
    ends = chains[owner][:, None].repeat(2, 1)
    ends[np.arange(len(owner)), :, owner] = np.stack([middle - half, middle + half], 1)
    across = data.ximat[1:, 3:6]  # y along the principal axes of each link
    inertia = (across**2 * model.body_inertia[1:]).sum(1)
    coupling = (mass * (centres - centre).conj().T) @ (centres - centre)
    parts = (turns, model.geom_size[capsules, 0], inertia, anchor[0], centres, centre, coupling, ends)
    return Skeleton(*map(torch.tensor, parts))


def _plane(points: np.ndarray) -> np.ndarray:
    """x + iz of points [n 3]."""
    numbers: np.ndarray = points[:, 0] + 1j * points[:, 2]
    return numbers


if __name__ == "__main__":
    Path(goals.__file__).with_name(goals.FILE).write_text(
        json.dumps({name: geometry(body(name)) for name in of_kind("body")}) + "\n"
    )
