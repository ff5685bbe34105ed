"""A finite world as an undirected graph: an edge joins two states if some action can lead from one to the other."""

import numpy as np
from scipy.sparse import csr_array

from zscout.types import FiniteWorld


def adjacency(world: FiniteWorld) -> csr_array:
    """A [S S]: 1 between neighbours, no loops."""
    neighbours = _edges(world, np.ones((1, 1)))
    neighbours.data[:] = 1.0
    return neighbours


def graded_adjacency(world: FiniteWorld) -> csr_array:
    """Adjacency with edges weighted by action: a·k for the a-th action and its k-th outcome.

    In a grid the weights are 1, 2, 3, 4 for up, down, left, right. With slip they are ten times that, because the k-th
    outcome is the k-th action; only ratios matter.
    """
    _, n_actions, n_outcomes = world.successors.shape
    return _edges(world, np.outer(np.arange(1.0, n_actions + 1), np.arange(1.0, n_outcomes + 1)))


def _edges(world: FiniteWorld, weight: np.ndarray) -> csr_array:
    n_states = world.n_states
    successors, possible = world.successors.cpu().numpy(), world.probabilities.cpu().numpy() > 0
    state, action, outcome = np.nonzero(possible)
    target = successors[state, action, outcome]
    weights = np.broadcast_to(weight, possible.shape[1:])[action, outcome]
    moves = csr_array((weights, (state, target)), shape=(n_states, n_states))
    moves = csr_array(moves + moves.T)
    moves.setdiag(0)
    moves.eliminate_zeros()
    return moves
