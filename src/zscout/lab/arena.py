"""Arenas: world, features and model by name, with the exact model that measures them; and random tasks."""

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.nn import Module

from zscout.bfm.exact import ExactModel
from zscout.bfm.pretrained import load
from zscout.edge import as_size, in_range, known_name
from zscout.features import grid_clusters, laplacian, temporal_clusters, whole_dim
from zscout.lab.corrupted import Corrupted
from zscout.lab.exact_values import Yardstick
from zscout.lab.plugins import is_plugin, plugin_feature_table, plugin_features, plugin_model
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
    path = Path(name)
    if name in WORLDS or not path.is_file():
        return WORLDS[known_name(name, WORLDS, "world", ", or a map file")](slip=slip)
    try:
        return GridWorld.from_map(path.read_text(), slip=slip)
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not a text file: {error}") from error
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def features_named(name: str, world: GridWorld, dim: int) -> Float[Tensor, "S d"]:
    """By name, the 9×9 grid's nine clusters being the paper's cut; or your own, under ``module:name``."""
    if is_plugin(name):
        return plugin_feature_table(name, world)
    return FEATURES[known_name(name, FEATURES, "feature set")](world, dim)


def _clusters(world: GridWorld, dim: int) -> Float[Tensor, "S d"]:
    the_papers = str(world) == str(WORLDS["open-grid"]()) and dim == 9
    return grid_clusters(world) if the_papers else temporal_clusters(world, dim)


FEATURES: dict[str, Callable[[GridWorld, int], Float[Tensor, "S d"]]] = {"clusters": _clusters, "laplacian": laplacian}
FINE = "laplacian-fine"  # so many eigenfunctions that a patch of a few cells can be told from its surroundings
OF_ARENAS = (*FEATURES, FINE)


def _features(name: str, world: GridWorld) -> Float[Tensor, "S d"]:
    """Nine of a kind, or of the fine ones about a third as many as there are states."""
    if not is_plugin(name) and known_name(name, OF_ARENAS, "feature set", ", or your own as module:name") == FINE:
        return laplacian(world, whole_dim(world, max(DIM, world.n_states // 3)))
    return features_named(name, world, DIM)


@dataclass(frozen=True)
class Arena:
    """Names that decide everything but the method, the tasks and the seeds."""

    world: str = "open-grid"
    features: str = "laplacian"
    model: str = "exact"  # exact, network (the shipped one), a saved model's name or folder, or module:name
    psi_error: float = 0.0  # how wrong the exact model's ψ is made, as a share of its length …
    heads: int = 1  # … in each of so many heads
    device: str = "cpu"

    def __post_init__(self) -> None:
        in_range(self.psi_error, "psi-error", 0.0, math.inf, open_end=True)
        as_size(self.heads, "heads", 1, 100)
        if self.model != "exact" and (self.psi_error or self.heads > 1):
            raise ValueError("psi-error and heads are of the exact model, whose ψ is otherwise right")

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
    def by_state(self) -> Yardstick:
        """For rewards that the features cannot express: a table of them, one entry a state."""
        eye = torch.eye(self.world.n_states, dtype=torch.float64, device=self.exact.device)
        return Yardstick(ExactModel(self.world, eye, self.exact.gamma), self.model)

    @cached_property
    def gap(self) -> float:
        """The worth of one lost step: mean over states and 1,000 random tasks of v* − v_random."""
        return self.yardstick.gap(self.exact.sample_z(1_000, Generator().manual_seed(0)).cpu())

    @cached_property
    def fingerprint(self) -> str:
        """Of the map, the features and the weights."""
        digest = hashlib.sha256(f"{self.world} {self.world.slip} {sorted(map(sorted, self.world.blocked))}".encode())
        for tensor in (self.exact.features, *self._weights()):
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def _weights(self) -> Iterator[Tensor]:
        """What a model does, where it is not decided by the features: its tensors, and what it answers to a few z."""
        if isinstance(self.model, ExactModel | Corrupted):
            return
        if isinstance(self.model, Module):
            yield from self.model.state_dict().values()
        states, z = torch.arange(self.world.n_states), self.model.sample_z(4, 0)
        yield self.model.psi(states, z)
        for row in z:
            yield torch.as_tensor(self.model.act(states, row.expand(len(states), -1), Generator().manual_seed(0)))


@cache
def _ground(arena: Arena) -> Ground:
    world = world_named(arena.world)
    exact = ExactModel(world, _features(arena.features, world).to(arena.device))
    if arena.model == "exact":
        wrong = arena.psi_error or arena.heads > 1
        model = Corrupted(exact, arena.psi_error, arena.heads) if wrong else exact
        ground = Ground(world, exact, model, Yardstick(exact, model))
        return _worthwhile(ground) if is_plugin(arena.features) else ground
    if is_plugin(arena.model):
        own = plugin_model(arena.model, world, exact.features)
        exact = ExactModel(world, plugin_features(own, arena.model, world.n_states))
        return _worthwhile(Ground(world, exact, own, Yardstick(exact, own)))
    name = arena.model
    if name == "network":
        if (arena.world, arena.features) not in SHIPPED:
            raise ValueError(
                f"no network ships for {arena.features} in {arena.world}: train one with zscout pretrain, or take "
                "--model exact"
            )
        name = SHIPPED[arena.world, arena.features]
    network = load(name).to(arena.device)
    if network.features.shape != exact.features.shape or not torch.allclose(
        network.features.double(), exact.features, atol=1e-5
    ):
        raise ValueError(f"the model {name} was not trained on {arena.features} features of {arena.world}")
    return Ground(world, exact, network, Yardstick(exact, network))


def _worthwhile(ground: Ground) -> Ground:
    """Refuse features that give nothing to gain."""
    if ground.gap <= 1e-9 * float(ground.exact.features.abs().max()):
        raise ValueError("with these features every policy is worth the same: there is nothing to compare")
    return ground


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
            raise ValueError(f"tasks are {' or '.join(FIRST_SEED)}, got {self.kind!r}")

    def draw(self, exact: ExactModel) -> tuple[Float[Tensor, "R d"], Int[Tensor, " R"]]:
        """z_r [R d] and a seed for each run: the same for every method, so that comparisons are paired."""
        blocks = range(-(-self.count // BLOCK))  # more tasks begin with the same ones
        drawn = [exact.sample_z(BLOCK, Generator().manual_seed(self._first + block)).cpu() for block in blocks]
        z = torch.cat(drawn)[: self.count]
        return z.repeat_interleave(self.seeds, 0), torch.tensor(self.run_seeds)

    @property
    def run_seeds(self) -> list[int]:
        """Of each run, a task's runs beside each other."""
        return [self._first + task * 1_000 + run for task in range(self.count) for run in range(self.seeds)]

    @property
    def _first(self) -> int:
        return FIRST_SEED[self.kind] + self.seed * 1_000_000_000_000


BLOCK = 100
FIRST_SEED = {"tuning": 1_000_000_000, "report": 2_000_000_000}
