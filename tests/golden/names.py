"""The names that a rewrite of the core changes. The rest of the record uses ``docs/api.md`` only."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from zscout import METHODS, OnlineTransfer

NAMES = tuple(METHODS)
SHORT: dict[str, dict[str, Any]] = {"lola": {"draws": 3, "horizon": 4}}  # rollouts end within the record's steps


def made(bfm: Any, name: str, settings: dict[str, Any], hold: Any, change: Any, **options: Any) -> OnlineTransfer:
    """An agent; hold and change as the method has them if they are None."""
    if not settings and hold is None and change is None:
        return OnlineTransfer(bfm, name, **options)
    method = METHODS[name](dim=bfm.dim, **settings)
    parts = {"hold": hold, "change": change}
    return OnlineTransfer(bfm, replace(method, **{k: v for k, v in parts.items() if v is not None}), **options)


def acts(agent: OnlineTransfer) -> bool:
    """Whether the method chooses an action now, not a z."""
    return agent.exploring


def tell(agent: OnlineTransfer, obs: Any, z: Tensor | None, next_obs: Any, *told: Any, **more: Any) -> bool:
    """Tell a step; of the z that was asked for, or of another. False: the method learns from its own z only."""
    if z is not None and not agent.can_follow:
        return False
    if z is not None:
        agent.follow(obs, z)
    agent.tell(next_obs, *told, **more)
    return True
