"""What the benchmarks and tests compare with: the same answers by the plainest way there is."""

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import eigh
from scipy.sparse import csc_array
from torch import Generator, Tensor

from zscout.bfm.exact import ExactModel
from zscout.worlds import GridEnv, GridWorld


def value_iteration(model: ExactModel, z: Float[Tensor, "n d"], sweeps: int) -> Float[Tensor, "n S"]:
    """v ← max_a E[r(S') + γ v(S')], and again, in parts that stay in the cache."""
    next_state = model.world.successors[:, :, 0].T
    values = []
    for part in z.split(256):
        reward = model.features @ part.T
        v = torch.zeros_like(reward)
        for _ in range(sweeps):
            v = (reward + model.gamma * v)[next_state].amax(0)
        values.append(v.T)
    return torch.cat(values)


def linear_solve(model: ExactModel, policy: Tensor) -> Float[Tensor, "n S d"]:
    """ψ = (I − γP)⁻¹ P φ, one dense matrix a policy."""
    n_states = model.world.n_states
    states = torch.arange(n_states)
    solved = []
    for actions in policy:
        P = torch.zeros(n_states, n_states, dtype=torch.float64)
        successors = model.world.successors[states, actions]
        P.scatter_add_(1, successors, model.world.probabilities[states, actions])
        identity = torch.eye(n_states, dtype=torch.float64)
        solved.append(torch.linalg.solve(identity - model.gamma * P, P @ model.features))
    return torch.stack(solved)


def rollouts(
    world: GridWorld, model: ExactModel, z: Float[Tensor, "n d"], start: int, runs: int, rng: Generator
) -> Float[Tensor, "n runs d"]:
    """Σ_k γᵏ φ(S_{t+k+1}) of sampled trajectories, until γᵏ < 1e-9."""
    policy = model.policy(z)
    state = torch.full((len(z), runs), start)
    total = torch.zeros(len(z), runs, model.dim, dtype=torch.float64)
    for k in range(int(np.ceil(np.log(1e-9) / np.log(model.gamma)))):
        state = world.step(state, policy.gather(1, state), rng)
        total += model.gamma**k * model.features[state]
    return total


def dense_eigenfunctions(L: csc_array) -> tuple[np.ndarray, np.ndarray]:
    """The nine lowest eigenpairs by the dense solver."""
    values, functions = eigh(L.toarray(), subset_by_index=(0, 8))
    return values, functions


def walk(world: GridWorld, state: Tensor, actions: Tensor, rng: Generator) -> Tensor:
    """All runs, one step at a time."""
    for action in actions:
        state = world.step(state, action, rng)
    return state


def walk_alone(world: GridWorld, actions: Tensor, seed: int) -> int:
    """One run through the Gymnasium environment."""
    env = GridEnv(world)
    state, _ = env.reset(seed=seed)
    for action in actions.tolist():
        state, *_ = env.step(action)
    return int(state)
