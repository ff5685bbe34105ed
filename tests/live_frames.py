"""What a live run sends, without a server."""

import json
from typing import Any

import torch

from zscout.live.server.messages import Reply
from zscout.live.session.run import LiveRun


def messages(reply: Reply) -> list[dict[str, Any]]:
    return [json.loads(answer) for answer in reply.messages]


def frames(reply: Reply) -> list[dict[str, Any]]:
    return [content for content in messages(reply) if content["is"] == "frame"]


def steps(run: LiveRun, count: int) -> list[dict[str, Any]]:
    return [frame for _ in range(count) for frame in frames(run.step())]


def side(frame: dict[str, Any], which: int = 0) -> dict[str, Any]:
    shown: dict[str, Any] = frame["sides"][which]
    return shown


def close(one: Any, other: Any, digits: int = 4) -> bool:
    """Equal up to rounding to this number of digits."""
    first, second = (torch.as_tensor(numbers, dtype=torch.float64) for numbers in (one, other))
    return first.shape == second.shape and torch.allclose(first, second, rtol=0, atol=0.501 * 10**-digits)
