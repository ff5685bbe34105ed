"""zscout: online transfer with Behavioral Foundation Models.

Names are imported lazily, so that ``import zscout`` and ``zscout --help`` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium as _gymnasium

__version__ = "0.1.0"

if TYPE_CHECKING:
    from zscout import adapters, features, worlds
    from zscout.adapters.checkpoints import load
    from zscout.bfm.calibration import calibrated
    from zscout.bfm.checking import check_model
    from zscout.bfm.exact import ExactModel
    from zscout.bfm.fb import FB
    from zscout.bfm.onnx_export import export
    from zscout.bfm.pretrained import save
    from zscout.bfm.task_prior import task_covariance
    from zscout.bfm.usfa import USFA
    from zscout.transfer.agent import OnlineTransfer
    from zscout.transfer.asynchronous import AsyncTransfer
    from zscout.transfer.atlas import Atlas
    from zscout.transfer.behaviours import Behaviours
    from zscout.transfer.certificate import Certificate, Certified
    from zscout.transfer.change import ChangeTest
    from zscout.transfer.charting import chart
    from zscout.transfer.credit import Credit
    from zscout.transfer.methods import METHODS, Method
    from zscout.transfer.offline import infer_task
    from zscout.transfer.posterior import TaskPosterior
    from zscout.transfer.preferences import most_telling
    from zscout.transfer.rollout import rollout
    from zscout.types import Agent, BehaviorModel

__all__ = [
    "FB",
    "METHODS",
    "USFA",
    "Agent",
    "AsyncTransfer",
    "Atlas",
    "BehaviorModel",
    "Behaviours",
    "Certificate",
    "Certified",
    "ChangeTest",
    "Credit",
    "ExactModel",
    "Method",
    "OnlineTransfer",
    "TaskPosterior",
    "adapters",
    "calibrated",
    "chart",
    "check_model",
    "export",
    "features",
    "infer_task",
    "load",
    "most_telling",
    "rollout",
    "save",
    "task_covariance",
    "worlds",
]

_HOMES = {
    "adapters.checkpoints": ["load"],
    "bfm.calibration": ["calibrated"],
    "bfm.checking": ["check_model"],
    "bfm.exact": ["ExactModel"],
    "bfm.fb": ["FB"],
    "bfm.onnx_export": ["export"],
    "bfm.pretrained": ["save"],
    "bfm.task_prior": ["task_covariance"],
    "bfm.usfa": ["USFA"],
    "transfer.agent": ["OnlineTransfer"],
    "transfer.asynchronous": ["AsyncTransfer"],
    "transfer.atlas": ["Atlas"],
    "transfer.behaviours": ["Behaviours"],
    "transfer.charting": ["chart"],
    "transfer.certificate": ["Certificate", "Certified"],
    "transfer.change": ["ChangeTest"],
    "transfer.credit": ["Credit"],
    "transfer.methods": ["METHODS", "Method"],
    "transfer.offline": ["infer_task"],
    "transfer.posterior": ["TaskPosterior"],
    "transfer.preferences": ["most_telling"],
    "transfer.rollout": ["rollout"],
    "types": ["Agent", "BehaviorModel"],
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'zscout' has no attribute {name!r}; it has {', '.join(__all__)}")
    home = next((home for home, names in _HOMES.items() if name in names), None)
    value = import_module(f"zscout.{name}") if home is None else getattr(import_module(f"zscout.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


for _id, _world in (("OpenGrid", "open-grid"), ("FourRooms", "four-rooms"), ("Maze", "maze")):
    _gymnasium.register(f"zscout/{_id}-v0", "zscout.worlds.gym:make_env", kwargs={"world": _world})
_gymnasium.register("zscout/PointMaze-v0", "zscout.worlds.point_maze_env:make_point_maze")
for _name in ("walker", "cheetah", "hopper", "quadruped"):
    _gymnasium.register(f"zscout/{_name.title()}-v0", "zscout.worlds.body_env:make_body", kwargs={"name": _name})
