"""How good an FB model of a body is: zero-shot returns of episodes of the control suite."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.lab.arenas.vector import LABELS
from zscout.models.fb.model import FB
from zscout.transfer.offline import fit_task
from zscout.worlds.bodies.body import Body, body
from zscout.worlds.bodies.tasks import BodyTask, body_tasks

HORIZON = 1_000  # control steps of an episode


@dataclass(frozen=True)
class BodyVerdict:
    """Mean zero-shot returns of an episode, and the R² of each reward in φ."""

    returns: dict[str, float]
    expressed: dict[str, float]
    episodes: int
    horizon: int  # control steps of an episode


def judge_body(
    model: FB,
    name: str,
    observations: Float[Tensor, "n o"],
    *,
    repeat: int = 1,
    episodes: int = 10,
    horizon: int = HORIZON,
    seed: int = 0,
) -> BodyVerdict:
    """Zero-shot returns on the suite's and the benchmark's tasks, z from up to 50,000 labelled observations."""
    world = body(name)
    tasks = [task for task in body_tasks(world) if task.kind != "held-out"]
    fits = [fit_task(model, observations[:LABELS], task(observations[:LABELS])) for task in tasks]
    z = torch.stack([fit.z for fit in fits])
    found = returns(model, world, tasks, z, repeat, episodes, horizon, seed).mean(1)
    names = [task.name for task in tasks]
    expressed = {name: round(fit.expressed, 4) for name, fit in zip(names, fits, strict=True)}
    rounded = dict(zip(names, [round(r, 2) for r in found.tolist()], strict=True))
    return BodyVerdict(rounded, expressed, episodes, horizon)


def returns(
    model: FB,
    world: Body,
    tasks: Sequence[BodyTask],
    z: Float[Tensor, "K d"],
    repeat: int = 1,
    episodes: int = 10,
    horizon: int = HORIZON,
    seed: int = 0,
) -> Float[Tensor, "K e"]:
    """Returns of whole episodes of π(·,z), one z for each task, from the starts of a seed."""
    starts = world.random_states(episodes, Generator().manual_seed(seed))
    return episode_returns(model, world, tasks, z[:, None], starts, repeat, horizon)[:, 0]


def episode_returns(
    model: FB,
    world: Body,
    tasks: Sequence[BodyTask],
    z: Float[Tensor, "K n d"],
    starts: Float[Tensor, "m k"],
    repeat: int = 1,
    horizon: int = HORIZON,
) -> Float[Tensor, "K n m"]:
    """Returns of π(·,z), for n z of each task, from each start; a new action every ``repeat`` control steps."""
    (K, n, d), m = z.shape, len(starts)
    rows = z.reshape(-1, d).repeat_interleave(m, 0)
    state = starts.repeat(K * n, 1)
    total = torch.zeros(K, n * m, dtype=torch.float64)
    for t in range(horizon):
        if t % repeat == 0:
            obs = world.observe(state).float().to(model.device)
            action = torch.as_tensor(model.act(obs, rows)).cpu()
        state, _ = world.advance(state, action)
        entered = world.observe(state).reshape(K, n * m, -1)
        total += torch.stack([task(own) for task, own in zip(tasks, entered, strict=True)])
    return total.reshape(K, n, m)
