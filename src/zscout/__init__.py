"""zscout: online transfer with Behavioral Foundation Models.

Names are imported lazily, so that ``import zscout`` and ``zscout --help`` do not wait for torch.
"""

from zscout.base.stopping import handle_ctrl_c, is_command, stop_at_once

if is_command():
    handle_ctrl_c(stop_at_once)  # before the imports, which take long

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from zscout import adapters, features, worlds
    from zscout.base.types import Agent, BehaviorModel
    from zscout.loop.asynchronous import AsyncTransfer
    from zscout.loop.loading import load
    from zscout.loop.rollout import rollout
    from zscout.models.calibration import calibrated
    from zscout.models.checks.checking import check_model
    from zscout.models.exact.model import ExactModel
    from zscout.models.fb.model import FB
    from zscout.models.fb.task_prior import task_covariance
    from zscout.models.files.folder import save
    from zscout.models.files.onnx_export import export
    from zscout.models.usfa.model import USFA
    from zscout.transfer.agent import OnlineTransfer
    from zscout.transfer.atlas.atlas import Atlas
    from zscout.transfer.atlas.behaviours import Behaviours
    from zscout.transfer.atlas.charting import chart
    from zscout.transfer.atlas.limits import Limit
    from zscout.transfer.belief.change import ChangeTest
    from zscout.transfer.belief.feedback import Credit, most_telling
    from zscout.transfer.belief.posterior import TaskPosterior
    from zscout.transfer.methods import METHODS, Method
    from zscout.transfer.offline import infer_task
    from zscout.transfer.score.certificate import Certificate, Certified

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
    "Limit",
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
    "loop.loading": ["load"],
    "models.calibration": ["calibrated"],
    "models.checks.checking": ["check_model"],
    "models.exact.model": ["ExactModel"],
    "models.fb.model": ["FB"],
    "models.files.onnx_export": ["export"],
    "models.files.folder": ["save"],
    "models.fb.task_prior": ["task_covariance"],
    "models.usfa.model": ["USFA"],
    "transfer.agent": ["OnlineTransfer"],
    "loop.asynchronous": ["AsyncTransfer"],
    "transfer.atlas.atlas": ["Atlas"],
    "transfer.atlas.behaviours": ["Behaviours"],
    "transfer.atlas.charting": ["chart"],
    "transfer.atlas.limits": ["Limit"],
    "transfer.score.certificate": ["Certificate", "Certified"],
    "transfer.belief.change": ["ChangeTest"],
    "transfer.belief.feedback": ["Credit", "most_telling"],
    "transfer.methods": ["METHODS", "Method"],
    "transfer.offline": ["infer_task"],
    "transfer.belief.posterior": ["TaskPosterior"],
    "loop.rollout": ["rollout"],
    "base.types": ["Agent", "BehaviorModel"],
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


import_module("zscout.worlds.registry")  # registers the Gymnasium environments
