"""Runs of one method on given tasks, in any finite world and with any model."""

from itertools import islice

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout import Method, OnlineTransfer
from zscout.base.edge import as_vectors
from zscout.base.types import BehaviorModel, FiniteWorld
from zscout.lab.arenas.simulation import TaskRuns, Trace, simulated, trace_of


def simulate(
    model: BehaviorModel,
    world: FiniteWorld,
    tasks: Float[Tensor, "R d"],
    method: str | Method,
    *,
    seeds: Int[Tensor, " R"],
    steps: int,
    noise: float,
    told_noise: bool = False,
    reward: Float[Tensor, "R S"] | None = None,
) -> Trace:
    """One run for each task and seed; with ``told_noise`` the agent knows σ; ``reward`` of each state if not φ·z_r."""
    tasks = as_vectors(tasks, model.dim, "tasks", torch.device("cpu"))
    sigma = noise if told_noise else None
    agent = OnlineTransfer(model, method, seed=seeds.tolist(), runs=len(tasks), noise=sigma)
    if reward is None:
        reward = tasks @ model.phi(torch.arange(world.n_states)).double().cpu().T
    env = TaskRuns(world, reward, noise, agent.seeds)
    return trace_of(agent, tasks, list(islice(simulated(agent, env), steps)))
