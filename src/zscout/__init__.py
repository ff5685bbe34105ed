"""zscout: online transfer with Behavioral Foundation Models.

Names are imported lazily, so that ``import zscout`` and ``zscout --help`` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium as _gymnasium

__version__ = "0.1.0"

if TYPE_CHECKING:
    from zscout import features, worlds
    from zscout.bfm.calibration import calibrated
    from zscout.bfm.checking import check_model
    from zscout.bfm.exact import ExactModel
    from zscout.bfm.fb import FB
    from zscout.bfm.pretrained import load, save
    from zscout.bfm.usfa import USFA
    from zscout.transfer.agent import OnlineTransfer
    from zscout.transfer.methods import METHODS, Method
    from zscout.transfer.offline import infer_task
    from zscout.transfer.posterior import TaskPosterior
    from zscout.transfer.rollout import rollout
    from zscout.types import Agent, BehaviorModel

__all__ = [
    "FB",
    "METHODS",
    "USFA",
    "Agent",
    "BehaviorModel",
    "ExactModel",
    "Method",
    "OnlineTransfer",
    "TaskPosterior",
    "calibrated",
    "check_model",
    "features",
    "infer_task",
    "load",
    "rollout",
    "save",
    "worlds",
]

_HOME = {
    "Agent": "zscout.types",
    "OnlineTransfer": "zscout.transfer.agent",
    "Method": "zscout.transfer.methods",
    "METHODS": "zscout.transfer.methods",
    "TaskPosterior": "zscout.transfer.posterior",
    "rollout": "zscout.transfer.rollout",
    "infer_task": "zscout.transfer.offline",
    "BehaviorModel": "zscout.types",
    "ExactModel": "zscout.bfm.exact",
    "FB": "zscout.bfm.fb",
    "USFA": "zscout.bfm.usfa",
    "load": "zscout.bfm.pretrained",
    "save": "zscout.bfm.pretrained",
    "calibrated": "zscout.bfm.calibration",
    "check_model": "zscout.bfm.checking",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in __all__:
        value = import_module(f"zscout.{name}")
    else:
        raise AttributeError(f"module 'zscout' has no attribute {name!r}; it has {', '.join(__all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


for _id, _world in (("OpenGrid", "open-grid"), ("FourRooms", "four-rooms"), ("Maze", "maze")):
    _gymnasium.register(f"zscout/{_id}-v0", "zscout.worlds.gym:make_env", kwargs={"world": _world})
_gymnasium.register("zscout/PointMaze-v0", "zscout.worlds.point_maze_env:make_point_maze")
