"""Write the geometry that goal features of bodies need, from MuJoCo: python -m benchmarks.geometry (extra mujoco)."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from zscout.worlds.bodies import goals
from zscout.worlds.bodies.body import BODIES, body
from zscout.worlds.bodies.skeleton import Skeleton


def geometry(body: Any) -> dict[str, Any]:
    """What the goal features of a body with physics need, as JSON."""
    if hasattr(body, "bones"):
        return {"size": body.observation_size, "bones": body.bones.tolist()}
    skeleton, kind = Skeleton.of(body.model), body.kind
    parts = {
        one.name: {"real": part.real.tolist(), "imag": part.imag.tolist()} if part.is_complex() else part.tolist()
        for one in fields(skeleton)
        for part in [getattr(skeleton, one.name)]
    }
    x = int(body.model.joint("rootx").qposadr[0])
    extends, size = kind.touch > 0, body.observation_size
    return {"size": size, "skeleton": parts, "x": x, "sees_angles": kind.sees_angles, "extends": extends}


if __name__ == "__main__":
    Path(goals.__file__).with_name(goals.FILE).write_text(
        json.dumps({name: geometry(body(name)) for name in BODIES}) + "\n"
    )
