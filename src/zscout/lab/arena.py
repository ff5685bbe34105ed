"""Where methods are compared: a world, its features, a model of it and the exact yardstick, all by name."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.bfm.exact import ExactModel
from zscout.bfm.pretrained import load
from zscout.bfm.usfa import USFA
from zscout.edge import as_size
from zscout.features import grid_clusters, laplacian, temporal_clusters
from zscout.lab.metrics import Yardstick
from zscout.types import BehaviorModel
from zscout.worlds import GridWorld
from zscout.worlds.maps import WORLDS

DIM = 9
SHIPPED = {
    ("open-grid", "clusters"): "grid9-clusters",
    ("open-grid", "laplacian"): "grid9-laplacian",
    ("four-rooms", "laplacian"): "fourrooms-laplacian",
    ("maze", "laplacian"): "maze-laplacian",
}


def world_named(name: str, slip: float = 0.0) -> GridWorld:
    """A shipped world by name, or a map file."""
    if name in WORLDS:
        return WORLDS[name](slip=slip)
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"there is no world {name!r}: name one of {', '.join(WORLDS)}, or a map file")
    try:
        return GridWorld.from_map(path.read_text(), slip=slip)
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is no text: {error}") from error


def features_named(name: str, world: GridWorld, dim: int) -> Float[Tensor, "S d"]:
    """By name; the 9×9 grid's nine clusters are the paper's cut."""
    if name not in FEATURES:
        raise ValueError(f"there are no features {name!r}: name one of {', '.join(FEATURES)}")
    return FEATURES[name](world, dim)


def _clusters(world: GridWorld, dim: int) -> Float[Tensor, "S d"]:
    the_papers = str(world) == str(WORLDS["open-grid"]()) and dim == 9
    return grid_clusters(world) if the_papers else temporal_clusters(world, dim)


FEATURES: dict[str, Callable[[GridWorld, int], Float[Tensor, "S d"]]] = {"clusters": _clusters, "laplacian": laplacian}


@dataclass(frozen=True)
class Arena:
    """Names that decide everything but the method, the tasks and the seeds."""

    world: str = "open-grid"
    features: str = "laplacian"
    model: str = "exact"  # exact, network (the shipped one), or the name or folder of a saved model
    device: str = "cpu"

    @property
    def ground(self) -> "Ground":
        """The real things, built once."""
        return _ground(self)


@dataclass(frozen=True, eq=False)
class Ground:
    """What an arena's names stand for."""

    world: GridWorld
    exact: ExactModel
    model: BehaviorModel
    yardstick: Yardstick

    @cached_property
    def fingerprint(self) -> str:
        """Of the map, the features and the weights."""
        digest = hashlib.sha256(f"{self.world} {self.world.slip} {sorted(map(sorted, self.world.blocked))}".encode())
        tensors = [self.exact.features, *(self.model.state_dict().values() if isinstance(self.model, USFA) else [])]
        for tensor in tensors:
            digest.update(tensor.detach().cpu().numpy().tobytes())
        return digest.hexdigest()


@cache
def _ground(arena: Arena) -> Ground:
    world = world_named(arena.world)
    exact = ExactModel(world, features_named(arena.features, world, DIM).to(arena.device))
    if arena.model == "exact":
        return Ground(world, exact, exact, Yardstick(exact))
    name = arena.model
    if name == "network":
        if (arena.world, arena.features) not in SHIPPED:
            raise ValueError(f"no network ships for {arena.features} in {arena.world}: train one with zscout pretrain")
        name = SHIPPED[arena.world, arena.features]
    model = load(name).to(arena.device)
    if model.features.shape != exact.features.shape or not torch.allclose(
        model.features.double(), exact.features, atol=1e-5
    ):
        raise ValueError(f"the model {name} was not trained on {arena.features} features of {arena.world}")
    return Ground(world, exact, model, Yardstick(exact, model))


@dataclass(frozen=True)
class Tasks:
    """Which z_r, and for each of them which seeds: ``tuning`` and ``report`` never share one."""

    count: int = 100
    seeds: int = 3
    kind: str = "report"
    seed: int = 0  # another number, other tasks and seeds

    def __post_init__(self) -> None:
        as_size(self.count, "tasks", 1)
        as_size(self.seeds, "seeds", 1, 1_000)
        as_size(self.seed, "seed", 0, 1_000)
        if self.kind not in FIRST_SEED:
            raise ValueError(f"tasks are {' or '.join(FIRST_SEED)}, came as {self.kind!r}")

    def draw(self, exact: ExactModel) -> tuple[Float[Tensor, "R d"], Int[Tensor, " R"]]:
        """z_r [R d] and a seed for each run: the same for every method, so that comparisons are paired."""
        first = FIRST_SEED[self.kind] + self.seed * 1_000_000_000_000
        z = exact.sample_z(self.count, torch.Generator().manual_seed(first)).cpu()
        seeds = first + torch.arange(self.count)[:, None] * 1_000 + torch.arange(self.seeds)
        return z.repeat_interleave(self.seeds, 0), seeds.flatten()


FIRST_SEED = {"tuning": 1_000_000_000, "report": 2_000_000_000}
