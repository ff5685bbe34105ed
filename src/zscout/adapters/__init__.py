"""Public Behavioral Foundation Models as BehaviorModels: already built ones, and folders of safetensors."""

from zscout.adapters.adapter import Adapter, ForwardBackward, Networks, Transitions
from zscout.adapters.agents import convert
from zscout.adapters.checkpoints import load_checkpoint
from zscout.adapters.projects import bfm_zero, controllable_agent, hilp, metamotivo, td_jepa

__all__ = [
    "Adapter",
    "ForwardBackward",
    "Networks",
    "Transitions",
    "bfm_zero",
    "controllable_agent",
    "convert",
    "hilp",
    "load_checkpoint",
    "metamotivo",
    "td_jepa",
]
