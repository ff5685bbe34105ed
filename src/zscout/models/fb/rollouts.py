"""Rollouts of a model's own policies: n-step sums of features, so that errors of ψ do not pile up over a horizon."""

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.models.fb.data import BatchWorld, Experience
from zscout.models.fb.learner import Rows
from zscout.models.fb.model import FB

PAIRS = 24  # states of a rollout that are trained on; n more steps follow


class Rollouts:
    """Rollouts of π(·,z) from states of the data, one z each, in tensors that are refilled in place."""

    def __init__(self, model: FB, world: BatchWorld, data: Experience, runs: int, steps: int) -> None:
        self.world, self.data, self.runs, self.steps = world, data, runs, steps
        k, a = data.obs.shape[1], data.action.shape[1]
        new = data.obs.new_zeros
        self.obs, self.action = new(PAIRS + steps + 1, runs, k), new(PAIRS + steps, runs, a)
        self.alive = new(PAIRS + steps + 1, runs, 1)
        self.z, self.features = new(runs, model.dim), new(PAIRS, runs, model.dim)

    @torch.no_grad()
    def refill(self, model: FB, z: Float[Tensor, "runs d"], rng: Generator) -> Tensor:
        """New rollouts with these z; the first action of each is random."""
        self.z.copy_(z)
        index = torch.randint(len(self.data), (self.runs,), generator=rng, device=rng.device)
        state, action = self.data.obs[index], self.data.action[index.roll(1)]
        alive = torch.ones_like(self.alive[0])
        for t in range(len(self.action)):
            self.obs[t], self.action[t], self.alive[t] = state, action, alive
            state, over = self.world.advance(state, action)
            alive = alive * ~over[:, None]
            action = model.action_of(model.encode(state), z)
        self.obs[-1], self.alive[-1] = state, alive
        phi = model.features_of(self.obs[1:].flatten(0, 1)).reshape(*self.obs[1:].shape[:2], -1) * self.alive[:-1]
        total = torch.zeros_like(self.features)
        for step in reversed(range(self.steps)):
            total = phi[step : step + PAIRS] + model.gamma * total
        self.features.copy_(total)
        return alive.mean()

    def draw(self, n: int, gamma: float, rng: Generator) -> Rows:
        """n rows at random places of random rollouts."""
        t = torch.randint(PAIRS, (n,), generator=rng, device=rng.device)
        run = torch.randint(self.runs, (n,), generator=rng, device=rng.device)
        later = t + self.steps
        discount = gamma**self.steps * self.alive[later, run]
        return Rows(
            self.obs[t, run], self.action[t, run], self.z[run], self.features[t, run], self.obs[later, run], discount
        )
