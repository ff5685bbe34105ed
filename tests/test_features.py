from importlib import import_module

import numpy as np
import pytest
import torch
from scipy.linalg import eigh
from scipy.sparse import csc_array, csr_array
from scipy.sparse.csgraph import connected_components, shortest_path

from zscout.base.types import FiniteWorld
from zscout.features import decode, eigenvalues, encode, graph_laplacian, grid_clusters, laplacian, temporal_clusters
from zscout.features.laplacian import adjacency
from zscout.worlds import GridWorld, four_rooms, maze, open_grid

MODULE = import_module("zscout.features.laplacian")  # the function of that name hides it
WORLDS = [open_grid(), four_rooms(), maze(), open_grid(4, slip=0.3), GridWorld.from_map("....")]


class OneWay:
    """Three states on a ring that turns one way only, and perhaps a fourth on its own."""

    def __init__(self, lonely: bool) -> None:
        self.n_states, self.n_actions = (4 if lonely else 3), 1
        ring = [1, 2, 0] + [3] * lonely
        self.successors = torch.tensor(ring)[:, None, None]
        self.probabilities = torch.ones(self.n_states, 1, 1, dtype=torch.float64)

    def __repr__(self) -> str:
        return "OneWay"

    def step(self, state: object, action: object, rng: object = None) -> torch.Tensor:
        raise AssertionError("features need no steps")


# Clusters


def test_the_papers_cut() -> None:
    phi = grid_clusters(open_grid())
    assert phi.shape == (81, 9)
    assert phi.sum(0).tolist() == [9] * 9
    blocks = open_grid().to_map(phi.argmax(1).double())
    assert np.array_equal(blocks, np.kron(np.arange(9).reshape(3, 3), np.ones((3, 3))))


@pytest.mark.parametrize("world", WORLDS, ids=repr)
def test_temporal_clusters_are_a_partition_into_connected_regions(world: GridWorld) -> None:
    dim = min(9, world.n_states)
    phi = temporal_clusters(world, dim)
    assert phi.shape == (world.n_states, dim)
    assert torch.equal(phi.sum(1), torch.ones(world.n_states, dtype=torch.float64))
    assert (phi.sum(0) > 0).all()
    steps = adjacency(world).toarray()
    for region in phi.T.bool().numpy():
        parts, _ = connected_components(csr_array(steps[np.ix_(region, region)]), directed=False)
        assert parts == 1


def test_temporal_clusters_are_compact_where_a_cut_of_the_map_is_not() -> None:
    world = maze()
    steps = shortest_path(adjacency(world), unweighted=True)

    def mean_steps_inside(phi: torch.Tensor) -> float:
        together = (phi @ phi.T).bool().numpy()
        return float(steps[together].mean())

    # measured: 5.8 against 15.6 steps
    assert mean_steps_inside(temporal_clusters(world, 9)) < 0.5 * mean_steps_inside(grid_clusters(world))


def test_temporal_clusters_are_decided_by_the_seed() -> None:
    world = open_grid()  # whose symmetry leaves many equally good partitions
    first, again, *others = (temporal_clusters(world, 9, seed) for seed in (1, 1, 2, 3))
    assert torch.equal(first, again)
    assert not all(torch.equal(first, other) for other in others)
    each_its_own = temporal_clusters(world, world.n_states)
    assert torch.equal(each_its_own, torch.eye(world.n_states, dtype=torch.float64))


def test_bad_clusters() -> None:
    with pytest.raises(ValueError, match="cannot be cut into 10×3"):
        grid_clusters(open_grid(), rows=10)
    with pytest.raises(ValueError, match="region 3 has no free cell"):
        grid_clusters(GridWorld.from_map("..\n.#"), rows=2, cols=2)
    with pytest.raises(ValueError, match="dim must be from 1 to 81, the states of this world"):
        temporal_clusters(open_grid(), 82)
    with pytest.raises(ValueError, match="dim must be from 1"):
        temporal_clusters(open_grid(), 0)
    with pytest.raises(ValueError, match="the world is not connected"):
        temporal_clusters(OneWay(lonely=True), 2)


# Laplacian


def cosines(size: int, k: int) -> np.ndarray:
    wave = np.cos(np.pi * k * (np.arange(size) + 0.5) / size)
    return np.asarray(wave / np.linalg.norm(wave))


def test_the_first_nine_of_the_9x9_grid_are_the_lowest_products_of_cosines() -> None:
    waves = [cosines(9, k) for k in range(3)]
    order = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (2, 1), (1, 2), (2, 2)]
    expected = np.stack([np.outer(waves[i], waves[j]).ravel() for i, j in order], axis=1)
    np.testing.assert_allclose(laplacian(open_grid()).numpy(), 3 * expected, atol=1e-12)
    rates = [sum(2 - 2 * np.cos(np.pi * k / 9) for k in pair) for pair in order]
    np.testing.assert_allclose(eigenvalues(open_grid(), 9), rates, atol=1e-12)


@pytest.mark.parametrize("world", [*WORLDS, open_grid(30), OneWay(lonely=False)], ids=repr)
@pytest.mark.parametrize("normalised", [False, True])
def test_eigenfunctions_against_a_dense_solver(world: FiniteWorld, normalised: bool) -> None:
    dim = min(9, world.n_states)
    A = adjacency(world).toarray()
    degree = A.sum(1)
    L = np.diag(degree) - A
    if normalised:
        L = L / np.sqrt(np.outer(degree, degree))
    np.testing.assert_allclose(graph_laplacian(world, normalised).toarray(), L, atol=1e-15)
    phi = laplacian(world, dim, normalised=normalised, allow_cut=True).numpy()
    F = phi / np.sqrt(world.n_states / dim)
    np.testing.assert_allclose(F.T @ F, np.eye(dim), atol=1e-10)  # orthonormal
    assert (phi**2).sum(1).mean() == pytest.approx(1)  # mean ‖φ(s)‖² = 1
    values = eigh(L, eigvals_only=True)[:dim]
    np.testing.assert_allclose(L @ F, F * values, atol=1e-9)  # residual at the dense eigenvalues
    np.testing.assert_allclose(eigenvalues(world, dim, normalised), values, atol=1e-10)


def test_the_basis_does_not_depend_on_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    world = open_grid(12)  # full of repeated eigenvalues
    dense = laplacian(world, 13, allow_cut=True)
    monkeypatch.setattr(MODULE, "DENSE", 0)
    sparse = laplacian(world, 13, allow_cut=True)
    torch.testing.assert_close(dense, sparse, rtol=0, atol=1e-8)


def test_the_basis_does_not_depend_on_what_the_solver_returns() -> None:
    world = open_grid()
    tie_breaker = MODULE._laplacian_of(adjacency(world, graded=True), normalised=False)
    _, functions = eigh(graph_laplacian(world).toarray())
    pair = functions[:, 1:3]
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    once, turned = MODULE._canonical(pair, tie_breaker), MODULE._canonical(-pair @ turn, tie_breaker)
    np.testing.assert_allclose(once, turned, atol=1e-10)
    # And where nothing breaks the tie, the largest states do.
    flat = csc_array((81, 81))
    np.testing.assert_allclose(MODULE._canonical(pair, flat), MODULE._canonical(-pair @ turn, flat), atol=1e-10)


def test_a_missed_copy_of_a_repeated_eigenvalue_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    world, right = open_grid(21), laplacian(open_grid(21))
    honest = MODULE.eigsh

    def forgetful(L: object, k: int, **options: object) -> tuple[np.ndarray, np.ndarray]:
        values, functions = honest(L, k=k + 1, **options)
        keep = np.argsort(values)[[i for i in range(k + 1) if i != 1]]
        return values[keep], functions[:, keep]

    monkeypatch.setattr(MODULE, "eigsh", forgetful)
    torch.testing.assert_close(laplacian(world), right, rtol=0, atol=1e-8)


def test_cutting_an_eigenspace_is_refused_and_names_the_clean_choices() -> None:
    with pytest.raises(ValueError, match=r"eigenvalue 1\.0000.*use dim=8 or dim=10, or allow_cut=True"):
        laplacian(open_grid(), 9, constant=False)
    with pytest.raises(ValueError, match="use dim=1 or dim=3"):
        laplacian(open_grid(), 2)
    with pytest.raises(ValueError, match="use dim=2, or"):
        laplacian(open_grid(), 1, constant=False)
    assert laplacian(open_grid(), 9, constant=False, allow_cut=True).shape == (81, 9)
    without = laplacian(open_grid(), 8, constant=False)
    assert float(without.mean(0).abs().max()) < 1e-12
    every = laplacian(open_grid(), 81)
    torch.testing.assert_close(every.T @ every, torch.eye(81, dtype=torch.float64))


@pytest.mark.parametrize("slip", [0.2, 1.0])
def test_slip_changes_no_feature(slip: float) -> None:
    torch.testing.assert_close(laplacian(open_grid(slip=slip)), laplacian(open_grid()), rtol=0, atol=1e-12)
    assert torch.equal(temporal_clusters(maze(slip=slip), 9), temporal_clusters(maze(), 9))


def test_bad_laplacians() -> None:
    with pytest.raises(ValueError, match="n must be from 1 to 81"):
        eigenvalues(open_grid(), 82)
    with pytest.raises(ValueError, match="dim must be from 1 to 81 in a world of 81 states, got 82"):
        laplacian(open_grid(), 82)
    with pytest.raises(ValueError, match="from 1 to 80 without the constant"):
        laplacian(open_grid(), 81, constant=False)
    with pytest.raises(ValueError, match="dim must be from 1"):
        laplacian(open_grid(), 0)
    with pytest.raises(ValueError, match="has 2 parts"):
        laplacian(OneWay(lonely=True), 2)


# Encoding


def test_encoding_on_clusters_gives_each_clusters_mean_reward(rng: torch.Generator) -> None:
    world = four_rooms()
    phi = temporal_clusters(world, 9)
    reward = torch.randn(5, world.n_states, generator=rng, dtype=torch.float64)
    means = torch.stack([reward[:, region].mean(1) for region in phi.T.bool()], dim=1)
    torch.testing.assert_close(encode(phi, reward), means)


def test_what_is_in_the_span_comes_back(rng: torch.Generator) -> None:
    phi = laplacian(maze(), 9)
    z = torch.randn(4, 9, generator=rng, dtype=torch.float64)
    torch.testing.assert_close(encode(phi, decode(phi, z)), z)


def test_bad_encoding() -> None:
    phi = laplacian(open_grid())
    with pytest.raises(ValueError, match="expected \\[\\*b 81\\], one number per state"):
        encode(phi, [1.0, 2.0])
    with pytest.raises(ValueError, match="z has 8 entries"):
        decode(phi, torch.ones(8))
