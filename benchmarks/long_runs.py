"""How many long runs end with a policy that is not good, with and without bursts: ``python -m benchmarks.long_runs``.

Runs of the default on the 9×9 grid with the exact model, noise .3. Not settled: at the end, the z to keep is worth less
than .95 of optimal.
"""

from dataclasses import dataclass, replace
from itertools import product

import torch
import tyro
from rich.console import Console
from rich.progress import track

from zscout.lab.arenas.arena import GOOD_VALUE, Batch, Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.simulation import simulated
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import METHODS
from zscout.transfer.score.confidence import ScaleFree

HEAD = ("features", "bursts", "runs", "not settled", "mean reward")


@dataclass(frozen=True)
class LongRuns:
    """Which runs, and for how long."""

    tasks: int = 100
    """Number of tasks, three runs each."""
    steps: int = 5_000
    """Steps of a run."""
    features: tuple[str, ...] = ("laplacian", "clusters")
    """Feature sets."""

    def row(self, features: str, burst: float) -> tuple[str, ...]:
        """For the table."""
        arena, tasks = GridArena("open-grid", features, "exact"), Tasks(self.tasks, 3)
        hidden, seeds = tasks.draw(arena), tasks.run_seeds
        method = replace(METHODS["usf-ucb"](dim=arena.bfm.dim), confidence=ScaleFree(burst=burst))
        agent = OnlineTransfer(arena.bfm, method, seed=seeds, runs=len(seeds))
        env = arena.environment(Batch(hidden, seeds, 0.3))
        moving, total = simulated(agent, env), torch.zeros(len(seeds), dtype=torch.float64)
        for _ in track(range(self.steps), f"{features}, burst {burst:g}", console=Console(stderr=True)):
            total += env.true_reward(next(moving).next_obs)
        z_r = arena.vectors(hidden)
        value = arena.ground.yardstick.value(agent.best_z, z_r)
        missed, mean = int((value < GOOD_VALUE).sum()), float(total.mean()) / self.steps
        return features, "no" if burst == 1 else f"{burst:g}", str(len(seeds)), str(missed), f"{mean:.4f}"

    def run(self) -> None:
        """Print a table."""
        print(" | ".join(HEAD))
        with torch.inference_mode():
            for features, burst in product(self.features, (1.0, METHODS["usf-ucb"].settings["burst"])):
                print(" | ".join(self.row(features, burst)), flush=True)


if __name__ == "__main__":
    tyro.cli(LongRuns, prog="python -m benchmarks.long_runs").run()
