"""A USFA with M and ψ at a short horizon, from a network of the states that its policies visit."""

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.base.types import Obs, Vectors
from zscout.models.usfa.model import USFA, USFAConfig
from zscout.models.usfa.networks import Inference, Networks, in_parts

AT_ONCE = 64  # z of a table whose occupancies are held at once


class MomentUSFA(USFA):
    """A USFA with a network for the occupancy p(s'|s,z) = (1 − g) E Σ_{k≥0} gᵏ 1[S_{t+k+1} = s'], g = ``moment_gamma``.

    ψ_g = Σ p(s')φ(s')/(1 − g) and M_g = Σ p(s')φ(s')φ(s')ᵀ/(1 − g). So M has no negative eigenvalue, also when
    centred. The network's inputs are s, z, ψ(s;z), which says where the policy ends, and π(·|s,z), how it starts.
    """

    with_moments = True

    def __init__(
        self, config: USFAConfig, features: Float[Tensor, "S d"], state_inputs: Float[Tensor, "S k"], seed: int = 0
    ) -> None:
        super().__init__(config, features, state_inputs, seed)
        assert config.moment_gamma is not None  # checked above
        self.moment_gamma = config.moment_gamma
        rng = Generator().manual_seed(seed + 1)  # + 1: not the first weights of the other networks again
        hidden = [config.moment_hidden] * config.moment_layers
        sizes = [config.inputs + config.moment_inputs, *hidden, config.n_states]
        self.occupancy_network = Networks(1, sizes, config.inputs, 0.0, rng)

    def second_moment(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d d"]:
        """M(s;z), for γ = ``moment_gamma`` only."""
        self._check_discount(gamma, self.moment_gamma)
        outer = self.derived("outer", lambda: (self.features[:, :, None] * self.features[:, None, :]).flatten(1))
        M: Tensor = (self.occupancy(obs, z) @ outer).unflatten(-1, (self.dim, self.dim))
        return M / (1 - gamma)

    def psi_at(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d"]:
        """ψ(s;z), for γ = ``moment_gamma`` and the model's own."""
        self._check_discount(gamma, self.moment_gamma, self.gamma)
        return self.psi(obs, z) if gamma == self.gamma else self.occupancy(obs, z) @ self.features / (1 - gamma)

    def psi_table(self, z: Vectors) -> Float[Tensor, "S n d"]:
        """ψ(s;z) of every state, from the occupancy instead of the network of ψ: with .4 to .6 times its error.

        With R_γ = Σ_{k≥0} γᵏP^{k+1}, R_γ = R_g + (γ − g)R_gR_γ and ψ = R_γφ. So ψ solves (I − (γ − g)R_g)ψ = R_gφ.
        """
        z, phi = self._z(z, candidates=True), self.features.double()
        identity, tables = torch.eye(len(phi)).to(phi), []
        for some in z.split(AT_ONCE):  # for memory
            R = self.occupancy(self.states(), some).double().movedim(1, 0) / (1 - self.moment_gamma)  # [n S S]
            tables.append(torch.linalg.solve(identity - (self.gamma - self.moment_gamma) * R, R @ phi))
        return torch.cat(tables).movedim(0, 1)

    def occupancy(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n S"]:
        """p(s'|s,z) of every s'."""
        pairs, state, z = self._pairs(obs, z)
        p = self.recent("occupancies", state, z, lambda: self._occupancies(state, z))
        return p.clone().reshape(*pairs, -1)

    def _occupancies(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n S"]:
        parts = [self.occupancy_logits(s, path_inputs(self, s, own)) for s, own in in_parts(state, z)]
        return torch.cat(parts).softmax(-1)

    def psi_and_logits(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
        """As USFA's; kept for the same pairs, since ψ, M and ψ_g are asked for one after the other."""
        return self.recent("outputs", state, z, lambda: super(MomentUSFA, self).psi_and_logits(state, z))

    def occupancy_logits(self, state: Int[Tensor, " n"], inputs: Float[Tensor, "n k"]) -> Float[Tensor, "n S"]:
        """The network's output."""
        if not self._frozen:
            logits: Tensor = self.occupancy_network(self.state_inputs, state[:, None], inputs)[0, :, 0]
            return logits
        network = self.derived("occupancy", lambda: Inference([self.occupancy_network], self.state_inputs))
        return network(state, inputs)[0][0]

    def _check_discount(self, gamma: float, *known: float) -> None:
        if gamma not in known:
            raise ValueError(f"{gamma=}, but this model learned γ = {' and '.join(map(str, known))} only")


def path_inputs(model: USFA, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
    """Inputs of the occupancy network beside the state's: z, ψ(s;z) in features per step, and π(·|s,z)."""
    psi, logits = model.psi_and_logits(state, z)
    pi = model.probabilities(logits)
    mean = (pi[:, None] @ psi.mean(0))[:, 0]
    return torch.cat([model._seen_z(z), mean * (1 - model.gamma), pi], -1)
