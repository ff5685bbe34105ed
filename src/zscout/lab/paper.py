"""The paper's figures as tables: what is computed for each, and nothing about how it is drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.bfm.exact import ExactModel
from zscout.bfm.pretrained import load
from zscout.features import decode, grid_clusters, laplacian, temporal_clusters
from zscout.lab.curves import Curve, CurveFigure, CurvePanel
from zscout.lab.panels import Panel, PanelFigure, Strip
from zscout.lab.stored import Training
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
    networks: tuple[str | None, str]  # the shipped models for clusters and for the Laplacian
    steps: int  # how long the drawn trajectories are

    def compute(self, seed: int) -> PanelFigure:
        """Features, trajectories for one-hot z, trajectories for random z; both feature sets, network and exact."""
        world = self.build()
        sets = {self.regions: self.clusters(world), "Laplacian eigenfunctions": laplacian(world, DIM)}
        sections = {
            title: _strips(world, phi, network, self.steps, seed)
            for (title, phi), network in zip(sets.items(), self.networks, strict=True)
        }
        return PanelFigure(
            name=f"features-{self.world}",
            caption=(
                f"What π(·,z) does in the world {self.world!r}. Top of each block: the features φ, orange above 0 and "
                "purple below. Under them, for one-hot and for random z: the reward φ·z, from red (least) to green "
                "(most), and the path of the network's policy and of the exact one, from a random start (○) until it "
                "comes back to where it was (●)."
            ),
            sections=sections,
        )


def _compact(world: GridWorld) -> Float[Tensor, "S d"]:
    return temporal_clusters(world, DIM)


CUT, COMPACT = "Cluster occupancy: a 3×3 cut", "Cluster occupancy: nine regions of short ways"
FIGURES = (
    FeatureFigure("open-grid", open_grid, CUT, grid_clusters, ("grid9-clusters", "grid9-laplacian"), steps=24),
    FeatureFigure("four-rooms", four_rooms, COMPACT, _compact, (None, "fourrooms-laplacian"), steps=32),
    FeatureFigure("maze", maze, COMPACT, _compact, (None, "maze-laplacian"), steps=90),
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


def training_figure(trainings: Sequence[Training]) -> CurveFigure:
    """Value, error of ψ and loss over the steps, for both recipes: what falls with the loss, and what does not."""
    rows = {}
    for features in ("clusters", "laplacian"):
        drawn = [t for t in trainings if t.plain and t.features == features]
        rows[f"9×9, {features}"] = [
            CurvePanel(label, [Curve(t.recipe, t.curves["step"], t.curves[name]) for t in drawn], logarithmic)
            for name, label, logarithmic in (
                ("value", "normalised value", False),
                ("psi_error", "error of ψ", False),
                ("loss", "loss", True),
            )
        ]
    return CurveFigure(
        name="training",
        caption=(
            "Three seeds of each recipe. The paper's recipe reaches its best value early and loses part of it again; "
            "its loss rises all the while, with the size of ψ, and tells of neither. The robust recipe trains its "
            "policy first (no ψ, no loss) and ψ after that, and keeps what it has reached. Value: 0 is a random walk, "
            "1 is optimal. Stored trainings: docs/training.md."
        ),
        rows=rows,
    )


def _strips(world: GridWorld, phi: Float[Tensor, "S d"], network: str | None, steps: int, seed: int) -> list[Strip]:
    exact = ExactModel(world, phi)
    models: dict[str, BehaviorModel] = {"exact": exact}
    if network is not None:
        models = {"network": load(network), **models}
    one_hot, drawn = torch.eye(DIM, dtype=torch.float64), exact.sample_z(DIM, seed)
    nowhere = np.empty((0, 2), dtype=int)
    features = [Panel(f"φ{i + 1}", image, nowhere) for i, image in enumerate(world.to_map(phi.T))]
    strips = [Strip("features φ", "feature", features)]
    for label, title, z in (("one-hot z", "e{}", one_hot), ("random z", "z{}", drawn)):
        rewards = world.to_map(decode(phi, z))
        for name, model in models.items():
            rng = Generator().manual_seed(seed)  # the same starts for all
            paths = world.cells[trajectories(world, model, exact.project_z(z), steps, rng)].numpy()
            panels = [Panel(title.format(i + 1), *pair) for i, pair in enumerate(zip(rewards, paths, strict=True))]
            strips.append(Strip(f"{label}\n{name}", "reward", panels))
    return strips
