"""A point in the plane, written by hand: a model with a closed form, and behaviours without φ and ψ."""

from functools import cache
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Generator, Tensor

from zscout import Atlas, Behaviours

RHO, GAMMA = 0.8, 0.9  # s′ = ρs + (1 − ρ)a
BOX = Box(-1.0, 1.0, (2,), np.float64)


class PointMass:
    """φ(s) = [x, y, x², y²]; π(·,z) goes to the place a that is best for z, so s_k = a + ρᵏ(s − a)."""

    gamma, dim, psi_is_exact = GAMMA, 4, True
    observation_space, action_space = BOX, BOX

    def place(self, z: Any) -> Tensor:
        """The place a in the box with the highest z·φ(a), where z has a top; else near a corner."""
        z = torch.as_tensor(z, dtype=torch.float64)
        top: Tensor = z[..., :2] / (-2 * z[..., 2:]).clamp(min=0.1)
        return top.clamp(-1, 1)

    def phi(self, obs: Any) -> Tensor:
        here = torch.as_tensor(obs, dtype=torch.float64)
        return torch.cat([here, here.square()], -1)

    def psi(self, obs: Any, z: Any) -> Tensor:
        a, here = self.place(z), torch.as_tensor(obs, dtype=torch.float64)[..., None, :]
        always, once, twice = 1 / (1 - GAMMA), RHO / (1 - GAMMA * RHO), RHO**2 / (1 - GAMMA * RHO**2)
        apart = here - a
        return torch.cat([always * a + once * apart, always * a**2 + 2 * once * a * apart + twice * apart**2], -1)

    def act(self, obs: Any, z: Any, rng: Any = None) -> Any:
        return self.place(z).numpy()

    def sample_z(self, n: int, rng: Generator | int) -> Tensor:
        rng = rng if isinstance(rng, Generator) else Generator().manual_seed(rng)
        return self.project_z(torch.randn(n, 4, generator=rng, dtype=torch.float64))

    def project_z(self, z: Any) -> Tensor:
        z = torch.as_tensor(z, dtype=torch.float64)
        return 2 * torch.where((z != 0).any(-1, keepdim=True), torch.nn.functional.normalize(z, dim=-1), 0.5)


def places(n: int) -> np.ndarray:
    """n places of the box, far from each other."""
    k = np.arange(n)
    return 0.95 * np.stack([np.sqrt((k + 0.5) / n) * f(2.4 * k) for f in (np.cos, np.sin)], -1)


def own_features(obs: Tensor) -> Tensor:
    """Twelve features without random numbers."""
    x, y = obs.double().unbind(-1)
    return torch.stack([f(k * v) for k in (1, 2, 4) for v in (x, y) for f in (torch.sin, torch.cos)], -1)


@cache
def behaviours(n: int) -> tuple[Behaviours, Atlas]:
    """n behaviours, each goes to a place and circles there, with an atlas of three paths each; n = 6: our features."""
    model = Behaviours(lambda obs, k: places(n)[k], BOX, BOX, n=n)
    steps, rng = np.arange(1, 31)[:, None], np.random.RandomState(n)
    circle = 0.2 * np.concatenate([np.cos(steps), np.sin(steps)], -1)
    z, paths = [], []
    for k, place in enumerate(places(n)):
        for start in rng.uniform(-1, 1, (3, 2)):
            z.append(np.eye(n)[k])
            paths.append(np.clip(place + circle + RHO**steps * (start - place), -1, 1))
    features = None if n == 6 else own_features
    return model, Atlas.from_rollouts(np.stack(z), np.stack(paths), features=features)
