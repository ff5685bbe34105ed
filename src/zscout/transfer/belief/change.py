"""A running test for a change of the task, which restarts the posterior from the rewards after the change."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.edge import as_real, as_vectors
from zscout.base.types import Vectors
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.constants import CHANGE_EVIDENCE, CHANGE_MEMORY
from zscout.transfer.inputs import Checked, Count, Flags, Positive, Rewards, flags_of_runs

Recent: TypeAlias = dict[str, Tensor]
"""The last pairs of each run, newest first: phi [*b m d], reward [*b m], their count [*b]; and how often it changed."""

TINY = torch.finfo(torch.float64).tiny
FEWEST_REWARDS = 3  # rewards before a change


@dataclass(frozen=True)
class ChangeTest(Checked):
    """Asks after each reward whether the last k rewards have another z than those before, for several k.

    The statistic is the log Bayes factor of "z and c changed k rewards ago" against "nothing changed", with the ridge
    as the prior, z ~ N(0, σ²/λ), before and after the change, and σ unknown but the same:

        log B_k = ½ log(det V · det V₀ ÷ (det V_old · det V_new)) + (n/2) log(S ÷ (S_old + S_new)),

    where S = min_z Σ(r − φ·z)² + λ‖z‖² of all rewards, of those before, and of the last k. If the largest B_k is above
    e^``evidence``, the posterior restarts from the last k rewards. For a fixed k and start, P(B > b) ≤ 1/b on a fixed
    task. Rewards r → a·r + c with a > 0 change nothing if the method has an intercept.
    """

    evidence: Positive = CHANGE_EVIDENCE  # nats
    memory: Count = CHANGE_MEMORY  # rewards that are looked back at; a change is found late or never if it shows later

    @property
    def windows(self) -> list[int]:
        """The k that are tested: 1, 2, 3, 4, 6, 8, 11, 16, 23, … up to ``memory``."""
        sizes = sorted({round(2 ** (i / 2)) for i in range(2 * self.memory.bit_length())} | {3})
        return [*(size for size in sizes if size < self.memory), self.memory]

    def begin(self, prior: TaskPosterior) -> Recent:
        """No pairs."""
        room = prior.z_hat.new_zeros(*prior.runs, self.windows[-1], prior.dim)
        nothing = torch.zeros(prior.runs, dtype=torch.int64, device=prior.device)
        return {"phi": room, "reward": room[..., 0], "count": nothing, "changes": nothing}

    def __call__(
        self,
        prior: TaskPosterior,
        posterior: TaskPosterior,
        recent: Recent,
        phi: Vectors,
        reward: Rewards,
        seen: Flags | None = None,
    ) -> tuple[TaskPosterior, Recent, Bool[Tensor, "*b"]]:
        """The posterior, restarted where the task changed; the pairs with the new one; and where it changed.

        ``posterior`` has learned the new pair already; runs that are not ``seen`` have no new pair.
        """
        new = flags_of_runs(True if seen is None else seen, posterior.runs, "seen").to(posterior.device)
        phi = as_vectors(phi, posterior.dim, "phi", posterior.device).detach()
        rewards = as_real(reward, "reward", posterior.device).detach()
        recent = _pushed(recent, phi, rewards.to(phi), new)
        best, which = self.log_factors(prior, posterior, recent).max(-1)
        changed = (best > self.evidence) & new
        if not changed.any():
            return posterior, recent, changed
        kept = torch.tensor(self.windows, device=which.device)[which]
        for k in kept[changed].unique().tolist():  # a change is rare: one restart for each size
            pairs = recent["phi"][..., :k, :].flip(-2), recent["reward"][..., :k].flip(-1)
            here = changed & (kept == k)
            posterior = posterior.replaced(here, prior.learn(*pairs))
        count = torch.where(changed, kept, recent["count"])  # older pairs are of the old task
        return posterior, recent | {"count": count, "changes": recent["changes"] + changed.long()}, changed

    def log_factors(self, prior: TaskPosterior, posterior: TaskPosterior, recent: Recent) -> Float[Tensor, "*b w"]:
        """log B_k of each window; −∞ for one that the rewards since the last change do not fill."""
        V_prior, V, b, squares, pairs, rewards = _regression(prior, posterior, recent)
        products, moments, sums = self._summed(pairs, rewards)
        new, new_left = _fit(V_prior[..., None, :, :] + products, moments, sums)
        old, old_left = _fit(
            V[..., None, :, :] - products, b[..., None, :] - moments, (squares[..., None] - sums).clamp(min=0)
        )
        whole, left = _fit(V, b, squares)
        log_dets = (whole + torch.linalg.slogdet(V_prior).logabsdet)[..., None] - new - old
        gain = (left[..., None] + TINY).log() - (new_left + old_left + TINY).log()
        n, sizes = posterior.weight[..., None], torch.tensor(self.windows, device=b.device)
        filled = (sizes <= recent["count"][..., None]) & (sizes + FEWEST_REWARDS <= n)
        factors = (0.5 * (log_dets + n * gain)).nan_to_num(nan=-math.inf)
        return torch.where(filled, factors, -math.inf)

    def _summed(self, pairs: Float[Tensor, "*b m k"], rewards: Float[Tensor, "*b m"]) -> tuple[Tensor, Tensor, Tensor]:
        """Σφφᵀ [*b w k k], Σφr [*b w k] and Σr² [*b w] of each window."""
        ends = self.windows
        parts = [
            (pairs[..., first:last, :], rewards[..., first:last, None])
            for first, last in zip([0, *ends], ends, strict=False)
        ]
        products = torch.stack([rows.mT @ rows for rows, _ in parts], -3).cumsum(-3)
        moments = torch.stack([(rows.mT @ values)[..., 0] for rows, values in parts], -2).cumsum(-2)
        return products, moments, torch.stack([(values**2).sum((-2, -1)) for _, values in parts], -1).cumsum(-1)


def _regression(prior: TaskPosterior, posterior: TaskPosterior, recent: Recent) -> tuple[Tensor, ...]:
    """Prior V, V, b and Σr² of all rewards, and the last pairs.

    With an intercept, c is the z of one more feature, 1, and everything is centred on the means of all pairs.
    """
    V_prior, V, b, pairs, rewards = prior.V, posterior.V, posterior.b, recent["phi"], recent["reward"]
    if posterior.means is not None:
        apart = pairs - posterior.means.phi[..., None, :]
        pairs = torch.cat([apart, torch.ones_like(apart[..., :1])], -1)
        rewards = rewards - posterior.means.reward[..., None]
        V_prior, V = _with_corner(V_prior, prior.ridge), _with_corner(V, posterior.weight + prior.ridge)
        b = torch.nn.functional.pad(b, (0, 1))
    return V_prior, V, b, posterior.reward_squares, pairs, rewards


def _fit(
    V: Float[Tensor, "*b k k"], b: Float[Tensor, "*b k"], squares: Float[Tensor, "*b"]
) -> tuple[Float[Tensor, "*b"], Float[Tensor, "*b"]]:
    """log det V, and min_z Σ(r − φ·z)² + λ‖z‖² = Σr² − b·V⁻¹b."""
    L = torch.linalg.cholesky_ex(V).L
    half = torch.linalg.solve_triangular(L, b[..., None], upper=False)[..., 0]
    log_det = 2 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return log_det, (squares - (half**2).sum(-1)).clamp(min=0)


def _with_corner(matrix: Float[Tensor, "*b k k"], corner: Float[Tensor, "*b"] | float) -> Float[Tensor, "*b l l"]:
    """The matrix with one more row and column, 0 but for the corner."""
    larger = torch.nn.functional.pad(matrix, (0, 1, 0, 1))
    larger[..., -1, -1] = corner
    return larger


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
