"""Trains an FB model of a body: updates on the device while the bodies' physics runs on the CPU."""

import copy
import math
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.models.fb.bodies.collection import BodyWorld, Buffer, Collector
from zscout.models.fb.cuda_graph import as_graph
from zscout.models.fb.learner import SAMPLE, FBLearner, LearnerTrainer, Rows, centred
from zscout.models.fb.model import FB
from zscout.models.fb.recipe import BodyRecipe, FBProgress


class BodyTrainer(LearnerTrainer):
    """The learner, the bodies and the last transitions.

    A checkpoint has no transitions: a resumed training collects new ones first, so it is not the uninterrupted one.
    """

    recipe: BodyRecipe

    def __init__(self, world: BodyWorld, recipe: BodyRecipe, seed: int = 0, device: torch.device | str = "cpu") -> None:
        actions = world.action_space.shape[0]
        super().__init__(FBLearner(world.observation_space, actions, recipe, seed, device), recipe, seed)
        self.world = world
        goals = len(self.learner.online.goal_scale)
        if recipe.goal_scale and (len(recipe.goal_scale) != goals or min(recipe.goal_scale) <= 0):
            raise ValueError(f"goal_scale is {recipe.goal_scale}: expected {goals} positive numbers, or none")
        self.buffer = Buffer(recipe.buffer, world.observation_space.shape[0], actions, recipe.balance, self.device)
        self.collector = Collector(world, recipe, self.buffer, seed, self.device)

    @property
    def observations(self) -> Float[Tensor, "n o"]:
        """Stored observations in random order."""
        return self.buffer.next_obs[self.buffer.draw(SAMPLE, self.learner.rng)]

    @property
    def model(self) -> FB:
        """A frozen copy of the current model, with its moments."""
        if not self.buffer.added:
            raise ValueError("there are no observations yet: train first")
        return copy.deepcopy(self.learner.online).freeze().calibrate(self.observations)

    def train(self, every: int = 1_000) -> Iterator[FBProgress]:
        """Train to the end; yield a log line about every ``every`` updates."""
        self._warm_up()
        update, online = self._captured(), self.learner.online
        while not self.finished:
            end = min(self.step + every, self.recipe.steps)
            total, done = torch.zeros(3, device=self.device), 0
            while self.step < end:
                self.buffer.weigh()
                action = self.collector.choose(online)
                on_cpu = action.cpu()
                self._set_rates()
                for _ in range(self.recipe.updates):  # on CUDA these run beside the physics
                    total += update()
                    self.step, done = self.step + 1, done + 1
                self.collector.step(action, on_cpu, online)
            self.log.append(FBProgress(self.step, *(total / done).tolist()))
            yield self.log[-1]

    def _warm_up(self) -> None:
        """Transitions under random controls, or under the policies of a resumed model."""
        model = self.learner.online if self.step else None
        while self.buffer.added < self.recipe.warm_up:
            action = self.collector.choose(model if self.buffer.added else None)
            self.collector.step(action, action.cpu(), model)
            self.buffer.weigh()
        if not self.step:
            self.learner.standardise(self.buffer.next_obs[: self.buffer.added])
            if scale := self.recipe.goal_scale:
                for model in (self.learner.online, self.learner.target):
                    model.goal_scale.copy_(torch.tensor(scale))

    def _rows(self) -> Rows:
        buffer, index = self.buffer, self.buffer.draw(self.recipe.batch, self.learner.rng)
        next_obs = buffer.next_obs[index]
        B = centred(self.learner.online.backward_of(next_obs))
        z = self.learner.draw_z(B.detach(), next_obs)
        discount = torch.full((len(index), 1), self.recipe.gamma, device=self.device)
        return Rows(buffer.obs[index], buffer.action[index], z, B, next_obs, discount)

    def _captured(self) -> Callable[[], Tensor]:
        if self._update is None:
            self._update = lambda: self.learner.update(self._rows())
            if self.device.type == "cuda":
                self._update = as_graph(self._update, self.learner.live_tensors, self.learner.rng)
        return self._update

    def _set_rates(self) -> None:
        left = (1 - self.step / self.recipe.steps) / max(self.recipe.decay, 1e-9)
        self.learner.set_rates(0.5 - 0.5 * math.cos(math.pi * min(left, 1.0)))

    @property
    def fixed(self) -> list[Tensor]:
        """Nothing: transitions are collected anew."""
        return []
