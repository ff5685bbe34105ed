"""A finite world as an undirected graph: states are joined when some action may lead from one to the other."""

import numpy as np
from scipy.sparse import csr_array

from zscout.types import FiniteWorld


def adjacency(world: FiniteWorld, action_weights: np.ndarray | None = None) -> csr_array:
    """A [S S]: 1 between neighbours, no loops; with weights, each edge weighs the sum over its actions."""
    n_states, n_actions = world.n_states, world.n_actions
    successors, possible = world.successors.cpu().numpy(), world.probabilities.cpu().numpy() > 0
    state, action, outcome = np.nonzero(possible)
    target = successors[state, action, outcome]
    weight = np.ones(n_actions) if action_weights is None else action_weights
    moves = csr_array((weight[action], (state, target)), shape=(n_states, n_states))
    moves = csr_array(moves + moves.T)
    moves.setdiag(0)
    moves.eliminate_zeros()
    if action_weights is None:
        moves.data[:] = 1.0
    return moves
