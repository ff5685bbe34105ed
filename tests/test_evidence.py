"""The rewards choose between the model's prior over tasks and an isotropic one, and λ."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.testing import assert_close

import zscout
from reproduction.pieces.scores import prior_log_det
from zscout import OnlineTransfer
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.belief.sums import Sums, TaskPriors
from zscout.transfer.constants import PRIOR_RIDGES

D = 6
SMOOTH = torch.diag(torch.tensor([2.9, 2.9, 0.05, 0.05, 0.05, 0.05], dtype=torch.float64))  # mean variance 1


def _draws(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


def _prior(**options: Any) -> TaskPosterior:
    return TaskPosterior.prior(dim=D, ridge=1.0, noise=None, covariance=SMOOTH, **options)


def _task(smooth: bool) -> Tensor:
    return torch.tensor([2.0, -1.5, 0, 0, 0, 0] if smooth else [0, 0.3, 1.5, -1.5, 1.5, -1.5], dtype=torch.float64)


def _learned(*, smooth: bool, noise: float, n: int = 40, scale: float = 1.0, offset: float = 0.0) -> TaskPosterior:
    phi = _draws(n, D, seed=1)
    reward = scale * (phi @ _task(smooth) + noise * _draws(n, seed=2)) + offset
    return _prior(intercept=True).learn(phi, reward)


def _is_isotropic(posterior: TaskPosterior) -> bool:
    assert posterior.task_root is not None
    return bool(torch.allclose(posterior.task_root, torch.eye(D).double()))


@given(seed=st.integers(0, 10_000), n=st.integers(2, 30), ridge=st.floats(0.1, 10))
def test_the_evidence_is_that_of_the_rewards_covariance(seed: int, n: int, ridge: float) -> None:
    phi, reward = _draws(n, D, seed=seed), _draws(n, seed=seed + 1)
    count, first = torch.tensor(float(n)).double(), ridge * torch.linalg.inv(SMOOTH)
    sums = Sums(first + phi.mT @ phi, phi.mT @ reward, reward @ reward, count)
    found, _, _ = TaskPriors.of(torch.linalg.cholesky(SMOOTH), ridge).fitted(sums, count)
    for k, S in enumerate([SMOOTH, torch.eye(D).double()]):
        for m, share in enumerate(PRIOR_RIDGES):
            C = torch.eye(n).double() + phi @ S @ phi.mT / (share * ridge)  # r ~ N(0, σ²C), ∫ over d log σ
            direct = -0.5 * torch.logdet(C) - 0.5 * n * torch.log(reward @ torch.linalg.solve(C, reward))
            assert_close(found[k * len(PRIOR_RIDGES) + m], direct, rtol=1e-6, atol=1e-6)


def test_rewards_choose_the_prior_and_the_ridge() -> None:
    smooth, rough = _learned(smooth=True, noise=0.1), _learned(smooth=False, noise=0.1)
    assert not _is_isotropic(smooth.with_likely_prior)
    assert _is_isotropic(rough.with_likely_prior)
    exact = _learned(smooth=True, noise=0.0).with_likely_prior.ridge
    noisy = _learned(smooth=True, noise=8.0, n=100).with_likely_prior.ridge
    assert float(exact) == 0.01
    assert float(noisy) == 10


def test_few_rewards_or_no_prior_choose_nothing() -> None:
    for n in (0, 1, 2):
        few = _learned(smooth=False, noise=0.1, n=n)
        assert few.with_likely_prior is few
    plain = TaskPosterior.prior(dim=D, ridge=1.0).learn(_draws(50, D, seed=0), _draws(50, seed=1))
    assert plain.with_likely_prior is plain


@pytest.mark.parametrize("noise", [0.0, 0.3, 8.0])
@pytest.mark.parametrize("smooth", [False, True])
def test_scale_and_offset_of_the_rewards_choose_nothing(smooth: bool, noise: float) -> None:
    one = _learned(smooth=smooth, noise=noise).with_likely_prior
    other = _learned(smooth=smooth, noise=noise, scale=1e-3, offset=50.0).with_likely_prior
    assert float(torch.as_tensor(one.ridge)) == float(torch.as_tensor(other.ridge))
    assert _is_isotropic(one) == _is_isotropic(other)
    assert_close(1e-3 * one.z_hat, other.z_hat, rtol=1e-5, atol=1e-9)


def test_it_equals_learning_with_the_other_prior_from_the_first_reward() -> None:
    phi, options = _draws(60, D, seed=1), {"dim": D, "noise": None, "intercept": True}
    reward = phi @ _task(smooth=False)
    first = TaskPosterior.prior(ridge=1.0, covariance=SMOOTH, **options)  # type: ignore[arg-type]
    for one, r in zip(phi, reward, strict=True):
        first = first.update(one, r)
    found = first.with_likely_prior
    same = TaskPosterior.prior(ridge=float(found.ridge), covariance=torch.eye(D), **options)  # type: ignore[arg-type]
    for one, r in zip(phi, reward, strict=True):
        same = same.update(one, r)
    assert float(found.ridge) < 1
    assert_close(found.z_hat, same.z_hat)
    assert_close(found.width(phi), same.width(phi))
    assert_close(found.noise, same.noise)
    assert_close(prior_log_det(found), prior_log_det(same))
    after = found.update(phi[0], reward[0])  # it can go on learning
    assert_close(after.z_hat, same.update(phi[0], reward[0]).z_hat)


def test_each_run_of_a_batch_chooses_for_itself() -> None:
    phi = _draws(3, 40, D, seed=1)
    tasks = torch.stack([_task(smooth=True), _task(smooth=False), 0 * _task(smooth=True)])
    reward = (phi @ tasks[..., None])[..., 0] + 0.1 * _draws(3, 40, seed=2)
    together = _prior(runs=(3,), intercept=True)
    alone = [_prior(intercept=True) for _ in range(3)]
    for t in range(40):
        seen = torch.tensor([True, True, t < 2])
        together = together.update(phi[:, t], reward[:, t], seen)
        alone = [one.update(phi[i, t], reward[i, t], seen[i]) for i, one in enumerate(alone)]
    found, singles = together.with_likely_prior, [one.with_likely_prior for one in alone]
    assert_close(found.z_hat, torch.stack([one.z_hat for one in singles]))
    assert_close(found.ridge, torch.stack([torch.as_tensor(one.ridge).double() for one in singles]))
    assert singles[2] is alone[2]
    assert torch.equal(found.factor[2], together.factor[2])  # bitwise where nothing changed
    radius = zscout.METHODS["usf-ucb"](dim=D).confidence
    assert_close(radius(9, found), torch.stack([radius(9, one) for one in singles]))


def test_features_too_large_for_a_small_ridge_choose_none() -> None:
    phi = 1e7 * _draws(4, D, seed=0)
    posterior = _prior().learn(phi, phi @ _task(smooth=False))
    assert float(torch.as_tensor(posterior.with_likely_prior.ridge)) >= 1


def test_a_saved_agent_keeps_its_choice(tmp_path: Path) -> None:
    model = zscout.load("pointmaze-fb")
    z = model.sample_z(1, 3)[0].double()  # a rough task
    agent, rng = OnlineTransfer(model), np.random.default_rng(0)
    for _ in range(60):
        obs = np.array([*rng.uniform(1, 9, 2), *rng.normal(0, 0.1, 2)], dtype=np.float32)
        agent.act(obs)
        agent.tell(obs, float(model.phi(torch.as_tensor(obs)[None])[0].double() @ z))
    agent.save(tmp_path)
    again = OnlineTransfer.load(tmp_path, model)
    assert float(agent.posterior.ridge) < 1.0
    assert torch.equal(agent.ask(obs), again.ask(obs))
    assert torch.equal(agent.radius, again.radius)
    again.prefer(np.stack([obs, obs + 1]), np.stack([obs, obs]))  # answers follow the same prior
    assert float(again.posterior.ridge) == float(agent.posterior.ridge)


def test_the_likely_prior_is_found_only_when_a_score_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    fitted = TaskPriors.fitted

    def counted(*given: Any) -> Any:
        found.append(1)
        return fitted(*given)

    monkeypatch.setattr(TaskPriors, "fitted", counted)
    model = zscout.load("pointmaze-fb")
    agent = OnlineTransfer(model, zscout.METHODS["usf-ucb"](dim=model.dim, hold=5))
    obs = np.array([2.0, 2.0, 0.0, 0.0], dtype=np.float32)
    for t in range(10):
        agent.ask(obs)
        agent.tell(obs, float(t))
    assert len(found) == 2  # at steps 0 and 5
    agent.ask(obs)
    with pytest.raises(ValueError, match="overflow"):
        agent.tell(obs + 1, 1e60)
    assert agent.t == 10


def test_what_a_user_does_with_the_likely_posterior_does_not_reach_the_priors() -> None:
    likely = (first := _learned(smooth=False, noise=0.0)).with_likely_prior
    assert first.priors is not None
    assert isinstance(likely.ridge, Tensor)
    assert likely.task_root is not None
    assert first.priors.roots is not None
    before = first.priors.ridges.clone(), first.priors.roots.clone()
    likely.ridge.mul_(5)
    likely.task_root.mul_(5)
    assert torch.equal(first.priors.ridges, before[0])
    assert torch.equal(first.priors.roots, before[1])
