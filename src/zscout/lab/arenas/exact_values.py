"""Exact values, ψ and regret of a model's policies in a finite world."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.base.types import BehaviorModel
from zscout.lab.arenas.simulation import Trace
from zscout.models.exact.model import ExactModel
from zscout.models.exact.solving import bits, distinct
from zscout.models.usfa.judging import Tabulated, certain
from zscout.transfer.offline import ConstantPart, constant_part

FLAT = 1e-9  # share of the largest reward: a smaller gain counts as none
CHUNK = 2**20  # numbers of ψ tables held at once


class Yardstick:
    """Values of a model's policies, computed by the exact model of the same world and features; results on the CPU."""

    def __init__(self, exact: ExactModel, model: BehaviorModel | None = None) -> None:
        self.exact = exact
        self.model = exact if model is None else model
        self._at_once = max(1, CHUNK // exact.features.numel())  # z
        self.random = exact.evaluate(exact.random_policy).cpu()  # ψ of a random walk [S d]
        self._constant = constant_part(*(part.cpu() for part in exact.feature_moments()))

    def without_constant(self, task: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
        """The part of a task that regression with an intercept can find."""
        return without_constant(task, self._constant)

    def psi(self, state: Tensor, z: Float[Tensor, "*n d"]) -> Float[Tensor, "*n k"]:
        """The true ψ(s;z) of the model's policies at the states."""
        where, answer = state.flatten(), torch.empty(state.numel(), self.exact.dim, dtype=torch.float64)
        for pairs, policy, whose in self._policies(z.reshape(-1, z.shape[-1])):
            answer[pairs] = self.exact.psi_of(policy, whose, where[pairs]).cpu()
        return answer.reshape(*state.shape, -1)

    def value(self, z: Float[Tensor, "n d"], task: Float[Tensor, "n k"]) -> Float[Tensor, " n"]:
        """Normalised value of π(·,z) for a task: 0 is a random walk, 1 is optimal; 1 if all policies are equal."""
        worth = torch.empty(len(z), dtype=torch.float64)
        for pairs, policy, whose in self._policies(z):
            if policy.is_floating_point():
                worth[pairs] = (self.exact.evaluate(policy).mean(1).cpu()[whose] * task[pairs]).sum(-1)
            else:
                worth[pairs] = self.exact.worth(policy[whose], task[pairs]).mean(-1).cpu()
        random = task @ self.random.mean(0)
        rows, which = distinct_rows(task)  # equal tasks are solved once
        gap = self.exact.value(rows).cpu()[which].mean(-1) - random
        return torch.where(gap > 1e-12, (worth - random) / gap, 1.0)

    def gap(self, tasks: Float[Tensor, "n d"]) -> float:
        """Mean over states and tasks of v* − v_random: the regret of one lost step."""
        return float(self.gaps(tasks).mean())

    def gaps(self, tasks: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """The same for each task."""
        return (self.exact.value(tasks).cpu() - tasks @ self.random.T).mean(1)

    def best(self, state: Int[Tensor, "T R"], task: Float[Tensor, "R d"]) -> Float[Tensor, "T R"]:
        """v*(S_t) for each run's task."""
        return self.exact.value(task).cpu().T.gather(0, state)

    def achieved(self, trace: Trace, task: Float[Tensor, "R d"], psi: Float[Tensor, "T R d"]) -> Float[Tensor, "T R"]:
        """v_{π(·,Z_t)}(S_t;task) from ψ(S_t;Z_t); v_random for an explorer's steps."""
        random = (self.random[trace.state] * task).sum(-1)
        return torch.where(trace.exploring[:, None], random, (psi * task).sum(-1))

    def regret(self, trace: Trace) -> Float[Tensor, "T R"]:
        """v*(S_t;z_r) − v_{π(·,Z_t)}(S_t;z_r)  (eq. 2, from t = 0)."""
        achieved = self.achieved(trace, trace.task, self.psi(trace.state, trace.z))
        return self.best(trace.state, trace.task) - achieved

    def _policies(self, z: Float[Tensor, "n d"]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """In parts that fit in memory: rows of z, the policies of the distinct ones, and the policy of each row."""
        rows, whose = distinct_rows(z)
        order = whose.argsort(stable=True)
        counts = whose.bincount(minlength=len(rows)).cumsum(0)
        begin = 0
        for first in range(0, len(rows), self._at_once):
            part = rows[first : first + self._at_once]
            end = int(counts[first + len(part) - 1])
            pairs = order[begin:end]
            yield pairs, self.policy(part), whose[pairs] - first
            begin = end

    def policy(self, z: Float[Tensor, "n d"]) -> Tensor:
        """The model's policy in every state: actions [n S] or their probabilities [n S A]."""
        if isinstance(self.model, Tabulated):
            table = self.model.policy(z)
            return certain(table) if table.is_floating_point() else table
        states = torch.arange(self.exact.world.n_states)
        grid = (len(z), len(states))  # without tables: act in each state; its actions are deterministic
        rows = z[:, None].expand(*grid, -1).reshape(-1, z.shape[-1])
        actions = self.model.act(states.expand(grid).flatten(), rows, Generator().manual_seed(0))
        return torch.as_tensor(actions).long().reshape(grid)


def without_constant(task: Float[Tensor, "*n d"], constant: ConstantPart | None) -> Float[Tensor, "*n d"]:
    """The part of a task that regression with an intercept can find: orthogonal to w, whose reward is constant."""
    if constant is None:
        return task
    w = constant.w.to(task)
    return task - (task @ w)[..., None] / (w @ w) * w


def distinct_rows(rows: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "m d"], Int[Tensor, " n"]]:
    """The distinct rows in order of appearance, and the index into them of each row."""
    first, whose = distinct(bits(rows))
    return rows[first], torch.tensor(whose, dtype=torch.long)
