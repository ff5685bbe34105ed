"""What a model says follows from each candidate z at the present observation."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from zscout.edge import all_finite
from zscout.types import BehaviorModel, HasHeads, HasHorizons, HasSecondMoment, Obs


@dataclass(frozen=True, eq=False)
class Forecast:
    """ψ, ψ at other horizons, ψ by head and M for candidates z [*b n d] at obs, in float64, computed when asked for."""

    model: BehaviorModel
    obs: Obs
    z: Float[Tensor, "*b n d"]
    given_psi: Float[Tensor, "*b n d"] | None = None  # in place of the model's own
    _seen: dict[Any, Tensor] = field(default_factory=dict, init=False, repr=False)

    @property
    def psi(self) -> Float[Tensor, "*b n d"]:
        """ψ(s;z)."""
        if self.given_psi is not None:
            return self.given_psi
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
        return replace(self, given_psi=psi)

    def _once(self, key: Any, ask_model: Callable[[Obs, Tensor], Tensor]) -> Tensor:
        if key not in self._seen:
            self._seen[key] = finite(ask_model(self.obs, self.z))
        return self._seen[key]


def finite(answer: Tensor, what: str = "ψ") -> Float[Tensor, "*shape"]:
    """A model's answer in float64, refused if it is not finite."""
    answer = answer.double()
    if not all_finite(answer):
        raise ValueError(f"the model's {what} holds NaN or inf: zscout.check_model(model) says more")
    return answer
