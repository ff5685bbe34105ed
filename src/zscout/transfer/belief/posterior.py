"""ẑ_t and V_t: ridge regression as a frozen value, with rank-1 updates and late feedback."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.edge import all_finite, as_finite, as_positive, as_size, as_vectors, in_range
from zscout.transfer.belief.estimate import TaskEstimate
from zscout.transfer.belief.sums import Means, Sums, TaskPriors, Weight
from zscout.transfer.inputs import as_rewards

LARGEST_INPUT = 1e100  # largest input: sums of squares stay finite
TENSORS = ("V", "z_hat", "factor", "b", "reward_squares", "weight")  # one for each run


class TaskPosterior(TaskEstimate):
    """The posterior over z_r: N(ẑ, σ²V⁻¹), V = λI + Σφφᵀ, ẑ = V⁻¹Σφr  (eq. 3).

    V⁻¹ is stored as a square root, V⁻¹ = WWᵀ, which stays positive definite under rounding. An update multiplies W by
    one more factor: O(d²), batched over runs.

    With ``intercept`` it fits r ≈ φ·z + c with c free: V = λI + Σ(φ − φ̄)(φ − φ̄)ᵀ and ẑ = V⁻¹Σ(φ − φ̄)(r − r̄). A
    constant added to all rewards changes only ``offset``.

    With a prior covariance LLᵀ of tasks, V begins as λ(LLᵀ)⁻¹ instead of λI. ``with_likely_prior``
    has a λ and an L for each run.

    """

    @classmethod
    def prior(
        cls,
        *,
        dim: int,
        ridge: float | Sequence[float],
        noise: float | None = 1.0,
        intercept: bool = False,
        covariance: Float[Tensor, "d d"] | None = None,
        runs: tuple[int, ...] = (),
        device: torch.device | None = None,
    ) -> "TaskPosterior":
        """The prior: ẑ = 0, V = λI, or λ·``covariance``⁻¹. With ``noise=None`` σ is estimated from the rewards.

        Of several λ the first is the one that V begins with; ``with_likely_prior`` has the most likely one, and with a
        ``covariance`` also decides between it and none.
        """
        dim, ridges = as_size(dim, "dim", 1), [as_positive(one, "ridge") for one in np.atleast_1d(ridge).tolist()]
        ridge = ridges[0]
        noise = None if noise is None else in_range(noise, "noise", 0.0, math.inf, open_end=True)
        eye = torch.eye(dim, dtype=torch.float64, device=device).expand(*runs, dim, dim)
        root = None if covariance is None else _root(covariance, dim).to(eye)
        W, V = (eye, eye) if root is None else (root.expand_as(eye), torch.cholesky_inverse(root).expand_as(eye))
        W, zero = W / math.sqrt(ridge), eye.new_zeros(*runs, dim)
        sums = Sums(ridge * V, zero, zero[..., 0], zero[..., 0])
        means = Means(zero, zero[..., 0], zero[..., 0]) if intercept else None
        priors = None if root is None else TaskPriors.of(root, ridge)
        if len(ridges) > 1 and root is not None:
            priors = TaskPriors.of(root, 1.0, ridges, doubt=0.0)
        elif len(ridges) > 1:
            priors = TaskPriors.of_ridges(torch.eye(dim, dtype=torch.float64, device=device), ridges)
        return cls(zero, W, sums, ridge, noise, root, means, priors)

    # Learning: each returns a new posterior

    def update(self, phi: Any, reward: Any, seen: Any = None) -> "TaskPosterior":
        """V ← V + φφᵀ, b ← b + φr, one observation for each run  (eq. 3). Broadcasts a single posterior over runs.

        ``sums`` adds to V and b, ``_one_more`` updates ẑ and V⁻¹ by the same pair. ``seen`` [*b]: True for runs with a
        reward; the others learn nothing.
        """
        phi = as_vectors(phi, self.dim, "phi", self.device).detach()
        if phi.ndim > 1 and not self.runs:
            runs = phi.shape[:-1]
            each = {name: value.expand(*runs, *value.shape) for name, value in self.tensors().items()}
            return self.with_tensors(each).update(phi, reward, seen)
        if tuple(phi.shape[:-1]) != self.runs:
            raise ValueError(f"phi has shape {tuple(phi.shape)}, expected {[*self.runs, self.dim]}")
        return self.plus(phi, *as_rewards(reward, seen, self.runs, self.device))

    def plus(self, phi: Float[Tensor, "*b d"], reward: Float[Tensor, "*b"], weight: Weight) -> "TaskPosterior":
        """``update`` with rewards of ``as_rewards``: their weight is 0 where none was seen."""
        _check_sizes(phi, reward)
        means = self.means
        if means is not None:
            means, phi, reward = means.plus(phi, reward, weight)
        elif isinstance(weight, Tensor):
            phi, reward = weight[..., None].sqrt() * phi, weight.sqrt() * reward  # φ = 0 leaves V⁻¹ and ẑ unchanged
        z_hat, W = _one_more(self.z_hat, self.factor, phi, reward)
        sums = self.sums.plus(phi, reward, weight)
        same = self.ridge, self.given_noise, self.task_root
        return TaskPosterior(z_hat, W, sums, *same, means, self.priors)  # ``replace`` is slower

    def learn(self, phi: Any, reward: Any, seen: Any = None) -> "TaskPosterior":
        """Learn labelled pairs at any time, φ [*b m d] and r [*b m].

        With ``seen`` [*b m], only those that are True, one after the other.
        """
        phi = as_vectors(phi, self.dim, "phi", self.device).detach()
        if phi.ndim < 2:
            raise ValueError(f"phi is one vector, expected pairs: phi [*b m {self.dim}] and rewards [*b m]")
        wanted = (*self.runs, phi.shape[-2])
        if tuple(phi.shape[:-1]) != wanted:
            raise ValueError(f"phi has shape {tuple(phi.shape)}, expected {[*wanted, self.dim]}")
        reward, weight = as_rewards(reward, seen, wanted, self.device, "one for each pair")
        if isinstance(weight, Tensor):
            told = self
            for k, one in enumerate(weight.unbind(-1)):
                told = told.plus(phi[..., k, :], reward[..., k], one)
            return told
        _check_sizes(phi, reward)
        pairs, means = phi.shape[-2], self.means
        if not pairs:
            return self
        if means is not None:
            means, phi, reward = means.plus_many(phi, reward)
        V, b = self.V + phi.mT @ phi, self.b + (phi.mT @ reward[..., None])[..., 0]
        L = self._cholesky(V)
        return replace(
            self,
            z_hat=torch.cholesky_solve(b[..., None], L)[..., 0],
            factor=_inverse_root(L).contiguous(),  # by rows, as a loaded one is: rounding depends on the layout
            sums=Sums(V, b, self.reward_squares + (reward**2).sum(-1), self.weight + float(pairs)),
            means=means,
        )

    def moved(self, z_hat: Float[Tensor, "*b d"], products: Float[Tensor, "*b d d"]) -> "TaskPosterior":
        """V ← V + products with another ẑ, by labels that are no rewards; noise and number of rewards stay."""
        V = self.V + products
        b = (V @ z_hat[..., None])[..., 0]
        squares = (b * z_hat).sum(-1) + self._count * self.noise**2  # so that the estimate of σ is the same
        W = _inverse_root(self._cholesky(V))
        return replace(self, z_hat=z_hat, factor=W, sums=Sums(V, b, squares, self.weight))

    def _cholesky(self, V: Float[Tensor, "*b d d"]) -> Float[Tensor, "*b d d"]:
        L: Tensor
        L, failed = torch.linalg.cholesky_ex(V)
        if failed.any() or not all_finite(L):
            ridge = float(torch.as_tensor(self.ridge).min())
            raise ValueError(
                f"phi is too large for the ridge {ridge:g}: their ratio exceeds double precision; scale the "
                "features, e.g. with zscout.calibrated"
            )
        return L

    def tensors(self) -> dict[str, Tensor]:
        """The per-run tensors, by name."""
        own = {name: getattr(self, name) for name in TENSORS}
        return own | ({f"mean_{name}": x for name, x in vars(self.means).items()} if self.means else {})

    def copy(self) -> "TaskPosterior":
        """A copy that shares no memory."""
        misfit = None if self.misfit is None else self.misfit.clone()
        copied = self.with_tensors({name: value.clone() for name, value in self.tensors().items()})
        return replace(copied, misfit=misfit)

    def with_tensors(self, tensors: dict[str, Tensor]) -> "TaskPosterior":
        """A copy with these tensors."""
        return replace(
            self,
            z_hat=tensors["z_hat"],
            factor=tensors["factor"],
            sums=Sums(tensors["V"], tensors["b"], tensors["reward_squares"], tensors["weight"]),
            means=self.means and Means(**{name: tensors[f"mean_{name}"] for name in vars(self.means)}),
        )

    def replaced(self, here: Bool[Tensor, "*b"], by: "TaskPosterior") -> "TaskPosterior":
        """``by`` for the runs here, this posterior for the others."""

        def chosen(new: Tensor, old: Tensor) -> Tensor:
            return torch.where(here.reshape((*here.shape, *[1] * (new.ndim - here.ndim))), new, old)

        ours, theirs = self.tensors(), by.tensors()
        return self.with_tensors({name: chosen(theirs[name], ours[name]) for name in ours})

    # Another prior

    @property
    def with_likely_prior(self) -> "TaskPosterior":
        """The same rewards with the prior that makes them most likely, for each run: LLᵀ or isotropic, and a λ.

        Without a prior over tasks, this posterior.
        """
        return self if self._with_other_prior is None else self._with_other_prior

    @cached_property
    def _with_other_prior(self) -> "TaskPosterior | None":
        """The same, or None if the prior stays for every run: a posterior that held itself would be freed late."""
        priors = self.priors
        if priors is None or isinstance(self.ridge, Tensor):
            return None
        which, R, half = priors.most_likely(self.sums.all, self._count)
        other = which != 0
        if not other.any():
            return None
        new = replace(
            self,
            z_hat=torch.linalg.solve_triangular(R.mT, half, upper=True)[..., 0],
            factor=_inverse_root(R),
            sums=replace(self.sums.all, V=self.V + priors.changes[which]),
            ridge=priors.ridges[which].clone(),  # of a single run these are views
            task_root=None if priors.roots is None else priors.roots[which].clone(),
        )
        return new if other.all() else new.replaced(~other, self)  # a run alone equals the same run in a batch, bitwise


def _check_sizes(phi: Tensor, reward: Tensor) -> None:
    if any(x.numel() and torch.linalg.vector_norm(x, math.inf).item() > LARGEST_INPUT for x in (phi, reward)):
        raise ValueError(
            f"phi and reward must be at most {LARGEST_INPUT:.0e} in size, so that sums of their squares stay finite"
        )


def _root(covariance: Any, dim: int) -> Float[Tensor, "d d"]:
    """L with LLᵀ = covariance, lower triangular."""
    given = as_finite(covariance, "the prior covariance of tasks").detach().double()
    if tuple(given.shape) != (dim, dim):
        raise ValueError(f"the prior covariance of tasks has shape {tuple(given.shape)}, expected {[dim, dim]}")
    root: Tensor
    root, failed = torch.linalg.cholesky_ex((given + given.mT) / 2)
    if failed.any():
        raise ValueError("the prior covariance of tasks is not positive definite: add a small multiple of the identity")
    return root


def _inverse_root(L: Float[Tensor, "*b d d"]) -> Float[Tensor, "*b d d"]:
    """W = L⁻ᵀ, for V = LLᵀ."""
    eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
    W: Tensor = torch.linalg.solve_triangular(L.mT, eye if L.ndim == 2 else eye.expand_as(L), upper=True)
    return W


def _one_more(
    z_hat: Float[Tensor, "*b d"], W: Float[Tensor, "*b d d"], phi: Float[Tensor, "*b d"], reward: Float[Tensor, "*b"]
) -> tuple[Float[Tensor, "*b d"], Float[Tensor, "*b d d"]]:
    """ẑ and W after one more pair, W ← W(I − c uuᵀ) with u = Wᵀφ and I − c uuᵀ = (I + uuᵀ)^{−½}.

    c = (1 − 1/√m)/‖u‖² with m = 1 + ‖u‖² = 1 + ‖φ‖²_{V⁻¹}, computed as 1/(m + √m), which is also right for u = 0.
    """
    if phi.ndim == 1:  # single run: Python floats are faster than one-element tensors
        u = W.mT.mv(phi)
        gain = W.mv(u)  # V⁻¹φ
        m, error = 1 + float(u.dot(u)), float(reward) - float(phi.dot(z_hat))
        return torch.add(z_hat, gain, alpha=error / m), torch.addr(W, gain, u, alpha=-1 / (m + math.sqrt(m)))
    u = (W.mT @ phi[..., None])[..., 0]
    gain = (W @ u[..., None])[..., 0]
    more, errors = 1 + torch.linalg.vecdot(u, u), reward - torch.linalg.vecdot(phi, z_hat)
    scaled = gain / (more + more.sqrt())[..., None]
    return (
        torch.addcmul(z_hat, gain, (errors / more)[..., None]),
        torch.addcmul(W, scaled[..., None], u[..., None, :], value=-1),
    )
