"""ψ*, v* and π* by dynamic programming: ground truth and oracle."""

import numpy as np
import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.base.edge import all_finite, as_discount, as_finite, as_given, as_index, as_table, common_shape
from zscout.base.types import Action, FiniteWorld, Obs, Vectors
from zscout.models.exact.planning import Dynamics, Policies, discounted_visits
from zscout.models.exact.solving import Solver, chunks
from zscout.models.sphere import SphereModel


class ExactModel(SphereModel):
    """An exact BehaviorModel: π(·|s,z) is optimal for φ·z at discount γ, ψ is its true ψ, in float64.

    Whole tables for z [*n d]: ``policy`` [*n S], ``value`` [*n S], ``successor_features`` [*n S d].
    Ties between actions go to the first, so z = 0 always goes up.

        model = ExactModel(open_grid(), laplacian(open_grid()))
        model.value(model.sample_z(3, rng=0))
    """

    psi_is_exact = True

    def __init__(self, world: FiniteWorld, features: Vectors, gamma: float = 0.99) -> None:
        self.gamma = as_discount(gamma)
        self.features: Float[Tensor, "S d"] = as_table(features, world.n_states, "features")
        self.world, self.dim = world, self.features.shape[1]
        self.observation_space, self.action_space = Discrete(world.n_states), Discrete(world.n_actions)
        self._dynamics = Dynamics.of(world, self.device)
        self._solver = Solver(self._dynamics, self.features, self.gamma)

    # The BehaviorModel

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """ψ(s;z) = E Σ_{k≥0} γᵏ φ(S_{t+k+1})."""
        return self._sums_at(obs, z, self.features, self.gamma)

    def act(self, obs: Obs, z: Vectors, rng: Generator | None = None) -> Action:
        """π(s,z), deterministic."""
        state, policy = self._states(obs), self._policy(self._z(z)).long()
        runs = common_shape(state.shape, policy.shape[:-1], "observations and z")
        chosen = policy.expand(*runs, -1).gather(-1, state.expand(runs)[..., None])[..., 0]
        return as_given(chosen, obs)

    # Optional abilities of models

    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """ψ as one head."""
        return self.psi(obs, z).unsqueeze(-3)

    def psi_at(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d"]:
        """ψ of the same policies at another discount."""
        return self._sums_at(obs, z, self.features, as_discount(gamma))

    def second_moment(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d d"]:
        """M(s;z) = E Σ_{k≥0} γᵏ φ(S_{t+k+1}) φ(S_{t+k+1})ᵀ."""
        outer = self.features[:, :, None] * self.features[:, None, :]
        moments = self._sums_at(obs, z, outer.flatten(1), as_discount(gamma))
        return moments.reshape(*moments.shape[:-1], self.dim, self.dim)

    # Whole tables, for z [*n d]

    def policy(self, z: Vectors) -> Int[Tensor, "*n S"]:
        """π*(s) for each z."""
        return self._policy(self._z(z)).long()

    def value(self, z: Vectors) -> Float[Tensor, "*n S"]:
        """v*(s) for each z."""
        tasks = self._z(z)
        return self.worth(self._policy(tasks), tasks)

    def worth(self, policy: Obs, task: Vectors) -> Float[Tensor, "*n S"]:
        """v_π(s) of policies [*n S], each for the reward φ·task of its task [*n d]."""
        table, tasks = self._policy_table(policy), self._z(task)
        if table.is_floating_point() or table.shape[:-1] != tasks.shape[:-1]:
            raise ValueError(
                f"worth expects actions [*n {self.world.n_states}] and tasks [*n {self.dim}] of the same *n, "
                f"got {tuple(table.shape)} and {tuple(tasks.shape)}"
            )
        value = self._solver.worth(table.reshape(-1, self.world.n_states), tasks.reshape(-1, self.dim))
        if not all_finite(value):
            raise ValueError("values overflow: scale z down")
        return value.reshape(table.shape)

    def successor_features(self, z: Vectors) -> Float[Tensor, "*n S d"]:
        """ψ*(s;z) for each z."""
        policy = self._policy(self._z(z))
        tables = self._sums(policy.reshape(-1, self.world.n_states), self.features, self.gamma)
        return tables.reshape(*policy.shape, self.dim)

    def evaluate(self, policy: Obs | Vectors, gamma: float | None = None) -> Float[Tensor, "*n S d"]:
        """ψ of any policy table: actions [*n S], or probabilities [*n S A]."""
        gamma = self.gamma if gamma is None else as_discount(gamma)
        table = self._policy_table(policy)
        leading = table.shape[: -2 if table.is_floating_point() else -1]
        rows = table.reshape(-1, *table.shape[len(leading) :])
        return self._sums(rows, self.features, gamma).reshape(*leading, *self.features.shape)

    def psi_of(self, policy: Obs | Vectors, whose: Obs, state: Obs) -> Float[Tensor, "n d"]:
        """ψ_π(s) at n states, each under one of m policies, ``policy[whose]``."""
        table, where = self._policy_table(policy), self._states(state)
        owner = as_index(whose, len(table), "whose", self.device)
        if table.ndim != (3 if table.is_floating_point() else 2) or owner.ndim != 1 or owner.shape != where.shape:
            raise ValueError(
                "psi_of expects a table of policies [m S] or [m S A], and whose and state of the same length, "
                f"got {tuple(table.shape)}, {tuple(owner.shape)} and {tuple(where.shape)}"
            )
        many = len(where) > len(table) * self.dim  # whole tables cost no more
        if many or table.is_floating_point() or not self._dynamics.certain:
            return self.evaluate(table)[owner, where]
        pairs = zip(chunks(owner, self.world.n_states), chunks(where, self.world.n_states), strict=True)
        return torch.cat([self._sums_from_chunk(table[o], s, self.features, self.gamma) for o, s in pairs])

    def forget(self) -> None:
        """Clear the cache of solved policies."""
        self._solver.solved.forget()

    @property
    def random_policy(self) -> Float[Tensor, "S A"]:
        """The uniform policy, a table for ``evaluate``."""
        n_actions = self.world.n_actions
        return self.features.new_full((self.world.n_states, n_actions), 1 / n_actions)

    # How

    def _z(self, z: Vectors, candidates: bool = False) -> Float[Tensor, "*b d"]:
        return super()._z(z, candidates).detach()

    def _policy(self, z: Float[Tensor, "*n d"]) -> Int[Tensor, "*n S"]:
        """π* in a small dtype, cached: an agent needs ψ, M and an action of the same z."""
        return self._solver.policy(z.reshape(-1, self.dim)).reshape(*z.shape[:-1], self.world.n_states)

    def _sums(self, policy: Policies, table: Float[Tensor, "S k"], gamma: float) -> Float[Tensor, "m S k"]:
        """E Σ_{k≥0} γᵏ table(S_{t+k+1}) from every state, for each policy."""
        return torch.cat([self._sums_of_chunk(part, table, gamma) for part in chunks(policy, table.numel())])

    def _sums_of_chunk(self, policy: Policies, table: Float[Tensor, "S k"], gamma: float) -> Float[Tensor, "m S k"]:
        return self._dynamics.sums(policy, table, gamma).reshape(len(policy), *table.shape)

    def _sums_at(self, obs: Obs, z: Vectors, table: Float[Tensor, "S k"], gamma: float) -> Float[Tensor, "*b n k"]:
        """The sums from the observed states only, for the policies of candidates z [*b n d] or [n d]."""
        state, z = self._states(obs), self._z(z, candidates=True)
        policy = self._policy(z)
        if z.ndim == 2 and self._dynamics.certain and state.numel() <= table.shape[1]:
            few = [self._sums_from(policy, one.expand(len(policy)), table, gamma) for one in state.flatten()]
            shape = (*state.shape, len(policy), table.shape[1])
            return torch.stack(few).reshape(shape) if few else table.new_empty(shape)
        if z.ndim == 2:  # for many states a whole table costs no more
            tables = (self._sums_of_chunk(part, table, gamma)[:, state] for part in chunks(policy, table.numel()))
            return torch.cat(list(tables)).movedim(0, -2)
        runs, n = common_shape(state.shape, z.shape[:-2], "observations and z"), z.shape[-2]
        start = state.expand(runs)[..., None].expand(*runs, n).flatten()
        every = policy.expand(*runs, n, -1).reshape(-1, self.world.n_states)
        return self._sums_from(every, start, table, gamma).reshape(*runs, n, table.shape[1])

    def _sums_from(
        self, policy: Int[Tensor, "m S"], start: Int[Tensor, " m"], table: Float[Tensor, "S k"], gamma: float
    ) -> Float[Tensor, "m k"]:
        """The sums from one start state for each policy."""
        pairs = zip(chunks(policy, policy.shape[1]), chunks(start, policy.shape[1]), strict=True)
        return torch.cat([self._sums_from_chunk(*pair, table, gamma) for pair in pairs])

    def _sums_from_chunk(
        self, policy: Int[Tensor, "m S"], start: Int[Tensor, " m"], table: Float[Tensor, "S k"], gamma: float
    ) -> Float[Tensor, "m k"]:
        """The sums along each path, if the dynamics are deterministic."""
        if self._dynamics.certain:
            visits = discounted_visits(self._dynamics.pointers(policy), start, policy.shape[1], gamma)
            if visits is not None:
                return visits @ table
        return self._sums_of_chunk(policy, table, gamma)[torch.arange(len(policy), device=self.device), start]

    def _policy_table(self, policy: Obs | Vectors) -> Int[Tensor, "*n S"] | Float[Tensor, "*n S A"]:
        n_states, n_actions = self.world.n_states, self.world.n_actions
        given = policy if isinstance(policy, Tensor) else np.array(policy)
        whole = not given.is_floating_point() if isinstance(given, Tensor) else given.dtype.kind in "biu"
        if whole:
            if given.ndim == 0 or given.shape[-1] != n_states:
                raise ValueError(f"expected a policy of actions [*n {n_states}], got {tuple(given.shape)}")
            return as_index(given, n_actions, "action", self.device)
        table = as_finite(given, "policy", self.device).detach()
        if table.shape[-2:] != (n_states, n_actions):
            raise ValueError(
                f"expected a policy of probabilities [*n {n_states} {n_actions}], got {tuple(table.shape)}"
            )
        if (table < 0).any() or not torch.allclose(table.sum(-1), table.new_ones(()), atol=1e-6):
            raise ValueError("a policy's probabilities must be ≥ 0 and sum to 1 in every state")
        return table
