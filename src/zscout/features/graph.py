"""A finite world as an undirected graph: an edge joins two states if some action can lead from one to the other."""

import numpy as np
from scipy.sparse import csr_array

from zscout.base.types import FiniteWorld


def adjacency(world: FiniteWorld, graded: bool = False) -> csr_array:
    """A [S S] without loops: 1 between neighbours or, if ``graded``, a·k for the k-th outcome of the a-th action.

    In a grid the graded weights are 1, 2, 3, 4 for up, down, left, right. With slip they are ten times that, because
    the k-th outcome is the k-th action; only ratios matter.
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
