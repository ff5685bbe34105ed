"""The golden record catches faults: each is planted in today's inside, the only file here that knows it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from golden.cases import CASES, Case
from golden.record import compare
from zscout import FB, ChangeTest, OnlineTransfer
from zscout.transfer.atlas import charted
from zscout.transfer.atlas.experience import Experience
from zscout.transfer.atlas.limits import within
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.belief.sums import Means
from zscout.transfer.learned import Learned
from zscout.transfer.score import problem
from zscout.transfer.score.acquisition import UCB
from zscout.transfer.state import AgentState

Plant = Callable[[pytest.MonkeyPatch], None]


def bonus_with_another_sign(patch: pytest.MonkeyPatch) -> None:
    right = UCB.__call__
    patch.setattr(UCB, "__call__", lambda score, f, p, radius, rng: right(score, f, p, -radius, rng))


def hold_one_step_longer(patch: pytest.MonkeyPatch) -> None:
    right = AgentState.due
    later = lambda state, hold: right(state, hold + 1 if isinstance(hold, int) and hold > 1 else hold)  # noqa: E731
    patch.setattr(AgentState, "due", later)


def no_prior_over_tasks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FB, "task_covariance", lambda model: None)


def mean_not_subtracted(patch: pytest.MonkeyPatch) -> None:
    right = Means.plus

    def plus(means: Means, phi: Any, reward: Any, seen: Any) -> Any:
        new, _, missed = right(means, phi, reward, seen)
        return new, phi * torch.as_tensor(seen)[..., None], missed

    patch.setattr(Means, "plus", plus)


def ties_broken_by_index(patch: pytest.MonkeyPatch) -> None:
    for home in (problem, charted):
        patch.setattr(home, "argmax_at_random", lambda scores, rng: scores.argmax(-1))


def missing_reward_counts_as_0(patch: pytest.MonkeyPatch) -> None:
    right = TaskPosterior.plus
    patch.setattr(TaskPosterior, "plus", lambda belief, phi, reward, weight: right(belief, phi, reward, 1.0))


def change_test_never_restarts(patch: pytest.MonkeyPatch) -> None:
    right = ChangeTest.log_factors
    patch.setattr(ChangeTest, "log_factors", lambda *parts: right(*parts) - torch.inf)


def limit_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(charted, "within", lambda *parts: torch.ones_like(within(*parts)))


def best_z_without_the_last_estimate(patch: pytest.MonkeyPatch) -> None:
    right = OnlineTransfer.tell

    def tell(agent: Any, *told: Any, **more: Any) -> None:
        agent.before = agent.z_hat
        right(agent, *told, **more)

    patch.setattr(OnlineTransfer, "tell", tell)
    patch.setattr(Learned, "best_z", property(lambda agent: agent.z_for(agent.before)))


def credit_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OnlineTransfer, "credit", lambda *parts: None)


def answers_turned_round(patch: pytest.MonkeyPatch) -> None:
    right = OnlineTransfer.prefer
    patch.setattr(OnlineTransfer, "prefer", lambda agent, better, worse: right(agent, worse, better))


def lesson_without_its_mask(patch: pytest.MonkeyPatch) -> None:
    right = OnlineTransfer.learn
    patch.setattr(OnlineTransfer, "learn", lambda agent, obs, rewards, seen=None: right(agent, obs, rewards))


def own_experience_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Experience, "plus", lambda seen, phi: seen)


def loaded_agent_begins_a_new_z(patch: pytest.MonkeyPatch) -> None:
    right = OnlineTransfer.load.__func__  # type: ignore[attr-defined]

    def load(kind: Any, *parts: Any, **more: Any) -> Any:
        agent = right(kind, *parts, **more)
        agent._state = replace(agent._state, age=torch.full_like(agent._state.age, torch.inf))
        return agent

    patch.setattr(OnlineTransfer, "load", classmethod(load))


CAUGHT_BY: dict[Plant, Case] = {
    bonus_with_another_sign: Case("exact-laplacian", "opti"),
    hold_one_step_longer: Case("point-mass", "usf-ucb", "hold-5"),
    no_prior_over_tasks: Case("pointmaze-fb", "usf-ucb"),
    mean_not_subtracted: Case("exact-laplacian", "usf-ucb"),
    ties_broken_by_index: Case("behaviours-6", "usf-ucb"),
    missing_reward_counts_as_0: Case("point-mass", "opti", "missing"),
    change_test_never_restarts: Case("point-mass", "usf-ucb", "change"),
    limit_ignored: Case("behaviours-40", "usf-ucb", "limit-known"),
    best_z_without_the_last_estimate: Case("point-mass", "usf-ucb"),
    credit_dropped: Case("exact-laplacian", "opti", "credit"),
    answers_turned_round: Case("point-mass", "usf-ucb", "prefer"),
    lesson_without_its_mask: Case("point-mass", "usf-ucb", "learn"),
    own_experience_dropped: Case("behaviours-40", "usf-ucb"),
    loaded_agent_begins_a_new_z: Case("walker-atlas", "usf-ucb", "saved"),
}


@pytest.mark.long
@pytest.mark.parametrize("plant", CAUGHT_BY, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CAUGHT_BY[plant]
    assert case in CASES
    assert compare(case).differs == []
    plant(monkeypatch)
    assert compare(case).differs
