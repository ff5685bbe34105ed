"""A model's predictions for candidate z at the current observation."""

from collections.abc import Callable
from copy import copy
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.transfer.inputs import finite
from zscout.transfer.posterior import TaskPosterior
from zscout.types import BehaviorModel, HasDiscount, HasHeads, HasHorizons, HasSecondMoment, Obs


class Forecast:
    """ψ, ψ at other horizons, ψ by head and M for candidates z [*b n d] at obs, in float64, computed lazily."""

    def __init__(self, model: BehaviorModel, obs: Obs, z: Float[Tensor, "*b n d"] | None) -> None:
        self.model, self.obs = model, obs
        self._z = z
        self._given_psi: Tensor | None = None
        self._seen: dict[Any, Tensor] = {}

    # The candidates

    @property
    def z(self) -> Float[Tensor, "*b n d"]:
        """The candidates."""
        assert self._z is not None
        return self._z

    @property
    def count(self) -> int:
        """The number of candidates per run."""
        return self.z.shape[-2]

    def pick(self, index: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """The candidate of each run at its index."""
        return pick(self.z.expand(*index.shape, -1, -1), index)

    # The model's predictions

    @property
    def psi(self) -> Float[Tensor, "*b n d"]:
        """ψ(s;z)."""
        if self._given_psi is not None:
            return self._given_psi
        psi = self._once("psi", self.model.psi)
        if psi.shape[-1] != self.model.dim:
            raise ValueError(f"the model's ψ has {psi.shape[-1]} entries, expected dim = {self.model.dim}")
        return psi

    @property
    def psi_heads(self) -> Float[Tensor, "*b h n d"]:
        """ψ of each head; a model without heads counts as one head."""
        model = self.model
        if not isinstance(model, HasHeads):
            return self.psi.unsqueeze(-3)
        by_candidate = self._once("heads", lambda obs, z: model.psi_heads(obs, z).movedim(-3, -2))
        return by_candidate.movedim(-2, -3)

    def psi_at(self, gamma: float) -> Float[Tensor, "*b n d"]:
        """ψ(s;z) at another discount."""
        model = self.model
        if not isinstance(model, HasHorizons):
            raise ValueError(f"{type(model).__name__} has no psi_at, so ψ is only known at its own discount")
        return self._once(("horizon", gamma), lambda obs, z: model.psi_at(obs, z, gamma))

    def second_moment(self, gamma: float) -> Float[Tensor, "*b n d d"]:
        """M(s;z)."""
        model = self.model
        if not isinstance(model, HasSecondMoment):
            raise ValueError(f"{type(model).__name__} has no second_moment")
        return self._once(("moment", gamma), lambda obs, z: model.second_moment(obs, z, gamma))

    def with_psi(self, psi: Float[Tensor, "*b n d"]) -> "Forecast":
        """A copy of this forecast with another ψ."""
        other = copy(self)
        other._given_psi, other._seen = psi, {}
        return other

    # Parts of scores

    def value(self, posterior: TaskPosterior) -> Float[Tensor, "*b n"]:
        """ψ·ẑ, the estimated value of π(·,z)."""
        return (self.psi @ posterior.z_hat[..., None])[..., 0]

    def value_and_width(self, posterior: TaskPosterior) -> tuple[Float[Tensor, "*b n"], Float[Tensor, "*b n"]]:
        """ψ·ẑ and ‖ψ‖_{V⁻¹}, the two parts of eq. 5, in one product; with an intercept, the norm of ``centred`` ψ."""
        return halves(self.psi, *halving(posterior, discount_of(self.model)))

    def centred(self, posterior: TaskPosterior, gamma: float | None = None) -> Float[Tensor, "*b n d"]:
        """ψ (at discount ``gamma`` if given); with an intercept ψ − φ̄/(1 − γ).

        A constant reward c adds c/(1 − γ) to the value of every z, so its direction needs no exploration.
        """
        psi = self.psi if gamma is None else self.psi_at(gamma)
        if posterior.means is None:
            return psi
        return psi - posterior.means.phi[..., None, :] / (1 - (discount_of(self.model) if gamma is None else gamma))

    def width(self, posterior: TaskPosterior, gamma: float | None = None) -> Float[Tensor, "*b n"]:
        """‖ψ‖_{V⁻¹} of the centred ψ."""
        return posterior.width(self.centred(posterior, gamma))

    def centred_moment(self, posterior: TaskPosterior, gamma: float) -> Float[Tensor, "*b n d d"]:
        """M(s;z), or its rank-1 approximation ψψᵀ; with an intercept, of φ − φ̄."""
        if not self.offers_moments(posterior):
            apart = self.centred(posterior, self._horizon(gamma))
            return apart[..., :, None] * apart[..., None, :]
        M = self.second_moment(gamma)
        if posterior.means is None:
            return M
        mean = posterior.means.phi[..., None, None, :]
        cross = self.psi_at(gamma)[..., :, None] * mean
        return M - cross - cross.mT + mean.mT * mean / (1 - gamma)

    def information(self, posterior: TaskPosterior, gamma: float) -> Float[Tensor, "*b n"]:
        """tr(V⁻¹M(s;z)) = E Σγᵏ‖φ(S_{t+k+1})‖²_{V⁻¹}; with an intercept, of φ − φ̄."""
        if not self.offers_moments(posterior):
            return self.width(posterior, self._horizon(gamma)) ** 2
        return self._information(posterior, gamma)

    def _information(self, posterior: TaskPosterior, gamma: float) -> Float[Tensor, "*b n"]:
        weights, constant = information_weights(posterior, gamma)
        with_psi = posterior.means is not None
        moments = self._once(
            ("moments", gamma, with_psi), lambda obs, z: moments_of(self.model, obs, z, gamma, with_psi)
        )
        return (moments @ weights[..., None])[..., 0] + constant[..., None]

    def offers_moments(self, posterior: TaskPosterior) -> bool:
        """Whether the model has M and, if an intercept is fitted, ``psi_at``, which centring M needs."""
        centrable = posterior.means is None or isinstance(self.model, HasHorizons)
        return centrable and isinstance(self.model, HasSecondMoment)

    def _horizon(self, gamma: float) -> float | None:
        """γ if the model has ``psi_at``, else None: the model's own γ."""
        return gamma if isinstance(self.model, HasHorizons) else None

    def _once(self, key: Any, ask_model: Callable[[Obs, Tensor], Tensor]) -> Tensor:
        if key not in self._seen:
            self._seen[key] = finite(ask_model(self.obs, self.z))
        return self._seen[key]


def discount_of(model: BehaviorModel) -> float:
    """The model's γ; .99 if it has none."""
    return model.gamma if isinstance(model, HasDiscount) else 0.99


def moments_of(
    model: BehaviorModel, obs: Obs, z: Float[Tensor, "*b n d"], gamma: float, with_psi: bool
) -> Float[Tensor, "*b n k"]:
    """M(s;z) flattened to one row per candidate; ``with_psi`` appends ψ(s;z), to centre M."""
    assert isinstance(model, HasSecondMoment)
    M = model.second_moment(obs, z, gamma).flatten(-2)
    if not with_psi:
        return M
    assert isinstance(model, HasHorizons)
    return torch.cat([M, model.psi_at(obs, z, gamma).to(M)], -1)


def information_weights(posterior: TaskPosterior, gamma: float) -> tuple[Float[Tensor, "*b k"], Float[Tensor, "*c"]]:
    """Weights w and constant c so that tr(V⁻¹M) of φ − φ̄ is w · (row of ``moments_of``) + c."""
    inverse = posterior.width_factor @ posterior.width_factor.mT
    if posterior.means is None:
        return inverse.flatten(-2), inverse.new_zeros(())
    mean = posterior.means.phi
    toward = (inverse @ mean[..., None])[..., 0]  # V⁻¹φ̄
    return torch.cat([inverse.flatten(-2), -2 * toward], -1), (mean * toward).sum(-1) / (1 - gamma)


def halving(posterior: TaskPosterior, gamma: float) -> tuple[Float[Tensor, "*b d d+1"], Float[Tensor, "*b 1 d"] | None]:
    """[F ẑ], which times ψ gives both parts of eq. 5; with an intercept also Fᵀφ̄/(1 − γ)."""
    both = torch.cat([posterior.width_factor, posterior.z_hat[..., None]], -1)
    if posterior.means is None:
        return both, None
    return both, posterior.means.phi[..., None, :] @ posterior.width_factor / (1 - gamma)


def halves(
    psi: Float[Tensor, "*b n d"],
    factor_and_estimate: Float[Tensor, "*b d d+1"],
    centre: Float[Tensor, "*b 1 d"] | None = None,
) -> tuple[Float[Tensor, "*b n"], Float[Tensor, "*b n"]]:
    """ψ·ẑ and ‖Fᵀψ − centre‖, the norm ‖ψ‖_{V⁻¹} of the centred ψ."""
    product = psi @ factor_and_estimate
    apart = product[..., :-1] if centre is None else product[..., :-1] - centre
    return product[..., -1], torch.linalg.vector_norm(apart, dim=-1)


def pick(rows: Float[Tensor, "*b n d"], index: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
    """The row of each run at its index."""
    return rows.gather(-2, index[..., None, None].expand(*index.shape, 1, rows.shape[-1]))[..., 0, :]
