"""What a model says follows from each candidate z at the present observation."""

from collections.abc import Callable
from copy import copy
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.edge import all_finite
from zscout.transfer.posterior import TaskPosterior
from zscout.types import BehaviorModel, HasHeads, HasHorizons, HasSecondMoment, Obs


class Forecast:
    """ψ, ψ at other horizons, ψ by head and M for candidates z [*b n d] at obs, in float64, computed when asked for."""

    def __init__(self, model: BehaviorModel, obs: Obs, z: Float[Tensor, "*b n d"] | None) -> None:
        self.model, self.obs = model, obs
        self._z = z
        self._given_psi: Tensor | None = None
        self._seen: dict[Any, Tensor] = {}

    # The candidates

    @property
    def z(self) -> Float[Tensor, "*b n d"]:
        """The candidates themselves."""
        assert self._z is not None
        return self._z

    @property
    def count(self) -> int:
        """How many there are for each run."""
        return self.z.shape[-2]

    def pick(self, index: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """Of each run's candidates the one that its index says."""
        return pick(self.z.expand(*index.shape, -1, -1), index)

    # What follows from them

    @property
    def psi(self) -> Float[Tensor, "*b n d"]:
        """ψ(s;z)."""
        if self._given_psi is not None:
            return self._given_psi
        psi = self._once("psi", self.model.psi)
        if psi.shape[-1] != self.model.dim:
            raise ValueError(f"the model's ψ has {psi.shape[-1]} entries, its dim is {self.model.dim}")
        return psi

    @property
    def psi_heads(self) -> Float[Tensor, "*b h n d"]:
        """ψ by each head; a model without heads has one."""
        model = self.model
        if not isinstance(model, HasHeads):
            return self.psi.unsqueeze(-3)
        by_candidate = self._once("heads", lambda obs, z: model.psi_heads(obs, z).movedim(-3, -2))
        return by_candidate.movedim(-2, -3)

    def psi_at(self, gamma: float) -> Float[Tensor, "*b n d"]:
        """ψ(s;z) at another discount."""
        model = self.model
        if not isinstance(model, HasHorizons):
            raise ValueError(f"{type(model).__name__} has no psi_at: it knows ψ at its own discount only")
        return self._once(("horizon", gamma), lambda obs, z: model.psi_at(obs, z, gamma))

    def second_moment(self, gamma: float) -> Float[Tensor, "*b n d d"]:
        """M(s;z), or where the model does not offer it the paper's rank-1 stand-in ψψᵀ, at γ if it offers that."""
        model = self.model
        if isinstance(model, HasSecondMoment):
            return self._once(("moment", gamma), lambda obs, z: model.second_moment(obs, z, gamma))
        psi = self.psi_at(gamma) if isinstance(model, HasHorizons) else self.psi
        return psi[..., :, None] * psi[..., None, :]

    def with_psi(self, psi: Float[Tensor, "*b n d"]) -> "Forecast":
        """The same candidates with another opinion of ψ."""
        other = copy(self)
        other._given_psi, other._seen = psi, {}
        return other

    # What scores are made of

    def value(self, posterior: TaskPosterior) -> Float[Tensor, "*b n"]:
        """ψ·ẑ, what z is worth by the estimate."""
        return (self.psi @ posterior.z_hat[..., None])[..., 0]

    def value_and_width(self, posterior: TaskPosterior) -> tuple[Float[Tensor, "*b n"], Float[Tensor, "*b n"]]:
        """ψ·ẑ and ‖ψ‖_{V⁻¹}, the two halves of eq. 5, by one product."""
        return halves(self.psi, halving(posterior))

    def information(self, posterior: TaskPosterior, gamma: float) -> Float[Tensor, "*b n"]:
        """tr(V⁻¹M(s;z)) = E Σγᵏ‖φ(S_{t+k+1})‖²_{V⁻¹}."""
        inverse = posterior.width_factor @ posterior.width_factor.mT
        return (self.second_moment(gamma).flatten(-2) @ inverse.flatten(-2)[..., None])[..., 0]

    def _once(self, key: Any, ask_model: Callable[[Obs, Tensor], Tensor]) -> Tensor:
        if key not in self._seen:
            self._seen[key] = finite(ask_model(self.obs, self.z))
        return self._seen[key]


def halving(posterior: TaskPosterior) -> Float[Tensor, "*b d d+1"]:
    """F and ẑ side by side: ψ times this is what both halves of eq. 5 are made of."""
    return torch.cat([posterior.width_factor, posterior.z_hat[..., None]], -1)


def halves(
    psi: Float[Tensor, "*b n d"], factor_and_estimate: Float[Tensor, "*b d d+1"]
) -> tuple[Float[Tensor, "*b n"], Float[Tensor, "*b n"]]:
    """ψ·ẑ and ‖Fᵀψ‖ = ‖ψ‖_{V⁻¹}."""
    product = psi @ factor_and_estimate
    return product[..., -1], torch.linalg.vector_norm(product[..., :-1], dim=-1)


def pick(rows: Float[Tensor, "*b n d"], index: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
    """Of each run's rows the one that its index says."""
    return rows.gather(-2, index[..., None, None].expand(*index.shape, 1, rows.shape[-1]))[..., 0, :]


def finite(answer: Tensor, what: str = "ψ") -> Float[Tensor, "*shape"]:
    """A model's answer in float64, refused if it is not finite."""
    answer = answer.double()
    if not all_finite(answer):
        raise ValueError(f"the model's {what} holds NaN or inf: zscout.check_model(model) says more")
    return answer
