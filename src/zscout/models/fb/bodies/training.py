"""Trains an FB model of a body: updates on the device while the bodies' physics runs on the CPU."""

from collections.abc import Iterator

import torch
from torch import Tensor

from zscout.models.fb.bodies.collection import BodyWorld, Collector
from zscout.models.fb.buffer import BufferTrainer
from zscout.models.fb.learner import FBLearner
from zscout.models.fb.recipe import BodyRecipe, FBProgress


class BodyTrainer(BufferTrainer):
    """The learner, the bodies and the last transitions.

    A checkpoint has no transitions: a resumed training collects new ones first, so it is not the uninterrupted one.
    """

    recipe: BodyRecipe

    def __init__(self, world: BodyWorld, recipe: BodyRecipe, seed: int = 0, device: torch.device | str = "cpu") -> None:
        learner = FBLearner(world.observation_space, world.action_space.shape[0], recipe, seed, device)
        super().__init__(learner, recipe, recipe.buffer, seed)
        self.world = world
        self.collector = Collector(world, recipe, self.buffer, seed, self.device)

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
                with self.stopwatch.updates():
                    for _ in range(self.recipe.updates):  # on CUDA these run beside the physics
                        total += update()
                        self.step, done = self.step + 1, done + 1
                self.collector.step(action, on_cpu, online)
                self.stopwatch.frames += self.recipe.bodies
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
            self._standardise(self.buffer.next_obs[: self.buffer.added])

    @property
    def fixed(self) -> list[Tensor]:
        """Nothing: transitions are collected anew."""
        return []
