"""ψ*, v* and π* by dynamic programming: ground truth, oracle, and the fastest BFM there is."""

from collections.abc import Iterator

import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.bfm.planning import Dynamics, discounted_sums, greedy_policy, optimal_values
from zscout.bfm.sphere import project_sphere, sample_sphere
from zscout.edge import as_finite, as_generator, as_index, as_vectors, in_range
from zscout.types import Action, FiniteWorld, Obs, Vectors

CHUNK = 2**17  # numbers that one step of a computation touches: what stays in a core's cache


class ExactModel:
    """A BehaviorModel without error: π(·|s,z) is optimal for φ·z at discount γ, ψ is its true ψ, in float64.

    Whole tables come for z [*n d]: ``policy`` [*n S], ``value`` [*n S], ``successor_features`` [*n S d].
    Where several actions are best the first is taken, so z = 0 always goes up.

        model = ExactModel(open_grid(), laplacian(open_grid()))
        model.value(model.sample_z(3, rng=0))
    """

    def __init__(self, world: FiniteWorld, features: Vectors, gamma: float = 0.99) -> None:
        self.gamma = in_range(gamma, "gamma", 0.0, 1.0, open_end=True)
        self.features: Float[Tensor, "S d"] = as_finite(features, "features")
        if self.features.ndim != 2 or len(self.features) != world.n_states or not self.features.shape[1]:
            raise ValueError(f"features have shape {tuple(self.features.shape)}, this world wants [{world.n_states} d]")
        self.world = world
        self.device = self.features.device
        self.observation_space = Discrete(world.n_states)
        self.action_space = Discrete(world.n_actions)
        self._dynamics = Dynamics.of(world, self.device)

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
        policy = self.policy(z)
        state, _ = torch.broadcast_tensors(self._states(obs), policy[..., 0])
        chosen = policy.expand(*state.shape, -1).gather(-1, state[..., None])[..., 0]
        return chosen if isinstance(obs, Tensor) else chosen.cpu().numpy()[()]

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """N draws, uniform on the sphere of radius √d."""
        return sample_sphere(n, self.dim, as_generator(rng, self.device)).to(self.device)

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """Onto the sphere of radius √d; 0 goes to (1, …, 1)."""
        return project_sphere(as_vectors(z, self.dim, device=self.device))

    # What only some models offer

    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """One head: the truth does not disagree with itself."""
        return self.psi(obs, z).unsqueeze(-3)

    def psi_at(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d"]:
        """ψ of the same policies at another discount."""
        return self._sums_at(obs, z, self.features, in_range(gamma, "gamma", 0.0, 1.0, open_end=True))

    def second_moment(self, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n d d"]:
        """M(s;z) = E Σ_{k≥0} γᵏ φ(S_{t+k+1}) φ(S_{t+k+1})ᵀ."""
        gamma = in_range(gamma, "gamma", 0.0, 1.0, open_end=True)
        outer = self.features[:, :, None] * self.features[:, None, :]
        moments = self._sums_at(obs, z, outer.flatten(1), gamma)
        return moments.reshape(*moments.shape[:-1], self.dim, self.dim)

    def states(self) -> Int[Tensor, " S"]:
        """All observations."""
        return torch.arange(self.world.n_states, device=self.device)

    # Whole tables, for z [*n d]

    def policy(self, z: Vectors) -> Int[Tensor, "*n S"]:
        """π*(s) for each z."""
        return self._solve(z)[0]

    def value(self, z: Vectors) -> Float[Tensor, "*n S"]:
        """v*(s) for each z."""
        return self._solve(z)[1]

    def successor_features(self, z: Vectors) -> Float[Tensor, "*n S d"]:
        """ψ*(s;z) for each z."""
        return self.evaluate(self.policy(z))

    def evaluate(self, policy: Obs | Vectors, gamma: float | None = None) -> Float[Tensor, "*n S d"]:
        """ψ of any policy table: actions [*n S], or their probabilities [*n S A]."""
        gamma = self.gamma if gamma is None else in_range(gamma, "gamma", 0.0, 1.0, open_end=True)
        table = self._policy_table(policy)
        leading = table.shape[: -2 if table.is_floating_point() else -1]
        rows = table.reshape(-1, *table.shape[len(leading) :])
        psi = [self._sums(part, self.features, gamma) for part in _chunks(rows, self.features.numel())]
        return torch.cat(psi).reshape(*leading, *self.features.shape)

    @property
    def random_policy(self) -> Float[Tensor, "S A"]:
        """Every action equally likely, a table for ``evaluate``."""
        shape = (self.world.n_states, self.world.n_actions)
        return torch.full(shape, 1 / self.world.n_actions, dtype=torch.float64, device=self.device)

    # How

    def _states(self, obs: Obs) -> Int[Tensor, "*b"]:
        return as_index(obs, self.world.n_states, "observation", self.device)

    def _solve(self, z: Vectors) -> tuple[Int[Tensor, "*n S"], Float[Tensor, "*n S"]]:
        """π* and v*."""
        z = as_vectors(z, self.dim, device=self.device)
        rows = z.reshape(-1, self.dim)
        parts = [self._solve_chunk(part) for part in _chunks(rows, self.world.n_states)]
        policy, value = (torch.cat(tables) for tables in zip(*parts, strict=True))
        shape = (*z.shape[:-1], self.world.n_states)
        return policy.reshape(shape), value.reshape(shape)

    def _solve_chunk(self, z: Float[Tensor, "m d"]) -> tuple[Int[Tensor, "m S"], Float[Tensor, "m S"]]:
        reward = self.features @ z.T
        # Neither an offset nor a factor changes what is optimal: take both out, so that one tolerance fits all.
        low, high = torch.aminmax(reward, dim=0)
        centre, half = (low + high) / 2, (high - low) / 2
        flat = half <= 1e-12 * centre.abs()  # only rounding tells the states apart
        shape = torch.where(flat, 0, (reward - centre) / torch.where(flat, 1, half))
        v = optimal_values(self._dynamics, shape, self.gamma)
        policy = greedy_policy(self._dynamics, shape, v, self.gamma)
        return policy.T, (v * torch.where(flat, 0, half) + centre / (1 - self.gamma)).T

    def _sums(
        self, policy: Int[Tensor, "m S"] | Float[Tensor, "m S A"], table: Float[Tensor, "S k"], gamma: float
    ) -> Float[Tensor, "m S k"]:
        """E Σ_{k≥0} γᵏ table(S_{t+k+1}) from every state."""
        mixed = policy.is_floating_point()
        chain = self._dynamics.mixed_chain(policy) if mixed else self._dynamics.chain(policy)
        successors, probabilities = chain
        entered = table[successors % self.world.n_states]  # [m·S K k]
        first = entered[:, 0] if entered.shape[1] == 1 else (probabilities[..., None] * entered).sum(1)
        return discounted_sums(first, successors, probabilities, gamma).reshape(len(policy), *table.shape)

    def _sums_at(self, obs: Obs, z: Vectors, table: Float[Tensor, "S k"], gamma: float) -> Float[Tensor, "*b n k"]:
        """The same from the states observed, for the policies of the candidates z [*b n d] or [n d]."""
        state, z = self._states(obs), as_vectors(z, self.dim, device=self.device, candidates=True)
        if z.ndim == 2:  # candidates shared by all runs are solved once
            parts = [self._sums(self.policy(part), table, gamma)[:, state] for part in _chunks(z, table.numel())]
            return torch.cat(parts).movedim(0, -2)
        runs = torch.broadcast_shapes(state.shape, z.shape[:-2])
        n = z.shape[-2]
        rows = z.expand(*runs, n, -1).reshape(-1, self.dim)
        start = state[..., None].expand(*runs, n).flatten()
        parts = []
        for part, here in zip(_chunks(rows, table.numel()), _chunks(start, table.numel()), strict=True):
            sums = self._sums(self.policy(part), table, gamma)
            parts.append(sums[torch.arange(len(part), device=self.device), here])
        return torch.cat(parts).reshape(*runs, n, table.shape[1])

    def _policy_table(self, policy: Obs | Vectors) -> Int[Tensor, "*n S"] | Float[Tensor, "*n S A"]:
        table = torch.as_tensor(policy, device=self.device)
        n_states, n_actions = self.world.n_states, self.world.n_actions
        if not table.is_floating_point():
            if table.ndim == 0 or table.shape[-1] != n_states:
                raise ValueError(f"a policy of actions is [*n {n_states}], came as {tuple(table.shape)}")
            return as_index(table, n_actions, "action")
        if table.shape[-2:] != (n_states, n_actions):
            raise ValueError(f"a policy of probabilities is [*n {n_states} {n_actions}], came as {tuple(table.shape)}")
        table = as_finite(table, "policy")
        if (table < 0).any() or not torch.allclose(table.sum(-1), table.new_ones(()), atol=1e-6):
            raise ValueError("a policy's probabilities must be at least 0 and sum to 1 in every state")
        return table


def _chunks(rows: Tensor, numbers_a_row: int) -> Iterator[Tensor]:
    """Parts small enough for the cache; one, even when there is nothing, so that shapes survive."""
    return iter(rows.split(max(1, CHUNK // numbers_a_row))) if len(rows) else iter([rows])
