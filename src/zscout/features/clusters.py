"""Region occupancy: φ_i(s) = 1 if s is in region i, so z_i is the reward of region i."""

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from zscout.base.edge import as_size
from zscout.base.types import FiniteWorld
from zscout.features.laplacian import adjacency
from zscout.worlds import GridWorld


def grid_clusters(world: GridWorld, rows: int = 3, cols: int = 3) -> Float[Tensor, "S d"]:
    """Regions are rows × cols blocks of the map, numbered row by row; the paper uses 3×3."""
    height, width = world.shape
    rows, cols = as_size(rows, "rows", 1), as_size(cols, "cols", 1)
    if not (1 <= rows <= height and 1 <= cols <= width):
        raise ValueError(f"a map of {height}×{width} cells cannot be cut into {rows}×{cols} blocks")
    row, column = world.cells.T
    block = (row * rows // height) * cols + column * cols // width
    return _occupancy(block.numpy(), rows * cols)


def temporal_clusters(world: FiniteWorld, dim: int, seed: int = 0) -> Float[Tensor, "S d"]:
    """``dim`` connected regions that are compact in travel time: k-medoids on the squared number of steps.

    Each state belongs to the medoid that is fewest steps away (ties: the first). A medoid is the state of its region
    with the smallest cost to the rest. The best of several seeded starts is kept. Moves count as undirected, even if
    they cannot be undone.
    """
    dim = as_size(dim, "dim", 1, world.n_states, ", the states of this world")
    seed = as_size(seed, "seed", 0)
    far = shortest_path(adjacency(world), unweighted=True) ** 2
    if not np.isfinite(far).all():
        raise ValueError("the world is not connected: travel times between its parts are undefined")
    rng = np.random.default_rng(seed)
    tries = [_settle(far, _spread(far, dim, rng)) for _ in range(30)]
    medoids = np.sort(min(tries, key=lambda medoids: _cost(far, medoids)))  # numbers the regions
    return _occupancy(far[:, medoids].argmin(1), dim)


def _spread(far: np.ndarray, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Starting medoids, each drawn with probability ∝ its squared steps to those before it (k-means++)."""
    medoids = [int(rng.integers(len(far)))]
    for _ in range(dim - 1):
        distance = far[:, medoids].min(1)
        medoids.append(int(rng.choice(len(far), p=distance / distance.sum())))
    return np.array(medoids)


def _settle(far: np.ndarray, medoids: np.ndarray) -> np.ndarray:
    """Move each medoid to the centre of its region until none moves; terminates, because the cost falls each round."""
    while True:
        region = far[:, medoids].argmin(1)
        members = [np.flatnonzero(region == i) for i in range(len(medoids))]
        moved = np.array([m[far[np.ix_(m, m)].sum(1).argmin()] for m in members])
        if _cost(far, moved) >= _cost(far, medoids):
            return medoids
        medoids = moved


def _cost(far: np.ndarray, medoids: np.ndarray) -> float:
    return float(far[:, medoids].min(1).sum())


def _occupancy(region: np.ndarray, dim: int) -> Float[Tensor, "S d"]:
    features = torch.nn.functional.one_hot(torch.from_numpy(region).long(), dim).double()
    if empty := [i for i, size in enumerate(features.sum(0).tolist()) if not size]:
        raise ValueError(f"region {empty[0]} has no free cell: use fewer blocks, or temporal_clusters")
    return features
