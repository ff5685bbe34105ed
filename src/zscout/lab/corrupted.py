"""A model with exact policies and an error of chosen size in ψ."""

import math

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.bfm.exact import ExactModel
from zscout.types import Action, Obs, Vectors

WAVES = 64  # of which each error is a sum: smooth in z, with a length of about 1 on the sphere


class Corrupted:
    """ψ̃ = ψ + degree · ‖ψ‖ · e(s, z), e of mean square 1 and fixed once and for all; several heads err apart."""

    def __init__(self, exact: ExactModel, degree: float, heads: int = 1, seed: int = 0) -> None:
        self.exact, self.degree, self.heads = exact, degree, heads
        self.observation_space, self.action_space = exact.observation_space, exact.action_space
        rng = Generator().manual_seed(seed)
        states, dim = exact.features.shape
        self._waves = torch.randn(heads, WAVES, dim, dtype=torch.float64, generator=rng).to(exact.device)
        self._phases = (2 * math.pi * torch.rand(heads, WAVES, dtype=torch.float64, generator=rng)).to(exact.device)
        size = math.sqrt(2 / (WAVES * dim))
        self._errors = size * torch.randn(heads, states, WAVES, dim, dtype=torch.float64, generator=rng)
        self._errors = self._errors.to(exact.device)

    @property
    def dim(self) -> int:
        """d."""
        return self.exact.dim

    @property
    def gamma(self) -> float:
        """γ."""
        return self.exact.gamma

    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s), which is not touched."""
        return self.exact.phi(obs)

    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """Each head with an error of its own."""
        psi = self.exact.psi(obs, z)  # [*b n d]
        state = torch.as_tensor(obs, device=self.exact.device).long()
        candidates = torch.as_tensor(z, dtype=torch.float64, device=self.exact.device)
        angle = torch.einsum("...nd,hkd->...hnk", candidates, self._waves) + self._phases[:, None]
        errors = self._errors[:, state].movedim(0, -3)  # [*b h k d]
        error = torch.cos(angle) @ errors  # [*b h n d]
        size = psi.norm(dim=-1, keepdim=True).unsqueeze(-3)
        heads: Tensor = psi.unsqueeze(-3) + self.degree * size * error
        return heads

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """The heads' mean."""
        return self.psi_heads(obs, z).mean(-3)

    def act(self, obs: Obs, z: Vectors, rng: Generator | None = None) -> Action:
        """The right policy."""
        return self.exact.act(obs, z)

    def policy(self, z: Vectors) -> Int[Tensor, "*n S"]:
        """The right policy."""
        return self.exact.policy(z)

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """From the sphere."""
        return self.exact.sample_z(n, rng)

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """Onto the sphere."""
        return self.exact.project_z(z)

    def states(self) -> Int[Tensor, " S"]:
        """All observations."""
        return self.exact.states()
