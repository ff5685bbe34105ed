"""Grid worlds, the point maze, bodies, rewards, and Gymnasium environments.

The names are those of ``zscout.worlds.names``, imported at first use: the registry of places does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zscout.worlds.names import *  # noqa: F403


def __getattr__(name: str) -> Any:
    names = import_module("zscout.worlds.names")  # binds the subpackages here, too
    found = globals().get(name, vars(names).get(name))
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
