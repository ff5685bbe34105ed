"""A model with exact policies and an error of chosen size in ψ."""

import math

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.types import Obs, Vectors
from zscout.models.exact.model import ExactModel

WAVES = 64  # each error is a sum of this number of waves: smooth in z, with a length scale of about 1 on the sphere


class Corrupted:
    """ψ̃ = ψ + degree · ‖ψ‖ · e(s, z), with a fixed e of mean square 1; the errors of several heads are independent."""

    def __init__(self, exact: ExactModel, degree: float, heads: int = 1, seed: int = 0) -> None:
        self.exact, self.degree, self.heads = exact, degree, heads
        self.dim, self.gamma = exact.dim, exact.gamma
        self.observation_space, self.action_space = exact.observation_space, exact.action_space
        self.phi, self.act, self.policy, self.states = exact.phi, exact.act, exact.policy, exact.states
        self.sample_z, self.project_z = exact.sample_z, exact.project_z
        rng = Generator().manual_seed(seed)
        states, dim = exact.features.shape
        self._waves = torch.randn(heads, WAVES, dim, dtype=torch.float64, generator=rng).to(exact.device)
        self._phases = (2 * math.pi * torch.rand(heads, WAVES, dtype=torch.float64, generator=rng)).to(exact.device)
        size = math.sqrt(2 / (WAVES * dim))
        errors = size * torch.randn(heads, states, WAVES, dim, dtype=torch.float64, generator=rng)
        self._errors = errors.to(exact.device)

    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """ψ̃ of each head."""
        psi = self.exact.psi(obs, z)  # [*b n d]
        state = torch.as_tensor(obs, device=self.exact.device).long()
        candidates = torch.as_tensor(z, dtype=torch.float64, device=self.exact.device)
        angle = torch.einsum("...nd,hkd->...hnk", candidates, self._waves) + self._phases[:, None]
        error = torch.cos(angle) @ self._errors[:, state].movedim(0, -3)  # [*b h n k] @ [*b h k d]
        size = psi.norm(dim=-1, keepdim=True).unsqueeze(-3)
        heads: Tensor = psi.unsqueeze(-3) + self.degree * size * error
        return heads

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """The mean of the heads."""
        return self.psi_heads(obs, z).mean(-3)
