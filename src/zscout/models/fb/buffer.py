"""Transitions in tensors of fixed size, and the FB updates on them."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from zscout.base.edge import as_size
from zscout.models.fb.graphs import as_graph
from zscout.models.fb.learner import SAMPLE, FBLearner, LearnerTrainer, Rows, centred
from zscout.models.fb.model import FB
from zscout.models.fb.recipe import BufferRecipe

LEAST_SCALE = 1e-6  # of a goal feature
CELLS = 20  # a side of the map of two goal features that says which states are rare


class Buffer:
    """The last transitions, in tensors of fixed size, as a captured graph needs them.

    A transition is drawn with weight n^−``balance``, n the number of transitions that enter its cell of heights and
    speeds: most bodies lie on the ground most of the time.
    """

    def __init__(
        self,
        capacity: int,
        observed: int,
        actions: int,
        balance: float,
        device: torch.device,
        goals_of: Callable[[Tensor], Tensor] = lambda obs: obs,
    ) -> None:
        self.goals_of = goals_of  # goal features of observations
        self.obs, self.next_obs = (torch.zeros(capacity, observed, device=device) for _ in range(2))
        goals = goals_of(some := self.next_obs[:1])  # kept, so that no update computes them
        self.goals = self.next_obs if goals is some else goals.repeat(capacity, 1)
        self.action = torch.zeros(capacity, actions, device=device)
        self.over = torch.zeros(capacity, dtype=torch.bool, device=device)
        self.cell = torch.zeros(capacity, dtype=torch.long, device=device)
        self.cumulated = torch.zeros(capacity, dtype=torch.float64, device=device)  # weights
        self.balance, self.added = balance, 0

    @property
    def size(self) -> int:
        """The number of transitions kept."""
        return min(self.added, len(self.obs))

    def add(
        self,
        obs: Float[Tensor, "n o"],
        action: Float[Tensor, "n a"],
        next_obs: Float[Tensor, "n o"],
        cell: Int[Tensor, " n"],
        over: Bool[Tensor, " n"] | None = None,
    ) -> None:
        """Append; the oldest are replaced. They can be drawn after ``weigh``."""
        place = (torch.arange(len(obs), device=obs.device) + self.added) % len(self.obs)
        self.obs[place], self.action[place], self.next_obs[place], self.cell[place] = obs, action, next_obs, cell
        if self.goals is not self.next_obs:
            self.goals[place] = self.goals_of(next_obs)
        self.over[place] = False if over is None else over
        self.added += len(obs)

    def weigh(self) -> None:
        """New weights of all transitions."""
        cell = self.cell[: self.size]
        weights = torch.bincount(cell, minlength=CELLS * CELLS).clamp(min=1).double() ** -self.balance
        torch.cumsum(weights[cell], 0, out=self.cumulated[: self.size])
        self.cumulated[self.size :] = self.cumulated[self.size - 1]

    def draw(self, n: int, rng: Generator) -> Int[Tensor, " n"]:
        """Random places, by weight."""
        draws = torch.rand(n, generator=rng, device=rng.device, dtype=torch.float64)
        return torch.searchsorted(self.cumulated, draws * self.cumulated[-1])


def check_ramps(recipe: BufferRecipe, goals: int) -> None:
    """Raise unless ``ramps`` and ``gates`` are places among so many goal features."""
    for name in ("ramps", "gates"):
        for feature in getattr(recipe, name):
            as_size(feature, f"an entry of {name}", 0, goals - 1)


class BufferTrainer(LearnerTrainer):
    """The learner and a buffer; on CUDA an update is one graph of fused kernels."""

    recipe: Any  # a BufferRecipe

    def __init__(self, learner: FBLearner, recipe: BufferRecipe, capacity: int, seed: int) -> None:
        super().__init__(learner, recipe, seed)
        config, goals = learner.online.config, len(learner.online.goal_scale)
        if recipe.goal_scale and (len(recipe.goal_scale) != goals or min(recipe.goal_scale) < LEAST_SCALE):
            raise ValueError(
                f"goal_scale is {recipe.goal_scale}: expected {goals} numbers from {LEAST_SCALE:g}, or none"
            )
        check_ramps(recipe, goals)
        observed, balance = len(config.observation_low), recipe.balance
        self.buffer = Buffer(capacity, observed, config.actions, balance, self.device, config.goals)

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

    def _standardise(self, obs: Float[Tensor, "n o"]) -> None:
        """Inputs scaled by these observations; goal features by the recipe, if it says how."""
        varies = self.learner.online.config.goals(obs).std(0) > 1e-6
        for feature in (*self.recipe.ramps, *self.recipe.gates):
            if not varies[feature]:
                raise ValueError(f"goal feature {feature} of ramps or gates is the same in all observations")
        self.learner.standardise(obs)
        if scale := self.recipe.goal_scale:
            for model in (self.learner.online, self.learner.target):
                model.goal_scale.copy_(torch.tensor(scale))

    def _rows(self) -> tuple[Rows, Float[Tensor, "n g"]]:
        """Rows of the buffer, and the goal features of the observations entered."""
        buffer, index = self.buffer, self.buffer.draw(self.recipe.batch, self.learner.rng)
        goals = buffer.goals[index]
        B = centred(self.learner.online.backward_of_goals(goals))
        z = self.learner.draw_z(B.detach(), goals)
        discount = (self.recipe.gamma * ~buffer.over[index])[:, None]
        return Rows(buffer.obs[index], buffer.action[index], z, B, buffer.next_obs[index], discount), goals

    def _captured(self) -> Callable[[], Tensor]:
        if self._update is None:
            learner = self.learner
            self._update = as_graph(
                lambda: learner.update(*self._rows()), learner.live_tensors, learner.rng, fuse=learner.compiled
            )
        return self._update

    def _set_rates(self) -> None:
        left = (1 - self.step / self.recipe.steps) / max(self.recipe.decay, 1e-9)
        self.learner.set_rates(0.5 - 0.5 * math.cos(math.pi * min(left, 1.0)))
