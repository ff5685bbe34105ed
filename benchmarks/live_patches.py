"""How often runs of the live page find small painted patches: ``python -m benchmarks.live_patches``.

A run finds its painting if its final policy is worth at least 0.9 (0 is a random walk, 1 the best policy), and collects
it if its last 50 steps bring at least half of the largest mean reward possible.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
import tyro
from rich.console import Console
from rich.table import Table

from zscout.base.randomness import Streams
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.simulation import WORLD_DRAWS, TaskRuns, simulated
from zscout.live.places.hidden_reward import HiddenReward
from zscout.live.session.setup import Setup
from zscout.transfer.agent import OnlineTransfer
from zscout.worlds import GridWorld

FOUND, COLLECTED, LAST = 0.9, 0.5, 50


@dataclass(frozen=True)
class Patches:
    """Paintings of three kinds, each with a seed of its own."""

    method: str = "usf-ucb"
    """Method, as on the page."""
    features: str = "laplacian-fine"
    """Features, as on the page."""
    world: str = "open-grid"
    """World, as on the page."""
    steps: int = 300
    """Steps of each run."""

    def outcomes(self) -> dict[str, list[tuple[bool, bool]]]:
        """Whether each run found and collected its painting, by kind of painting."""
        setup = Setup(world=self.world, features=self.features, methods=(self.method,))
        ground = GridArena(setup.world, setup.features, setup.model).ground
        painted = list(paintings(ground.world))
        tables = torch.tensor([table for _, _, table in painted], dtype=torch.float64)
        # The same draws as the page's: a run can be repeated there from its seed and its painting.
        method, seeds = setup.build(self.method), [seed for _, seed, _ in painted]
        agent = OnlineTransfer(ground.model, method, seed=seeds, runs=len(painted))
        moving = simulated(agent, TaskRuns(ground.world, tables, setup.noise, agent.seeds))
        entered = torch.stack([step.next_obs for step in islice(moving, self.steps)])[-LAST:]
        policies, answer = ground.yardstick.policy(agent.best_z.cpu()), dict[str, list[tuple[bool, bool]]]()
        for run, (kind, _, _) in enumerate(painted):
            hidden = HiddenReward(ground, tables[run])
            worth = hidden.worth(hidden.values(policies[run : run + 1])[0]) or 0.0
            mean = float(tables[run][entered[:, run]].mean())
            answer.setdefault(kind, []).append((worth >= FOUND, mean >= COLLECTED * hidden.attainable))
        return answer


def paintings(world: GridWorld) -> Iterator[tuple[str, int, tuple[float, ...]]]:
    """Kind, seed of the run, and reward of each state, for each run."""
    for seed in range(20):
        start = int(Streams(torch.tensor([seed]), WORLD_DRAWS).uniform() * world.n_states)
        near, far = _nearest(world, start), _farthest(world, start)
        yield "a weak patch (0.4) near, the best (1) far", seed, _painted(world, near, far)
    for seed in range(12):
        yield "one cell", seed, _painted(world, [], _any(world, seed, 1))
    for seed in range(12):
        yield "one patch of 2×2", seed, _painted(world, [], _any(world, seed, 2))


def _squares(world: GridWorld, size: int) -> list[list[int]]:
    """The states of each patch of that size."""
    number = {(int(row), int(column)): state for state, (row, column) in enumerate(world.cells)}
    within = [(row, column) for row in range(size) for column in range(size)]
    patches = [[number.get((row + down, column + right)) for down, right in within] for row, column in number]
    return [[state for state in patch if state is not None] for patch in patches if None not in patch]


def _far(world: GridWorld, start: int, patch: list[int]) -> int:
    return int((world.cells[patch] - world.cells[start]).abs().sum(-1).min())


def _nearest(world: GridWorld, start: int) -> list[int]:
    """The nearest patch at least two steps away."""
    return min((p for p in _squares(world, 2) if _far(world, start, p) >= 2), key=lambda p: _far(world, start, p))


def _farthest(world: GridWorld, start: int) -> list[int]:
    return max(_squares(world, 2), key=lambda patch: _far(world, start, patch))


def _any(world: GridWorld, seed: int, size: int) -> list[int]:
    patches = _squares(world, size)
    return patches[int(torch.randint(len(patches), (), generator=torch.Generator().manual_seed(seed)))]


def _painted(world: GridWorld, weak: list[int], best: list[int]) -> tuple[float, ...]:
    return tuple(1.0 if state in best else 0.4 if state in weak else 0.0 for state in range(world.n_states))


def main() -> None:
    """Run all paintings and print a table."""
    patches, console = tyro.cli(Patches, prog="python -m benchmarks.live_patches"), Console()
    table = Table("painting", "found", "collected", title=f"{patches.method}, {patches.steps} steps")
    with torch.inference_mode():
        kinds = patches.outcomes()
    for kind, found in kinds.items():
        table.add_row(kind, *(f"{sum(column)} of {len(found)}" for column in zip(*found, strict=True)))
    console.print(table)


if __name__ == "__main__":
    main()
