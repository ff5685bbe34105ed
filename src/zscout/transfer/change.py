"""A running test for a change of the task, which restarts the posterior from the rewards after the change."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.transfer.inputs import Checked, Count, Positive
from zscout.transfer.posterior import TaskPosterior

Recent: TypeAlias = dict[str, Tensor]
"""The last pairs of each run, newest first: phi [*b m d], reward [*b m], their count [*b]; and the number of changes."""

LEAST = 3  # pairs after a change, and before it: two outliers are no new task


@dataclass(frozen=True)
class ChangeTest(Checked):
    """Asks after each reward whether the last k rewards have another z than those before, for several k.

    The statistic is the log Bayes factor of "z and c changed k rewards ago" against "nothing changed", with the ridge
    as the prior, z ~ N(0, σ²/λ), before and after the change, and σ unknown but the same:

        log B_k = ½ log(det V · det λI ÷ (det V_old · det V_new)) + (n/2) log(S ÷ (S_old + S_new)),

    where S = min_z Σ(r − φ·z)² + λ‖z‖² of all rewards, of those before, and of the last k. If the largest B_k is above
    e^``evidence``, the posterior restarts from the last k rewards. For a fixed k and start, P(B > b) ≤ 1/b on a fixed
    task. Rewards r → a·r + c with a > 0 change nothing if the method has an intercept.
    """

    evidence: Positive = 10.0  # nats
    memory: Count = 64  # rewards that are looked back at; a change is found late or never if it shows later

    @property
    def windows(self) -> list[int]:
        """The k that are tested, from ``LEAST`` to ``memory`` by steps of about √2."""
        sizes = {round(LEAST * 2 ** (i / 2)) for i in range(60)}
        return sorted({size for size in sizes if size < self.memory} | {max(LEAST, self.memory)})

    def begin(self, prior: TaskPosterior) -> Recent:
        """No pairs."""
        room = prior.z_hat.new_zeros(*prior.runs, self.windows[-1], prior.dim)
        nothing = torch.zeros(prior.runs, dtype=torch.int64, device=prior.device)
        return {"phi": room, "reward": room[..., 0], "count": nothing, "changes": nothing}
