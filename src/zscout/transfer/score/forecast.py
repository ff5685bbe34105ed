"""A model's predictions for candidate z at the current observation."""

import weakref
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.base.types import BehaviorModel, HasDiscount, HasHeads, HasHorizons, HasMomentDiscount, HasSecondMoment, Obs
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.inputs import checked_output, finite, runs_of

T = TypeVar("T")
AskModel: TypeAlias = Callable[[Obs, Tensor], Tensor]  # (obs, z [*b n d]) → an output [*b n …]
Both: TypeAlias = Float[Tensor, "*b d d+1"]  # [F ẑ]
Centre: TypeAlias = Float[Tensor, "*b 1 d"] | None  # Fᵀφ̄/(1 − γ), with an intercept
Numbers: TypeAlias = Float[Tensor, "*b n"]  # one for each candidate
_CACHE: dict[int, dict[Any, Any]] = {}  # by id: a model need not be hashable


class Forecast:
    """ψ, ψ at other horizons, ψ by head and M for candidates z [*b n d] at obs, in float64; each is asked for once."""

    count: int  # n, the number of candidates per run
    _given_psi: Tensor | None = None

    def __init__(self, model: BehaviorModel, obs: Obs, z: Float[Tensor, "*b n d"]) -> None:
        self.model, self.obs, self._z, self.count = model, obs, z, z.shape[-2]
        self._outputs: dict[Any, Tensor] = {}

    @property
    def z(self) -> Float[Tensor, "*b n d"]:
        """The candidates."""
        return self._z

    def pick(self, index: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """The candidate of each run at its index."""
        return pick(self.z.expand(*index.shape, -1, -1), index)

    def with_psi(self, psi: Float[Tensor, "*b n d"]) -> "Forecast":
        """A copy of this forecast with another ψ."""
        other = copy(self)
        other._given_psi = psi
        return other

    # The model's predictions

    @property
    def psi(self) -> Float[Tensor, "*b n d"]:
        """ψ(s;z)."""
        return self._output("psi", self._ask("psi")) if self._given_psi is None else self._given_psi

    def _output(self, key: Any, ask_model: AskModel) -> Float[Tensor, "..."]:
        """The model's output ``key``, ask_model(obs, z), in float64."""
        if key not in self._outputs:
            self._outputs[key] = finite(ask_model(self.obs, self.z))
        return self._outputs[key]

    def _ask(self, name: str, *gamma: float) -> AskModel:
        """Asks for ``model.name(obs, z, *gamma)``; raises unless it is a tensor of the right shape."""
        return partial(_asked, self.model, name, gamma)

    @property
    def psi_heads(self) -> Float[Tensor, "*b h n d"]:
        """ψ of each head; a model without heads counts as one head."""
        if not isinstance(self.model, HasHeads):
            return self.psi.unsqueeze(-3)
        ask = self._ask("psi_heads")
        return self._output("heads", lambda obs, z: ask(obs, z).movedim(-3, -2)).movedim(-2, -3)

    def psi_at(self, gamma: float) -> Float[Tensor, "*b n d"]:
        """ψ(s;z) at another discount."""
        if not isinstance(self.model, HasHorizons):
            raise ValueError(f"{type(self.model).__name__} has no psi_at, so ψ is only known at its own discount")
        return self._output(("horizon", gamma), self._ask("psi_at", gamma))

    def second_moment(self, gamma: float) -> Float[Tensor, "*b n d d"]:
        """M(s;z)."""
        if not isinstance(self.model, HasSecondMoment):
            raise ValueError(f"{type(self.model).__name__} has no second_moment")
        return self._output(("moment", gamma), self._ask("second_moment", gamma))

    # Parts of scores

    def value(self, posterior: TaskPosterior) -> Float[Tensor, "*b n"]:
        """ψ·ẑ, the estimated value of π(·,z)."""
        return self.value_for(posterior.z_hat)

    def value_for(self, weights: Float[Tensor, "*b d"]) -> Float[Tensor, "*b n"]:
        """ψ·w."""
        return (self.psi @ weights[..., None])[..., 0]

    def _weighted(self, key: Any, ask_model: AskModel, weights: Float[Tensor, "*b k"]) -> Numbers:
        """The weighted sum of the entries of an output [*b n k]."""
        return (self._output(key, ask_model) @ weights[..., None])[..., 0]

    def value_and_width(self, posterior: TaskPosterior) -> tuple[Numbers, Numbers]:
        """ψ·ẑ and ‖ψ‖_{V⁻¹}, the two parts of eq. 5, in one product; with an intercept, the norm of ``centred`` ψ."""
        F, means = posterior.factor, posterior.means
        both = torch.cat([F, posterior.z_hat[..., None]], -1)
        centre = None if means is None else means.phi[..., None, :] @ F / (1 - discount_of(self.model))
        return self._value_and_width(both, centre)

    def _value_and_width(self, both: Both, centre: Centre) -> tuple[Numbers, Numbers]:
        """ψ·ẑ and ‖Fᵀψ − centre‖."""
        return value_and_width(self.psi, both, centre)

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

    def information(self, posterior: TaskPosterior, gamma: float) -> Float[Tensor, "*b n"]:
        """tr(V⁻¹M(s;z)) = E Σγᵏ‖φ(S_{t+k+1})‖²_{V⁻¹}, or ‖ψ‖²_{V⁻¹} without M; with an intercept, of φ − φ̄."""
        means = posterior.means
        if not offers_moments(self.model, means is not None, gamma):
            return self.width(posterior, self._horizon(gamma)) ** 2

        def moments(obs: Any, z: Any) -> Any:  # plain types: jaxtyping's would be built at each call
            """M(s;z) as one row [*b n k] per candidate; with an intercept followed by ψ(s;z), to centre M."""
            M = self._ask("second_moment", gamma)(obs, z).flatten(-2)
            return M if means is None else torch.cat([M, self._ask("psi_at", gamma)(obs, z).to(M)], -1)

        key, inverse = ("moments", gamma, means is not None), posterior.factor @ posterior.factor.mT
        if means is None:
            return self._weighted(key, moments, inverse.flatten(-2))
        toward = (inverse @ means.phi[..., None])[..., 0]  # V⁻¹φ̄
        weights, constant = torch.cat([inverse.flatten(-2), -2 * toward], -1), (means.phi * toward).sum(-1)
        return self._weighted(key, moments, weights) + (constant / (1 - gamma))[..., None]

    def _horizon(self, gamma: float) -> float | None:
        """γ if the model has ``psi_at`` at γ, else None: the model's own γ."""
        return gamma if offers_horizon(self.model, gamma) else None


def value_and_width(psi: Float[Tensor, "*b n d"], both: Both, centre: Centre) -> tuple[Numbers, Numbers]:
    """ψ·ẑ and ‖Fᵀψ − centre‖, in one product with [F ẑ]."""
    product = psi @ both
    apart = product[..., :-1] if centre is None else product[..., :-1] - centre
    return product[..., -1], torch.linalg.vector_norm(apart, dim=-1)


def _asked(
    model: BehaviorModel, name: str, gamma: tuple[float, ...], obs: Obs, z: Float[Tensor, "*b n d"]
) -> Float[Tensor, "..."]:
    *runs, n, _ = z.shape
    d = model.dim
    shape = {"psi_heads": (None, n, d), "second_moment": (n, d, d)}.get(name, (n, d))
    runs = runs or runs_of(obs, model.observation_space)  # candidates [n d] are shared by all runs
    return checked_output(getattr(model, name)(obs, z, *gamma), (*runs, *shape), f"the model's {name}")


def offers_moments(model: object, intercept: bool, gamma: float) -> bool:
    """Whether the model has M at γ and, if an intercept is fitted, ``psi_at``, which centring M needs."""
    known = offers(model, HasSecondMoment) and (not intercept or offers(model, HasHorizons))
    return known and _answers_for(model, gamma)


def offers_horizon(model: object, gamma: float) -> TypeGuard[HasHorizons]:
    """Whether the model has ``psi_at`` at γ."""
    return offers(model, HasHorizons) and _answers_for(model, gamma)


def _answers_for(model: object, gamma: float) -> bool:
    """Whether γ is a discount of the model: a learned M has one."""
    return not offers(model, HasMomentDiscount) or model.moment_gamma == gamma


def discount_of(model: object) -> float:
    """The model's γ; .99 if it has none."""
    return model.gamma if offers(model, HasDiscount) else 0.99


def offers(model: object, ability: Callable[..., T]) -> TypeGuard[T]:
    """isinstance(model, ability), cached: for a protocol it takes longer than a small matrix product."""
    return once_per_model(model, ability, lambda: isinstance(model, cast(type, ability)))


def pick(rows: Float[Tensor, "*b n d"], index: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
    """The row of each run at its index."""
    if not index.ndim:
        return rows[index].clone()  # ``gather`` copies, too
    return rows.gather(-2, index[..., None, None].expand(*index.shape, 1, rows.shape[-1]))[..., 0, :]


def once_per_model(model: object, key: Any, make: Callable[[], T]) -> T:
    """make(), cached until the model is garbage collected: models are frozen."""
    if id(model) not in _CACHE:
        try:
            weakref.finalize(model, _CACHE.pop, id(model), None)
        except TypeError:  # no weak references: do not cache
            return make()
        _CACHE[id(model)] = {}
    found = _CACHE[id(model)]
    if key not in found:
        found[key] = make()
    value: T = found[key]
    return value
