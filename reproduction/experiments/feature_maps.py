"""Maps of the features, and of the paths that π(·,z) takes on them."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from reproduction.experiment import FEATURES, Experiment, Runs, Scale
from reproduction.report.model import Claim, Panel, PanelFigure, Section, Strip
from reproduction.summaries import all_met, any_met, below, both, mean, verdict
from zscout.base.types import BehaviorModel
from zscout.features import decode
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.ground import DIM, features_named
from zscout.loop.loading import load
from zscout.models.exact.model import ExactModel
from zscout.worlds import GridWorld
from zscout.worlds.registry import PLACES

HELD_OUT = 1_000  # z


FIGURES = {"open-grid": 24, "four-rooms": 32, "maze": 90}  # worlds, and the steps of the drawn trajectories
"""The first is the paper's own; the others show the same in worlds with walls."""


def feature_figure(name: str, seed: int) -> PanelFigure:
    """Features, trajectories for one-hot z, trajectories for random z; both feature sets, network and exact."""
    place = PLACES[name]
    world, cut = place.make(), "a 3×3 cut" if name == "open-grid" else "nine compact regions"
    titles = {"clusters": f"Cluster occupancy: {cut}", "laplacian": "Laplacian eigenfunctions"}
    caption = (
        f"What π(·,z) does in the world {name!r}. Top of each block: the features φ, orange above 0 and "
        "purple below. Below them, for one-hot and for random z: the reward φ·z, and the paths of the "
        "network's policy and of the exact one, from a random start (○) until they repeat (●)."
    )
    alt = "Maps of nine features, and under them paths that end where the reward φ·z is high."
    sections = {
        title: _strips(world, features_named(features, world, DIM), place.models.get(features), FIGURES[name], seed)
        for features, title in titles.items()
    }
    return PanelFigure(f"features-{name}", caption, sections, alt)


def trajectories(
    world: GridWorld, model: BehaviorModel, z: Float[Tensor, "n d"], steps: int, rng: Generator
) -> Int[Tensor, "n {steps}+1"]:
    """States visited under π(·,z), one run for each z, from uniformly random starts."""
    visited = [world.random_states(len(z), rng)]
    for _ in range(steps):
        visited.append(world.step(visited[-1], model.act(visited[-1], z, rng), rng))
    return torch.stack(visited, dim=1)


def _strips(world: GridWorld, phi: Float[Tensor, "S d"], network: str | None, steps: int, seed: int) -> list[Strip]:
    exact = ExactModel(world, phi)
    models: dict[str, BehaviorModel] = {"network": load(network)} if network is not None else {}
    models["exact"] = exact
    one_hot, drawn = torch.eye(DIM, dtype=torch.float64), exact.sample_z(DIM, seed)
    no_path = np.empty((0, 2), dtype=int)
    features = [Panel(f"φ{i}", image, no_path) for i, image in enumerate(world.to_map(phi.T), 1)]
    strips = [Strip("features φ", "feature", features)]
    for label, letter, z in (("one-hot z", "e", one_hot), ("random z", "z", drawn)):
        rewards = world.to_map(decode(phi, z))
        for name, model in models.items():
            rng = Generator().manual_seed(seed)  # the same starts for all
            paths = world.cells[trajectories(world, model, exact.project_z(z), steps, rng)].numpy()
            pairs = zip(rewards, paths, strict=True)
            panels = [Panel(f"{letter}{i}", reward, path) for i, (reward, path) in enumerate(pairs, 1)]
            strips.append(Strip(f"{label}\n{name}", "reward", panels))
    return strips


def _tell(scale: Scale, runs: Runs) -> Section:
    figures = [feature_figure(name, scale.seed) for name in list(FIGURES)[: 1 if scale.quick else None]]
    value, good = {}, {}
    for name in FEATURES:
        ground = GridArena(features=name, model="network").ground
        z = ground.exact.sample_z(HELD_OUT, Generator().manual_seed(scale.seed + 1))
        values = ground.yardstick.value(z, z).numpy()
        value[name], good[name] = mean(values), mean(values >= 0.95)
    claim = Claim(
        "1a",
        "The trained policies are not perfect, and good on most tasks.",
        "4.1, figure of features and policies",
        f"Normalised value over {HELD_OUT:,} held-out z: {both(value, '.4f')}; at least .95 for "
        f"{both(good, '.1%', ' and ')} of them. (Our networks, our recipe; the paper's recipe: claim 12a.)",
        verdict(
            scale,
            all_met(met for e in good.values() for met in (below(0.9, e), below(e, 1))),
            any_met(below(0.9, e) for e in good.values()),
        ),
        "holds if with both feature sets the value is at least .95 for significantly more than 90 % of z, and "
        "significantly fewer than all; in part if for more than 90 % with one",
    )
    text = [
        "A 9×9 grid, four moves, and two feature sets: nine regions, one feature each, or nine smooth eigenfunctions "
        "of the grid's Laplacian. A reward is φ·z. A network has learned, without any reward, a policy for each z."
    ]
    title = "Features, and what π(·,z) does"
    return Section("features", title, text, figures, claims=[claim], command="python -m reproduction")


FEATURES_AND_POLICIES = Experiment(_tell)
