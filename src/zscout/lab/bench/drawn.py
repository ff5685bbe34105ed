"""A model of any dimension whose ψ costs next to nothing: what is measured with it is the search alone."""

import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.bfm.sphere import project_sphere, sample_sphere
from zscout.edge import as_generator, as_given, as_index, as_vectors
from zscout.types import Action, Obs, Vectors

STATES = 4


class Drawn:
    """ψ(s;z) = tanh(A_s z) for random A_s: a BehaviorModel of four states in which nothing can be done."""

    def __init__(self, dim: int, seed: int = 0) -> None:
        rng = Generator().manual_seed(seed)
        self.dim = dim
        self._maps: Tensor = torch.randn(STATES, dim, dim, generator=rng, dtype=torch.float64) / dim**0.5
        self._features: Tensor = torch.randn(STATES, dim, generator=rng, dtype=torch.float64) / dim**0.5
        self.observation_space, self.action_space = Discrete(STATES), Discrete(1)

    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s)."""
        return self._features[as_index(obs, STATES, "observation")]

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """Of n candidates."""
        here = self._maps[as_index(obs, STATES, "observation")]
        psi: Tensor = torch.tanh(as_vectors(z, self.dim, candidates=True) @ here)
        return psi

    def act(self, obs: Obs, z: Vectors, rng: Generator | None = None) -> Action:
        """The one there is."""
        return as_given(torch.zeros_like(as_index(obs, STATES, "observation")), obs)

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """On the sphere of radius √d."""
        return sample_sphere(n, self.dim, as_generator(rng))

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """Onto it."""
        return project_sphere(as_vectors(z, self.dim))

    def states(self) -> Int[Tensor, " S"]:
        """All four."""
        return torch.arange(STATES)
