"""Dynamic programming for many rewards at once, in any finite world.

Two layouts: [S m], m rewards side by side, for sweeps over a shared table of moves; [N k], nodes of one large
Markov chain, for sums along given policies, where m policies on S states give N = m·S nodes.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csc_array, eye_array
from scipy.sparse.linalg import splu
from torch import Tensor

from zscout.base.edge import as_finite, as_index
from zscout.base.types import FiniteWorld

EPS = torch.finfo(torch.float64).eps
SMALL_TABLE = 4096  # below this size, call overhead dominates
SWEEPS, CONVERGED = 8, 1e-6  # value iteration tests for convergence every SWEEPS sweeps, to relative change CONVERGED
LONGEST_PATH = 1024  # longest path followed from a single start; longer ones are summed for all starts at once
Policies: TypeAlias = Int[Tensor, "m S"] | Float[Tensor, "m S A"]  # actions, or probabilities of actions


@dataclass(frozen=True, eq=False)
class Dynamics:
    """p(s'|s,a) as tables of K outcomes for each state and action."""

    successors: Int[Tensor, "S A K"]
    probabilities: Float[Tensor, "S A K"]

    @classmethod
    def of(cls, world: FiniteWorld, device: torch.device) -> "Dynamics":
        """The tables of a world, checked."""
        n_states, n_actions = world.n_states, world.n_actions
        successors, probabilities = world.successors, as_finite(world.probabilities, "the world's probabilities")
        if successors.shape[:2] != (n_states, n_actions) or successors.shape != probabilities.shape:
            raise ValueError(
                f"expected the world's successors and probabilities both [{n_states} {n_actions} K], "
                f"got {tuple(successors.shape)} and {tuple(probabilities.shape)}"
            )
        successors = as_index(successors, n_states, "the world's successor", device)
        total = probabilities.sum(-1, keepdim=True)
        if (probabilities < 0).any() or (total - 1).abs().max() > 1e-5:
            raise ValueError("the world's probabilities must be ≥ 0 and sum to 1 for every state and action")
        probabilities = probabilities / total  # float32 tables sum to 1 only roughly
        return cls(successors.contiguous(), probabilities.to(device).contiguous())

    @property
    def certain(self) -> bool:
        """Whether the dynamics are deterministic: one outcome for each state and action."""
        return self.successors.shape[-1] == 1

    @cached_property
    def _moves(self) -> list[list[tuple[Int[Tensor, " S"], Float[Tensor, "S 1"]]]]:
        """For each action its outcomes: next states and probabilities."""
        outcomes = zip(self.successors.permute(1, 2, 0), self.probabilities.permute(1, 2, 0), strict=True)
        return [[(s.contiguous(), p[:, None]) for s, p in zip(*pair, strict=True)] for pair in outcomes]

    @cached_property
    def _all_moves(self) -> Int[Tensor, " actions_and_states"]:
        return self.successors[:, :, 0].T.flatten()

    def expect(self, action: int, x: Float[Tensor, "S m"]) -> Float[Tensor, "S m"]:
        """E[x(S') | s, a] of one action; copies whole rows, at memory speed."""
        (successors, probabilities), *others = self._moves[action]
        if self.certain:
            return x.index_select(0, successors)
        total = probabilities.to(x.dtype) * x.index_select(0, successors)
        for successors, probabilities in others:
            total += probabilities.to(x.dtype) * x.index_select(0, successors)
        return total

    def best(self, x: Float[Tensor, "S m"]) -> Float[Tensor, "S m"]:
        """max_a E[x(S') | s, a]."""
        if self.certain and x.numel() < SMALL_TABLE:  # call overhead dominates: one call for all actions
            return x.index_select(0, self._all_moves).view(-1, *x.shape).amax(0)
        best = self.expect(0, x)
        for action in range(1, len(self._moves)):
            torch.maximum(best, self.expect(action, x), out=best)
        return best

    def first_reaching(self, x: Float[Tensor, "S m"], enough: Float[Tensor, "S m"]) -> Int[Tensor, "S m"]:
        """The first action with E[x(S') | s, a] ≥ enough; the last if there is none."""
        first = torch.zeros(x.shape, dtype=self.small, device=x.device)
        for action in reversed(range(len(self._moves) - 1)):
            first = (first + 1) * (self.expect(action, x) < enough)  # next action where this one is too low
        return first

    @property
    def small(self) -> torch.dtype:
        """The smallest integer dtype for actions."""
        return torch.int8 if self.successors.shape[1] <= 128 else torch.int32

    def pointers(self, policy: Int[Tensor, "m S"]) -> Int[Tensor, " m*S"]:
        """The successor of each of the m·S nodes, for deterministic dynamics; int32 halves memory traffic."""
        (m, n_states), n_actions = policy.shape, self.successors.shape[1]
        size = torch.int32 if m * n_states * n_actions < 2**31 else torch.int64
        state = torch.arange(n_states, dtype=size, device=policy.device)
        offset = torch.arange(m, dtype=size, device=policy.device) * n_states
        there = self.successors.flatten().to(size).index_select(0, (state * n_actions + policy).flatten())
        return (there.view(m, n_states) + offset[:, None]).flatten()

    def chain(self, policy: Policies) -> tuple[Int[Tensor, "nodes K"], Float[Tensor, "nodes K"]]:
        """The Markov chain of m policies, m·S nodes: successors and probabilities."""
        m, n_states = policy.shape[:2]
        if policy.is_floating_point():  # stochastic: the outcomes of all actions
            successors, probabilities = self.successors.flatten(1)[None], policy[..., None] * self.probabilities
            probabilities = probabilities.flatten(2)
        else:
            state, action = torch.arange(n_states, device=policy.device), policy.long()
            successors, probabilities = self.successors[state, action], self.probabilities[state, action]
        offset = torch.arange(m, device=policy.device)[:, None, None] * n_states
        return (successors + offset).flatten(0, 1), probabilities.flatten(0, 1)

    def sums(self, policy: Policies, table: Float[Tensor, "rows ..."], gamma: float) -> Float[Tensor, "nodes ..."]:
        """E Σ_{k≥0} γᵏ table(S_{t+k+1}) from each of the m·S nodes, for a table [S k] or one number a node [m·S]."""
        n = len(table)
        if self.certain and not policy.is_floating_point():
            pointer = self.pointers(policy)
            entered = table.index_select(0, pointer % n if table.ndim > 1 else pointer)
            return sums_along_pointers(entered, pointer, gamma)
        successors, probabilities = self.chain(policy)
        if table.ndim > 1:
            first = (probabilities[..., None] * table[successors % n]).sum(1)
        else:
            first = (probabilities * table[successors]).sum(-1, keepdim=True)
        return sums_by_elimination(first, successors, probabilities, gamma)


def sums_along_pointers(
    first: Float[Tensor, "N ..."], pointer: Int[Tensor, " N"], gamma: float
) -> Float[Tensor, "N ..."]:
    """The solution of x(i) = first(i) + γ x(pointer(i)) on N nodes, by pointer doubling.

    After j rounds x sums 2ʲ steps, and the pointer is the node they reach. Once 2·2ʲ steps reach the same node as 2ʲ
    steps, every node is within 2ʲ steps of a cycle whose length divides 2ʲ. The rest is then a geometric series: exact
    for every γ < 1.
    """
    x, weight, twice = first, gamma, pointer.index_select(0, pointer)
    while weight > 1e-20:
        x = torch.add(x, x.index_select(0, pointer), alpha=weight)
        pointer, weight = twice, weight * weight
        twice = pointer.index_select(0, pointer)
        if torch.equal(twice, pointer):
            return torch.add(x, x.index_select(0, pointer), alpha=weight / (1 - weight))
    return x


def discounted_visits(
    pointer: Int[Tensor, " nodes"], start: Int[Tensor, " m"], n_states: int, gamma: float
) -> Float[Tensor, "m S"] | None:
    """Σ_{k≥0} γᵏ [S_{k+1} = s] from one start on each of m deterministic chains, or None.

    Doubling of the path from the start only: once 2ʲ steps reach cycles whose lengths divide 2ʲ, the next 2ʲ steps
    repeat for ever. None if that does not happen within ``LONGEST_PATH`` steps, as with cycles of odd length.
    """
    first_node = torch.arange(len(start), device=start.device) * n_states
    path = pointer.index_select(0, start + first_node)[:, None]  # S_1 … S_L
    length, twice = 1, pointer.index_select(0, pointer)
    while length < LONGEST_PATH:
        path = torch.cat([path, _follow(pointer, path)], 1)
        pointer, length = twice, 2 * length
        twice = pointer.index_select(0, pointer)
        if torch.equal(twice, pointer):
            weight = gamma ** torch.arange(2 * length, dtype=torch.float64, device=path.device)
            weight[length:] /= 1 - gamma**length
            path = torch.cat([path, _follow(pointer, path)], 1) - first_node[:, None]
            visits = torch.zeros(len(start), n_states, dtype=torch.float64, device=path.device)
            return visits.scatter_add_(1, path, weight.expand(path.shape))
    return None


def _follow(pointer: Int[Tensor, " N"], path: Int[Tensor, "m L"]) -> Int[Tensor, "m L"]:
    return pointer.index_select(0, path.flatten()).view(path.shape)


def sums_by_elimination(
    first: Float[Tensor, "N k"], successors: Int[Tensor, "N K"], probabilities: Float[Tensor, "N K"], gamma: float
) -> Float[Tensor, "N k"]:
    """Solve (I − γP) x = first by sparse elimination; policies of a batch are independent blocks."""
    n, outcomes = successors.shape
    origin = np.repeat(np.arange(n), outcomes)
    entries = (probabilities.flatten().cpu().numpy(), (origin, successors.flatten().cpu().numpy()))
    system = csc_array(eye_array(n) - gamma * csc_array(entries, shape=(n, n)))
    return torch.from_numpy(splu(system).solve(first.cpu().numpy())).to(first.device)


def optimal_policies(
    dynamics: Dynamics, reward: Float[Tensor, "S m"], gamma: float, reward_error: Float[Tensor, " m"]
) -> Int[Tensor, "S m"]:
    """π* of m nonnegative rewards: value iteration for a start, then policy iteration.

    Without negative numbers nothing cancels, so every value is accurate relative to its size. Ties go to the first
    action; differences within rounding count as ties.
    """

    def values(policy: Tensor, reward: Tensor) -> Tensor:
        return values_of(dynamics, policy.T, reward.T, gamma).T.contiguous()

    x = torch.add(reward, _nearly_optimal(dynamics, reward.float(), gamma).double(), alpha=gamma)
    policy = dynamics.first_reaching(x, dynamics.best(x))
    v = values(policy, reward)
    columns, r, v_open = torch.arange(reward.shape[1], device=reward.device), reward, v
    total = torch.full_like(reward[0], -torch.inf)
    while True:
        x = torch.add(r, v_open, alpha=gamma)
        best = dynamics.best(x)
        improved = best > v_open + 16 * EPS * v_open.amax(0)  # beyond rounding
        # Every round except the last raises the total, and policies are finite, so this terminates.
        unfinished = improved.any(0) & (v_open.sum(0) > total)
        if not unfinished.any():
            break
        better = dynamics.first_reaching(x[:, unfinished], best[:, unfinished])
        policy = torch.where(improved[:, unfinished], better, policy[:, unfinished])
        columns, r, total = columns[unfinished], r[:, unfinished], v_open.sum(0)[unfinished]
        v_open = values(policy, r)
        v[:, columns] = v_open
    x = torch.add(reward, v - v.amin(0), alpha=gamma)  # a common offset does not change the argmax
    rounding = 64 * EPS * v.amax(0) + reward_error / (1 - gamma)
    return dynamics.first_reaching(x, dynamics.best(x) * (1 - 1e-11) - rounding)


def _nearly_optimal(dynamics: Dynamics, reward: Float[Tensor, "S m"], gamma: float) -> Float[Tensor, "S m"]:
    """Value iteration until convergence; float32 is enough for a start."""
    # Start at the value of alternating between the best neighbour and here: a lower bound if every move can be undone.
    # From there, sweeps are needed only for the number of steps to the end of a state's best path.
    v = torch.add(dynamics.best(reward), reward, alpha=gamma) / (1 - gamma**2)
    root = int(len(reward) ** 0.5)
    most = 16 * root if dynamics.certain else 2 * root
    for _ in range(0, most + SWEEPS, SWEEPS):
        before = v
        for _ in range(SWEEPS):
            v = dynamics.best(torch.add(reward, v, alpha=gamma))
        if (v - before).abs().max() <= CONVERGED * v.max():
            break
    return v


def values_of(
    dynamics: Dynamics, policy: Int[Tensor, "m S"], reward: Float[Tensor, "m S"], gamma: float
) -> Float[Tensor, "m S"]:
    """v_π(s) of m policies, each for its own reward."""
    return dynamics.sums(policy, reward.flatten(), gamma).view(policy.shape)
