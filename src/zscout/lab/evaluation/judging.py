"""How good an FB model is: zero-shot returns of episodes of a body, and in the point maze relative to a planner."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.lab.arenas.body import BodyArena
from zscout.lab.arenas.point import PointArena
from zscout.lab.arenas.vector import LABELS
from zscout.models.fb.data import random_forces
from zscout.models.fb.model import FB
from zscout.transfer.offline import fit_task
from zscout.worlds.bodies.physics import body
from zscout.worlds.bodies.tasks import body_tasks
from zscout.worlds.points.maze import PointMaze
from zscout.worlds.points.planner import PointPlanner
from zscout.worlds.points.tasks import KINDS, point_tasks

STARTS = 50  # of the point maze, the same for all tasks
POINT_LABELS = 10_000  # observations of the point maze whose rewards decide z


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


def judge_body(
    model: FB,
    name: str,
    observations: Float[Tensor, "n o"],
    *,
    repeat: int = 1,
    episodes: int = 10,
    horizon: int = BodyArena.horizon,
    seed: int = 0,
) -> dict[str, Any]:
    """Zero-shot returns on the suite's and the benchmark's tasks, z from up to 50,000 labelled observations.

    Returns are means over episodes of ``horizon`` control steps; ``expressed`` is the R² of each reward in φ.
    """
    world = body(name)
    tasks = [task for task in body_tasks(world) if task.kind != "held-out"]
    fits = [fit_task(model, observations[:LABELS], task(observations[:LABELS])) for task in tasks]
    z = torch.stack([fit.z for fit in fits])
    starts = world.random_states(episodes, Generator().manual_seed(seed))
    found = episode_returns(model, world, tasks, z[:, None], starts, horizon, repeat)[:, 0].mean(1)
    return {
        "returns": {task.name: round(r, 2) for task, r in zip(tasks, found.tolist(), strict=True)},
        "expressed": {task.name: round(fit.expressed, 4) for task, fit in zip(tasks, fits, strict=True)},
        "episodes": episodes,
        "horizon": horizon,
    }


def judge_point(model: FB, world: PointMaze, *, tasks: int = 5) -> dict[str, Any]:
    """Zero-shot returns ÷ the planner's by kind of task and their mean, ``value``; the error of ψ.

    On ``tasks`` of each kind, from the same ``STARTS`` starts.
    """
    rng = Generator().manual_seed(0)
    data = random_forces(world, POINT_LABELS * 10, rng).shuffled(Generator().manual_seed(0))
    labels, starts = data.next_obs[:POINT_LABELS], world.random_states(STARTS, rng)  # labels are as the training data
    named = [task for i, kind in enumerate(KINDS) for task in point_tasks(world, kind, tasks, i)]
    planner = PointPlanner(world)
    planned = torch.stack([planner.plan(task, horizon=PointArena.horizon).execute(starts) for task in named])
    z = torch.stack([fit_task(model, labels, task(labels)).z for task in named])
    share = episode_returns(model, world, named, z[:, None], starts, PointArena.horizon)[:, 0].mean(1) / planned.mean(1)
    kinds = {
        kind: float(torch.stack([s for s, task in zip(share, named, strict=True) if task.kind == kind]).mean())
        for kind in KINDS
    }
    value, error = sum(kinds.values()) / len(kinds), psi_error(model, starts, world)
    return {"kinds": kinds, "value": value, "psi_error": error, "tasks": len(z)}


def psi_error(model: FB, starts: Float[Tensor, "n k"], world: PointMaze) -> float:
    """√(mean ‖ψ − G‖² ÷ mean ‖G‖²) over starts, a random z for each, G by rollouts."""
    z = model.sample_z(len(starts), 0)
    psi = model.psi(starts, z[:, None])[:, 0]
    total, weight, state = torch.zeros_like(psi), torch.ones(len(psi), 1), starts
    while float(weight.max()) > 0.01:
        state, over = world.advance(state, torch.as_tensor(model.act(state, z)))
        total = total + weight * model.phi(state)
        weight = model.gamma * weight * ~over[:, None]
    return float(((psi - total).square().sum() / total.square().sum()).sqrt())
