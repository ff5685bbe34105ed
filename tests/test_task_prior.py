"""The prior over tasks, the radius that follows it, banks of given z, and the fit of the rewards."""

import math
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Generator

import zscout
from reproduction.pieces.scores import prior_log_det
from toys import Compass
from zscout import OnlineTransfer
from zscout.base.smooth_rewards import random_rewards
from zscout.models.fb.task_prior import ROUGH_SHARE, covariance_of_rewards, random_tasks, task_covariance
from zscout.models.files.pretrained import observations_of
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.score.certificate import RewardFit, fit_of
from zscout.transfer.score.confidence import ScaleFree, directions_seen, in_burst


def _covariance(d: int = 5) -> torch.Tensor:
    A = torch.randn(d, d, generator=Generator().manual_seed(0), dtype=torch.float64)
    return A @ A.mT + 0.1 * torch.eye(d, dtype=torch.float64)


def _pairs(n: int = 30, d: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    rng = Generator().manual_seed(1)
    return torch.randn(n, d, generator=rng, dtype=torch.float64), torch.randn(n, generator=rng, dtype=torch.float64)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_prior_equals_isotropic_regression_in_other_units(intercept: bool) -> None:
    S, (phi, reward) = _covariance(), _pairs()
    L = torch.linalg.cholesky(S)
    options = {"dim": 5, "ridge": 0.7, "intercept": intercept}
    with_prior = TaskPosterior.prior(covariance=S, **options)  # type: ignore[arg-type]
    plain = TaskPosterior.prior(**options)  # type: ignore[arg-type]
    x = torch.randn(4, 5, generator=Generator().manual_seed(2), dtype=torch.float64)
    for one, r in zip(phi, reward, strict=True):
        with_prior, plain = with_prior.update(one, r), plain.update(L.mT @ one, r)
    assert torch.allclose(with_prior.z_hat, L @ plain.z_hat)
    assert torch.allclose(with_prior.width(x), plain.width(x @ L))
    assert torch.allclose(directions_seen(with_prior), directions_seen(plain))
    ratio = ScaleFree()(0, with_prior) / ScaleFree()(0, plain)
    assert torch.allclose(ratio, torch.ones(()).double())  # d = 5: no wider than for nine features
    assert torch.allclose(with_prior.log_det - prior_log_det(with_prior), plain.log_det - prior_log_det(plain))


def test_no_prior_or_an_isotropic_one_are_the_same() -> None:
    phi, reward = _pairs()
    isotropic = TaskPosterior.prior(dim=5, ridge=0.3, covariance=torch.eye(5)).learn(phi, reward)
    plain = TaskPosterior.prior(dim=5, ridge=0.3).learn(phi, reward)
    assert torch.allclose(isotropic.z_hat, plain.z_hat)
    assert isotropic.prior_dimensions == plain.prior_dimensions == 5


@pytest.mark.parametrize(
    ("bad", "says"),
    [(torch.eye(4), "expected .5, 5."), (-torch.eye(5), "not positive definite"), (torch.eye(5) * math.nan, "NaN")],
)
def test_a_wrong_prior_is_refused(bad: torch.Tensor, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TaskPosterior.prior(dim=5, ridge=1.0, covariance=bad)


def test_the_covariance_does_not_depend_on_the_units_of_the_features() -> None:
    rng = Generator().manual_seed(0)
    goals = torch.randn(500, 2, generator=rng, dtype=torch.float64)
    phi = torch.cat([goals, goals.square(), torch.randn(500, 2, generator=rng, dtype=torch.float64)], -1)
    T = torch.randn(6, 6, generator=rng, dtype=torch.float64)
    S, turned = covariance_of_rewards(phi, goals), covariance_of_rewards(phi @ T, goals)
    assert torch.allclose(T @ turned @ T.mT, S, rtol=1e-3, atol=1e-3)  # w ↦ T⁻¹w
    assert S[4, 4] < 0.2 * S[0, 0]  # features that no reward uses are unlikely …
    assert S[4, 4] > 0.5 * ROUGH_SHARE  # … but not impossible


def test_random_rewards_are_ramps_and_bumps() -> None:
    goals = torch.randn(300, 3, generator=Generator().manual_seed(0), dtype=torch.float64)
    rewards = random_rewards(goals, 40, Generator().manual_seed(1))
    ramps, bumps = rewards[:, :10], rewards[:, 10:]
    solved = torch.linalg.lstsq(goals, ramps).solution
    assert torch.allclose(goals @ solved, ramps)
    assert torch.allclose(bumps.amax(0), torch.ones(30).double())  # 1 at their centres, which are rows
    assert (bumps >= 0).all()


def test_random_tasks_are_those_of_random_rewards() -> None:
    goals = torch.randn(500, 3, generator=Generator().manual_seed(0))
    B = torch.cat([goals, goals.square()], -1)
    B = B - B.mean(0)
    z = random_tasks(B, goals, 40, Generator().manual_seed(1))
    scaled = (goals - goals.mean(0)) / goals.std(0)
    rewards = random_rewards(scaled, 40, Generator().manual_seed(1))
    expected = B @ z.mT
    assert torch.allclose(z.norm(dim=-1), torch.full((40,), math.sqrt(6)))
    fits = [float(torch.corrcoef(torch.stack(pair))[0, 1]) for pair in zip(expected.mT, rewards.mT, strict=True)]
    assert min(fits) > 0.1
    assert float(np.median(fits)) > 0.5


def test_half_of_the_random_tasks_go_up_or_down_a_ramp() -> None:
    goals = 3 * torch.randn(500, 4, generator=Generator().manual_seed(0)) + 1
    B = goals - goals.mean(0)
    z = random_tasks(B, goals, 80, Generator().manual_seed(1), ramps=(1, 3))
    assert torch.allclose(z.norm(dim=-1), torch.full((80,), 2.0))
    near = torch.nn.functional.normalize(z, dim=-1)[:40, [1, 3]]  # of rewards linear in B, z has the slopes
    along = near.abs().argmax(1)
    most = near.gather(1, along[:, None])[:, 0]
    assert (most.abs() > 0.5).all()
    kinds = {(int(which), float(sign)) for which, sign in zip(along, most.sign(), strict=True)}
    assert kinds == {(0, -1.0), (0, 1.0), (1, -1.0), (1, 1.0)}
    scaled = (goals - goals.mean(0)) / goals.std(0)
    others = B @ z[40:].mT
    rewards = random_rewards(scaled, 40, Generator().manual_seed(1))
    fits = [float(torch.corrcoef(torch.stack(pair))[0, 1]) for pair in zip(others.mT, rewards.mT, strict=True)]
    assert min(fits) > 0.1


def test_a_gated_ramp_pays_only_above_the_mean_of_its_gate() -> None:
    """With a feature of B for each cell of ramp × gate, z is the mean reward of the cells."""
    goals = torch.rand(20_000, 2, generator=Generator().manual_seed(0)) - 0.5
    cell = (goals > 0).long() @ torch.tensor([2, 1])
    B = torch.nn.functional.one_hot(cell, 4).float()
    B = B - B.mean(0)
    z = random_tasks(B, goals, 200, Generator().manual_seed(1), ramps=(0,), gates=(1,))[:100]
    low, high = z[:, [0, 2]], z[:, [1, 3]]  # gate below and above its mean, each with the ramp below and above
    assert torch.allclose(low[:, 0], low[:, 1], atol=0.05)  # nothing is paid there …
    up = high[:, 1] > high[:, 0]
    assert 0.3 < float(up.float().mean()) < 0.7
    assert (high.amax(1) > low[:, 0] + 1).all()  # … and here it is, up or down the ramp
    plain = random_tasks(B, goals, 200, Generator().manual_seed(1), ramps=(0,))[:100]
    assert ((plain[:, 0] - plain[:, 2]).abs() > 1).float().mean() > 0.9


@pytest.mark.parametrize("name", ["cheetah-fb", "quadruped-fb", "walker-fb"])
def test_a_shipped_model_has_the_prior_of_its_observations(
    name: Literal["cheetah-fb", "quadruped-fb", "walker-fb"],
) -> None:
    model, obs = zscout.load(name), observations_of(name)
    found = model.task_covariance()
    assert found is not None
    expected = task_covariance(model, obs, model.config.goals(obs))  # of other observations of the same data
    assert (
        found.double() - expected
    ).norm() < 0.2 * expected.norm()  # measured: cheetah .119, quadruped .107, walker .103


def test_the_prior_of_the_point_maze_has_few_directions() -> None:
    maze = zscout.load("pointmaze-fb").task_covariance()
    assert maze is not None
    assert 5 < TaskPosterior.prior(dim=32, ridge=1.0, covariance=maze).prior_dimensions < 20


def test_the_default_uses_the_prior_and_other_methods_do_not() -> None:
    model = zscout.load("pointmaze-fb")
    assert OnlineTransfer(model).posterior.task_root is not None
    assert OnlineTransfer(model).posterior.ridge == 1.0
    for method in ("opti", "thompson", zscout.METHODS["usf-ucb"](dim=32, prior="ridge")):
        assert OnlineTransfer(model, method).posterior.task_root is None


def test_a_calibrated_model_keeps_the_prior() -> None:
    model = zscout.load("pointmaze-fb")
    wrapped = zscout.calibrated(model)  # mean 0 and covariance I already: the same features
    assert torch.allclose(wrapped.task_covariance(), model.task_covariance().double(), atol=1e-4)  # type: ignore


def test_saved_agents_with_a_prior_go_on_as_before(tmp_path: Path) -> None:
    model = zscout.load("pointmaze-fb")
    agent, obs = OnlineTransfer(model), np.array([2.0, 2.0, 0.0, 0.0], dtype=np.float32)
    for reward in (0.0, 1.0, 0.5):
        agent.act(obs)
        agent.tell(obs + np.float32(reward), reward)
    agent.save(tmp_path)
    again = OnlineTransfer.load(tmp_path, model)
    assert torch.equal(agent.ask(obs), again.ask(obs))
    assert torch.equal(agent.radius, again.radius)


def test_the_radius_grows_with_the_number_of_features_and_in_bursts() -> None:
    def radius(d: int, t: int = 0) -> float:
        return float(ScaleFree(burst=2.2)(t, TaskPosterior.prior(dim=d, ridge=1.0)))

    assert radius(4) == radius(9) == 1.6
    assert radius(36) == pytest.approx(3.2)
    assert [t for t in range(2_000) if in_burst(t)] == [*range(400, 412), *range(800, 812), *range(1600, 1612)]
    assert radius(9, 405) == pytest.approx(2.2 * 1.6)
    prior = TaskPosterior.prior(dim=9, ridge=1.0, covariance=torch.eye(9))
    assert float(ScaleFree(burst=2.2)(405, prior)) == pytest.approx(1.6)


def test_a_bank_limits_the_choice_to_its_z() -> None:
    model = Compass()
    bank = model.sample_z(3, 0).double()
    agent = OnlineTransfer(model, bank=bank, seed=1)
    obs = np.zeros(2)
    for _ in range(12):
        z = agent.ask(obs)
        assert any(torch.allclose(z, one) for one in bank)
        obs = obs + z.numpy()
        agent.tell(obs, float(obs[0]))  # the reward is x
    assert torch.allclose(agent.best_z, best := bank[bank[:, 0].argmax()])
    agent.best_z.zero_()  # a copy: the bank stays
    assert torch.allclose(agent.best_z, best)


@pytest.mark.parametrize("bad", [[], [[1.0]], [1.0, 2.0], [[math.nan] * 2]])
def test_a_bad_bank_is_refused(bad: list[object]) -> None:
    with pytest.raises(ValueError, match="bank"):
        OnlineTransfer(Compass(), bank=bad)


def test_a_bank_needs_a_method_with_a_score() -> None:
    model = Compass()
    with pytest.raises(ValueError, match="bank needs a method that scores z"):
        OnlineTransfer(model, "thompson", bank=model.sample_z(3, 0))


def test_the_fit_tells_expressed_rewards_from_others() -> None:
    rng = Generator().manual_seed(0)
    phi = torch.randn(400, 5, generator=rng, dtype=torch.float64)
    prior = TaskPosterior.prior(dim=5, ridge=0.1, intercept=True, noise=None)
    noise = torch.randn(400, generator=rng, dtype=torch.float64)
    z = torch.ones(5, dtype=torch.float64)
    model = Compass()

    def fit(rewards: torch.Tensor) -> RewardFit:
        return fit_of(prior.learn(phi, rewards))

    exact, half, none = fit(phi @ z + 3), fit(phi @ z + math.sqrt(5) * noise), fit(noise)
    assert float(exact.r2) > 0.99
    assert float(half.low) < 0.5 < float(half.high)
    assert float(half.high) - float(half.low) < 0.3
    assert float(none.low) < 0.05
    assert math.isnan(float(OnlineTransfer(model).fit.r2))
