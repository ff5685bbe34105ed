"""The paper's exhaustive explorer."""

from dataclasses import dataclass

import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float, Int
from torch import Tensor

from zscout.base.edge import as_index
from zscout.base.randomness import Rng
from zscout.base.types import BehaviorModel, Obs
from zscout.lab.arenas.ground import world_named
from zscout.transfer.choosers import Memory
from zscout.transfer.score.problem import argmax_at_random


@dataclass(frozen=True)
class Exhaustive:
    """Takes the action to the least-visited next state of a grid: it knows the transitions."""

    world: str = "open-grid"

    def begin(self, model: BehaviorModel, runs: tuple[int, ...]) -> Memory:
        """Zero visit counts."""
        if not (isinstance(model.observation_space, Discrete) and isinstance(model.action_space, Discrete)):
            raise ValueError("the exhaustive explorer needs a finite world, because it counts visits of states")
        space = model.observation_space
        return {"visits": torch.zeros(*runs, int(space.start + space.n), dtype=torch.float64)}

    def act(self, memory: Memory, obs: Obs, model: BehaviorModel, rng: Rng) -> Tensor:
        """One step of look-ahead, ties broken at random."""
        state, visits = self._state(memory, obs), self._visited(memory, obs)
        space = model.action_space
        assert isinstance(space, Discrete)
        first = int(space.start)
        actions = range(first, first + int(space.n))
        step = world_named(self.world).step
        ahead = [step(state, torch.full_like(state, action)) for action in actions]
        return first + argmax_at_random(-visits.gather(-1, torch.stack(ahead, -1)), rng)

    def tell(self, memory: Memory, obs: Obs) -> Memory:
        """Count one more visit of the state that was left."""
        return {"visits": self._visited(memory, obs)}

    def _visited(self, memory: Memory, obs: Obs) -> Float[Tensor, "*b S"]:
        visits = memory["visits"].cpu()  # a loaded agent keeps its memory on the posterior's device
        return visits + torch.nn.functional.one_hot(self._state(memory, obs), visits.shape[-1])

    def _state(self, memory: Memory, obs: Obs) -> Int[Tensor, "*b"]:
        return as_index(obs, memory["visits"].shape[-1], "observation", torch.device("cpu"))
