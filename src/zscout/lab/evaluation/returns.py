"""Returns of a model's policies in a simulated world, many at once."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.models.fb.model import FB


def episode_returns(
    model: FB,
    world: Any,
    tasks: Sequence[Callable[[Float[Tensor, "n o"]], Float[Tensor, " n"]]],
    z: Float[Tensor, "K n d"],
    starts: Float[Tensor, "m k"],
    horizon: int,
    repeat: int = 1,
) -> Float[Tensor, "K n m"]:
    """Returns of one episode of π(·,z), for n z of each task, from each start, on the device of the starts.

    ``world`` is a point maze or a body: ``horizon`` control steps, a new action every ``repeat``.
    """
    (K, n, d), m = z.shape, len(starts)
    rows = z.to(model.device).reshape(-1, d).repeat_interleave(m, 0)
    state = starts.repeat(K * n, 1)
    total = torch.zeros(K, n * m, dtype=torch.float64, device=starts.device)
    alive = torch.ones_like(total)
    for t in range(horizon):
        if t % repeat == 0:
            obs = world.observe(state).float().to(model.device)
            action = torch.as_tensor(model.act(obs, rows)).to(state.device)
        state, over = world.advance(state, action)
        entered = world.observe(state).reshape(K, n * m, -1)
        alive = alive * ~over.reshape(K, n * m)  # a pit pays nothing
        total += alive * torch.stack([task(own) for task, own in zip(tasks, entered, strict=True)])
    return total.reshape(K, n, m)
