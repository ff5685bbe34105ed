"""A running test for a change of the task, which restarts the posterior from the rewards after the change."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.edge import as_real, as_vectors
from zscout.transfer.inputs import Checked, Count, Flags, Positive, Rewards, flags_of_runs
from zscout.transfer.posterior import TaskPosterior
from zscout.types import Vectors

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
            posterior = _where(here, prior.learn(*pairs), posterior)
        recent = _shortened(recent, torch.where(changed, kept, recent["count"]))
        return posterior, recent | {"changes": recent["changes"] + changed.long()}, changed

    def log_factors(self, prior: TaskPosterior, posterior: TaskPosterior, recent: Recent) -> Float[Tensor, "*b w"]:
        """log B_k of each window; −∞ for one that the rewards since the last change do not fill."""
        n, count = posterior.weight, recent["count"]
        V, b, squares = posterior.V, posterior.b, posterior.reward_squares
        pairs, rewards, V_prior = recent["phi"], recent["reward"], prior.V
        if posterior.means is not None:  # c is the z of one more feature, 1; all pairs are centred on the common means
            pairs = pairs - posterior.means.phi[..., None, :]
            pairs = torch.cat([pairs, torch.ones_like(pairs[..., :1])], -1)
            rewards = rewards - posterior.means.reward[..., None]
            V, V_prior = (
                _with_corner(matrix, corner) for matrix, corner in ((V, n + prior.ridge), (V_prior, prior.ridge))
            )
            b = torch.cat([b, torch.zeros_like(b[..., :1])], -1)
        products, moments, sums = [], [], []
        first = 0
        for last in self.windows:
            rows, values = pairs[..., first:last, :], rewards[..., first:last]
            products.append(rows.mT @ rows)
            moments.append((rows.mT @ values[..., None])[..., 0])
            sums.append((values**2).sum(-1))
            first = last
        P, q, s = (
            torch.stack(parts, len(posterior.runs)).cumsum(len(posterior.runs)) for parts in (products, moments, sums)
        )
        V_new, V_old = V_prior[..., None, :, :] + P, V[..., None, :, :] - P
        all_det, all_left = _fit(V, b, squares)
        new_det, new_left = _fit(V_new, q, s)
        old_det, old_left = _fit(V_old, b[..., None, :] - q, squares[..., None] - s)
        prior_det = torch.linalg.slogdet(V_prior).logabsdet
        occam = (all_det + prior_det)[..., None] - new_det - old_det
        tiny = torch.finfo(torch.float64).tiny
        gain = (all_left[..., None] + tiny).log() - (new_left + old_left + tiny).log()
        sizes = torch.tensor(self.windows, device=n.device)
        filled = (sizes <= count[..., None]) & (sizes + LEAST <= n[..., None])
        factors: Tensor = 0.5 * (occam + n[..., None] * gain)
        return torch.where(filled, factors, -math.inf)


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


def _shortened(recent: Recent, count: Int[Tensor, "*b"]) -> Recent:
    """The newest ``count`` pairs only."""
    return recent | {"count": torch.minimum(recent["count"], count)}


def _where(here: Bool[Tensor, "*b"], one: TaskPosterior, other: TaskPosterior) -> TaskPosterior:
    """``one`` for the runs here, ``other`` for the rest."""

    def chosen(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(here.reshape(*here.shape, *[1] * (a.ndim - here.ndim)), a, b)

    ours, theirs = one.tensors(), other.tensors()
    return other.with_tensors({name: chosen(ours[name], theirs[name]) for name in ours})
