"""What an agent has learned: its belief, its best z, and how much better another z can be."""

import copy
import math
from contextlib import AbstractContextManager

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.base.edge import as_finite, in_range
from zscout.base.randomness import Streams
from zscout.base.types import BehaviorModel, HasTransitionFeatures, Obs
from zscout.transfer import inputs
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.atlas.charted import Charted, OverAtlas
from zscout.transfer.belief.feedback import Preferences
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.choosers import STREAMS, Chooser
from zscout.transfer.methods import Method
from zscout.transfer.offline import ConstantPart
from zscout.transfer.score.certificate import (
    Certificate,
    Certified,
    RewardFit,
    as_delta,
    certify,
    fit_of,
    share_by_chance,
)
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import Among, Known
from zscout.transfer.state import AgentState

CERTIFICATE_DRAWS = 2**39  # where the draws of certificates begin: beyond those of any step


class Learned:
    """The parts of an agent, and what can be read from them; it learns in ``OnlineTransfer``."""

    bfm: BehaviorModel  # without φ and ψ only if there is an atlas
    method: Method
    method_name: str | None
    model: BehaviorModel  # what is believed and scored: the model, or the model as its atlas shows it
    atlas: Atlas | None
    seeds: Int[Tensor, "*b"]
    runs: tuple[int, ...]  # *b
    _chooser: Chooser
    _constant: ConstantPart | None
    _largest_z: float  # ‖ẑ‖² must fit the model's dtype
    _one_thread: AbstractContextManager[None]  # refuses a second thread
    _state: AgentState

    def __repr__(self) -> str:
        model = f"{type(self.bfm).__name__} and {self.method_name or 'an own method'}"
        return f"OnlineTransfer with {model} after {self.t} steps: {self.fit!r}"

    def expected_reward(self, observations: Obs) -> Float[Tensor, "*b m"]:
        """What it expects for observations [m …], for each run."""
        phi = inputs.checked_phi(self.model, observations)
        return self._state.belief.reward(phi.double().expand(*self.runs, -1, -1))

    def z_for(self, tasks: Float[Tensor, "*n D"]) -> Float[Tensor, "*n d"]:
        """The z to follow for each task, given as weights of features: the atlas's best, or the task projected to Z."""
        if isinstance(self.model, Charted):
            return self.model.best_for(tasks)
        return self.model.project_z(tasks if self._constant is None else self._constant.removed_from(tasks)).double()

    @property
    def fit(self) -> RewardFit:
        """How much of the rewards seen the features explain: R² with an interval."""
        return fit_of(self._state.posterior.with_likely_prior)

    @property
    def posterior(self) -> TaskPosterior:
        """A copy of the posterior over z_r, given rewards and preferences."""
        return self._state.measured_belief.copy()

    @property
    def preferences(self) -> Preferences:
        """A copy of what the preferences say: their number, ``flip_rate`` and ``scale``."""
        return copy.deepcopy(self._state.preferences)

    @property
    def t(self) -> int:
        """The number of tells."""
        return self._state.t

    @property
    def changes(self) -> int | Int[Tensor, " runs"]:
        """How often the method's change test has restarted the posterior, for each run; 0 without a test."""
        found = self._state.recent.get("changes", torch.zeros(self.runs, dtype=torch.int64))
        return found.clone() if self.runs else int(found)

    @property
    def present_z(self) -> Float[Tensor, "*b d"] | None:
        """The z of the last ask or act; None while an explorer acts."""
        z = self._state.last if self._state.z is None else self._state.z
        return None if z is None or self.exploring else z.clone()

    @property
    def z_hat(self) -> Float[Tensor, "*b d"]:
        """ẑ_t, the estimate of z_r, not projected; with an atlas the D weights of its features."""
        return self._state.belief.z_hat.clone()

    @property
    def best_z(self) -> Float[Tensor, "*b d"]:
        """The best z so far: ẑ projected to Z, the best of a bank, an atlas or rollouts, or the oracle's."""
        search, found = self.method.search, self._chooser.best_z(self._state.memory)
        if found is not None:
            return found.clone()
        if isinstance(search, Known):
            return search.best_z(self.bfm, self._state.belief)
        if isinstance(search, OverAtlas):
            return search.best_z(self._problem(()))  # the same from every start
        if isinstance(search, Among):
            if self._state.asked is None and self._state.entered is None:  # nothing seen yet: any of them
                return search.given[0].expand(*self.runs, -1).clone()
            return search.best_z(self._problem(self._last_observation()))
        return self.z_for(self.z_hat)

    @property
    def radius(self) -> Float[Tensor, "*b"]:
        """√β_t."""
        return self._radius(self._state.measured_belief)

    def _radius(self, belief: TaskPosterior) -> Float[Tensor, "*b"]:
        radius = as_finite(self.method.confidence(self.t, belief), "the radius", self._state.age.device)
        if (radius < 0).any() or tuple(radius.shape) not in ((), self.runs):
            raise ValueError(f"the radius must be one number ≥ 0, or one for each run, got {radius}")
        return radius.expand(self.runs)

    @property
    def safe_reward(self) -> float:
        """Rewards up to this size are never refused for their size: ẑ stays within the model's dtype."""
        return math.sqrt(self._largest_z)

    @property
    def can_follow(self) -> bool:
        """Whether ``follow`` works: the method chooses z, neither actions nor whole rollouts."""
        return self._chooser.follows

    @property
    def exploring(self) -> bool:
        """Whether an explorer chooses the next action."""
        return self._chooser.acts_at(self.t)

    @property
    def wants_reset(self) -> bool:
        """Whether the environment should reset to the common start now."""
        return self._chooser.wants_reset(self._state.memory)

    def wants_reward(
        self, next_obs: Obs, least: float | int = 0.5, until: Certified | None = None
    ) -> bool | Bool[Tensor, " runs"]:
        """Whether the reward of S_{t+1} is still uncertain: ``posterior.reward_width`` > least, for each run.

            agent.tell(obs, ask_the_person() if agent.wants_reward(obs) else None)

        The width is in units of σ, the noise of one reward: .5 is the uncertainty left after four rewards there. With
        ``until`` it is False while the run is certified at ``next_obs``.
        """
        least = in_range(least, "least", 0.0, math.inf, open_end=True)
        if until is not None and not isinstance(until, Certified):
            raise ValueError(f"until must be a zscout.Certified, got {type(until).__name__}")
        inputs.check_observation(next_obs, self.bfm.observation_space, self.runs)
        if isinstance(self.model, HasTransitionFeatures) and self._state.asked is None:
            raise ValueError("this model has transition features: call wants_reward between act(obs) and tell")
        phi = inputs.checked_phi(self.model, next_obs, self.runs, self._state.asked, self._state.action)
        wanted = self._state.belief.reward_width(phi) > least
        if self._chooser.needs_every_reward:
            wanted = torch.ones_like(wanted)
        elif until is not None:
            wanted = wanted & ~until.of(self.certificate(until.delta, obs=next_obs))
        return wanted if self.runs else bool(wanted)

    def certificate(self, delta: float = 0.05, *, obs: Obs | None = None) -> Certificate:
        """How much better any z can be than ``best_z``, at ``obs`` or at the last observation.

        A promise with probability 1 − δ if ψ is exact and the reward linear in φ, else an estimate.
        """
        delta = as_delta(delta)
        here = self._last_observation() if obs is None else obs
        inputs.check_observation(here, self.bfm.observation_space, self.runs)
        with self._one_thread, torch.no_grad():
            search = self.method.search
            listed = search if isinstance(search, Among | OverAtlas) else None
            rewards = self._state.posterior.with_likely_prior
            least = share_by_chance(rewards) if self._state.answers is None else 0.0  # answers are not in the fit
            return certify(self._problem(here), self.best_z, delta, self._streams(CERTIFICATE_DRAWS), listed, least)

    def _last_observation(self) -> Obs:
        last = self._state.entered if self._state.asked is None else self._state.asked
        if last is None:
            raise ValueError("there is no last observation: call ask or tell, or pass obs")
        return last

    def _problem(self, obs: Obs) -> Problem:
        state, belief = self._state, self._state.measured_belief
        return Problem(
            obs,
            self.model,
            belief,
            self._radius(belief),
            self.method.acquisition,
            last=state.last,
            constant=self._constant,
            experience=None if state.experience is None else state.experience.merged(),
            costs=state.costs,
        )

    def _streams(self, which: int) -> Streams:
        return Streams(self.seeds.to(self._state.age.device), STREAMS * self.t + which)
