"""What an agent has seen and chosen so far: its first belief, a frozen state, and the state after a step."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.types import Action, BehaviorModel, HasTaskPrior, Obs
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.atlas.experience import Experience, ForecastErrors
from zscout.transfer.atlas.limits import CostBelief
from zscout.transfer.belief.feedback import Preferences, Sites
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.choosers import Memory
from zscout.transfer.constants import ATLAS_RIDGES, MODEL_RIDGE
from zscout.transfer.methods import Method


@dataclass(frozen=True, eq=False)
class AgentState:
    """The state of an agent; a call that succeeds replaces it."""

    posterior: TaskPosterior
    age: Float[Tensor, "*b"]  # steps for which the last z was followed; infinite: choose a new one
    t: int = 0  # number of tells
    last: Float[Tensor, "*b d"] | None = None  # Z_{t−1}
    z: Float[Tensor, "*b d"] | None = None  # Z_t, from ask to tell
    asked: Obs | None = None  # S_t, from ask or act to tell
    entered: Obs | None = None  # the observation of the last tell
    action: Action | None = None  # A_t, from act to tell
    memory: Memory = field(default_factory=dict)  # of a rollout search or an explorer
    answers: Float[Tensor, "*b n d"] | None = None  # Φ_better − Φ_worse of each preference
    sites: Sites | None = None  # of the answers, when a z was last chosen
    recent: Memory = field(default_factory=dict)  # the last rewards, for a change test
    experience: Experience | None = None  # of the behaviours followed, with an atlas
    errors: ForecastErrors | None = None  # of their forecasts
    costs: tuple[CostBelief, ...] = ()  # of each limit

    @cached_property
    def preferences(self) -> Preferences:
        """Rewards and answers mixed."""
        return Preferences.of(self.posterior.with_likely_prior, self.answers, self.sites)

    def changed(self, **parts: Any) -> "AgentState":
        """The state with other parts, none of them a label: what rewards and answers say is not computed again."""
        new = replace(self, **parts)
        if "preferences" in vars(self):
            vars(new)["preferences"] = self.preferences
        return new

    @property
    def belief(self) -> TaskPosterior:
        """The posterior of z given rewards and answers; ``posterior`` has the rewards only, with the first prior."""
        return self.posterior.with_likely_prior if self.answers is None else self.preferences.posterior

    @property
    def measured_belief(self) -> TaskPosterior:
        """The belief with its misfit, if it is known."""
        belief = self.belief
        return belief if self.errors is None else replace(belief, misfit=self.errors.misfit(belief))

    def due(self, hold: int | str) -> Bool[Tensor, "*b"]:
        """Which runs need a new z: the last one was followed for ``hold`` steps."""
        return self.age >= (math.inf if isinstance(hold, str) else hold)

    def visited(
        self, phi: Float[Tensor, "*b D"], atlas: Atlas, due: Bool[Tensor, "*b"], restarted: Bool[Tensor, "*b"] | None
    ) -> "AgentState":
        """With one more step of the behaviour followed, one of the atlas; ``restarted``: runs with a new task."""
        state = self._following(atlas, due)
        assert state.experience is not None
        errors = state.errors
        if errors is not None and restarted is not None:
            errors = errors.anew(restarted)
        return state.changed(experience=state.experience.plus(phi), errors=errors)

    def _following(self, atlas: Atlas, due: Bool[Tensor, "*b"]) -> "AgentState":
        """With the behaviour of this step: a new one was chosen, or another is followed."""
        z, experience = self.last if self.z is None else self.z, self.experience
        if experience is None or z is None or not due.any():
            return self
        row = atlas.index_of(z.float())
        if self.z is None:  # by ``follow``, which says it at every step
            due = due & (row != experience.row)
        if not due.any():
            return self
        errors = None if self.errors is None else self.errors.after_choice(self.belief, due)
        costs = tuple(cost.after_choice(due) for cost in self.costs)
        return self.changed(experience=experience.changed_to(row, due), errors=errors, costs=costs)

    def after_step(
        self,
        entered: Obs,
        posterior: TaskPosterior,
        recent: Memory,
        due: Bool[Tensor, "*b"],
        ended: Bool[Tensor, "*b"],
        restarted: Bool[Tensor, "*b"] | None,
    ) -> "AgentState":
        """At S_{t+1}; ``ended``: runs whose episode ended, ``restarted``: runs with a new task. Both need a new z."""
        last, age, answers, sites = self.last, self.age, self.answers, self.sites
        if self.z is not None:
            last, age = self.z, age.masked_fill(due, 0.0) + 1
            sites = self.preferences.sites if answers is not None and due.any() else sites
        if answers is not None and restarted is not None:  # those about an old task say nothing: a difference of 0
            answers = answers.masked_fill(restarted[..., None, None], 0.0)
        return AgentState(
            posterior,
            age.masked_fill(ended if restarted is None else ended | restarted, math.inf),
            self.t + 1,
            last,
            memory=self.memory,
            answers=answers,
            sites=sites,
            recent=recent,
            experience=self.experience,
            errors=self.errors,
            costs=self.costs,
            entered=entered,
        )


def first_belief(
    method: Method,
    model: BehaviorModel,
    noise: float | None,
    runs: tuple[int, ...],
    device: torch.device,
) -> TaskPosterior:
    """The posterior before any reward: by the model's prior over tasks, or by λ alone."""
    covariance, ridge = None, ATLAS_RIDGES if method.prior == "evidence" else method.ridge
    if method.prior == "model" and isinstance(model, HasTaskPrior):
        covariance = model.task_covariance()
        ridge = ridge if covariance is None else MODEL_RIDGE
    return TaskPosterior.prior(
        dim=model.dim,
        ridge=ridge,
        covariance=covariance,
        noise=noise,
        intercept=method.intercept,
        runs=runs,
        device=device,
    )
