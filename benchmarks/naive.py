"""Plain references for benchmarks and tests: short, without tables or caches, one run and one step at a time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import eigh
from scipy.sparse import csc_array
from torch import Generator, Tensor

from zscout.base.types import BehaviorModel, HasHeads, Obs
from zscout.lab.arenas.ground import Ground
from zscout.models.exact.model import ExactModel
from zscout.worlds import GridEnv, GridWorld

CANDIDATES, ELLIPSOID = 10_000, 128  # candidates of the paper and of OpTI


@dataclass(frozen=True, eq=False)
class Situation:
    """One run before a recommendation: its state, V, b and √β_t."""

    model: BehaviorModel
    obs: Obs
    V: Float[Tensor, "d d"]
    b: Float[Tensor, " d"]
    radius: float


def recommend(now: Situation, rng: Generator, n: int = CANDIDATES) -> Float[Tensor, " d"]:
    """The best by eq. 5 of n fresh z, with a forward pass for each and V inverted from scratch."""
    z = now.model.sample_z(n, rng)
    return z[objective(now, now.model.psi(now.obs, z)).argmax()].double()


def objective(now: Situation, psi: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """ψ·ẑ + √β_t‖ψ‖_{V⁻¹}  (eq. 5)."""
    inverse: Tensor = torch.linalg.inv(now.V)
    z_hat, psi = inverse @ now.b, psi.double()
    return psi @ z_hat + now.radius * ((psi @ inverse) * psi).sum(-1).sqrt()


def recommend_opti(now: Situation, rng: Generator, n: int = ELLIPSOID) -> Float[Tensor, " d"]:
    """The best of n points drawn uniformly from the ellipsoid of twice the radius around ẑ, not projected."""
    inverse = torch.linalg.inv(now.V)
    ball = torch.randn(n, len(now.b), generator=rng, dtype=torch.float64).to(now.b.device)
    ball = ball / ball.norm(dim=-1, keepdim=True)
    ball = ball * torch.rand(n, 1, generator=rng, dtype=torch.float64).to(now.b.device) ** (1 / len(now.b))
    z: Tensor = inverse @ now.b + 2 * now.radius * ball @ torch.linalg.cholesky(inverse).T
    return z[opti_objective(now, z).argmax()]


def opti_objective(now: Situation, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Eq. 5 by the most pessimistic of the model's heads."""
    model = now.model
    heads = model.psi_heads(now.obs, z) if isinstance(model, HasHeads) else model.psi(now.obs, z)[None]
    return torch.stack([objective(now, psi) for psi in heads]).amin(0)


Sums = tuple[Float[Tensor, "d d"], Float[Tensor, " d"], Float[Tensor, " d"]]


def learn(V: Tensor, b: Tensor, phi: Tensor, reward: float) -> Sums:
    """V, b and ẑ after one more reward, with V inverted from scratch."""
    V, b = V + torch.outer(phi, phi), b + phi * reward
    return V, b, torch.linalg.inv(V) @ b


def in_a_row(V: Tensor, b: Tensor, phi: Float[Tensor, "m d"], reward: Float[Tensor, " m"]) -> Float[Tensor, " d"]:
    """ẑ after several rewards, with V inverted from scratch after each."""
    z_hat = torch.zeros_like(b)
    for some_phi, some_reward in zip(phi, reward.tolist(), strict=True):
        V, b, z_hat = learn(V, b, some_phi, some_reward)
    return z_hat


def run(ground: Ground, task: Float[Tensor, " d"], n: int, noise: float, rng: Generator) -> Iterator[float]:
    """The regret of each step of an endless run of ``usf-ucb-paper``, by dynamic programming."""
    model, exact, d = ground.model, ground.exact, len(task)
    V, b = noise**2 * torch.eye(d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64)
    state, t = int(ground.world.random_states(1, rng)), 0
    while True:
        radius = math.sqrt(min(1.0, max(0.0, (150 - t) / 100)))
        z = recommend(Situation(model, state, V, b, radius), rng, n)
        best = exact.value(task[None])[0, state]
        achieved = exact.evaluate(ground.yardstick.policy(z[None]))[0, state] @ task
        action = torch.as_tensor(model.act(torch.tensor(state), z))
        state, t = int(ground.world.step(torch.tensor(state), action, rng)), t + 1
        phi = exact.features[state]
        V, b, _ = learn(V, b, phi, float(phi @ task + noise * torch.randn((), generator=rng)))
        yield float(best - achieved)


def value_iteration(model: ExactModel, z: Float[Tensor, "n d"], sweeps: int) -> Float[Tensor, "n S"]:
    """v* by repeated v ← max_a E[r(S') + γ v(S')], in parts that fit the cache."""
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
    """ψ = (I − γP)⁻¹ P φ by one dense matrix for each policy."""
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
    """Σ_k γᵏ φ(S_{t+k+1}) of sampled trajectories, up to γᵏ < 1e-9."""
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
    """The states of all runs after the actions, one step at a time."""
    for action in actions:
        state = world.step(state, action, rng)
    return state


def walk_alone(world: GridWorld, actions: Tensor, seed: int) -> int:
    """The state of one run of the Gymnasium environment after the actions."""
    env = GridEnv(world)
    state, _ = env.reset(seed=seed)
    for action in actions.tolist():
        state, *_ = env.step(action)
    return int(state)
