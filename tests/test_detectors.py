"""Rewards as detectors give them: binary, wrong now and then, late, and asked for only where it matters."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from test_atlas import DriftWorld, atlas, near
from toys import Drifter
from zscout import Atlas, OnlineTransfer, TaskPosterior

__all__ = ["atlas"]  # the fixture


class Detector:
    """Whether the reward is above .6."""

    def compute_reward(self, batch: Any) -> Tensor:
        return (near(0.5, 0.3)(batch) > 0.6).float()


def test_a_reward_model_labels_what_is_learned(atlas: Atlas) -> None:
    one, other = OnlineTransfer(Drifter(), atlas=atlas), OnlineTransfer(Drifter(), atlas=atlas)
    one.learn(atlas.sample[:50], Detector())
    other.learn(atlas.sample[:50], Detector().compute_reward(atlas.sample[:50]))
    assert torch.equal(one.z_hat, other.z_hat)


def test_pairs_that_were_not_seen_teach_nothing() -> None:
    rng = Generator().manual_seed(0)
    phi, reward, seen = torch.randn(3, 8, 4, generator=rng), torch.randn(3, 8, generator=rng), torch.ones(3, 8) > 0
    seen[0, 2], seen[1, :5], reward[0, 2] = False, False, torch.nan
    prior = TaskPosterior.prior(dim=4, ridge=0.1, intercept=True, runs=(3,))
    found = prior.learn(phi, reward, seen)
    for run in range(3):
        alone = TaskPosterior.prior(dim=4, ridge=0.1, intercept=True).learn(phi[run, seen[run]], reward[run, seen[run]])
        assert torch.allclose(found.z_hat[run], alone.z_hat, atol=1e-9)
        assert float(found.weight[run]) == float(seen[run].sum())
    single = TaskPosterior.prior(dim=4, ridge=0.1)
    for posterior, rewards in ((single, reward), (prior, torch.zeros(3, 7)), (prior, torch.zeros(3, 9)), (prior, 1.0)):
        with pytest.raises(ValueError, match="shape"):
            posterior.learn(phi, rewards, seen)
    with pytest.raises(ValueError, match="seen"):
        prior.learn(phi, reward, seen[:, :3])


def test_few_late_and_often_wrong_answers_find_the_place(atlas: Atlas) -> None:
    runs, every, late = 6, 3, 12
    agent, world, rng = OnlineTransfer(Drifter(), runs=runs, atlas=atlas), DriftWorld(), Generator().manual_seed(0)
    state, questions, answers = world.random_states(runs, rng).double(), [], torch.zeros(runs)
    for t in range(240):
        state, _ = world.advance(state, agent.ask(state))
        agent.tell(state)
        if t % every == 0:
            questions.append((state, torch.as_tensor(agent.wants_reward(state))))
            if t >= late:
                seen, wanted = questions[(t - late) // every]
                said, flipped = Detector().compute_reward(seen), torch.rand(runs, generator=rng) < 0.1
                agent.learn(seen[:, None], torch.where(flipped, 1 - said, said)[:, None], wanted[:, None])
                answers += wanted
    assert float(near(0.5, 0.3)(agent.best_z).mean()) > 0.65, "the detector says yes above .6"
    assert float(answers.mean()) < 0.7 * len(questions)
