"""How often a certificate breaks its promise, and how many rewards it takes.

    python -m benchmarks.certificates
    python -m benchmarks.certificates --model network --tasks 100 --seeds 3 --seed 77

print tables of results/2026-11-feedback.md: runs on the 9×9 grid until the certificate leaves a share of .05
(``--quick``: in seconds). A promise is broken if the true share at that step, in the state just entered, is larger:
what an optimal policy is worth above the one kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.progress import track
from torch import Tensor

from zscout.lab.arenas.arena import Batch, Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.simulation import simulated
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import METHODS

SHARE, DELTA, EVERY = 0.05, 0.05, 10
HEAD = ("features", "κ", "runs", "certified", "rewards: median", "9 of 10", "broken", "larger than .1")
KAPPAS = (1.6, 3.0)  # the default's, and one that explores more


@dataclass(frozen=True)
class Certificates:
    """Where runs stopped, and what was true there."""

    features: str
    kappa: float
    rewards: np.ndarray  # until certified; NaN: not within the run
    share: np.ndarray  # the true share there: (best − kept) ÷ (best − average)

    def row(self) -> Sequence[str]:
        """For the table."""
        done = ~np.isnan(self.rewards)
        counts = np.sort(np.where(done, self.rewards, np.inf))
        middle, most = (f"{counts[int(q * (len(counts) - 1))]:.0f}" for q in (0.5, 0.9))
        over, far = ((self.share[done] > limit).sum() for limit in (SHARE, 0.1))
        shown = f"{done.mean():.1%}", middle, most, f"{over} of {done.sum()}", str(far)
        return self.features, f"{self.kappa:g}", str(len(counts)), *shown


def certified_runs(
    features: str, kappa: float, tasks: Tasks, steps: int, noise: float = 0.3, model: str = "exact"
) -> Certificates:
    """Runs that are checked every ten steps; a run counts when it is certified first."""
    arena = GridArena("open-grid", features, model)
    exact, yardstick = arena.ground.exact, arena.ground.yardstick
    hidden, seeds = tasks.draw(arena), tasks.run_seeds
    z_r = arena.vectors(hidden)
    agent = OnlineTransfer(arena.bfm, METHODS["usf-ucb"](dim=exact.dim, kappa=kappa), seed=seeds, runs=len(seeds))
    best = exact.value(z_r)  # [R S]
    average = (exact.successor_features(exact.sample_z(500, 1)).mean(0) @ z_r.T).T  # [R S]
    rewards, share = (np.full(len(seeds), np.nan) for _ in range(2))
    for step in islice(simulated(agent, arena.environment(Batch(hidden, seeds, noise))), steps):
        if agent.t % EVERY:
            continue
        found = agent.certificate(DELTA)
        state = torch.as_tensor(step.next_obs)
        kept = (yardstick.psi(state, agent.best_z) * z_r).sum(-1)
        top, middle = (_at(table, state[:, None]) for table in (best, average))
        new = (found.share <= SHARE).numpy() & np.isnan(rewards)
        rewards[new], share[new] = agent.t, ((top - kept) / (top - middle)).numpy()[new]
        if not np.isnan(rewards).any():
            break
    return Certificates(features, kappa, rewards, share)


def _at(table: Tensor, state: Tensor) -> Tensor:
    return table.gather(1, state)[:, 0]


def main(
    tasks: int = 250, seeds: int = 4, steps: int = 400, quick: bool = False, model: str = "exact", seed: int = 0
) -> None:
    """Measure certificates on both feature sets."""
    plan = Tasks(5 if quick else tasks, 1 if quick else seeds, seed=seed)
    cells = list(product(("clusters", "laplacian"), KAPPAS))
    steps = 50 if quick else steps
    print(" | ".join(HEAD))
    for cell in track(cells, console=Console(stderr=True)):
        print(" | ".join(certified_runs(*cell, plan, steps, model=model).row()), flush=True)


if __name__ == "__main__":
    tyro.cli(main)
