"""Quality of a learned model, measured by the exact one: normalised value and error of ψ."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.types import Obs, Vectors
from zscout.models.exact.model import ExactModel
from zscout.models.usfa.moments import MomentUSFA


@runtime_checkable
class Tabulated(Protocol):
    """A model of a finite world, as tables."""

    def policy(self, z: Vectors) -> Float[Tensor, "n S A"]:
        """π(a|s,z) for all states."""

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """ψ(s;z) of candidates."""


@dataclass(frozen=True)
class Verdict:
    """Quality of a model, over states and z."""

    value: float  # mean over z of the normalised value: 0 is a random walk, 1 is optimal
    value_p5: float  # its 5th percentile over z
    psi_error: float  # mean ‖ψ_θ − ψ_π‖ ÷ mean ‖ψ_π‖, ψ_π exact for the model's own policy


class Judge:
    """Measures models with the exact model, on held-out z."""

    def __init__(self, exact: ExactModel, z: Float[Tensor, "n d"]) -> None:
        self.exact, self.z = exact, z.to(exact.device, torch.float64)
        self._random = self._values(exact.evaluate(exact.random_policy))
        self._best = exact.value(self.z).mean(-1)
        scale = self.z.norm(dim=-1) * exact.features.norm(dim=-1).max() / (1 - exact.gamma)
        if (self._best - self._random <= 1e-9 * scale).any():
            raise ValueError(
                "every policy has the same value for some z: with these features there is nothing to judge"
            )

    def __call__(self, model: Tabulated) -> Verdict:
        """Measure the model's policies, and its ψ of them."""
        psi_pi = self.exact.evaluate(certain(model.policy(self.z)))
        value = (self._values(psi_pi) - self._random) / (self._best - self._random)
        with torch.no_grad():
            psi = model.psi(self.exact.states(), self.z).movedim(0, 1).to(psi_pi)
        error = (psi - psi_pi).norm(dim=-1).mean() / psi_pi.norm(dim=-1).mean()
        return Verdict(float(value.mean()), float(value.quantile(0.05)), float(error))

    def _values(self, psi: Float[Tensor, "*n S d"]) -> Float[Tensor, " n"]:
        """Mean over states of ψ·z."""
        return (psi.mean(-2) * self.z).sum(-1)


def moment_error(model: MomentUSFA, exact: ExactModel, z: Float[Tensor, "n d"]) -> float:
    """Mean ‖M_θ − M_π‖ ÷ mean ‖M_π‖ over states and z, M_π exact for the model's own policy."""
    phi, gamma, states = exact.features, model.moment_gamma, exact.states()
    outer = ExactModel(exact.world, (phi[:, :, None] * phi[:, None, :]).flatten(1))
    truth = outer.evaluate(certain(model.policy(z)), gamma)  # [n S d²]
    with torch.no_grad():
        given = torch.stack([model.second_moment(states, own[None], gamma)[:, 0].flatten(1) for own in z]).to(truth)
    return float((given - truth).norm(dim=-1).mean() / truth.norm(dim=-1).mean())


def certain(policy: Float[Tensor, "n S A"]) -> Tensor:
    """Actions [n S] if the policy is deterministic, which is faster to evaluate; else the policy."""
    return policy.argmax(-1) if bool((policy.amax(-1) == 1).all()) else policy
