"""The paper's figures as tables: what is computed for each, and nothing about how it is drawn."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.bfm.exact import ExactModel
from zscout.features import decode, grid_clusters, laplacian, temporal_clusters
from zscout.lab.panels import Panel, PanelFigure, Strip
from zscout.types import BehaviorModel
from zscout.worlds import GridWorld, four_rooms, maze, open_grid

DIM = 9


@dataclass(frozen=True)
class FeatureFigure:
    """The paper's figure of features and policies, for one world."""

    world: str
    build: Callable[[], GridWorld]
    regions: str  # how the world is cut into clusters
    clusters: Callable[[GridWorld], Float[Tensor, "S d"]]
    steps: int  # how long the drawn trajectories are

    def compute(self, seed: int) -> PanelFigure:
        """Features, trajectories for one-hot z, trajectories for random z; both feature sets."""
        world = self.build()
        sets = {self.regions: self.clusters(world), "Laplacian eigenfunctions": laplacian(world, DIM)}
        return PanelFigure(
            name=f"features-{self.world}",
            caption=(
                f"What π(·,z) does in the world {self.world!r}. Top of each block: the features φ, orange above 0 and "
                "purple below. Under them, for one-hot and for random z: the reward φ·z, from red (least) to green "
                "(most), and the exact policy's path, from a random start (○) until it comes back to where it was (●)."
            ),
            sections={name: _strips(world, phi, self.steps, seed) for name, phi in sets.items()},
        )


CUT, COMPACT = "Cluster occupancy: a 3×3 cut", "Cluster occupancy: nine regions of short ways"
FIGURES = (
    FeatureFigure("open-grid", open_grid, CUT, grid_clusters, steps=24),
    FeatureFigure("four-rooms", four_rooms, COMPACT, lambda world: temporal_clusters(world, DIM), steps=32),
    FeatureFigure("maze", maze, COMPACT, lambda world: temporal_clusters(world, DIM), steps=90),
)
"""The first is the paper's own; the others show the same in worlds with walls."""


def trajectories(
    world: GridWorld, model: BehaviorModel, z: Float[Tensor, "n d"], steps: int, rng: Generator
) -> Int[Tensor, "n {steps}+1"]:
    """States visited under π(·,z), one run for each z, from uniformly random starts."""
    visited = [world.random_states(len(z), rng)]
    for _ in range(steps):
        visited.append(world.step(visited[-1], model.act(visited[-1], z, rng), rng))
    return torch.stack(visited, dim=1)


def _strips(world: GridWorld, phi: Float[Tensor, "S d"], steps: int, seed: int) -> list[Strip]:
    rng = Generator().manual_seed(seed)
    model = ExactModel(world, phi)
    one_hot, drawn = torch.eye(DIM, dtype=torch.float64), model.sample_z(DIM, rng)
    nowhere = np.empty((0, 2), dtype=int)
    features = [Panel(f"φ{i + 1}", image, nowhere) for i, image in enumerate(world.to_map(phi.T))]
    return [
        Strip("features φ", "feature", features),
        Strip("one-hot z", "reward", _walks(world, model, one_hot, "e{}", steps, rng)),
        Strip("random z", "reward", _walks(world, model, drawn, "z{}", steps, rng)),
    ]


def _walks(
    world: GridWorld, model: ExactModel, z: Float[Tensor, "n d"], title: str, steps: int, rng: Generator
) -> list[Panel]:
    rewards = world.to_map(decode(model.features, z))
    paths = world.cells[trajectories(world, model, z, steps, rng)].numpy()
    return [
        Panel(title.format(i + 1), reward, path) for i, (reward, path) in enumerate(zip(rewards, paths, strict=True))
    ]
