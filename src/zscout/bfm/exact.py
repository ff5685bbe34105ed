"""ψ*, v* and π* by dynamic programming: ground truth, oracle, and the fastest BFM there is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.bfm.planning import (
    EPS,
    Dynamics,
    discounted_visits,
    optimal_policies,
    sums_along_pointers,
    sums_by_elimination,
    values_of,
)
from zscout.bfm.sphere import project_sphere, sample_sphere, sample_sphere_each
from zscout.edge import (
    all_finite,
    as_discount,
    as_finite,
    as_generator,
    as_given,
    as_index,
    as_table,
    as_vectors,
    common_shape,
)
from zscout.types import Action, FiniteWorld, Obs, Vectors

REMEMBERED = 2**23  # bytes of policies of z solved lately
MANY = 8  # one state in so many is worth a table of all
LEAST = 16  # z that are solved together, however large the world: sweeps copy rows of them
CHUNK = 2**16  # numbers that one step of a computation touches: what stays in a core's cache


class ExactModel:
    """A BehaviorModel without error: π(·|s,z) is optimal for φ·z at discount γ, ψ is its true ψ, in float64.

    Whole tables come for z [*n d]: ``policy`` [*n S], ``value`` [*n S], ``successor_features`` [*n S d].
    Where several actions are best the first is taken, so z = 0 always goes up.

        model = ExactModel(open_grid(), laplacian(open_grid()))
        model.value(model.sample_z(3, rng=0))
    """

    def __init__(self, world: FiniteWorld, features: Vectors, gamma: float = 0.99) -> None:
        self.gamma = as_discount(gamma)
        self.features: Float[Tensor, "S d"] = as_table(features, world.n_states, "features")
        self.world = world
        self.device = self.features.device
        self.observation_space = Discrete(world.n_states)
        self.action_space = Discrete(world.n_actions)
        self._dynamics = Dynamics.of(world, self.device)
        self._solved = Solved(world.n_states, self._dynamics.small, self.device)

    # The BehaviorModel

    @property
    def dim(self) -> int:
        """d."""
        return self.features.shape[1]

    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s)."""
        return self.features[self._states(obs)]

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """ψ(s;z) = E Σ_{k≥0} γᵏ φ(S_{t+k+1})."""
        return self._sums_at(obs, z, self.features, self.gamma)

    def act(self, obs: Obs, z: Vectors, rng: Generator | None = None) -> Action:
        """π(s,z); nothing is drawn."""
        state, policy = self._states(obs), self._policy(self._z(z)).long()
        runs = common_shape(state.shape, policy.shape[:-1], "observations and z")
        chosen = policy.expand(*runs, -1).gather(-1, state.expand(runs)[..., None])[..., 0]
        return as_given(chosen, obs)

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """N draws, uniform on the sphere of radius √d."""
        return sample_sphere(n, self.dim, as_generator(rng, self.device)).to(self.device)

    def sample_z_each(self, n: int, rngs: Sequence[Generator]) -> Float[Tensor, "runs n d"]:
        """The same for many runs in one go."""
        return sample_sphere_each(n, self.dim, rngs).to(self.device)

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """Onto the sphere of radius √d; 0 goes to (1, …, 1)."""
        return project_sphere(self._z(z))

    # What only some models offer

    @property
    def psi_is_exact(self) -> bool:
        """It is."""
        return True

    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """One head: the truth does not disagree with itself."""
        return self.psi(obs, z).unsqueeze(-3)

    def psi_at(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d"]:
        """ψ of the same policies at another discount."""
        return self._sums_at(obs, z, self.features, as_discount(gamma))

    def second_moment(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d d"]:
        """M(s;z) = E Σ_{k≥0} γᵏ φ(S_{t+k+1}) φ(S_{t+k+1})ᵀ."""
        gamma = as_discount(gamma)
        outer = self.features[:, :, None] * self.features[:, None, :]
        moments = self._sums_at(obs, z, outer.flatten(1), gamma)
        return moments.reshape(*moments.shape[:-1], self.dim, self.dim)

    def states(self) -> Int[Tensor, " S"]:
        """All observations."""
        return torch.arange(self.world.n_states, device=self.device)

    # Whole tables, for z [*n d]

    def policy(self, z: Vectors) -> Int[Tensor, "*n S"]:
        """π*(s) for each z."""
        return self._policy(self._z(z)).long()

    def value(self, z: Vectors) -> Float[Tensor, "*n S"]:
        """v*(s) for each z."""
        tasks = self._z(z)
        return self.worth(self._policy(tasks), tasks)

    def worth(self, policy: Obs, task: Vectors) -> Float[Tensor, "*n S"]:
        """v_π(s) of policies [*n S], each for the reward φ·task of its own task [*n d]."""
        table, tasks = self._policy_table(policy), self._z(task)
        if table.is_floating_point() or table.shape[:-1] != tasks.shape[:-1]:
            raise ValueError(
                f"worth wants actions [*n {self.world.n_states}] and tasks [*n {self.dim}] of the same *n, "
                f"came as {tuple(table.shape)} and {tuple(tasks.shape)}"
            )
        rows = zip(*(_chunks(x.reshape(-1, x.shape[-1]), self.world.n_states) for x in (table, tasks)), strict=True)
        value = torch.cat([self._worth_of_chunk(*pair) for pair in rows]).reshape(table.shape)
        if not all_finite(value):
            raise ValueError("z is so large that its values overflow")
        return value

    def successor_features(self, z: Vectors) -> Float[Tensor, "*n S d"]:
        """ψ*(s;z) for each z."""
        policy = self._policy(self._z(z))
        tables = self._sums(policy.reshape(-1, self.world.n_states), self.features, self.gamma)
        return tables.reshape(*policy.shape, self.dim)

    def evaluate(self, policy: Obs | Vectors, gamma: float | None = None) -> Float[Tensor, "*n S d"]:
        """ψ of any policy table: actions [*n S], or their probabilities [*n S A]."""
        gamma = self.gamma if gamma is None else as_discount(gamma)
        table = self._policy_table(policy)
        leading = table.shape[: -2 if table.is_floating_point() else -1]
        rows = table.reshape(-1, *table.shape[len(leading) :])
        return self._sums(rows, self.features, gamma).reshape(*leading, *self.features.shape)

    def psi_of(self, policy: Obs | Vectors, whose: Obs, state: Obs) -> Float[Tensor, "n d"]:
        """ψ_π(s) at n states only, each under one of the m policies of a table, ``policy[whose]``."""
        table, where = self._policy_table(policy), self._states(state)
        owner = as_index(whose, len(table), "whose", self.device)
        if table.is_floating_point() or not self._dynamics.certain:
            return self.evaluate(table)[owner, where]
        return self._sums_from(table[owner], where, self.features, self.gamma)

    @property
    def random_policy(self) -> Float[Tensor, "S A"]:
        """Every action equally likely, a table for ``evaluate``."""
        shape = (self.world.n_states, self.world.n_actions)
        return torch.full(shape, 1 / self.world.n_actions, dtype=torch.float64, device=self.device)

    # How

    def _states(self, obs: Obs) -> Int[Tensor, "*b"]:
        return as_index(obs, self.world.n_states, "observation", self.device)

    def _z(self, z: Vectors, candidates: bool = False) -> Float[Tensor, "*b d"]:
        return as_vectors(z, self.dim, device=self.device, candidates=candidates).detach()

    def _policy(self, z: Float[Tensor, "*n d"]) -> Int[Tensor, "*n S"]:
        """π*, in few bits; z solved lately is known: an agent asks for ψ, M and an action of one z."""
        rows = z.reshape(-1, self.dim)
        policy = self._solved.recall(rows, self._solve)
        return policy.reshape(*z.shape[:-1], self.world.n_states)

    def _solve(self, rows: Float[Tensor, "m d"]) -> Int[Tensor, "m S"]:
        parts = []
        for part in _chunks(rows, self.world.n_states, LEAST):
            reward = self._rewards(part)
            parts.append(optimal_policies(self._dynamics, reward.shape, self.gamma, reward.error).T)
        return torch.cat(parts)

    def _worth_of_chunk(self, policy: Int[Tensor, "m S"], z: Float[Tensor, "m d"]) -> Float[Tensor, "m S"]:
        reward = self._rewards(z)
        v = values_of(self._dynamics, policy, reward.shape.T, self.gamma)
        return (v * reward.span[:, None] + (reward.low / (1 - self.gamma))[:, None]) * reward.size[:, None]

    def _rewards(self, z: Float[Tensor, "m d"]) -> "_Rewards":
        size = z.abs().amax(1).clamp(min=1e-300)
        reward = self.features @ (z.T / size)
        low, high = torch.aminmax(reward, dim=0)
        error = 8 * EPS * (self.features.abs() @ (z.T / size).abs()).amax(0)  # of the products φ·z
        flat = high - low <= error  # only rounding tells the states apart
        span = torch.where(flat, 1, high - low)
        return _Rewards(torch.where(flat, 0, (reward - low) / span), error / span, span, low, size)

    def _sums(
        self, policy: Int[Tensor, "m S"] | Float[Tensor, "m S A"], table: Float[Tensor, "S k"], gamma: float
    ) -> Float[Tensor, "m S k"]:
        """E Σ_{k≥0} γᵏ table(S_{t+k+1}) from every state, for each policy."""
        return torch.cat([self._sums_of_chunk(part, table, gamma) for part in _chunks(policy, table.numel())])

    def _sums_of_chunk(
        self, policy: Int[Tensor, "m S"] | Float[Tensor, "m S A"], table: Float[Tensor, "S k"], gamma: float
    ) -> Float[Tensor, "m S k"]:
        dynamics, n_states = self._dynamics, self.world.n_states
        if dynamics.certain and not policy.is_floating_point():
            pointer = dynamics.pointers(policy)
            entered = table.index_select(0, pointer % n_states)
            return sums_along_pointers(entered, pointer, gamma).reshape(len(policy), *table.shape)
        mixed = policy.is_floating_point()
        successors, probabilities = dynamics.mixed_chain(policy) if mixed else dynamics.chain(policy)
        first = (probabilities[..., None] * table[successors % n_states]).sum(1)
        return sums_by_elimination(first, successors, probabilities, gamma).reshape(len(policy), *table.shape)

    def _sums_at(self, obs: Obs, z: Vectors, table: Float[Tensor, "S k"], gamma: float) -> Float[Tensor, "*b n k"]:
        """The same from the states observed, for the policies of the candidates z [*b n d] or [n d]."""
        state, z = self._states(obs), self._z(z, candidates=True)
        policy = self._policy(z)
        if z.ndim == 2 and MANY * state.numel() > self.world.n_states:  # all states cost as much as these
            tables = (self._sums_of_chunk(part, table, gamma)[:, state] for part in _chunks(policy, table.numel()))
            return torch.cat(list(tables)).movedim(0, -2)
        runs = tuple(state.shape) if z.ndim == 2 else common_shape(state.shape, z.shape[:-2], "observations and z")
        n, n_states = policy.shape[-2:]
        start = state.expand(runs)[..., None].expand(*runs, n).flatten()
        sums = self._sums_from(policy.expand(*runs, n, n_states).reshape(-1, n_states), start, table, gamma)
        return sums.reshape(*runs, n, table.shape[1])

    def _sums_from(
        self, policy: Int[Tensor, "m S"], start: Int[Tensor, " m"], table: Float[Tensor, "S k"], gamma: float
    ) -> Float[Tensor, "m k"]:
        """The same from one start for each policy."""
        pairs = zip(_chunks(policy, policy.shape[1]), _chunks(start, policy.shape[1]), strict=True)
        return torch.cat([self._sums_from_chunk(*pair, table, gamma) for pair in pairs])

    def _sums_from_chunk(
        self, policy: Int[Tensor, "m S"], start: Int[Tensor, " m"], table: Float[Tensor, "S k"], gamma: float
    ) -> Float[Tensor, "m k"]:
        """Along its path alone where nothing is drawn."""
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
                raise ValueError(f"a policy of actions is [*n {n_states}], came as {tuple(given.shape)}")
            return as_index(given, n_actions, "action", self.device)
        table = as_finite(given, "policy", self.device).detach()
        if table.shape[-2:] != (n_states, n_actions):
            raise ValueError(f"a policy of probabilities is [*n {n_states} {n_actions}], came as {tuple(table.shape)}")
        if (table < 0).any() or not torch.allclose(table.sum(-1), table.new_ones(()), atol=1e-6):
            raise ValueError("a policy's probabilities must be at least 0 and sum to 1 in every state")
        return table


@dataclass(frozen=True, eq=False)
class _Rewards:
    """φ·z of m tasks as low + span·shape, times size: neither an offset nor a factor changes what is optimal."""

    shape: Float[Tensor, "S m"]  # from 0 to 1
    error: Float[Tensor, " m"]  # of the shape, by rounding
    span: Float[Tensor, " m"]
    low: Float[Tensor, " m"]
    size: Float[Tensor, " m"]


class Solved:
    """Policies of z solved lately, by the bits of z; when they are too many all are forgotten."""

    def __init__(self, n_states: int, dtype: torch.dtype, device: torch.device) -> None:
        self._policies = torch.empty(max(1, REMEMBERED // n_states), n_states, dtype=dtype, device=device)
        self._place: dict[bytes, int] = {}

    def recall(
        self, rows: Float[Tensor, "m d"], solve: Callable[[Float[Tensor, "m d"]], Int[Tensor, "m S"]]
    ) -> Int[Tensor, "m S"]:
        """Of each row its policy; those not known are solved together."""
        if len(rows) > len(self._policies):
            return solve(rows)
        keys = [row.tobytes() for row in rows.cpu().numpy()]
        if len(keys) + len(self._place) > len(self._policies):
            self._place = {}
        new = {key: i for i, key in enumerate(keys) if key not in self._place}
        if new:
            first = len(self._place)
            self._policies[first : first + len(new)] = solve(rows[list(new.values())])
            self._place |= {key: first + i for i, key in enumerate(new)}
        places = torch.tensor([self._place[key] for key in keys], dtype=torch.long, device=self._policies.device)
        return self._policies[places]


def _chunks(rows: Tensor, numbers_a_row: int, least: int = 1) -> Iterator[Tensor]:
    """Parts small enough for the cache; one, even when there is nothing, so that shapes survive."""
    return iter(rows.split(max(least, CHUNK // numbers_a_row))) if len(rows) else iter([rows])
