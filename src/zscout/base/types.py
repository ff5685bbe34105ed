"""Shared type aliases, and the protocols that users implement.

Leading dimensions ``*b`` are runs: a single agent has ``*b = ()``, a batch of 300 has ``*b = (300,)``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium
import numpy as np
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.base.randomness import Rng

Array: TypeAlias = int | np.integer | Sequence[Any] | np.ndarray | Tensor
"""Numbers of any kind."""

Obs: TypeAlias = Array | Mapping[str, Any]
"""Accepted types of observations; in a finite world, the index of the state; of a Dict space, a dict of arrays."""

Action: TypeAlias = Array
"""Accepted types of actions; in a finite world, the index of the action."""

Vectors: TypeAlias = Sequence[Any] | np.ndarray | Tensor
"""Accepted types of task vectors: the last dimension is d."""


@runtime_checkable
class FiniteWorld(Protocol):
    """A world with tabular dynamics p(s'|s,a): at most K outcomes for each state and action."""

    @property
    def n_states(self) -> int:
        """S; states are 0 … S − 1."""

    @property
    def n_actions(self) -> int:
        """A; actions are 0 … A − 1."""

    @property
    def successors(self) -> Int[Tensor, "S A K"]:
        """The possible next states."""

    @property
    def probabilities(self) -> Float[Tensor, "S A K"]:
        """The probability of each successor."""

    def step(self, state: Obs, action: Action, rng: Rng | None = None) -> Int[Tensor, "*b"]:
        """S_{t+1} ~ p(·|S_t, A_t), batched over runs."""


@runtime_checkable
class PolicySet(Protocol):
    """A frozen policy π(a|s,z) and a set Z of valid z: enough for an agent with an atlas."""

    @property
    def dim(self) -> int:
        """d, the number of entries of z, and of features."""

    @property
    def observation_space(self) -> "gymnasium.Space[Any]":
        """The space of a single observation; further leading dimensions are *b."""

    @property
    def action_space(self) -> "gymnasium.Space[Any]":
        """The space of a single action."""

    def act(self, obs: Obs, z: Vectors, rng: Any = None) -> Action:
        """A ~ π(·|s,z), z [*b d]: a tensor if ``obs`` is a tensor, else numpy, as Gymnasium environments expect.

        ``rng`` is a torch.Generator; for models that declare ``DrawsForEachRun`` it may be ``randomness.Streams``.
        """

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """n draws from Z; accepts a CPU generator on any device."""

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """z mapped to Z; defined for z = 0 too."""


@runtime_checkable
class BehaviorModel(PolicySet, Protocol):
    """A frozen policy π(a|s,z) with features φ, successor features ψ and a set Z of valid z.

    ψ(s;z) = E Σ_{k≥0} γᵏ φ(S_{t+k+1}) from S_t = s under π(·|·,z): the current state does not count.
    """

    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s), the features of a state."""

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """ψ(s;z) of n candidates, z [*b n d], or z [n d] shared by all runs."""


@runtime_checkable
class Agent(Protocol):
    """An agent: chooses actions and learns."""

    def act(self, obs: Obs) -> Action:
        """A_t at S_t."""

    def tell(self, next_obs: Obs, reward: Any, done: Any = False) -> None:
        """S_{t+1}, R_{t+1}, and whether the episode ended."""


# Optional abilities of models. Check with isinstance(model, HasHorizons), not by the model's class.


@runtime_checkable
class HasDiscount(Protocol):
    """A model that gives the discount of its ψ."""

    gamma: float  # γ


@runtime_checkable
class HasExactPsi(Protocol):
    """A model that says whether its ψ is exact; then the maximum over many z is not biased by errors of ψ."""

    psi_is_exact: bool  # True for dynamic programming, False for a learned ψ


@runtime_checkable
class DrawsForEachRun(Protocol):
    """A model whose ``act`` also accepts ``randomness.Streams``: each run draws actions from its own seed."""

    draws_for_each_run: bool  # whether ``act`` accepts streams


@runtime_checkable
class SamplesForEachRun(Protocol):
    """A model that draws z for many runs in one call, one generator per run."""

    def sample_z_each(self, n: int, rngs: Sequence[Generator]) -> Float[Tensor, "runs n d"]:
        """``sample_z(n, rng)`` for each generator, stacked."""


@runtime_checkable
class HasStates(Protocol):
    """A model that lists all observations of a finite world, so that a search can tabulate ψ."""

    def states(self) -> Int[Tensor, " S"]:
        """All observations, in order."""


@runtime_checkable
class HasMoments(Protocol):
    """A model with mean and covariance of φ over its training observations, or a sample of them."""

    def feature_moments(self) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
        """φ̄ and Cov(φ)."""


@runtime_checkable
class HasGoalFeatures(Protocol):
    """A model that declares what tasks are made of."""

    def goal_features(self, obs: Float[Tensor, "*b o"]) -> Float[Tensor, "*b g"]:
        """The goal features of observations."""


@runtime_checkable
class HasPhiOfGoals(HasGoalFeatures, Protocol):
    """A model whose φ depends on the goal features only: who has these need not compute them again."""

    def phi_of_goals(self, goals: Float[Tensor, "n g"]) -> Float[Tensor, "n d"]:
        """φ of observations with these goal features."""


@runtime_checkable
class HasAtlas(Protocol):
    """A model with an atlas (``zscout.Atlas``) of its behaviours, or None."""

    atlas: Any


@runtime_checkable
class HasTaskPrior(Protocol):
    """A model with a prior over tasks."""

    def task_covariance(self) -> Float[Tensor, "d d"] | None:
        """Cov(z_r) over likely tasks, scaled so that φ·z_r has variance d over observations; None: no prior."""


@runtime_checkable
class HasHeads(Protocol):
    """A model with several estimates of ψ."""

    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """ψ of each of h heads."""


@runtime_checkable
class HasHorizons(Protocol):
    """A model with ψ of the same policies π(·|·,z) at other discounts γ."""

    def psi_at(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d"]:
        """ψ(s;z) at discount ``gamma``."""


@runtime_checkable
class HasSecondMoment(Protocol):
    """The paper's future certainty matrix, M(s;z) = E Σ_{k≥0} γᵏ φ(S_{t+k+1}) φ(S_{t+k+1})ᵀ."""

    def second_moment(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d d"]:
        """M(s;z) at discount ``gamma``."""


@runtime_checkable
class RewardModel(Protocol):
    """A success detector or another model of a reward: labels for ``OnlineTransfer.learn``."""

    def compute_reward(self, batch: Any) -> Any:
        """The rewards of a batch of observations."""


@runtime_checkable
class HasMomentDiscount(Protocol):
    """A model that learned M and ψ at a short horizon: they answer for one discount only."""

    moment_gamma: float  # that discount


@runtime_checkable
class HasPsiTable(Protocol):
    """A model of a finite world whose learned ψ is better if it is computed for all states at once."""

    def psi_table(self, z: Vectors) -> Float[Tensor, "S n d"]:
        """ψ(s;z) of every state s."""


@runtime_checkable
class HasTransitionFeatures(Protocol):
    """A model with features of a transition, e.g. for action costs, or φ = f(S_{t+1}) − f(S_t)."""

    def phi_of_transition(self, obs: Obs, action: Action | None, next_obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(S_t, A_t, S_{t+1}); the action is None if it was not chosen by ``agent.act``."""


@runtime_checkable
class FitsToSample(Protocol):
    """A model whose φ depends on a sample of observations, such as C⁻¹B with C = E BBᵀ."""

    def fitted(self, observations: Obs) -> "BehaviorModel":
        """The model with φ of these observations [m …]; itself if it has a sample."""
