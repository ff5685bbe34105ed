"""Explorers choose actions, not z: a random walk, and the paper's greedy walk to the least-visited state."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.base.edge import as_index
from zscout.base.randomness import Rng, uniform
from zscout.base.types import BehaviorModel, Obs
from zscout.transfer.choosers import Ask, Chooser, Memory
from zscout.transfer.inputs import Checked, Whole
from zscout.transfer.score.problem import Problem, argmax_at_random
from zscout.transfer.score.search import AtEstimate

LookAhead: TypeAlias = Callable[[Int[Tensor, "*b"], Int[Tensor, "*b"]], Int[Tensor, "*b"]]


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
class Exhaustive:
    """Takes the action to the least-visited next state; ``look_ahead(states, actions)`` gives the next states."""

    look_ahead: LookAhead | None = None

    def begin(self, model: BehaviorModel, runs: tuple[int, ...]) -> Memory:
        """Zero visit counts."""
        if self.look_ahead is None:
            raise ValueError(
                "look_ahead is missing: the exhaustive explorer needs a callable (states, actions) → next states"
            )
        if not (isinstance(model.observation_space, Discrete) and isinstance(model.action_space, Discrete)):
            raise ValueError("the exhaustive explorer needs a finite world, because it counts visits of states")
        space = model.observation_space
        return {"visits": torch.zeros(*runs, int(space.start + space.n), dtype=torch.float64)}

    def act(self, memory: Memory, obs: Obs, model: BehaviorModel, rng: Rng) -> Tensor:
        """One step of look-ahead, ties broken at random."""
        assert self.look_ahead is not None
        state, visits = self._state(memory, obs), self._visited(memory, obs)
        space = model.action_space
        assert isinstance(space, Discrete)
        first = int(space.start)
        actions = range(first, first + int(space.n))
        ahead = [self.look_ahead(state, torch.full_like(state, action)) for action in actions]
        return first + argmax_at_random(-visits.gather(-1, torch.stack(ahead, -1)), rng)

    def tell(self, memory: Memory, obs: Obs) -> Memory:
        """Count one more visit of the state that was left."""
        return {"visits": self._visited(memory, obs)}

    def _visited(self, memory: Memory, obs: Obs) -> Float[Tensor, "*b S"]:
        visits = memory["visits"].cpu()  # a loaded agent keeps its memory on the posterior's device
        return visits + torch.nn.functional.one_hot(self._state(memory, obs), visits.shape[-1])

    def _state(self, memory: Memory, obs: Obs) -> Int[Tensor, "*b"]:
        return as_index(obs, memory["visits"].shape[-1], "observation", torch.device("cpu"))


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
