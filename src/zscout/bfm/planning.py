"""Dynamic programming for many rewards at once, in any finite world.

Two layouts: [S m], m rewards side by side, for sweeps over a shared table of moves; [N k], nodes of one large
Markov chain, for sums along given policies, where m policies on S states are simply N = m·S nodes.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csc_array, eye_array
from scipy.sparse.linalg import splu
from torch import Tensor

from zscout.types import FiniteWorld


@dataclass(frozen=True, eq=False)
class Dynamics:
    """p(s'|s,a) as a table of K outcomes for each state and action."""

    successors: Int[Tensor, "S A K"]
    probabilities: Float[Tensor, "S A K"]

    @classmethod
    def of(cls, world: FiniteWorld, device: torch.device) -> "Dynamics":
        """The tables of a world, checked."""
        successors = world.successors.to(device).contiguous()
        probabilities = world.probabilities.to(device, torch.float64).contiguous()
        if not torch.allclose(probabilities.sum(-1), torch.ones((), dtype=torch.float64, device=device)):
            raise ValueError("the world's outcome probabilities do not sum to 1 for every state and action")
        return cls(successors, probabilities)

    def expect(self, x: Float[Tensor, "S m"]) -> Float[Tensor, "A S m"]:
        """E[x(S') | s, a]."""
        if self.successors.shape[-1] == 1:
            return x[self.successors[:, :, 0].T]
        outcomes = zip(self.successors.unbind(-1), self.probabilities.unbind(-1), strict=True)
        return torch.stack([p.T[:, :, None] * x[s.T] for s, p in outcomes]).sum(0)

    def chain(self, policy: Int[Tensor, "m S"]) -> tuple[Int[Tensor, "m*S K"], Float[Tensor, "m*S K"]]:
        """The m·S nodes that m deterministic policies make of the world: where each leads, how likely."""
        m, n_states = policy.shape
        state = torch.arange(n_states, device=policy.device)
        offset = torch.arange(m, device=policy.device)[:, None, None] * n_states
        successors = self.successors[state, policy] + offset
        return successors.flatten(0, 1), self.probabilities[state, policy].flatten(0, 1)

    def mixed_chain(self, policy: Float[Tensor, "m S A"]) -> tuple[Int[Tensor, "m*S AK"], Float[Tensor, "m*S AK"]]:
        """The same for policies that draw their actions."""
        m, n_states, _ = policy.shape
        offset = torch.arange(m, device=policy.device)[:, None, None] * n_states
        successors = self.successors.flatten(1)[None] + offset
        probabilities = (policy[..., None] * self.probabilities).flatten(2)
        return successors.flatten(0, 1), probabilities.flatten(0, 1)


def discounted_sums(
    first: Float[Tensor, "N k"],
    successors: Int[Tensor, "N K"],
    probabilities: Float[Tensor, "N K"],
    gamma: float,
) -> Float[Tensor, "N k"]:
    """The solution of x(i) = first(i) + γ Σ_k p(i,k) x(successors(i,k)) on a Markov chain of N nodes."""
    if successors.shape[1] == 1:
        return _sums_along_pointers(first, successors[:, 0], gamma)
    return _sums_by_elimination(first, successors, probabilities, gamma)


def _sums_along_pointers(first: Float[Tensor, "N k"], pointer: Int[Tensor, " N"], gamma: float) -> Float[Tensor, "N k"]:
    """Pointer doubling: after j rounds x sums 2ʲ steps, and the pointer is where they lead.

    Once going 2ʲ steps twice leads where going once does, every node is 2ʲ steps from a cycle whose length
    divides 2ʲ, so the rest is a geometric series: exact, however close γ is to 1.
    """
    x, weight = first, gamma
    while weight > 1e-20:
        x = x + weight * x[pointer]
        pointer, weight = pointer[pointer], weight * weight
        if torch.equal(pointer[pointer], pointer):
            return x + weight / (1 - weight) * x[pointer]
    return x


def _sums_by_elimination(
    first: Float[Tensor, "N k"],
    successors: Int[Tensor, "N K"],
    probabilities: Float[Tensor, "N K"],
    gamma: float,
) -> Float[Tensor, "N k"]:
    """(I − γP) x = first by sparse elimination; the policies of a batch are blocks that never fill each other."""
    n, outcomes = successors.shape
    origin = np.repeat(np.arange(n), outcomes)
    entries = (probabilities.flatten().cpu().numpy(), (origin, successors.flatten().cpu().numpy()))
    system = csc_array(eye_array(n) - gamma * csc_array(entries, shape=(n, n)))
    return torch.from_numpy(splu(system).solve(first.cpu().numpy())).to(first.device)


def optimal_values(dynamics: Dynamics, reward: Float[Tensor, "S m"], gamma: float) -> Float[Tensor, "S m"]:
    """v* of m rewards of size at most 1: value-iteration sweeps to come close, then policy iteration to finish."""
    n_states = len(reward)
    # Going to the best neighbour and back for ever is a lower bound where every move can be undone,
    # and a start that needs only as many sweeps as the world is wide.
    v = (dynamics.expect(reward).amax(0) + gamma * reward) / (1 - gamma**2)
    for _ in range(2 * int(n_states**0.5) + 2):
        v = dynamics.expect(reward + gamma * v).amax(0)
    policy = dynamics.expect(reward + gamma * v).argmax(0)

    enough = 1e-13 / (1 - gamma)  # a better action must be better by more than rounding
    open_columns = torch.arange(reward.shape[1], device=reward.device)
    while len(open_columns):
        v_open = _values_of(dynamics, policy, reward[:, open_columns], gamma)
        v[:, open_columns] = v_open
        best, action = dynamics.expect(reward[:, open_columns] + gamma * v_open).max(0)
        improved = best > v_open + enough
        unfinished = improved.any(0)
        policy = torch.where(improved, action, policy)[:, unfinished]
        open_columns = open_columns[unfinished]
    return v


def greedy_policy(
    dynamics: Dynamics, reward: Float[Tensor, "S m"], v: Float[Tensor, "S m"], gamma: float
) -> Int[Tensor, "S m"]:
    """The first action that is best; what rounding can tell apart is no difference."""
    q = dynamics.expect(reward + gamma * v)
    equal = 1e-11 / (1 - gamma)
    return (q >= q.amax(0) - equal).int().argmax(0)  # argmax of 0/1: the first 1


def _values_of(
    dynamics: Dynamics, policy: Int[Tensor, "S m"], reward: Float[Tensor, "S m"], gamma: float
) -> Float[Tensor, "S m"]:
    successors, probabilities = dynamics.chain(policy.T)
    m = reward.shape[1]
    first = (probabilities * reward.T.flatten()[successors]).sum(-1, keepdim=True)
    return discounted_sums(first, successors, probabilities, gamma).reshape(m, -1).T
