"""Bodies that get only the rewards that they ask for, and bodies whose task changes.

    python -m benchmarks.body_rewards --episodes 2 --seeds 1

prints two tables of results/2026-11-bodies-network.md (extra mujoco; ``--quick`` takes a minute).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal

import numpy as np
import torch
import tyro
from jaxtyping import Float
from rich.console import Console
from rich.progress import track
from torch import Tensor

import zscout
from benchmarks.reward_requests import gated
from zscout.lab.arenas.arena import Batch, Tasks
from zscout.lab.arenas.body import BodyArena
from zscout.lab.arenas.simulation import simulated
from zscout.lab.compare.statistics import Bootstrap, Estimate
from zscout.lab.evaluation.monte_carlo import following, played

LEAST = (0.0, 0.25, 0.5, 1.0)  # 0: every reward
FORGETTING = 0.999

Returns = Float[Tensor, "E R"]


def oracle(arena: BodyArena, batch: Batch, episodes: int) -> Returns:
    """Returns of the offline z of each run's task."""
    rewards = played(
        arena, replace(batch, noise=0.0), following(arena.vectors(batch.tasks)), episodes * arena.decisions
    )
    return rewards.reshape(episodes, arena.decisions, -1).sum(1)


def online(
    arena: BodyArena, batches: Sequence[Batch], method: zscout.Method, episodes: int, least: float | None = None
) -> tuple[Returns, float]:
    """Returns without noise, and the share of rewards told; each batch of tasks is in force for as many episodes."""
    seeds = list(batches[0].seeds)
    agent = zscout.OnlineTransfer(arena.bfm, method, seed=seeds, runs=len(seeds))
    env = arena.environment(batches[0])
    told, own, changes = [], [], {k * episodes * arena.decisions: batch for k, batch in enumerate(batches)}
    total = len(batches) * episodes * arena.decisions
    steps = islice(simulated(agent, env) if least is None else gated(agent, env, least), total)
    for t, step in enumerate(track(steps, "steps", total, console=Console(stderr=True)), 1):
        own.append(env.true_reward(step.next_obs).cpu())
        told.append(1.0 if step.seen is None else float(step.seen.double().mean()))
        if t in changes:
            env.reward = env.arena.rewards_of(changes[t])
    returns = torch.stack(own).reshape(-1, arena.decisions, len(seeds)).sum(1)
    return returns, sum(told) / len(told)


def shares(own: Returns, best: Returns, seeds: int) -> list[Estimate]:
    """Return ÷ oracle's of each episode."""
    bootstrap = Bootstrap(own.shape[1] // seeds, seeds)
    tables = [np.asarray(returns).reshape(len(own), -1, seeds) for returns in (own, best)]
    return [bootstrap.ratio(*pair) for pair in zip(*tables, strict=True)]


def main(
    body: Literal["walker", "cheetah"] = "walker",
    only: tuple[Literal["gate", "drift"], ...] = ("gate", "drift"),
    episodes: int = 3,
    seeds: int = 2,
    noise: float = 0.0,
    quick: bool = False,
) -> None:
    """All tasks of the suite. Drift: the task of each run is replaced by the next one after ``episodes`` episodes."""
    arena = BodyArena(f"{body}-fb", body=body, horizon=20 if quick else 1_000)
    count = arena.distinct_tasks or 1
    tasks = Tasks(count, seeds)
    names = tasks.draw(arena)
    batch = Batch(names, tasks.run_seeds, noise)
    best = oracle(arena, batch, episodes)
    default = zscout.METHODS["usf-ucb"](dim=arena.bfm.dim)
    if "gate" in only:
        print("| least | rewards told | return ÷ oracle's, by episode |\n|---|---|---|")
        for least in LEAST:
            own, told = online(arena, [batch], default, episodes, least or None)
            print(f"| {least:g} | {told:.0%} | {', '.join(f'{s:.2f}' for s in shares(own, best, seeds))} |", flush=True)
    if "drift" in only:
        later = Batch(names[seeds:] + names[:seeds], tasks.run_seeds, noise)
        both = torch.cat([best, oracle(arena, later, 2 * episodes)[episodes:]])  # from the same starts
        methods = {
            "default": default,
            f"forgetting {FORGETTING}": replace(default, forgetting=FORGETTING),
            "change test": replace(default, change=zscout.ChangeTest()),
        }
        print(f"| | return ÷ oracle's, by episode; the task changes after {episodes} |\n|---|---|")
        for name, method in methods.items():
            own, _ = online(arena, [batch, later], method, episodes)
            print(f"| {name} | {', '.join(f'{s:.2f}' for s in shares(own, both, seeds))} |", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
