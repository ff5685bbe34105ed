"""Small models that are not ours: what an outsider might plug in."""

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, Space
from torch import Generator, Tensor

from zscout.base.types import Action, Obs, Vectors
from zscout.transfer.belief.sums import ROUNDING
from zscout.transfer.constants import DOUBT, PRIOR_RIDGES

PAPER_MODELS = Path(__file__).parents[1] / "reproduction" / "models"  # networks of the paper's recipe, without M


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
        noise = 0.01 * torch.randn(self.phi(obs).shape, generator=rng)
        return (torch.as_tensor(z, dtype=torch.float32) + noise).numpy()

    def sample_z(self, n: int, rng: Generator | int) -> Tensor:
        rng = rng if isinstance(rng, Generator) else Generator().manual_seed(rng)
        return self.project_z(torch.randn(n, 2, generator=rng))

    def project_z(self, z: Vectors) -> Tensor:
        z = torch.as_tensor(z, dtype=torch.float32)
        return torch.where((z != 0).any(-1, keepdim=True), torch.nn.functional.normalize(z, dim=-1), 0.5**0.5)


class Drift(gymnasium.Env[Any, Any]):
    """A point in the plane, x′ = ρx + (1 − ρ)a + noise, observed with where it was before: [x, x before].

    Past ``wall`` to the right an episode ends.
    """

    rho = 0.8
    observation_space = Box(-np.inf, np.inf, (4,), np.float64)
    action_space = Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, noise: float = 0.1, wall: float = np.inf) -> None:
        self.noise, self.wall = noise, wall

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-2, 2, 2)
        return np.concatenate([self.at, self.at]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        before, self.at = self.at, self.rho * self.at + (1 - self.rho) * np.asarray(action, dtype=np.float64)
        self.at = self.at + self.noise * self.np_random.standard_normal(2)
        return np.concatenate([self.at, before]), 0.0, bool(self.at[0] > self.wall), False, {}


class Drifter:
    """The model of Drift: φ(s) = x, π(·,z) = z, E x_{t+k} = ρᵏx + (1 − ρᵏ)z, so that ψ has a closed form."""

    def __init__(self, gamma: float = 0.9) -> None:
        self.gamma, self.dim = gamma, 2
        self.observation_space: Space[Any] = Drift.observation_space
        self.action_space: Space[Any] = Drift.action_space

    def phi(self, obs: Obs) -> Tensor:
        return torch.as_tensor(obs, dtype=torch.float64)[..., :2]

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        here, z = self.phi(obs)[..., None, :], torch.as_tensor(z, dtype=torch.float64)
        from_here = Drift.rho / (1 - self.gamma * Drift.rho)
        return from_here * here + (1 / (1 - self.gamma) - from_here) * z

    def act(self, obs: Obs, z: Vectors, rng: Generator | None = None) -> Action:
        action = torch.as_tensor(z).float().expand_as(self.phi(obs))
        return action if isinstance(obs, Tensor) else action.numpy()

    def sample_z(self, n: int, rng: Generator | int) -> Tensor:
        rng = rng if isinstance(rng, Generator) else Generator().manual_seed(rng)
        return self.project_z(torch.randn(n, 2, generator=rng, dtype=torch.float64))

    def project_z(self, z: Vectors) -> Tensor:
        z = torch.as_tensor(z, dtype=torch.float64)
        return torch.where((z != 0).any(-1, keepdim=True), torch.nn.functional.normalize(z, dim=-1), 0.5**0.5)


def _likely_precision(S: Tensor, X: Tensor, y: Tensor) -> Tensor:
    """λP of the prior with the largest evidence, where another prior or λ needs ``DOUBT`` nats more."""
    products, b, count, squares = X.T @ X, X.T @ y, max(len(y) - 1, 0), float(y @ y)
    found: list[tuple[float, Tensor]] = []
    for k, covariance in enumerate([S, S.diagonal().mean() * torch.eye(len(S)).double()]):
        for share in PRIOR_RIDGES:
            first = share * torch.linalg.inv(covariance)
            left = max(squares - float(b @ torch.linalg.solve(first + products, b)), ROUNDING * squares) + 1e-300
            gained = float(torch.logdet(first + products) - torch.logdet(first))
            found.append((-gained / 2 - count / 2 * math.log(left) - DOUBT * ((k > 0) + (share != 1)), first))
    return max(found, key=lambda one: one[0])[1]


class Regression:
    """Ridge regression with a free intercept, written down plainly.

    ``covariance``: a prior over tasks, with λ = 1, unless others are clearly more likely.
    """

    def __init__(self, phi: Tensor, reward: Tensor, ridge: float = 0.1, covariance: Tensor | None = None) -> None:
        self.n, self.mean = len(phi), phi.sum(0) / max(len(phi), 1)
        mean_reward = reward.sum() / max(self.n, 1)
        X, y = phi - self.mean, reward - mean_reward
        eye = ridge * torch.eye(phi.shape[1]).double()
        if covariance is not None:
            eye = _likely_precision(covariance.double(), X, y)
        self.V = eye + X.T @ X
        self.z_hat = torch.linalg.solve(self.V, X.T @ y)
        self.offset = float(mean_reward - self.mean @ self.z_hat)

    def reward(self, phi: Tensor) -> Tensor:
        expected: Tensor = phi @ self.z_hat + self.offset
        return expected

    def reward_width(self, phi: Tensor) -> Tensor:
        inverse, apart = torch.linalg.inv(self.V), phi - self.mean
        squares = torch.einsum("si,ij,sj->s", apart, inverse, apart)
        return (squares + 1 / max(self.n, 1)).sqrt()
