"""How good an FB model is in a point maze: zero-shot returns relative to the planner's, and the error of ψ."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.models.fb.data import random_forces
from zscout.models.fb.model import FB
from zscout.worlds.points.maze import PointMaze
from zscout.worlds.points.planner import PointPlanner
from zscout.worlds.points.tasks import KINDS, PointTask, point_tasks

HORIZON = 70  # decisions of an episode
LABELS = 10_000  # observations whose rewards decide z
RIDGE = 1e-3


@dataclass(frozen=True)
class FBVerdict:
    """The quality of a model."""

    kinds: dict[str, float]  # zero-shot return ÷ the planner's, by kind of task
    value: float  # its mean over kinds
    psi_error: float  # √(mean ‖ψ − G‖² ÷ mean ‖G‖²) over random z and starts, G by rollouts
    tasks: int


class PointJudge:
    """Compares zero-shot policies with planned ones on the same tasks and starts."""

    def __init__(self, world: PointMaze, *, tasks: int = 5, starts: int = 50, seed: int = 0) -> None:
        self.world = world
        rng = Generator().manual_seed(seed)
        data = random_forces(world, LABELS * 10, rng).shuffled(Generator().manual_seed(seed))
        self.labels = data.next_obs[:LABELS]  # distributed as the training data
        self.starts = world.random_states(starts, rng)
        self.tasks = [task for i, kind in enumerate(KINDS) for task in point_tasks(world, kind, tasks, 100 * seed + i)]
        planner = PointPlanner(world)
        self.planned = torch.stack([planner.plan(task, horizon=HORIZON).execute(self.starts) for task in self.tasks])

    def __call__(self, model: FB) -> FBVerdict:
        """The verdict on a model."""
        z = torch.stack([zero_shot(model, self.labels, task(self.labels)) for task in self.tasks])
        share = self.returns(model, z).mean(1) / self.planned.mean(1)
        kinds = {
            kind: float(torch.stack([s for s, task in zip(share, self.tasks, strict=True) if task.kind == kind]).mean())
            for kind in KINDS
        }
        return FBVerdict(kinds, sum(kinds.values()) / len(kinds), psi_error(model, self.starts, self.world), len(z))

    def returns(self, model: FB, z: Float[Tensor, "tasks d"]) -> Float[Tensor, "tasks starts"]:
        """Returns of π(·,z) for each task from each start."""
        return episode_returns(model, self.world, self.tasks, z[:, None], self.starts, HORIZON)[:, 0]


def episode_returns(
    model: FB,
    world: PointMaze,
    tasks: Sequence[PointTask],
    z: Float[Tensor, "K n d"],
    starts: Float[Tensor, "m 4"],
    horizon: int,
) -> Float[Tensor, "K n m"]:
    """Returns of one episode of π(·,z), for n z of each task, from each start; on the model's device."""
    (K, n, d), m = z.shape, len(starts)
    state = starts.to(model.device).repeat(K * n, 1)
    rows = z.to(model.device).reshape(-1, d).repeat_interleave(m, 0)
    total = torch.zeros(K, n * m, device=model.device)
    alive = torch.ones_like(total)
    for _ in range(horizon):
        state, over = world.advance(state, torch.as_tensor(model.act(state, rows)))
        each = state.reshape(K, n * m, -1)
        alive = alive * ~over.reshape(K, n * m)  # a pit pays nothing
        total += alive * torch.stack([task(own) for task, own in zip(tasks, each, strict=True)])
    return total.reshape(K, n, m)


def zero_shot(model: FB, observations: Float[Tensor, "n k"], rewards: Float[Tensor, " n"]) -> Float[Tensor, " d"]:
    """z by ridge regression of centred rewards on φ."""
    phi = model.phi(observations).double()
    r = (rewards - rewards.mean()).double()
    w = torch.linalg.solve(phi.mT @ phi + RIDGE * torch.eye(model.dim, dtype=phi.dtype), phi.mT @ r)
    return model.project_z(w)


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
