"""The shapes that travel between modules, and the protocols that outsiders implement.

Leading dimensions ``*b`` are runs: one live agent has ``*b = ()``, three hundred simulated ones ``*b = (300,)``.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium
import numpy as np
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.randomness import Rng

Obs: TypeAlias = int | np.integer | Sequence[Any] | np.ndarray | Tensor
"""What an observation may come as; in a finite world it is the state's index."""

Action: TypeAlias = int | np.integer | Sequence[Any] | np.ndarray | Tensor
"""What an action may come as; in a finite world it is the action's index."""

Vectors: TypeAlias = Sequence[Any] | np.ndarray | Tensor
"""What task vectors may come as at the public edge: the last dimension is d."""


@runtime_checkable
class FiniteWorld(Protocol):
    """A world whose dynamics p(s'|s,a) can be written down: at most K outcomes for each state and action."""

    @property
    def n_states(self) -> int:
        """S; states are 0 … S − 1."""

    @property
    def n_actions(self) -> int:
        """A; actions are 0 … A − 1."""

    @property
    def successors(self) -> Int[Tensor, "S A K"]:
        """The states that may follow."""

    @property
    def probabilities(self) -> Float[Tensor, "S A K"]:
        """How likely each of them is."""

    def step(self, state: Obs, action: Action, rng: Rng | None = None) -> Int[Tensor, "*b"]:
        """S_{t+1} ~ p(·|S_t, A_t), for any number of runs at once."""


@runtime_checkable
class BehaviorModel(Protocol):
    """A frozen π(a|s,z) that knows its features φ, its successor features ψ and its own Z.

    ψ(s;z) = E Σ_{k≥0} γᵏ φ(S_{t+k+1}) from S_t = s under π(·|·,z): the present state is not counted.
    """

    @property
    def dim(self) -> int:
        """d, the number of features and of entries of z."""

    @property
    def observation_space(self) -> "gymnasium.Space[Any]":
        """What one observation is, so that *b can be told from it."""

    @property
    def action_space(self) -> "gymnasium.Space[Any]":
        """What one action is."""

    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s)."""

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """ψ(s;z) of n candidates, z [*b n d], or z [n d] shared by all runs."""

    def act(self, obs: Obs, z: Vectors, rng: Any = None) -> Action:
        """A ~ π(·|s,z), z [*b d]: a tensor for a tensor, else numpy, as Gymnasium environments want it.

        ``rng`` is a torch.Generator; for models that declare ``DrawsForEachRun`` it may be ``randomness.Streams``.
        """

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """N draws from Z; a generator may be on the CPU whatever the model is on."""

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """The image of z in Z; z = 0 has one too."""


@runtime_checkable
class Agent(Protocol):
    """Anything that can be run: it chooses actions and learns."""

    def act(self, obs: Obs) -> Action:
        """A_t at S_t."""

    def tell(self, next_obs: Obs, reward: Any, done: Any = False) -> None:
        """S_{t+1}, R_{t+1}, and whether an episode ended with it."""


# What only some models offer. Ask by isinstance(model, HasHorizons), never by the model's class.


@runtime_checkable
class HasHeads(Protocol):
    """Several estimates of ψ whose disagreement can be used."""

    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """ψ by each of h heads."""


@runtime_checkable
class HasDiscount(Protocol):
    """The γ of its ψ."""

    @property
    def gamma(self) -> float:
        """γ."""


@runtime_checkable
class DrawsForEachRun(Protocol):
    """A model whose act takes ``randomness.Streams`` too: each run then draws its actions from its own seed."""

    @property
    def draws_for_each_run(self) -> bool:
        """Whether it does."""


@runtime_checkable
class SamplesForEachRun(Protocol):
    """A model that draws from its Z for many runs in one go, each from a generator of its own."""

    def sample_z_each(self, n: int, rngs: Sequence[Generator]) -> Float[Tensor, "runs n d"]:
        """What ``sample_z(n, rng)`` draws, for each of them."""


@runtime_checkable
class HasExactPsi(Protocol):
    """Whether ψ is the truth about π, so that the best of very many z is really the best."""

    @property
    def psi_is_exact(self) -> bool:
        """True for dynamic programming, False for anything learned."""


@runtime_checkable
class HasHorizons(Protocol):
    """ψ of the same policies π(·|·,z) under another discount γ."""

    def psi_at(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d"]:
        """ψ(s;z) at discount ``gamma``."""


@runtime_checkable
class HasSecondMoment(Protocol):
    """The paper's future certainty matrix, M(s;z) = E Σ_{k≥0} γᵏ φ(S_{t+k+1}) φ(S_{t+k+1})ᵀ."""

    def second_moment(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d d"]:
        """M(s;z) at discount ``gamma``."""


@runtime_checkable
class HasMoments(Protocol):
    """Mean and covariance of φ over the observations that a model was trained on, or over a sample of them."""

    def feature_moments(self) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
        """φ̄ and Cov(φ)."""


@runtime_checkable
class HasTransitionFeatures(Protocol):
    """Features of a whole step, for rewards such as action costs, or φ = f(S_{t+1}) − f(S_t)."""

    def phi_of_transition(self, obs: Obs, action: Action | None, next_obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(S_t, A_t, S_{t+1}); the action is None where the agent did not choose it by ``act``."""


@runtime_checkable
class HasStates(Protocol):
    """A finite world's observations, all of them: lets a search tabulate ψ."""

    def states(self) -> Int[Tensor, " S"]:
        """All observations, in order."""
