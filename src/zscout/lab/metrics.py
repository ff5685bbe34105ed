"""What runs were worth, exactly: regret, lost steps, and whether they settled."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.bfm.exact import ExactModel
from zscout.bfm.judging import Tabulated, certain
from zscout.lab.run import Trace
from zscout.types import BehaviorModel

EVERY, LAST, GOOD = 5, 20, 0.95  # settled: worth this much at every check of the last steps
CHUNK = 2**23  # numbers of a table of ψ that are held at once


class Yardstick:
    """What policies of a model are worth, by the exact model of the same world and features; answers on the CPU."""

    def __init__(self, exact: ExactModel, model: BehaviorModel | None = None) -> None:
        self.exact = exact
        self.model = exact if model is None else model
        self._at_once = max(1, CHUNK // exact.features.numel())  # z
        self._random = exact.evaluate(exact.random_policy).cpu()  # [S d]

    def psi(self, state: Tensor, z: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
        """The true ψ(s;z) of the model's policies at the states."""
        rows, whose = torch.unique(z.reshape(-1, z.shape[-1]), dim=0, return_inverse=True)
        where, answer = state.flatten(), torch.empty(state.numel(), z.shape[-1], dtype=torch.float64)
        size = self._at_once
        order = whose.argsort()
        begins = torch.searchsorted(whose[order], torch.arange(0, len(rows) + size, size))
        for first, (low, high) in zip(range(0, len(rows), size), begins.unfold(0, 2, 1).tolist(), strict=False):
            table = self._tables(rows[first : first + size])
            part = order[low:high]
            answer[part] = table[whose[part] - first, where[part]]
        return answer.reshape(*state.shape, -1)

    def value(self, z: Float[Tensor, "n d"], task: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Normalised value of π(·,z) for a task: 0 is a random walk, 1 is optimal."""
        worth = torch.cat([self._tables(part).mean(1) for part in z.split(self._at_once)])
        random = task @ self._random.mean(0)
        best = self.exact.value(task).cpu().mean(-1)
        return ((worth * task).sum(-1) - random) / (best - random)

    def gap(self, tasks: Float[Tensor, "n d"]) -> float:
        """Mean over states and tasks of v* − v_random: the worth of one step lost."""
        return float((self.exact.value(tasks).cpu() - tasks @ self._random.T).mean())

    def achieved(self, trace: Trace) -> Float[Tensor, "T R"]:
        """v_{π(·,Z_t)}(S_t;z_r), step by step; for the steps of an explorer v_random."""
        random = (self._random[trace.state] * trace.task).sum(-1)
        return torch.where(trace.exploring[:, None], random, (self.psi(trace.state, trace.z) * trace.task).sum(-1))

    def regret(
        self, trace: Trace, own: bool = False, achieved: Float[Tensor, "T R"] | None = None
    ) -> Float[Tensor, "T R"]:
        """v*(S_t;z_r) − v_{π(·,Z_t)}(S_t;z_r), step by step  (eq. 2, from t = 0).

        With ``own`` v* gives way to the model's own π(·,z_r). ``achieved`` if it is known: it is the costly part.
        """
        achieved = self.achieved(trace) if achieved is None else achieved
        task = trace.task.expand_as(trace.z)
        if own:
            return (self.psi(trace.state, task) * task).sum(-1) - achieved
        best = self.exact.value(trace.task).cpu()  # [R S]
        return best.T.gather(0, trace.state) - achieved

    def settled(self, trace: Trace) -> Bool[Tensor, " R"]:
        """Whether what would be settled for is worth ≥ .95 at every check (every 5 steps) of the last 20 steps."""
        steps = len(trace.state)
        ends = [*trace.best_z[1:], trace.final_z]  # after t rewards, t = 1 … T
        checks = [t for t in range(max(1, steps - LAST + 1), steps + 1) if (steps - t) % EVERY == 0]
        worth = [self.value(ends[t - 1], trace.task) for t in checks]
        return (torch.stack(worth) >= GOOD).all(0)

    def _tables(self, z: Float[Tensor, "n d"]) -> Float[Tensor, "n S d"]:
        if self.model is self.exact:
            return self.exact.successor_features(z).cpu()
        assert isinstance(self.model, Tabulated)
        return self.exact.evaluate(certain(self.model.policy(z))).cpu()
