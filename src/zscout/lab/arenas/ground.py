"""Worlds and features by name; a world with features and a model, and their exact values."""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.nn import Module

from zscout.base.edge import as_table, known_name
from zscout.base.types import BehaviorModel
from zscout.features import grid_clusters, laplacian, temporal_clusters, whole_dim
from zscout.lab.arenas.arena import Task, Tasks
from zscout.lab.arenas.exact_values import Yardstick
from zscout.models.exact.corrupted import Corrupted
from zscout.models.exact.model import ExactModel
from zscout.models.sphere import sample_sphere
from zscout.worlds.grids.grid import GridWorld
from zscout.worlds.grids.maps import open_grid
from zscout.worlds.registry import of_kind

DIM = 9
MOST_FEATURES = 10_000
OR_FILE = ", or a table [S d] in a .npy file"


def world_named(name: str, slip: float = 0.0) -> GridWorld:
    """A shipped world, or one from a map file."""
    path, grids = Path(name), of_kind("grid")
    if name in grids or not path.is_file():
        found: GridWorld = grids[known_name(name, grids, "world", ", or a map file")].make(slip=slip)
        return found
    try:
        return GridWorld.from_map(path.read_text(), slip=slip)
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not a text file: {error}") from error
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def features_named(name: str, world: GridWorld, dim: int) -> Float[Tensor, "S d"]:
    """Features by name, or a table in a .npy file; nine clusters of the 9×9 grid are the paper's 3×3 blocks."""
    if name.endswith(".npy"):
        return _features_of_file(name, world.n_states)
    return FEATURES[known_name(name, FEATURES, "feature set", OR_FILE)](world, dim)


def _features_of_file(name: str, states: int) -> Float[Tensor, "S d"]:
    """A table [S d]; its size is checked before it is read."""
    try:
        table = np.load(name, mmap_mode="r", allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"{name} is not a table in .npy: {why}") from error
    if not isinstance(table, np.memmap) or table.ndim != 2 or len(table) != states or table.shape[1] > MOST_FEATURES:
        shape = getattr(table, "shape", "of several arrays")
        raise ValueError(f"{name} is {shape}, expected [{states} d], a row for each state, d ≤ {MOST_FEATURES:,}")
    return as_table(np.array(table), states, name)


def _clusters(world: GridWorld, dim: int) -> Float[Tensor, "S d"]:
    the_papers = str(world) == str(open_grid()) and dim == 9
    return grid_clusters(world) if the_papers else temporal_clusters(world, dim)


FEATURES: dict[str, Callable[[GridWorld, int], Float[Tensor, "S d"]]] = {"clusters": _clusters, "laplacian": laplacian}
FINE_LAPLACIAN = "laplacian-fine"  # enough eigenfunctions to resolve a patch of a few cells
OF_ARENAS = (*FEATURES, FINE_LAPLACIAN)


def arena_features(name: str, world: GridWorld) -> Float[Tensor, "S d"]:
    """Nine features; ``laplacian-fine`` has a third of the number of states."""
    if not name.endswith(".npy") and known_name(name, OF_ARENAS, "feature set", OR_FILE) == FINE_LAPLACIAN:
        return laplacian(world, whole_dim(world, max(DIM, world.n_states // 3)))
    return features_named(name, world, DIM)


@dataclass(frozen=True, eq=False)
class Ground:
    """A finite world, its features and a model; exact values are computed on first use."""

    world: GridWorld
    features: Float[Tensor, "S d"]
    model: BehaviorModel

    @cached_property
    def exact(self) -> ExactModel:
        """The exact model of the same world and features."""
        if isinstance(self.model, ExactModel):
            return self.model
        return self.model.exact if isinstance(self.model, Corrupted) else ExactModel(self.world, self.features)

    @cached_property
    def yardstick(self) -> Yardstick:
        """Exact values of the model's policies."""
        return Yardstick(self.exact, self.model)

    @cached_property
    def by_state(self) -> Yardstick:
        """Exact values for rewards that the features cannot express: a task has one entry for each state."""
        eye = torch.eye(self.world.n_states, dtype=torch.float64, device=self.exact.device)
        return Yardstick(ExactModel(self.world, eye, self.exact.gamma), self.model)

    @cached_property
    def gap(self) -> float:
        """The regret of one lost step: mean over states and 1,000 random tasks of v* − v_random."""
        return self.yardstick.gap(self.exact.sample_z(1_000, Generator().manual_seed(0)).cpu())

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the map, the features and the weights."""
        digest = hashlib.sha256(f"{self.world} {self.world.slip} {sorted(map(sorted, self.world.blocked))}".encode())
        for tensor in (self.features, *self._weights()):
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def _weights(self) -> Iterator[Tensor]:
        """For a model that the features do not determine: its tensors, and its ψ and actions for a few z."""
        if isinstance(self.model, ExactModel | Corrupted):
            return
        if isinstance(self.model, Module):
            yield from self.model.state_dict().values()
        states, z = torch.arange(self.world.n_states), self.model.sample_z(4, 0)
        yield self.model.psi(states, z)
        for row in z:
            yield torch.as_tensor(self.model.act(states, row.expand(len(states), -1), Generator().manual_seed(0)))

    def sample_tasks(self, n: int, rng: Generator) -> list[Task]:
        """z_r, uniform on the sphere of radius √d."""
        return [tuple(z) for z in sample_sphere(n, self.model.dim, rng).tolist()]

    def draw(self, tasks: Tasks) -> tuple[Float[Tensor, "R d"], Int[Tensor, " R"]]:
        """z_r and the seed of each run."""
        return torch.tensor(tasks.draw(self), dtype=torch.float64), torch.tensor(tasks.run_seeds)

    def rewards(
        self, tasks: Float[Tensor, "R d"], seeds: Sequence[int], outside: float, offset: float = 0.0
    ) -> Float[Tensor, "R S"]:
        """φ·z_r + offset of each state; with ``outside`` > 0 plus a random part, by seed, that no φ·z expresses."""
        features = self.features.cpu()
        inside = tasks @ features.T + offset
        if not outside:
            return inside
        rngs = [Generator().manual_seed((seed * 1_000_003 + 17) % 2**62) for seed in seeds]
        drawn = torch.stack([torch.randn(len(features), dtype=torch.float64, generator=rng) for rng in rngs])
        with_constant = torch.cat([features, torch.ones(len(features), 1, dtype=torch.float64)], dim=1)
        directions, sizes, _ = torch.linalg.svd(with_constant, full_matrices=False)
        span = directions[:, sizes > 1e-9 * sizes[0]]
        beyond = drawn - drawn @ span @ span.T  # mean 0, orthogonal to every φ·z
        spread: Tensor = inside.std(1, correction=0) / beyond.std(1, correction=0)
        size = spread * math.sqrt(outside / (1 - outside))
        return torch.addcmul(inside, beyond, size[:, None])
