"""The references, as plainly as they can be written: everything fresh, one run, one step at a time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.lab.arena import Ground
from zscout.types import BehaviorModel, HasHeads

CANDIDATES, ELLIPSOID = 10_000, 128  # the paper's, and OpTI's


@dataclass(frozen=True, eq=False)
class Situation:
    """One run that wants a recommendation: where it is, and V, b and √β_t."""

    model: BehaviorModel
    obs: int
    V: Float[Tensor, "d d"]
    b: Float[Tensor, " d"]
    radius: float


def recommend(now: Situation, rng: Generator, n: int = CANDIDATES) -> Float[Tensor, " d"]:
    """N fresh z, a forward pass for each, V inverted from scratch, the largest eq. 5."""
    z = now.model.sample_z(n, rng)
    return z[objective(now, now.model.psi(now.obs, z)).argmax()].double()


def objective(now: Situation, psi: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """ψ·ẑ + √β_t‖ψ‖_{V⁻¹}  (eq. 5)."""
    inverse: Tensor = torch.linalg.inv(now.V)
    z_hat, psi = inverse @ now.b, psi.double()
    return psi @ z_hat + now.radius * ((psi @ inverse) * psi).sum(-1).sqrt()


def recommend_opti(now: Situation, rng: Generator, n: int = ELLIPSOID) -> Float[Tensor, " d"]:
    """N points uniform in the ellipsoid of twice the radius around ẑ, not projected; the largest of what they score."""
    inverse = torch.linalg.inv(now.V)
    ball = torch.randn(n, len(now.b), generator=rng, dtype=torch.float64).to(now.b.device)
    ball = ball / ball.norm(dim=-1, keepdim=True)
    ball = ball * torch.rand(n, 1, generator=rng, dtype=torch.float64).to(now.b.device) ** (1 / len(now.b))
    z: Tensor = inverse @ now.b + 2 * now.radius * ball @ torch.linalg.cholesky(inverse).T
    return z[opti_objective(now, z).argmax()]


def opti_objective(now: Situation, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """The least of eq. 5 by the model's heads."""
    model = now.model
    heads = model.psi_heads(now.obs, z) if isinstance(model, HasHeads) else model.psi(now.obs, z)[None]
    return torch.stack([objective(now, psi) for psi in heads]).amin(0)


Sums = tuple[Float[Tensor, "d d"], Float[Tensor, " d"], Float[Tensor, " d"]]


def learn(V: Tensor, b: Tensor, phi: Tensor, reward: float) -> Sums:
    """V, b and ẑ after one more reward, V inverted anew."""
    V, b = V + torch.outer(phi, phi), b + phi * reward
    return V, b, torch.linalg.inv(V) @ b


def in_a_row(V: Tensor, b: Tensor, phi: Float[Tensor, "m d"], reward: Float[Tensor, " m"]) -> Float[Tensor, " d"]:
    """ẑ after several rewards, V inverted after each: a recommendation wants it every time."""
    z_hat = torch.zeros_like(b)
    for some_phi, some_reward in zip(phi, reward.tolist(), strict=True):
        V, b, z_hat = learn(V, b, some_phi, some_reward)
    return z_hat


def run(ground: Ground, task: Float[Tensor, " d"], n: int, noise: float, rng: Generator) -> Iterator[float]:
    """One run of ``usf-ucb-paper`` for ever, and after each step its regret by dynamic programming."""
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
