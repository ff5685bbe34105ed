"""Exact values, ψ and regret of a model's policies in a finite world."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.bfm.exact import ExactModel
from zscout.bfm.judging import Tabulated, certain
from zscout.bfm.solving import bits, distinct
from zscout.lab.simulation import Trace
from zscout.transfer.offline import ConstantPart, constant_part
from zscout.types import BehaviorModel

FLAT = 1e-9  # of the largest reward: a gain below this share of it is none
CHUNK = 2**20  # numbers of a table of ψ that are held at once


class Yardstick:
    """What policies of a model are worth, by the exact model of the same world and features; answers on the CPU."""

    def __init__(self, exact: ExactModel, model: BehaviorModel | None = None) -> None:
        self.exact = exact
        self.model = exact if model is None else model
        self._at_once = max(1, CHUNK // exact.features.numel())  # z
        self.random = exact.evaluate(exact.random_policy).cpu()  # ψ of a random walk [S d]
        self._constant = constant_part(*(part.cpu() for part in exact.feature_moments()))

    def without_constant(self, task: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
        """What regression with an intercept can find of a task."""
        return without_constant(task, self._constant)

    def psi(self, state: Tensor, z: Float[Tensor, "*n d"]) -> Float[Tensor, "*n k"]:
        """The true ψ(s;z) of the model's policies at the states."""
        where, answer = state.flatten(), torch.empty(state.numel(), self.exact.dim, dtype=torch.float64)
        for pairs, policy, whose in self._policies(z.reshape(-1, z.shape[-1])):
            answer[pairs] = self.exact.psi_of(policy, whose, where[pairs]).cpu()
        return answer.reshape(*state.shape, -1)

    def value(self, z: Float[Tensor, "n d"], task: Float[Tensor, "n k"]) -> Float[Tensor, " n"]:
        """Normalised value of π(·,z) for a task: 0 is a random walk, 1 is optimal, as all is where nothing matters."""
        worth = torch.empty(len(z), dtype=torch.float64)
        for pairs, policy, whose in self._policies(z):
            if policy.is_floating_point():
                worth[pairs] = (self.exact.evaluate(policy).mean(1).cpu()[whose] * task[pairs]).sum(-1)
            else:
                worth[pairs] = self.exact.worth(policy[whose], task[pairs]).mean(-1).cpu()
        random = task @ self.random.mean(0)
        gap = self._best(task).mean(-1) - random
        return torch.where(gap > 1e-12, (worth - random) / gap, 1.0)

    def gap(self, tasks: Float[Tensor, "n d"]) -> float:
        """Mean over states and tasks of v* − v_random: the worth of one step lost."""
        return float((self.exact.value(tasks).cpu() - tasks @ self.random.T).mean())

    def best(self, state: Int[Tensor, "T R"], task: Float[Tensor, "R d"]) -> Float[Tensor, "T R"]:
        """v*(S_t) for each run's task."""
        return self.exact.value(task).cpu().T.gather(0, state)

    def achieved(self, trace: Trace, task: Float[Tensor, "R d"], psi: Float[Tensor, "T R d"]) -> Float[Tensor, "T R"]:
        """v_{π(·,Z_t)}(S_t;task) by ψ(S_t;Z_t), step by step; for the steps of an explorer v_random."""
        random = (self.random[trace.state] * task).sum(-1)
        return torch.where(trace.exploring[:, None], random, (psi * task).sum(-1))

    def regret(self, trace: Trace, own: bool = False) -> Float[Tensor, "T R"]:
        """v*(S_t;z_r) − v_{π(·,Z_t)}(S_t;z_r), step by step  (eq. 2, from t = 0).

        With ``own`` v* gives way to the model's own π(·,z_r).
        """
        achieved = self.achieved(trace, trace.task, self.psi(trace.state, trace.z))
        if not own:
            return self.best(trace.state, trace.task) - achieved
        task = trace.task.expand_as(trace.z)
        return (self.psi(trace.state, task) * task).sum(-1) - achieved

    def _policies(self, z: Float[Tensor, "n d"]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """In parts that memory can hold: for which of the n, the policies of those z that differ, whose is whose."""
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
        """What the model does in every state: actions [n S] or their probabilities [n S A]."""
        if isinstance(self.model, Tabulated):
            table = self.model.policy(z)
            return certain(table) if table.is_floating_point() else table
        states = torch.arange(self.exact.world.n_states)
        grid = (len(z), len(states))  # a model without tables is asked state by state, and taken to draw nothing
        rows = z[:, None].expand(*grid, -1).reshape(-1, z.shape[-1])
        actions = self.model.act(states.expand(grid).flatten(), rows, Generator().manual_seed(0))
        return torch.as_tensor(actions).long().reshape(grid)

    def _best(self, task: Float[Tensor, "n k"]) -> Float[Tensor, "n S"]:
        """v*(s), of tasks that come again and again."""
        rows, whose = distinct_rows(task)
        return self.exact.value(rows).cpu()[whose]


def without_constant(task: Float[Tensor, "*n d"], constant: ConstantPart | None) -> Float[Tensor, "*n d"]:
    """What ridge regression with an intercept can find of a task: orthogonal to w, whose reward is constant."""
    if constant is None:
        return task
    w = constant.w.to(task)
    return task - (task @ w)[..., None] / (w @ w) * w


def distinct_rows(rows: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "m d"], Int[Tensor, " n"]]:
    """The rows that differ, as they first come, and for each row which of them it is."""
    first, whose = distinct(bits(rows))
    return rows[first], torch.tensor(whose, dtype=torch.long)
