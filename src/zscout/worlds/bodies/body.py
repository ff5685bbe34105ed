"""The bodies of the control suite by name; they need the extra ``zscout[mujoco]``."""

from zscout.base.edge import known_name
from zscout.worlds.bodies.physics import Body
from zscout.worlds.bodies.planar import PLANAR, PlanarBody
from zscout.worlds.bodies.quadruped import QUADRUPED, Quadruped

__all__ = ["BODIES", "Body", "body"]

BODIES = (*PLANAR, QUADRUPED)


def body(name: str, *, repeat: int = 1, threads: int | None = None) -> Body:
    """The suite's walker, cheetah or quadruped; its physics has by default all cores of the process."""
    known_name(name, BODIES, "body")
    if name == QUADRUPED:
        return Quadruped(repeat=repeat, threads=threads)
    return PlanarBody(name, repeat=repeat, threads=threads)
