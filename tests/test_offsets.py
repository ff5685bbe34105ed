"""A constant in the reward changes nothing, nor does its unit: r → a·r + c."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import zscout
from reproduction.experiments.searches import random_problem
from reproduction.pieces.scores import LogDet
from reproduction.pieces.searches import Gradient
from simulating import simulate
from toys import Compass, Regression
from zscout import METHODS, USFA, ExactModel, OnlineTransfer, TaskPosterior
from zscout.base.types import HasHeads, HasHorizons, HasSecondMoment, HasStates
from zscout.lab.arenas.grid import GridArena
from zscout.models.calibration import Calibrated, calibrated, whitening
from zscout.transfer.belief.sums import Means
from zscout.transfer.offline import constant_part, constant_part_of, fit_task
from zscout.transfer.score.acquisition import UCB, PathUCB
from zscout.transfer.score.forecast import Forecast


def some_pairs(n: int, d: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    phi = torch.randn(n, d, generator=rng, dtype=torch.float64) + 3
    return phi, phi @ torch.randn(d, generator=rng, dtype=torch.float64) + torch.randn(
        n, generator=rng, dtype=torch.float64
    )


# The posterior


@given(n=st.integers(1, 30), d=st.integers(1, 6), seed=st.integers(0, 1000), offset=st.floats(-1e4, 1e4))
def test_the_intercept_is_that_of_centred_ridge_regression(n: int, d: int, seed: int, offset: float) -> None:
    phi, reward = some_pairs(n, d, seed)
    prior = TaskPosterior.prior(dim=d, ridge=0.3, intercept=True)
    one_by_one = prior
    for row, r in zip(phi, reward + offset, strict=True):
        one_by_one = one_by_one.update(row, r)
    X, y = phi - phi.mean(0), reward - reward.mean()
    V = 0.3 * torch.eye(d).double() + X.T @ X
    z_hat = torch.linalg.solve(V, X.T @ y)
    half = n // 2
    at_once, in_halves = prior.learn(phi, reward + offset), prior
    for part in (slice(0, half), slice(half, n)):
        in_halves = in_halves.learn(phi[part], (reward + offset)[part])
    for posterior in (one_by_one, at_once, in_halves):
        assert_close(posterior.V, V, rtol=1e-7, atol=1e-7)
        assert_close(posterior.z_hat, z_hat, rtol=1e-6, atol=1e-6)
        assert_close(
            posterior.reward(phi), phi @ z_hat + reward.mean() + offset - phi.mean(0) @ z_hat, rtol=1e-6, atol=1e-6
        )
        fit = Regression(phi, reward, ridge=0.3)
        assert_close(posterior.reward_width(phi), fit.reward_width(phi), rtol=1e-6, atol=1e-6)
    sigma = ((y**2).sum() - z_hat @ X.T @ y).clamp(min=0)  # Σ(r − r̄)² − b·ẑ
    estimated = replace(one_by_one, given_noise=None)
    assert float(estimated.noise) == pytest.approx(math.sqrt(float(sigma) / (n - 1)) if n > 1 else 1.0, abs=1e-3)


def test_runs_that_saw_nothing_learn_nothing_and_one_posterior_broadcasts() -> None:
    phi, reward = some_pairs(6, 3)
    prior = TaskPosterior.prior(dim=3, ridge=0.1, intercept=True)
    both = prior.update(phi[:2], reward[:2])
    seen = both.update(phi[2:4], [float(reward[2]), math.nan], seen=[True, False])
    alone = prior.update(phi[0], reward[0]).update(phi[2], reward[2])
    assert_close(seen.z_hat[0], alone.z_hat)
    assert_close(seen.z_hat[1], both.z_hat[1])
    assert seen.means is not None
    assert seen.means.weight.tolist() == [2, 1]
    assert prior.update(phi[0], reward[0]).z_hat.tolist() == [0, 0, 0]  # one reward says nothing but the offset
    assert float(prior.update(phi[0], reward[0]).offset) == pytest.approx(float(reward[0]))


def test_pairs_of_means_are_exact_for_equal_rewards() -> None:
    means = Means(torch.zeros(2).double(), torch.tensor(0.0).double(), torch.tensor(0.0).double())
    for k in range(50):
        means, _, missed = means.plus(torch.tensor([k, 1.0]).double(), torch.tensor(0.1).double(), 1.0)
        assert float(missed) == 0  # so that ẑ is exactly 0 while all rewards are alike


# Scores


@pytest.mark.parametrize("score", [UCB(), UCB(0.9, 10.0), PathUCB(0.8), LogDet(20.0, 0.8)])
@pytest.mark.parametrize("which", ["clusters", "laplacian"])
def test_scores_are_those_of_centred_features(
    score: Any, which: str, clusters_model: ExactModel, laplacian_model: ExactModel
) -> None:
    model = {"clusters": clusters_model, "laplacian": laplacian_model}[which]
    walk = torch.tensor([3, 12, 13, 40, 41, 50, 62])
    reward = torch.tensor([1.0, 2.0, 0.5, 3.0, 3.0, 2.5, 0.0]).double()
    posterior = TaskPosterior.prior(dim=9, ridge=0.1, intercept=True).learn(model.phi(walk), reward)
    # The same by a world whose features are φ − φ̄ from the beginning.
    mean = model.phi(walk).mean(0)
    moved = ExactModel(model.world, model.features - mean)
    plain = TaskPosterior.prior(dim=9, ridge=0.1).learn(moved.phi(walk), reward - reward.mean())
    assert_close(posterior.z_hat, plain.z_hat, rtol=1e-6, atol=1e-9)
    z = model.sample_z(20, 0)
    radius, rng = torch.tensor(0.7).double(), torch.Generator()
    ours = score(Forecast(model, 30, z), posterior, radius, rng)
    psi = model.psi(30, z) - mean / (1 - model.gamma)

    class Moved(ExactModel):  # the policies of z are those of the model, not of the moved features
        def psi(self, obs: Any, z: Any) -> Tensor:
            return psi

        def psi_at(self, obs: Any, z: Any, gamma: float) -> Tensor:
            return model.psi_at(obs, z, gamma) - mean / (1 - gamma)

        def second_moment(self, obs: Any, z: Any, gamma: float) -> Tensor:
            policy = model.policy(z)
            outer = (moved.features[:, :, None] * moved.features[:, None, :]).flatten(1)
            return ExactModel(model.world, outer).evaluate(policy, gamma)[:, 30].reshape(-1, 9, 9)

    theirs = score(Forecast(Moved(model.world, moved.features), 30, z), plain, radius, rng)
    apart = ours - theirs  # ψ·ẑ is not centred: the same number for every z
    assert_close(apart, apart[:1].expand(20), rtol=1e-6, atol=1e-6)


def test_a_table_gives_the_scores_of_the_model(laplacian_model: ExactModel) -> None:
    tasks = laplacian_model.sample_z(12, 0)
    tables, one_by_one = (
        simulate(
            laplacian_model,
            laplacian_model.world,
            tasks[rows],
            "usf-ucb",
            seeds=torch.arange(12)[rows],
            steps=25,
            noise=0.3,
        )
        for rows in (slice(0, 12), slice(7, 8))
    )
    assert torch.equal(tables.state[:, 7], one_by_one.state[:, 0])


# Constant parts


def test_the_constant_part_of_features(laplacian_model: ExactModel, clusters_model: ExactModel) -> None:
    for model, w in ((laplacian_model, 3 * torch.eye(9)[0]), (clusters_model, torch.ones(9))):
        part = constant_part_of(model)
        assert part is not None
        assert_close(part.w, w.double(), rtol=0, atol=1e-9)
        z = model.sample_z(50, 0)
        rest = part.removed_from(z)
        assert_close(model.policy(rest), model.policy(z))  # the same behaviour
        assert_close((rest @ model.features.T).mean(1), torch.zeros(50).double(), rtol=0, atol=1e-12)
        assert_close(part.removed_from(rest), rest, rtol=0, atol=1e-12)
        assert part.removed_from(7 * part.w).tolist() == [0] * 9  # nothing is left
    without = ExactModel(laplacian_model.world, laplacian_model.features[:, 1:])
    assert constant_part_of(without) is None
    assert constant_part_of(Compass()) is None  # it says nothing of its features
    mean, covariance = torch.tensor([2.0, 0.0]), torch.diag(torch.tensor([1e-3, 1.0]))  # nearly constant
    nearly = constant_part(mean, covariance)
    assert nearly is not None
    assert_close(nearly.removed_from(torch.tensor([5.0, 1.0])), torch.tensor([0.0, 1.0]), rtol=0, atol=1e-5)
    assert constant_part(mean, 10 * torch.eye(2)) is None


def test_what_is_asked_for_has_no_constant_part(laplacian_network: USFA, laplacian_model: ExactModel) -> None:
    for model in (laplacian_network, laplacian_model):
        agent = OnlineTransfer(model, seed=1)
        for state in (3, 30, 60, 61):
            z = agent.ask(state)
            assert abs(float(z[0])) < 1e-6
            assert float(z.norm()) == pytest.approx(3, abs=1e-5)
            agent.tell(state, 100.0 + state)
        assert abs(float(agent.best_z[0])) < 1e-6


# Agents


@pytest.mark.parametrize(
    "method",
    ["usf-ucb", *(pytest.param(name, marks=pytest.mark.long) for name in ("usf-ucb-norm",))],
)
def test_offsets_leave_every_action_as_it_was(method: str, laplacian_model: ExactModel) -> None:
    tasks = laplacian_model.sample_z(16, 3)
    table = tasks @ laplacian_model.features.T

    def run(c: float) -> Tensor:
        trace = simulate(
            laplacian_model,
            laplacian_model.world,
            tasks,
            method,
            seeds=torch.arange(16),
            steps=40,
            noise=0.3,
            reward=table + c,
        )
        return trace.action

    actions = run(0.0)
    for c in (-10.0, 3.0, 100.0):
        assert torch.equal(run(c), actions)
    assert not torch.equal(run(0.0)[:, :1], actions[:, 1:2])


@pytest.mark.parametrize("which", ["network", "exact"])
def test_units_leave_every_action_as_it_was(which: str, laplacian_network: USFA, laplacian_model: ExactModel) -> None:
    model = laplacian_network if which == "network" else laplacian_model
    world, tasks = laplacian_model.world, laplacian_model.sample_z(8, 3)
    table = tasks @ laplacian_model.features.T + 2

    def run(a: float) -> Tensor:
        return simulate(
            model, world, tasks, "usf-ucb", seeds=torch.arange(8), steps=30, noise=0.3 * a, reward=a * table
        ).action

    actions = run(1.0)
    for exponent in (-6, -3, 3, 6):
        assert torch.equal(run(10.0**exponent), actions)


def test_the_program_of_the_readme_finds_its_corner_whatever_is_added(laplacian_network: USFA) -> None:
    found = 0
    for seed in range(4):
        env = gymnasium.make("zscout/OpenGrid-v0", reward=lambda state: 10 + float(state // 9 >= 6 and state % 9 >= 6))
        agent = OnlineTransfer(laplacian_network, seed=seed)
        obs, _ = env.reset(seed=seed)
        for _ in range(100):
            obs, reward, *_ = env.step(laplacian_network.act(obs, agent.ask(obs)))
            agent.tell(obs, reward)
        found += reward == 11
    assert found == 4  # it was 0 without an intercept


def test_rivals_as_published_fit_no_intercept() -> None:
    with_intercept = {name for name in METHODS if METHODS[name](dim=9, task=np.ones(9)).intercept}
    assert with_intercept == {"usf-ucb", "usf-ucb-norm"}
    assert METHODS["opti"](dim=9, intercept=True).intercept


def test_agents_are_saved_with_their_means_and_older_files_are_read(
    laplacian_model: ExactModel, tmp_path: Path
) -> None:
    agent = OnlineTransfer(laplacian_model, seed=4)
    for state in (3, 9, 27):
        agent.ask(state)
        agent.tell(state + 1, 10.0 + state)
    agent.save(tmp_path)
    again = OnlineTransfer.load(tmp_path, laplacian_model)
    assert torch.equal(again.ask(30), agent.ask(30))
    assert float(again.posterior.offset) == float(agent.posterior.offset)


# Calibration


@pytest.mark.parametrize("which", ["laplacian", "clusters", "network", "shifted"])
def test_calibrated_features_are_white_and_psi_is_theirs(
    which: str, laplacian_model: ExactModel, clusters_model: ExactModel, laplacian_network: USFA, rng: torch.Generator
) -> None:
    mixed = torch.randn(81, 4, generator=rng, dtype=torch.float64) @ torch.diag(
        torch.tensor([1e-2, 1, 10, 100]).double()
    )
    models: dict[str, Any] = {
        "laplacian": laplacian_model,
        "clusters": clusters_model,
        "network": laplacian_network,
        "shifted": ExactModel(laplacian_model.world, mixed + 50),
    }
    model = calibrated(models[which])
    assert model.dim == (4 if which == "shifted" else 8)  # the constant is dropped
    zscout.check_model(model, laplacian_model.world)  # ψ′ is the true ψ of φ′ and of the behaviours
    phi = model.phi(torch.arange(81))
    assert_close(phi.mean(0), torch.zeros(model.dim).double(), rtol=0, atol=1e-4 if which == "network" else 1e-9)
    assert_close(torch.cov(phi.T, correction=0), torch.eye(model.dim).double(), rtol=0, atol=1e-5)
    if which == "shifted":
        values, U = torch.linalg.eigh(torch.cov(mixed.T, correction=0))
        assert_close(phi, (mixed - mixed.mean(0)) @ U @ torch.diag(values**-0.5) @ U.T, rtol=1e-6, atol=1e-6)
    w = model.sample_z(5, 0)
    reward, own = phi @ w.T, models[which].phi(torch.arange(81)).double() @ model.to_z(w).double().T
    for i in range(5):  # the model's own z stands for the same reward, up to unit and constant
        assert np.corrcoef(reward[:, i], own[:, i])[0, 1] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("exponent", [-10, -8, -6, 0, 5])
def test_the_unit_of_a_feature_does_not_matter(exponent: int, rng: torch.Generator) -> None:
    phi = torch.randn(200, 4, generator=rng, dtype=torch.float64) @ torch.randn(
        4, 4, generator=rng, dtype=torch.float64
    )
    phi[:, 2] *= 10.0**exponent
    A = whitening(phi.mean(0), torch.cov(phi.T, correction=0))
    assert A.shape == (4, 4)
    assert_close(A @ torch.cov(phi.T, correction=0) @ A.T, torch.eye(4).double(), rtol=0, atol=1e-6)


def test_models_that_cannot_be_referred_to_weakly_and_moments_that_are_wrong(laplacian_model: ExactModel) -> None:
    class Slotted:
        __slots__ = ("model",)

        def __init__(self) -> None:
            self.model = laplacian_model

        def __getattr__(self, name: str) -> Any:
            return getattr(self.model, name)

    first, second = (constant_part_of(Slotted()) for _ in range(2))
    assert (first is None) == (second is None)

    class Wrong(ExactModel):
        moments: Any = (torch.full((9,), math.nan), torch.eye(9))

        def feature_moments(self) -> Any:
            return self.moments

    wrong = Wrong(laplacian_model.world, laplacian_model.features)
    for make in (OnlineTransfer, calibrated):
        with pytest.raises(ValueError, match="NaN or inf"):
            make(wrong)
    wrong.moments = torch.zeros(3), torch.eye(3)
    for make in (OnlineTransfer, calibrated):
        with pytest.raises(ValueError, match="d = 9"):
            make(wrong)
    arrays = Wrong(laplacian_model.world, laplacian_model.features)
    arrays.moments = np.zeros(9), np.eye(9)
    with pytest.raises(ValueError, match="torch tensor"):
        OnlineTransfer(arrays)


def test_the_error_of_an_estimate_goes_to_0_with_regions_of_unequal_size() -> None:
    ground = GridArena("four-rooms", "clusters").ground
    task, states = ground.exact.sample_z(1, 0)[0], ground.exact.states()
    fit = fit_task(ground.exact, states, ground.exact.phi(states) @ task, ridge=1e-9)
    assert_close(fit.z_hat, ground.yardstick.without_constant(task), rtol=0, atol=1e-5)  # the ridge, 1e-9, has a part


def test_calibrated_offers_what_the_model_offers(laplacian_model: ExactModel, laplacian_network: USFA) -> None:
    for model in (laplacian_model, laplacian_network):
        own = calibrated(model)
        assert isinstance(own, Calibrated)
        for kind in (HasHeads, HasHorizons, HasSecondMoment, HasStates):
            assert isinstance(own, kind) == isinstance(model, kind)
    gradient = replace(METHODS["usf-ucb-paper"](dim=8), search=Gradient(starts=2, steps=2))
    assert OnlineTransfer(calibrated(laplacian_network), gradient).ask(40).shape == (8,)  # ψ′ has a gradient, as ψ
    sample = calibrated(laplacian_model, [0, 4, 8, 40, 72, 76, 80, 20, 60, 33, 51])
    assert sample.dim == 8
    assert float(sample.phi([0, 4, 8, 40, 72, 76, 80, 20, 60, 33, 51]).mean(0).abs().max()) < 1e-9


def test_calibrated_finds_the_corner_of_a_badly_scaled_model(laplacian_model: ExactModel) -> None:
    scales = torch.tensor([1, 100, 0.01, 1, 10, 0.1, 1, 30, 0.03]).double()
    bad = ExactModel(laplacian_model.world, laplacian_model.features * scales)
    reward = 5 + (zscout.worlds.open_grid().cells >= 6).all(1).double()
    model, settled = calibrated(bad), []
    for seed in range(3):
        agent, obs = OnlineTransfer(model, seed=seed), 0
        for _ in range(80):
            obs = int(laplacian_model.world.step(obs, model.act(obs, agent.ask(obs))))
            agent.tell(obs, float(reward[obs]))
        settled.append(float(reward[obs]))
    assert settled == [6, 6, 6]


def test_what_cannot_be_calibrated(laplacian_model: ExactModel) -> None:
    for model, observations, says in (
        ("grid9-laplacian", None, "is not a BehaviorModel"),
        (Compass(), None, r"has no feature_moments\(\) and no states\(\): pass a sample"),
        (Compass(), [[math.nan, 1.0], [0.0, 1.0]], "NaN or inf"),
        (laplacian_model, [3], "at least 2 observations"),
        (laplacian_model, [3, 3, 3], "φ is the same for all"),
        (laplacian_model, [3, 81], "observation 81 is outside"),
        (laplacian_model, 3, "at least 2 observations"),
    ):
        with pytest.raises(ValueError, match=says):
            calibrated(model, observations)


def test_random_problems_have_a_posterior_of_their_own(laplacian_model: ExactModel) -> None:
    problem = random_problem(GridArena().ground, torch.Generator().manual_seed(0))
    assert problem.constant is None
    assert_close(problem.project(problem.posterior.z_hat + 1), laplacian_model.project_z(torch.ones(9)))
