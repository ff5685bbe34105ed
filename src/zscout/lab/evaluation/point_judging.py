"""How good an FB model is in a point maze: zero-shot returns relative to the planner's, and the error of ψ."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.lab.evaluation.returns import episode_returns
from zscout.models.fb.data import random_forces
from zscout.models.fb.model import FB
from zscout.transfer.offline import fit_task
from zscout.worlds.points.maze import PointMaze
from zscout.worlds.points.planner import PointPlanner
from zscout.worlds.points.tasks import KINDS, point_tasks

HORIZON = 70  # decisions of an episode
LABELS = 10_000  # observations whose rewards decide z


@dataclass(frozen=True)
class PointVerdict:
    """The quality of a model."""

    kinds: dict[str, float]  # zero-shot return ÷ the planner's, by kind of task
    value: float  # its mean over kinds
    psi_error: float  # √(mean ‖ψ − G‖² ÷ mean ‖G‖²) over random z and starts, G by rollouts
    tasks: int


def judge_point(model: FB, world: PointMaze, *, tasks: int = 5, count: int = 50, seed: int = 0) -> PointVerdict:
    """Compare zero-shot policies with planned ones, on ``tasks`` of each kind and the same ``count`` starts."""
    rng = Generator().manual_seed(seed)
    data = random_forces(world, LABELS * 10, rng).shuffled(Generator().manual_seed(seed))
    labels, starts = data.next_obs[:LABELS], world.random_states(count, rng)  # labels are as the training data
    named = [task for i, kind in enumerate(KINDS) for task in point_tasks(world, kind, tasks, 100 * seed + i)]
    planner = PointPlanner(world)
    planned = torch.stack([planner.plan(task, horizon=HORIZON).execute(starts) for task in named])
    z = torch.stack([fit_task(model, labels, task(labels)).z for task in named])
    share = episode_returns(model, world, named, z[:, None], starts, HORIZON)[:, 0].mean(1) / planned.mean(1)
    kinds = {
        kind: float(torch.stack([s for s, task in zip(share, named, strict=True) if task.kind == kind]).mean())
        for kind in KINDS
    }
    return PointVerdict(kinds, sum(kinds.values()) / len(kinds), psi_error(model, starts, world), len(z))


def psi_error(model: FB, starts: Float[Tensor, "n k"], world: PointMaze, seed: int = 0) -> float:
    """The relative error of ψ(s;z) against rollouts, one random z for each start."""
    z = model.sample_z(len(starts), seed)
    psi = model.psi(starts, z[:, None])[:, 0]
    total, weight, state = torch.zeros_like(psi), torch.ones(len(psi), 1), starts
    while float(weight.max()) > 0.01:
        state, over = world.advance(state, torch.as_tensor(model.act(state, z)))
        total = total + weight * model.phi(state)
        weight = model.gamma * weight * ~over[:, None]
    return float(((psi - total).square().sum() / total.square().sum()).sqrt())
