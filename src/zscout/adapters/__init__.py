"""Built models of public projects as BehaviorModels."""

from zscout.adapters.adapter import Adapter, ForwardBackward, Networks, Transitions
from zscout.adapters.projects import bfm_zero, controllable_agent, hilp, metamotivo, td_jepa

__all__ = [
    "Adapter",
    "ForwardBackward",
    "Networks",
    "Transitions",
    "bfm_zero",
    "controllable_agent",
    "hilp",
    "metamotivo",
    "td_jepa",
]
