"""Small models that are not ours: what an outsider might plug in."""

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, Space
from torch import Generator, Tensor

from zscout.types import Action, Obs, Vectors


class Fixed:
    """Two states, d features, and a ψ that is what the test says, for whatever z."""

    def __init__(self, psi: Tensor, spread: float = 0.0) -> None:
        self.rows, self.spread, self.dim = psi, spread, psi.shape[-1]
        self.observation_space: Space[Any] = Discrete(2)
        self.action_space: Space[Any] = Discrete(2)

    def phi(self, obs: Obs) -> Tensor:
        return torch.eye(self.dim, dtype=torch.float64)[torch.as_tensor(obs)]

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        return self.rows

    def psi_heads(self, obs: Obs, z: Vectors) -> Tensor:
        return torch.stack([self.rows - self.spread, self.rows + self.spread])

    def act(self, obs: Obs, z: Vectors, rng: Generator | None = None) -> Action:
        return np.int64(0)

    def sample_z(self, n: int, rng: Generator | int) -> Tensor:
        rng = rng if isinstance(rng, Generator) else Generator().manual_seed(rng)
        return torch.nn.functional.normalize(torch.randn(n, self.dim, generator=rng, dtype=torch.float64), dim=-1)

    def project_z(self, z: Vectors) -> Tensor:
        return torch.nn.functional.normalize(torch.as_tensor(z, dtype=torch.float64), dim=-1)


class Compass:
    """A point in the plane, φ(s) = s: π(·,z) walks along z, so ψ(s;z) has a closed form; float32, drawn actions."""

    gamma = 0.9

    def __init__(self) -> None:
        self.dim = 2
        self.observation_space: Space[Any] = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space: Space[Any] = Box(-1.0, 1.0, (2,), np.float32)

    def phi(self, obs: Obs) -> Tensor:
        return torch.as_tensor(np.asarray(obs), dtype=torch.float32)

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        here, step = self.phi(obs)[..., None, :], torch.as_tensor(z, dtype=torch.float32)
        return here / (1 - self.gamma) + step / (1 - self.gamma) ** 2

    def act(self, obs: Obs, z: Vectors, rng: Generator | None = None) -> Action:
        assert rng is not None
        noise = 0.01 * torch.randn(np.shape(obs), generator=rng)
        return (torch.as_tensor(z, dtype=torch.float32) + noise).numpy()

    def sample_z(self, n: int, rng: Generator | int) -> Tensor:
        rng = rng if isinstance(rng, Generator) else Generator().manual_seed(rng)
        return self.project_z(torch.randn(n, 2, generator=rng))

    def project_z(self, z: Vectors) -> Tensor:
        z = torch.as_tensor(z, dtype=torch.float32)
        return torch.where((z != 0).any(-1, keepdim=True), torch.nn.functional.normalize(z, dim=-1), 0.5**0.5)
