"""Three ways of an agent to choose: a z by a score, a z by the returns of whole rollouts, or actions without z."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from zscout.base.randomness import Rng, Streams
from zscout.base.types import Action, BehaviorModel, DrawsForEachRun, Obs
from zscout.transfer.baselines.explorers import Exploring
from zscout.transfer.baselines.rollout_searches import Memory, RolloutSearch
from zscout.transfer.methods import Method
from zscout.transfer.score.forecast import offers
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import AtEstimate, Search

ASK, TELL, ACT, STREAMS = 0, 1, 2, 3  # a step draws from three streams; each depends only on seed and t

Ask = Callable[[], tuple[Problem, Rng]]  # the problem and its randomness; called only if a new z is needed


class Chooser:
    """What an agent asks of each way; without memory, z only."""

    follows = True  # whether a z that someone else chose teaches as much
    remembers = False  # whether it learns from steps by itself
    needs_every_reward = False
    search: Search | None = None

    def begin(self, model: BehaviorModel, runs: tuple[int, ...]) -> Memory:
        """The memory before the first step."""
        return {}

    def z(
        self, memory: Memory, ask: Ask, last: Tensor | None, due: Bool[Tensor, "*b"]
    ) -> tuple[Memory, Float[Tensor, "*b d"]]:
        """The memory, and Z_t: a new one where it is due, the last one elsewhere."""
        raise NotImplementedError

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


class ByScore(Chooser):
    """A new z whenever one is due: the argmax that the search finds."""

    def __init__(self, search: Search) -> None:
        self.search: Search = search

    def z(
        self, memory: Memory, ask: Ask, last: Tensor | None, due: Bool[Tensor, "*b"]
    ) -> tuple[Memory, Float[Tensor, "*b d"]]:
        """The memory, and Z_t: a new one where it is due, the last one elsewhere."""
        if last is not None and not due.any():
            return memory, last
        best = self.search(*ask())
        return memory, best if last is None else torch.where(due[..., None], best, last)


class ByRollouts(Chooser):
    """A z for a whole rollout, scored by its return: ``Unroll``, ``LoLA``. All runs end together."""

    follows, remembers, needs_every_reward = False, True, True

    def __init__(self, rollouts: RolloutSearch) -> None:
        self.rollouts = rollouts

    def z(
        self, memory: Memory, ask: Ask, last: Tensor | None, due: Bool[Tensor, "*b"]
    ) -> tuple[Memory, Float[Tensor, "*b d"]]:
        """The memory, and the z of this rollout."""
        memory = memory or self.rollouts.begin(*ask())
        return memory, self.rollouts.current(memory)

    def told(self, memory: Memory, left: Obs, ask: Ask, reward: Tensor | None, ended: Bool[Tensor, "*b"]) -> Memory:
        """Raises without a reward, or if some runs ended."""
        if reward is None:
            raise ValueError("a reward is missing: this method scores whole rollouts and needs every reward")
        if ended.any() and not ended.all():
            raise ValueError("done differs between runs: this method needs the same done for all runs")
        problem, rng = ask()
        return self.rollouts.tell(memory, problem, reward, bool(ended.all()), rng)

    def best_z(self, memory: Memory) -> Float[Tensor, "*b d"] | None:
        """Unroll's arm with the best mean return, LoLA's μ; before the first ask, by the belief."""
        return self.rollouts.best(memory) if memory else None

    def wants_reset(self, memory: Memory) -> bool:
        """Whether a rollout ended."""
        return bool(memory) and self.rollouts.wants_reset(memory)


class ByActions(ByScore):
    """An explorer's actions, always or for the first steps; then the estimate."""

    follows, remembers = False, True

    def __init__(self, exploring: Exploring) -> None:
        super().__init__(AtEstimate())
        self.explorer, self.steps = exploring.explorer, exploring.steps

    def begin(self, model: BehaviorModel, runs: tuple[int, ...]) -> Memory:
        """Of the explorer."""
        return self.explorer.begin(model, runs)

    def acts_at(self, t: int) -> bool:
        """Whether the explorer acts at step t."""
        return self.steps is None or t < self.steps

    def action(self, memory: Memory, obs: Obs, model: BehaviorModel, rng: Rng) -> Tensor:
        """Of the explorer."""
        return self.explorer.act(memory, obs, model, rng)

    def told(self, memory: Memory, left: Obs, ask: Ask, reward: Tensor | None, ended: Bool[Tensor, "*b"]) -> Memory:
        """Of the explorer."""
        return self.explorer.tell(memory, left)


def chooser_for(method: Method) -> Chooser:
    """The way of a method."""
    search = method.search
    if isinstance(search, Exploring):
        return ByActions(search)
    return ByRollouts(search) if isinstance(search, RolloutSearch) else ByScore(search)


def drawn_action(bfm: BehaviorModel, obs: Obs, z: Float[Tensor, "*b d"], streams: Streams) -> Action:
    """A ~ π(·|s,z): each run draws from its own stream if the model can do that, else all from the first."""
    for_each_run = offers(bfm, DrawsForEachRun) and bfm.draws_for_each_run
    if for_each_run:
        return bfm.act(obs, z.clone(), streams)
    first = int(streams.integers().flatten()[0]) & (2**62 - 1)
    return bfm.act(obs, z.clone(), Generator(device=z.device).manual_seed(first))
