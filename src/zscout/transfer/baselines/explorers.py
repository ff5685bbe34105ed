"""Explorers choose actions, not z, such as a random walk."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.randomness import Rng, uniform
from zscout.base.types import BehaviorModel, Obs
from zscout.transfer.choosers import Ask, Chooser, Memory
from zscout.transfer.inputs import Checked, Whole
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import AtEstimate


@runtime_checkable
class Explorer(Protocol):
    """Chooses actions without z."""

    def begin(self, model: BehaviorModel, runs: tuple[int, ...]) -> Memory:
        """The memory before the first step."""

    def act(self, memory: Memory, obs: Obs, model: BehaviorModel, rng: Rng) -> Tensor:
        """One action for each run."""

    def tell(self, memory: Memory, obs: Obs) -> Memory:
        """The memory after an action at obs."""


@dataclass(frozen=True)
class RandomWalk:
    """Uniformly random actions."""

    def begin(self, model: BehaviorModel, runs: tuple[int, ...]) -> Memory:
        """Keep the batch shape *b; nothing else is remembered."""
        space = model.action_space
        bounded = isinstance(space, Box) and bool(space.is_bounded("both"))
        if not (isinstance(space, Discrete) or bounded):
            raise ValueError(f"random actions need a Discrete or bounded Box action space, got {space}")
        return {"runs": torch.zeros(runs, dtype=torch.long)}

    def act(self, memory: Memory, obs: Obs, model: BehaviorModel, rng: Rng) -> Tensor:
        """Uniform in the action space."""
        runs, space = tuple(memory["runs"].shape), model.action_space
        if isinstance(space, Discrete):
            return (uniform(runs, rng) * int(space.n)).long() + int(space.start)
        assert isinstance(space, Box)
        low, high = (torch.from_numpy(np.asarray(bound, dtype=np.float64)) for bound in (space.low, space.high))
        return (low + (high - low) * uniform((*runs, *space.shape), rng).cpu()).float()

    def tell(self, memory: Memory, obs: Obs) -> Memory:
        """Memory unchanged."""
        return memory


@dataclass(frozen=True)
class Exploring(Chooser, Checked):
    """An explorer's actions for ``steps`` steps, or always; then the estimate."""

    follows, remembers = False, True
    explorer: Explorer
    steps: Whole | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        is_class = isinstance(self.explorer, type)  # which has an explorer's members, too
        if is_class or not isinstance(self.explorer, Explorer):
            raise ValueError(f"explorer must be an Explorer instance, got {self.explorer!r}")

    def first(self, model: BehaviorModel, runs: tuple[int, ...]) -> Memory:
        """Of the explorer."""
        return self.explorer.begin(model, runs)

    def found(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The estimate."""
        return AtEstimate()(problem, rng)

    def acts_at(self, t: int) -> bool:
        """Whether the explorer acts at step t."""
        return self.steps is None or t < self.steps

    def told(self, memory: Memory, left: Obs, ask: Ask, reward: Tensor | None, ended: Bool[Tensor, "*b"]) -> Memory:
        """Of the explorer."""
        return self.explorer.tell(memory, left)
