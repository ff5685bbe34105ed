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

from zscout.edge import as_finite, as_index
from zscout.types import FiniteWorld

EPS = torch.finfo(torch.float64).eps
LONGEST = 1024  # steps of a path that is followed for one start; longer ones are summed for all starts at once


@dataclass(frozen=True, eq=False)
class Dynamics:
    """p(s'|s,a) as a table of K outcomes for each state and action."""

    successors: Int[Tensor, "S A K"]
    probabilities: Float[Tensor, "S A K"]

    @classmethod
    def of(cls, world: FiniteWorld, device: torch.device) -> "Dynamics":
        """The tables of a world, checked."""
        n_states, n_actions = world.n_states, world.n_actions
        successors, probabilities = world.successors, as_finite(world.probabilities, "the world's probabilities")
        if successors.shape[:2] != (n_states, n_actions) or successors.shape != probabilities.shape:
            raise ValueError(
                f"the world's successors and probabilities are both [{n_states} {n_actions} K], "
                f"came as {tuple(successors.shape)} and {tuple(probabilities.shape)}"
            )
        successors = as_index(successors, n_states, "the world's successor", device)
        total = probabilities.sum(-1, keepdim=True)
        if (probabilities < 0).any() or (total - 1).abs().max() > 1e-5:
            raise ValueError("the world's probabilities must be at least 0 and sum to 1 for every state and action")
        return cls(successors.contiguous(), (probabilities / total).to(device).contiguous())  # float32 tables too

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


def discounted_visits(
    pointer: Int[Tensor, "m S"], start: Int[Tensor, " m"], gamma: float
) -> Float[Tensor, "m S"] | None:
    """Σ_{k≥0} γᵏ [S_{k+1} = s] from one start on each of m deterministic chains; None where a cycle is an odd one.

    The same doubling, of the path from the start alone: once 2ʲ steps lead into cycles whose lengths divide 2ʲ, what
    the next 2ʲ steps visit comes again for ever.
    """
    path = pointer.gather(1, start[:, None])  # S_1 … S_L
    length = 1
    while length < LONGEST:
        pointer, path = pointer.gather(1, pointer), torch.cat([path, pointer.gather(1, path)], 1)
        length *= 2
        if torch.equal(pointer.gather(1, pointer), pointer):
            weight = gamma ** torch.arange(2 * length, dtype=torch.float64, device=path.device)
            weight[length:] /= 1 - gamma**length
            path = torch.cat([path, pointer.gather(1, path)], 1)
            visits = torch.zeros(pointer.shape, dtype=torch.float64, device=path.device)
            return visits.scatter_add_(1, path, weight.expand(path.shape))
    return None


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
    """v* of m rewards that are nowhere negative: sweeps of value iteration to come close, then policy iteration.

    With no negative number anywhere nothing cancels, and every value is right relative to its own size.
    """
    # Going to the best neighbour and back for ever is a lower bound where every move can be undone,
    # and a start that needs only as many sweeps as the world is wide.
    v = (dynamics.expect(reward).amax(0) + gamma * reward) / (1 - gamma**2)
    for _ in range(2 * int(len(reward) ** 0.5) + 2):
        v = dynamics.expect(reward + gamma * v).amax(0)
    policy = dynamics.expect(reward + gamma * v).argmax(0)

    open_columns = torch.arange(reward.shape[1], device=reward.device)
    total = torch.full_like(reward[0], -torch.inf)
    while len(open_columns):
        v_open = _values_of(dynamics, policy, reward[:, open_columns], gamma)
        v[:, open_columns] = v_open
        best, action = dynamics.expect(reward[:, open_columns] + gamma * v_open).max(0)
        improved = best > v_open + 16 * EPS * v_open.amax(0)  # by more than rounding
        # Every round but the last raises the total; there are finitely many policies, so this ends.
        unfinished = improved.any(0) & (v_open.sum(0) > total)
        total = v_open.sum(0)[unfinished]
        policy = torch.where(improved, action, policy)[:, unfinished]
        open_columns = open_columns[unfinished]
    return v


def greedy_policy(
    dynamics: Dynamics,
    reward: Float[Tensor, "S m"],
    v: Float[Tensor, "S m"],
    gamma: float,
    reward_error: Float[Tensor, " m"],
) -> Int[Tensor, "S m"]:
    """The first action that is best; what rounding could tell apart is no difference."""
    q = dynamics.expect(reward + gamma * (v - v.amin(0)))  # what all states share decides nothing
    rounding = 64 * EPS * v.amax(0) + reward_error / (1 - gamma)
    return (q >= q.amax(0) * (1 - 1e-11) - rounding).int().argmax(0)  # argmax of 0/1: the first 1


def _values_of(
    dynamics: Dynamics, policy: Int[Tensor, "S m"], reward: Float[Tensor, "S m"], gamma: float
) -> Float[Tensor, "S m"]:
    successors, probabilities = dynamics.chain(policy.T)
    m = reward.shape[1]
    first = (probabilities * reward.T.flatten()[successors]).sum(-1, keepdim=True)
    return discounted_sums(first, successors, probabilities, gamma).reshape(m, -1).T
