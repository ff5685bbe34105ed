"""The bodies of the control suite by name; they need the extra ``mujoco``."""

from collections.abc import Mapping

from zscout.base.edge import as_positive, known_name
from zscout.worlds.bodies.physics import Body
from zscout.worlds.registry import of_kind

__all__ = ["Body", "body"]


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
