"""The bodies of the control suite by name; they need the extra ``zscout[mujoco]``."""

from zscout.base.edge import known_name
from zscout.worlds.bodies.physics import Body
from zscout.worlds.registry import of_kind

__all__ = ["Body", "body"]


def body(name: str, *, repeat: int = 1, threads: int | None = None) -> Body:
    """A body of the registry, such as "walker"; its physics has by default all cores of the process."""
    bodies = of_kind("body")
    found: Body = bodies[known_name(name, bodies, "body")].make(repeat=repeat, threads=threads)
    return found
