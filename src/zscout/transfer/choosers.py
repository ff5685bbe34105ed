"""How an agent chooses: a z by a score, unless its search is a chooser itself: of whole rollouts, or of actions."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from zscout.base.randomness import Rng, Streams
from zscout.base.types import Action, BehaviorModel, DrawsForEachRun, Obs
from zscout.transfer.score.forecast import offers
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import Search

ASK, TELL, ACT, STREAMS = 0, 1, 2, 3  # a step draws from three streams; each depends only on seed and t

Ask: TypeAlias = Callable[[], tuple[Problem, Rng]]  # the problem and its randomness; called only if a new z is needed
Memory: TypeAlias = dict[str, Tensor]  # every call returns a new one, so that agents can save it


class Chooser:
    """Chooses a new z whenever one is due, the argmax that the search finds; it remembers nothing."""

    follows = True  # whether a z that someone else chose teaches as much
    remembers = False  # whether it learns from steps by itself
    needs_every_reward = False

    def __init__(self, search: Search) -> None:
        self._search = search

    def first(self, model: BehaviorModel, runs: tuple[int, ...]) -> Memory:
        """The memory before the first step."""
        return {}

    def z(
        self, memory: Memory, ask: Ask, last: Tensor | None, due: Bool[Tensor, "*b"]
    ) -> tuple[Memory, Float[Tensor, "*b d"]]:
        """The memory, and Z_t: a new one where it is due, the last one elsewhere."""
        if last is not None and not due.any():
            return memory, last
        best = self.found(*ask())
        return memory, best if last is None else torch.where(due[..., None], best, last)

    def found(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """A new z."""
        return self._search(problem, rng)

    def acts_at(self, t: int) -> bool:
        """Whether it chooses the action of step t, not z."""
        return False

    def told(self, memory: Memory, left: Obs, ask: Ask, reward: Tensor | None, ended: Bool[Tensor, "*b"]) -> Memory:
        """The memory after a step from ``left`` to the observation of the problem."""
        return memory

    def best_z(self, memory: Memory) -> Float[Tensor, "*b d"] | None:
        """The best z; None: by the belief."""
        return None

    def wants_reset(self, memory: Memory) -> bool:
        """Whether the environment should reset to the common start now."""
        return False


def drawn_action(bfm: BehaviorModel, obs: Obs, z: Float[Tensor, "*b d"], streams: Streams) -> Action:
    """A ~ π(·|s,z): each run draws from its own stream if the model can do that, else all from the first."""
    for_each_run = offers(bfm, DrawsForEachRun) and bfm.draws_for_each_run
    if for_each_run:
        return bfm.act(obs, z.clone(), streams)
    first = int(streams.integers().flatten()[0]) & (2**62 - 1)
    return bfm.act(obs, z.clone(), Generator(device=z.device).manual_seed(first))
