"""Eigenfunctions of a world's graph Laplacian: a Fourier basis, smooth along paths."""

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import eigh
from scipy.sparse import csc_array, csr_array, diags_array, eye_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh, splu
from torch import Tensor

from zscout.base.edge import as_size
from zscout.base.types import FiniteWorld

DENSE = 400  # states up to which the dense solver is faster
EQUAL_EIGENVALUES = 1e-8  # eigenvalues closer than this are equal


def laplacian(
    world: FiniteWorld, dim: int = 9, constant: bool = True, normalised: bool = False, allow_cut: bool = False
) -> Float[Tensor, "S d"]:
    """The first d eigenfunctions of L = D − A, scaled so that mean ‖φ(s)‖² = 1.

    ``constant=False`` drops the first, constant one. ``normalised`` uses I − D^{-½}AD^{-½} (its first is √degree). A d
    that cuts an eigenspace raises unless ``allow_cut``, because the part kept would be arbitrary.
    """
    skip = 0 if constant else 1
    most = world.n_states - skip
    without = "" if constant else " without the constant"
    dim = as_size(dim, "dim", 1, most, f"{without} in a world of {world.n_states} states")
    values, functions = _eigenfunctions(world, dim + skip, normalised)
    clean = [k - skip for k in _ends_of_groups(values) if k > skip]
    if dim not in clean and not allow_cut:
        below, above = [k for k in clean if k < dim][-1:], min((k for k in clean if k > dim), default=most)
        choices = " or ".join(f"dim={k}" for k in (*below, above))
        raise ValueError(
            f"dim={dim} cuts the eigenspace of eigenvalue {values[dim + skip - 1]:.4f}, whose basis is arbitrary: "
            f"use {choices}, or allow_cut=True"
        )
    phi = functions[:, skip : skip + dim] * np.sqrt(world.n_states / dim)
    return torch.from_numpy(np.ascontiguousarray(phi))


def eigenvalues(world: FiniteWorld, n: int, normalised: bool = False) -> np.ndarray:
    """The n lowest eigenvalues, ascending."""
    n = as_size(n, "n", 1, world.n_states, f" in a world of {world.n_states} states")
    return _eigenfunctions(world, n, normalised)[0][:n]


def whole_dim(world: FiniteWorld, least: int) -> int:
    """The smallest d ≥ ``least`` that cuts no eigenspace."""
    least = as_size(least, "least", 1, world.n_states, f" in a world of {world.n_states} states")
    values, _ = _eigenfunctions(world, least, normalised=False)
    return next(end for end in _ends_of_groups(values) if end >= least)


def graph_laplacian(world: FiniteWorld, normalised: bool = False) -> csc_array:
    """L = D − A, or I − D^{-½}AD^{-½}."""
    return _laplacian_of(adjacency(world), normalised)


def adjacency(world: FiniteWorld, graded: bool = False) -> csr_array:
    """A [S S] without loops: an edge joins two states if some action can lead from one to the other.

    Entries are 1 or, if ``graded``, a·k for the k-th outcome of the a-th action. In a grid these are 1, 2, 3, 4 for up,
    down, left, right. With slip they are ten times that, because the k-th outcome is the k-th action; only ratios
    matter.
    """
    state, action, outcome = np.nonzero(world.probabilities.cpu().numpy() > 0)
    target = world.successors.cpu().numpy()[state, action, outcome]
    weights = (action + 1.0) * (outcome + 1.0)
    moves = csr_array((weights, (state, target)), shape=(world.n_states, world.n_states))
    moves = csr_array(moves + moves.T)
    moves.setdiag(0)
    moves.eliminate_zeros()
    if not graded:
        moves.data[:] = 1.0
    return moves


def _laplacian_of(A: csr_array, normalised: bool) -> csc_array:
    degree = A.sum(1)
    if not normalised:
        return csc_array(diags_array(degree) - A)
    scale = diags_array(1 / np.sqrt(np.maximum(degree, 1)))  # an isolated state has degree 0
    return csc_array(diags_array((degree > 0).astype(float)) - scale @ A @ scale)


def _eigenfunctions(world: FiniteWorld, k: int, normalised: bool) -> tuple[np.ndarray, np.ndarray]:
    """At least the k lowest eigenvalues, in whole eigenspaces, with a machine-independent basis."""
    A = adjacency(world)
    parts, _ = connected_components(A, directed=False)
    if parts > 1:
        raise ValueError(f"the world's graph has {parts} parts, expected a connected graph")
    L = _laplacian_of(A, normalised)
    # A repeated eigenvalue has no unique basis. Weighting moves by action selects one: the limit of the eigenfunctions
    # as sideways moves become slightly heavier. In an open grid these are the products of cosines.
    tie_breaker = _laplacian_of(adjacency(world, graded=True), normalised=False)

    asked = k
    while True:
        asked = min(asked + 4, world.n_states)
        values, functions = _lowest(L, asked)
        ends = _ends_of_groups(values)
        whole = world.n_states if asked == world.n_states else max((e for e in ends if e < asked), default=0)
        if whole >= k:
            break
        asked *= 2
    groups = [(start, end) for start, end in zip([0, *ends], ends, strict=False) if end <= whole]
    return values[:whole], np.hstack([_canonical(functions[:, a:b], tie_breaker) for a, b in groups])


def _lowest(L: csc_array, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k lowest eigenpairs of L, ascending."""
    n = L.shape[0]
    if n <= DENSE or 2 * k >= n:
        values, functions = eigh(L.toarray())
        return values[:k], functions[:, :k]
    start = np.random.default_rng(0).standard_normal(n)  # deterministic start
    values, functions = eigsh(L, k=k, sigma=-0.01, which="LM", v0=start)
    order = values.argsort()
    values, functions = values[order], functions[:, order]
    # Lanczos from one vector may miss a copy of a repeated eigenvalue. Check by Sylvester's law: L − μI has as many
    # negative pivots as L has eigenvalues below μ.
    gaps = _ends_of_groups(values)[:-1]
    if gaps and _count_below(L, (values[gaps[-1] - 1] + values[gaps[-1]]) / 2) != gaps[-1]:
        values, functions = eigh(L.toarray(), subset_by_index=(0, k - 1))
    return values, functions


def _count_below(L: csc_array, mu: float) -> int:
    shifted = csc_array(L - mu * eye_array(L.shape[0]))
    factor = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return int((factor.U.diagonal() < 0).sum())


def _ends_of_groups(values: np.ndarray) -> list[int]:
    """The number of eigenvalues up to the end of each group of equal ones."""
    return [*(np.flatnonzero(np.diff(values) > EQUAL_EIGENVALUES) + 1).tolist(), len(values)]


def _canonical(functions: np.ndarray, tie_breaker: csc_array) -> np.ndarray:
    """A canonical orthonormal basis of an eigenspace, independent of the input basis."""
    if functions.shape[1] > 1:
        weights, rotation = np.linalg.eigh(functions.T @ (tie_breaker @ functions))
        functions = functions @ rotation
        ends = _ends_of_groups(weights)
        functions = np.hstack([_pivoted(functions[:, a:b]) for a, b in zip([0, *ends], ends, strict=False)])
    # Sign: positive at the first state where it is not small, as for cosines.
    size = np.abs(functions)
    first = (size >= 0.01 * size.max(0)).argmax(0)
    signed: np.ndarray = functions * np.sign(functions[first, np.arange(functions.shape[1])])
    return signed


def _pivoted(functions: np.ndarray) -> np.ndarray:
    """Break remaining ties: take the projections of single states, largest first."""
    if functions.shape[1] == 1:
        return functions
    peeled = []
    for _ in range(functions.shape[1]):
        size = (functions**2).sum(1)
        state = (size >= (1 - 1e-6) * size.max()).argmax()
        direction = functions[state] / np.sqrt(size[state])
        peeled.append(functions @ direction)
        functions = functions - np.outer(functions @ direction, direction)
    return np.stack(peeled, axis=1)
