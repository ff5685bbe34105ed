"""Agents without a score: one keeps a z for whole rollouts, one chooses actions."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.edge import as_finite, as_given
from zscout.base.types import Action, BehaviorModel, Obs
from zscout.transfer import inputs
from zscout.transfer.agent import ACT, ASK, TELL, OnlineTransfer
from zscout.transfer.explorers import Explorer
from zscout.transfer.inputs import Flags, Rewards
from zscout.transfer.methods import Method
from zscout.transfer.rollout_searches import RolloutSearch
from zscout.transfer.saving import AgentState
from zscout.transfer.score.certificate import Certified


class RolloutAgent(OnlineTransfer):
    """Keeps a z for a whole rollout and scores it by its return: ``Unroll``, ``LoLA``. All runs end together."""

    def _choose(self, obs: Obs) -> tuple[AgentState, Float[Tensor, "*b d"]]:
        state = self._asked(obs)
        with torch.no_grad():
            memory = state.memory or self._rollouts.begin(self._problem(obs), self._streams(ASK))
        z = self._rollouts.current(memory)
        return replace(state, memory=memory, z=z), z

    def _after(
        self, after: AgentState, next_obs: Obs, reward: Rewards | None, ended: Bool[Tensor, "*b"], seen: Flags | None
    ) -> AgentState:
        if reward is None or not (seen is None or inputs.flags_of_runs(seen, self.runs, "seen").all()):
            raise ValueError("a reward is missing: this method scores whole rollouts and needs every reward")
        if ended.any() and not ended.all():
            raise ValueError("done differs between runs: this method needs the same done for all runs")
        problem = replace(self._problem(next_obs), posterior=after.posterior)
        score = as_finite(reward, "reward", after.posterior.device)
        with torch.no_grad():
            memory = self._rollouts.tell(after.memory, problem, score, bool(ended.all()), self._streams(TELL))
        return replace(after, memory=memory)

    def prefer(self, better: Obs, worse: Obs) -> None:
        """Raises: rollouts are scored by their returns."""
        raise ValueError("this method scores rollouts by their returns, not by preferences: use usf-ucb")

    def wants_reward(
        self, next_obs: Obs, least: float | int = 0.5, until: Certified | None = None
    ) -> bool | Bool[Tensor, " runs"]:
        """Always True."""
        wanted = super().wants_reward(next_obs, least)
        return torch.ones_like(wanted) if isinstance(wanted, Tensor) else True

    @property
    def best_z(self) -> Float[Tensor, "*b d"]:
        """The search's choice: Unroll's arm with the best mean return, LoLA's μ; before the first ask, ẑ projected."""
        memory = self._state.memory
        return self._rollouts.best(memory).clone() if memory else super().best_z

    @property
    def wants_reset(self) -> bool:
        """Whether the environment should reset to the common start now."""
        return bool(self._state.memory) and self._rollouts.wants_reset(self._state.memory)

    @property
    def _rollouts(self) -> RolloutSearch:
        assert isinstance(self.method.search, RolloutSearch)
        return self.method.search


class ExplorerAgent(OnlineTransfer):
    """Chooses actions without z, always or for the first ``explore_for`` steps; learns ẑ from every reward."""

    def __init__(self, bfm: BehaviorModel, method: str | Method, **options: object) -> None:
        super().__init__(bfm, method, **options)  # type: ignore[arg-type]
        self._state = replace(self._state, memory=self._explorer.begin(bfm, self.runs))

    def ask(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """Z_t; raises while the explorer acts."""
        if self.exploring:
            raise ValueError("this method chooses actions now, not z: call act(obs) instead of ask(obs)")
        return super().ask(obs)

    def act(self, obs: Obs) -> Action:
        """The explorer's action; after exploring, A_t ~ π(·|S_t, Z_t)."""
        if not self.exploring:
            return super().act(obs)
        with self._one_thread:
            state = self._asked(obs)
            action = as_given(self._explorer.act(state.memory, obs, self.bfm, self._streams(ACT)), obs)
            self._state = replace(state, action=inputs.copied(action))
            return action

    def _after(
        self, after: AgentState, next_obs: Obs, reward: Rewards | None, ended: Bool[Tensor, "*b"], seen: Flags | None
    ) -> AgentState:
        assert self._state.asked is not None
        return replace(after, memory=self._explorer.tell(after.memory, self._state.asked))

    @property
    def exploring(self) -> bool:
        """Whether the explorer chooses the next action."""
        return self.method.explore_for is None or self.t < self.method.explore_for

    @property
    def present_z(self) -> Float[Tensor, "*b d"] | None:
        """The z of the last ask or act; None while the explorer acts."""
        return None if self.exploring else super().present_z

    @property
    def _explorer(self) -> Explorer:
        assert self.method.explorer is not None
        return self.method.explorer


KINDS: tuple[type[OnlineTransfer], ...] = (RolloutAgent, ExplorerAgent, OnlineTransfer)


def kind_for(method: Method) -> type[OnlineTransfer]:
    """The class that runs a method."""
    if isinstance(method.search, RolloutSearch):
        return RolloutAgent
    return OnlineTransfer if method.explorer is None else ExplorerAgent
