"""Evaluates runs by their rewards, relative to the oracle and to random actions, where regret is not exact."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.types import BehaviorModel
from zscout.lab.arenas.arena import FINAL_STEPS, GOOD_VALUE, Arena, Batch, Evaluation, Task, Tasks
from zscout.lab.arenas.exact_values import FLAT, without_constant
from zscout.loop.rollout import Step, Walk
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.methods import METHODS, Method
from zscout.transfer.offline import constant_part_of, least_squares
from zscout.transfer.score.search import Known

STARTS = 16  # reference runs of each task: the same seeds for the oracle, random actions and every z
MOST_REFERENCE_STEPS = 1_000  # 16 starts say enough, and ten episodes of a body would cost more than the run
EPISODES = 10  # at most: returns of the first episodes
START_SEEDS = list(range(3_000_000_000, 3_000_000_000 + STARTS))  # tuning and report runs use others


def evaluate_returns(arena: Arena, batch: Batch, agent: OnlineTransfer, steps: Sequence[Step]) -> Evaluation:
    """Numbers of runs from undiscounted rewards without noise.

    Lost steps: (reward of the oracle on the same seed − the run's) ÷ (what the oracle gains over random actions in one
    step, mean over 20 tasks). Negative if the run beats the oracle. return_k and oracle_k: returns of episode k, the
    run's and the oracle's from the same start; methods that request resets (lola) begin each episode at the
    first start. Value of a z: its reward from 16 reference starts, for at most 1,000 steps; 0 is random actions, 1 is
    the oracle. Settled: the value of the final z is ≥ .95. If the oracle is no better than random actions, a run loses
    nothing and is settled.
    """
    if batch.outside:
        raise ValueError("--outside needs exact evaluation: the reference runs would get another reward")
    length, env = len(steps), arena.environment(batch)
    task, clean = arena.vectors(batch.tasks), replace(batch, noise=0.0)
    own = torch.stack([env.true_reward(step.next_obs).cpu() for step in steps])  # [T R]
    oracle = played(arena, clean, following(task), length)
    shorter = min(length, MOST_REFERENCE_STEPS)
    references = _references(arena, batch.tasks, shorter, batch.offset)
    random, gap = references[:, 0], references[:, 1] - references[:, 0]  # of a step, by task
    unit = torch.where(gap > FLAT * references.abs().amax(1), 1 / gap, 0.0)
    step = torch.where(unit > 0, 1 / _gap(arena, shorter), 0.0)  # lost steps of one unit of reward
    best = _rates(arena, clean, agent.best_z.cpu().double(), shorter)
    value = torch.where(unit > 0, (best - random) * unit, 1.0)
    beliefs = [step.belief for step in steps if step.belief is not None]
    z_hat = torch.stack([*(belief.z_hat.cpu() for belief in beliefs[1:]), agent.z_hat.cpu()])
    if agent.atlas is not None:  # what φ expresses of the estimate
        z_hat = z_hat @ _onto_phi(arena.bfm, agent.atlas).mT
    learnable = without_constant(task, constant_part_of(arena.bfm)) if agent.method.intercept else task
    error = (z_hat - learnable).norm(dim=-1)
    normalised = (own - random) * unit
    lost = (oracle - own).sum(0) * step
    numbers = {
        "lost": lost,
        "lost_own": lost,
        "settled": (value >= GOOD_VALUE).double(),
        "final": normalised[-FINAL_STEPS:].mean(0),
        "error": error[-1],
        "value": value,
    }
    ends = [t + 1 for t, step in enumerate(steps) if step.truncated or step.terminated][:EPISODES]
    for k, (start, end) in enumerate(pairwise([0, *ends]), 1):
        numbers |= {f"return_{k}": own[start:end].sum(0), f"oracle_{k}": oracle[start:end].sum(0)}
    columns = {
        "reward": torch.stack([torch.as_tensor(step.reward).cpu() for step in steps]),
        "error": error,
        "regret": (oracle - own) * step,
        "normalised": normalised,
    }
    return numbers, {name: column.numpy().astype(np.float32) for name, column in columns.items()}


def _onto_phi(bfm: BehaviorModel, atlas: Atlas) -> Float[Tensor, "d D"]:
    """P of f ≈ Pᵀφ + c by least squares over the atlas's observations, f its features."""
    phi, f = bfm.phi(atlas.sample).double().cpu(), atlas.features(atlas.sample).cpu()
    return least_squares(phi, f - f.mean(0))


def played(arena: Arena, batch: Batch, method: Method, length: int) -> Float[Tensor, "T R"]:
    """Rewards of a method that learns nothing, one run for each task and seed."""
    agent = OnlineTransfer(arena.bfm, method, seed=list(batch.seeds), runs=len(batch.seeds))
    env = arena.environment(batch)
    walk, rewards = Walk(agent, env, seed=0), []
    for _ in range(length):
        step = walk.move()
        walk.tell(step, None)
        rewards.append(env.true_reward(step.next_obs).cpu())
    return torch.stack(rewards)


def following(z: Float[Tensor, "R d"]) -> Method:
    """A method that keeps to these z, one for each run."""
    return Method(search=Known.of(z), intercept=False)


def _rates(arena: Arena, batch: Batch, z: Float[Tensor, "R d"], length: int) -> Float[Tensor, " R"]:
    """Mean reward of a step of π(·,z) from the reference starts, one z for each task of the batch."""
    tasks = [task for task in batch.tasks for _ in range(STARTS)]
    many = replace(batch, tasks=tasks, seeds=START_SEEDS * len(batch.tasks))
    rewards = played(arena, many, following(z.repeat_interleave(STARTS, 0)), length)
    return rewards.mean(0).reshape(-1, STARTS).mean(1)


@cache
def _gap(arena: Arena, length: int) -> float:
    """Size of the mean over 20 tuning tasks of what the oracle gains over random actions in one step."""
    random, oracle = _references(arena, Tasks(20, 1, "tuning").draw(arena), length, 0.0).mean(0).tolist()
    return max(abs(float(oracle - random)), 1e-12)  # a weak model's oracle may be worse than random actions


_REFERENCES: dict[tuple[Arena, Task, int, float], tuple[float, float]] = {}


def _references(arena: Arena, tasks: Sequence[Task], length: int, offset: float) -> Float[Tensor, "R 2"]:
    """For each task the mean reward of a step of random actions, and of the oracle; each task is played once."""
    keys = [(arena, task, length, offset) for task in tasks]
    if new := list(dict.fromkeys(key[1] for key in keys if key not in _REFERENCES)):
        batch = Batch(new, [0] * len(new), offset=offset)
        starts = replace(batch, tasks=[task for task in new for _ in range(STARTS)], seeds=START_SEEDS * len(new))
        random = played(arena, starts, METHODS["random"](dim=arena.bfm.dim), length).mean(0).reshape(-1, STARTS).mean(1)
        oracle = _rates(arena, batch, arena.vectors(new), length)
        found = zip(random.tolist(), oracle.tolist(), strict=True)
        _REFERENCES.update(zip([(arena, task, length, offset) for task in new], found, strict=True))
    return torch.tensor([_REFERENCES[key] for key in keys], dtype=torch.float64)
