"""A running test for a change of the task, which restarts the posterior from the rewards after the change."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.belief.sums import Weight
from zscout.transfer.constants import CHANGE_EVIDENCE, CHANGE_MEMORY
from zscout.transfer.inputs import Checked, Count, Positive

Recent: TypeAlias = dict[str, Tensor]
"""The last pairs of each run, newest first: phi [*b m d], reward [*b m], their count [*b]; and how often it changed."""

TINY = torch.finfo(torch.float64).tiny
FEWEST_REWARDS = 3  # rewards before a change


@dataclass(frozen=True)
class ChangeTest(Checked):
    """Asks after each reward whether the last k rewards have another z than those before, for each k.

    The statistic is the log Bayes factor of "z and c changed k rewards ago" against "nothing changed", with the ridge
    as the prior, z ~ N(0, σ²/λ), before and after the change, and σ unknown but the same:

        log B_k = ½ log(det V · det V₀ ÷ (det V_old · det V_new)) + (n/2) log(S ÷ (S_old + S_new)),

    where S = min_z Σ(r − φ·z)² + λ‖z‖² of all rewards, of those before, and of the last k. If the largest B_k is above
    e^``evidence``, the posterior restarts from the last k rewards. For a fixed k and start, P(B > b) ≤ 1/b on a fixed
    task. Rewards r → a·r + c with a > 0 change nothing if the method has an intercept. With an atlas the errors of
    rewards in a row are alike, because its features express no reward exactly: eight of them count as one.
    """

    evidence: Positive = CHANGE_EVIDENCE  # nats
    memory: Count = CHANGE_MEMORY  # rewards that are looked back at; a change is found late or never if it shows later

    def begin(self, prior: TaskPosterior) -> Recent:
        """No pairs."""
        room = prior.z_hat.new_zeros(*prior.runs, self.memory, prior.dim)
        nothing = torch.zeros(prior.runs, dtype=torch.int64, device=prior.device)
        return {"phi": room, "reward": room[..., 0], "count": nothing, "changes": nothing}

    def __call__(
        self,
        prior: TaskPosterior,
        posterior: TaskPosterior,
        recent: Recent,
        phi: Float[Tensor, "*b d"],
        reward: Float[Tensor, "*b"],
        weight: Weight = 1.0,
        together: float = 1.0,
    ) -> tuple[TaskPosterior, Recent, Bool[Tensor, "*b"]]:
        """The posterior, restarted where the task changed; the pairs with the new one; and where it changed.

        ``posterior`` has learned the new pair already; runs with ``weight`` 0 have no new pair. Of rewards whose errors
        are alike, ``together`` in a row count as one.
        """
        new = torch.as_tensor(weight, device=posterior.device).expand(posterior.runs) > 0
        recent = _pushed(recent, phi, reward, new)
        best, which = self.log_factors(prior, posterior, recent).max(-1)
        changed = (best > together * self.evidence) & new
        if not changed.any():
            return posterior, recent, changed
        kept = which + 1
        for k in kept[changed].unique().tolist():  # a change is rare: one restart for each size
            pairs = recent["phi"][..., :k, :].flip(-2), recent["reward"][..., :k].flip(-1)
            here = changed & (kept == k)
            posterior = posterior.replaced(here, prior.learn(*pairs))
        count = torch.where(changed, kept, recent["count"])  # older pairs are of the old task
        return posterior, recent | {"count": count, "changes": recent["changes"] + changed.long()}, changed

    def log_factors(self, prior: TaskPosterior, posterior: TaskPosterior, recent: Recent) -> Float[Tensor, "*b m"]:
        """log B_k for k = 1 … ``memory``; −∞ where the rewards since the last change are too few.

        With H = ΦV⁻¹Φᵀ of the last k rows, det V_old = det V · det(I − H) and S_old = S − eᵀ(I − H)⁻¹e, where e are the
        residuals of the fit to all rewards. Likewise det V_new = det V₀ · det(I + ΦV₀⁻¹Φᵀ). The matrices of a smaller k
        are corners of those of a larger one, so two Cholesky factors serve all k.
        """
        pairs, rewards = recent["phi"], recent["reward"]
        shared = first = torch.zeros(()).to(pairs)
        if posterior.means is not None:  # c is the z of one more feature, 1, and all pairs are centred on their means
            pairs, rewards = pairs - posterior.means.phi[..., None, :], rewards - posterior.means.reward[..., None]
            shared, first = (
                (1 / (weight + prior.ridge))[..., None, None] for weight in (posterior.weight, prior.weight)
            )
        n, eye = posterior.weight[..., None], torch.eye(self.memory).to(pairs)
        own, before = pairs @ posterior.factor, pairs @ prior.factor
        missed = rewards - (pairs @ posterior.z_hat[..., None])[..., 0]
        old, out = _leading(eye - own @ own.mT - shared, missed)
        new, new_left = _leading(eye + before @ before.mT + first, rewards)
        left = (posterior.reward_squares - (posterior.b * posterior.z_hat).sum(-1)).clamp(min=0)[..., None]
        gain = (left + TINY).log() - ((left - out).clamp(min=0) + new_left + TINY).log()
        sizes = torch.arange(self.memory, device=n.device) + 1
        filled = (sizes <= recent["count"][..., None]) & (sizes + FEWEST_REWARDS <= n)
        factors = (0.5 * (n * gain - old - new)).nan_to_num(nan=-math.inf)
        return torch.where(filled, factors, -math.inf)


def _leading(
    matrix: Float[Tensor, "*b m m"], x: Float[Tensor, "*b m"]
) -> tuple[Float[Tensor, "*b m"], Float[Tensor, "*b m"]]:
    """log det A and xᵀA⁻¹x of the leading k × k corner A, for each k."""
    L = torch.linalg.cholesky_ex(matrix).L
    half = torch.linalg.solve_triangular(L, x[..., None], upper=False)[..., 0]
    return 2 * L.diagonal(dim1=-2, dim2=-1).log().cumsum(-1), half.square().cumsum(-1)


def _pushed(
    recent: Recent, phi: Float[Tensor, "*b d"], reward: Float[Tensor, "*b"], seen: Bool[Tensor, "*b"]
) -> Recent:
    room = recent["reward"].shape[-1]
    phis = torch.cat([phi[..., None, :], recent["phi"][..., :-1, :]], -2)
    rewards = torch.cat([reward[..., None], recent["reward"][..., :-1]], -1)
    return recent | {
        "phi": torch.where(seen[..., None, None], phis, recent["phi"]),
        "reward": torch.where(seen[..., None], rewards, recent["reward"]),
        "count": torch.where(seen, (recent["count"] + 1).clamp(max=room), recent["count"]),
    }
