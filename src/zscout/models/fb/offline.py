"""Trains an FB model on transitions of files, without a simulator; measures it on trajectories that were held out."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.models.data.dataset import Dataset, continuous
from zscout.models.fb.buffer import BufferTrainer
from zscout.models.fb.data import Experience
from zscout.models.fb.learner import SAMPLE, FBLearner
from zscout.models.fb.model import FB
from zscout.models.fb.recipe import DataRecipe, FBProgress

JUDGED = 20_000  # transitions that measure a model
LEAST = 1e-6  # spread of observations, relative to their size
CHUNK = 500_000  # transitions that are read at once

Cells = Callable[[Float[Tensor, "n o"]], Int[Tensor, " n"]]


class DataTrainer(BufferTrainer):
    """The learner, and a buffer of all transitions or, of more than it holds, of a part that is renewed.

    A resumed training equals an uninterrupted one. ``cells`` says which observations are alike, for ``balance``.
    """

    recipe: DataRecipe

    def __init__(
        self,
        data: Dataset,
        recipe: DataRecipe,
        seed: int = 0,
        device: torch.device | str = "cpu",
        space: Box | None = None,
        cells: Cells | None = None,
    ) -> None:
        continuous(data.summary)
        if recipe.balance and cells is None:
            raise ValueError("balance needs to know which states are alike: pass --world with a body, or balance=0")
        width = len(data.summary.obs_low)
        anywhere = Box(-np.inf, np.inf, (width,), np.float32)
        learner = FBLearner(space or anywhere, len(data.summary.action_low), recipe, seed, device, compiled=True)
        self.data, self.cells = data, cells
        self.training, self.held = data.split(Generator().manual_seed(seed))
        super().__init__(learner, recipe, min(recipe.buffer, len(self.training)), seed)
        self._part = -1  # which part of the data is in the buffer
        self._fill()
        goals = learner.online.config.goals(self.observations)
        if not (goals.amax(0) - goals.amin(0) > LEAST * goals.abs().amax(0)).any():
            raise ValueError(
                f"the observations of {len(self.training):,} transitions are all the same, so there is nothing to "
                "learn: pass more data, or other goal_features"
            )
        self._standardise(self.observations)

    @property
    def observations(self) -> Float[Tensor, "n o"]:
        """Stored observations in random order, always the same of a buffer."""
        rng = Generator(device=self.device).manual_seed(self.seed)
        return self.buffer.next_obs[self.buffer.draw(min(SAMPLE, self.buffer.size), rng)]

    def train(self, every: int = 1_000) -> Iterator[FBProgress]:
        """Train to the end; yield a log line every ``every`` updates."""
        while not self.finished:
            self._fill()
            update, total, first = self._captured(), torch.zeros(3, device=self.device), self.step
            refresh = self.recipe.refresh
            end = min(first + every - first % every, first + refresh - first % refresh, self.recipe.steps)
            with self.stopwatch.updates():
                while self.step < end:
                    self._set_rates()
                    total += update()
                    self.step += 1
            self.log.append(FBProgress(self.step, *(total / (self.step - first)).tolist()))
            yield self.log[-1]

    def resume(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        """Continue from both, with the same part of the data."""
        super().resume(tensors, counters)
        self._fill()

    def _fill(self) -> None:
        """Put the part of this step into the buffer."""
        buffer, rows = self.buffer, self.training
        capacity = len(buffer.obs)
        done = min(self.step, self.recipe.steps - 1)
        part = done // self.recipe.refresh if capacity < len(rows) else 0
        if part == self._part:
            return
        if capacity < len(rows):
            rng = Generator().manual_seed(self.seed + 1_000_003 * (part + 1))
            rows = rows[torch.randint(len(rows), (capacity,), generator=rng).sort().values]
        buffer.added = 0
        for index in rows.split(CHUNK):
            some = self.data.rows(index).to(self.device)
            cell = torch.zeros(len(index), dtype=torch.long) if self.cells is None else self.cells(some.next_obs.cpu())
            buffer.add(some.obs, some.action, some.next_obs, cell.to(self.device), some.over)
        buffer.weigh()
        self._part = part

    @property
    def fixed(self) -> list[Tensor]:
        """What must be the same when training is resumed: the data."""
        return [torch.tensor(list(bytes.fromhex(self.data.summary.digest)))]

    def judge(self, model: FB) -> "HeldOut":
        """The model's errors on what it was trained on, and on trajectories that were held out."""
        rng = Generator().manual_seed(self.seed)
        parts = [
            self.data.rows(rows[torch.randperm(len(rows), generator=rng)[:JUDGED]])
            for rows in (self.training, self.held)
        ]
        (bellman, orthonormality), (held_bellman, held_orthonormality) = (errors_of(model, part) for part in parts)
        return HeldOut(bellman, held_bellman, orthonormality, held_orthonormality, len(parts[1]))


@dataclass(frozen=True)
class HeldOut:
    """Errors of a model on its data, and on trajectories that it did not see. They say nothing of its returns."""

    bellman: float  # see ``errors_of``
    held_out_bellman: float
    orthonormality: float
    held_out_orthonormality: float
    transitions: int  # that were held out and measured


@torch.no_grad()
def errors_of(model: FB, data: Experience, seed: int = 0) -> tuple[float, float]:
    """The relative Bellman error of ψ, with one z of ``sample_z`` for each transition; and ‖Cov(φ) − I‖ ÷ √d.

    √(mean ‖ψ(s,a;z) − y‖² ÷ mean ‖y‖²), y = φ(s') + γψ(s',π(s',z);z): 1 is no better than ψ = 0.
    """
    data = data.to(model.device)
    z = model.to_z(model.sample_z(len(data), seed).to(model.mean))
    here, there = model.encode(data.obs), model.encode(data.next_obs)
    psi = model.forward_of(here, data.action, z).mean(0) @ model.root
    phi = model.features_of(data.next_obs)
    after = model.forward_of(there, model.action_of(there, z), z).mean(0) @ model.root
    wanted = phi + (model.gamma * ~data.over)[:, None] * after
    bellman = float(((psi - wanted).square().sum() / wanted.square().sum()).sqrt())
    apart = phi.mT @ phi / len(phi) - torch.eye(model.dim, device=phi.device)
    return bellman, float(apart.norm()) / math.sqrt(model.dim)
