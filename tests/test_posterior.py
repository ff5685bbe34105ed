"""The posterior against batch ridge regression and the laws of its draws."""

import math
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from functools import partial
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from torch import Tensor
from torch.testing import assert_close

from zscout import TaskPosterior
from zscout.base.randomness import Streams

Pairs = tuple[np.ndarray, np.ndarray]
NUMBERS = st.floats(-3, 3)
RIDGE = 0.1
to_1e_9 = partial(assert_close, rtol=1e-9, atol=1e-9)


@st.composite
def pairs(draw: Any, least: int = 0) -> Pairs:
    n, d = draw(st.integers(least, 20)), draw(st.integers(1, 12))
    return draw(arrays(np.float64, (n, d), elements=NUMBERS)), draw(arrays(np.float64, n, elements=NUMBERS))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Checked shapes cost three times what the updates do.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with torch.inference_mode():
        yield


def double(numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def told(phi: Any, reward: Any, **settings: Any) -> TaskPosterior:
    posterior = TaskPosterior.prior(dim=phi.shape[-1], ridge=RIDGE, **settings)
    for one, r in zip(phi, reward, strict=True):
        posterior = posterior.update(one, r)
    return posterior


def random_pairs(n: int, d: int, noise: float = 1.0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(0)
    phi, z, errors = (torch.randn(*shape, generator=rng).double() for shape in ((n, d), (d,), (n,)))
    return phi, phi @ z + noise * errors


def ridge_regression(phi: Any, reward: Any, weight: Any = 1.0) -> tuple[Tensor, Tensor, float]:
    """V, ẑ and the minimum, by least squares on the data with √λ·I below them."""
    phi, reward, weight = np.asarray(phi), np.asarray(reward), np.broadcast_to(np.sqrt(weight), len(phi))
    d = phi.shape[1]
    A = np.vstack([phi * weight[:, None], math.sqrt(RIDGE) * np.eye(d)])
    y = np.concatenate([reward * weight, np.zeros(d)])
    z = np.linalg.lstsq(A, y, rcond=None)[0]
    return torch.from_numpy(A.T @ A), torch.from_numpy(z), float(((y - A @ z) ** 2).sum())


def assert_same(one: TaskPosterior, other: TaskPosterior, tolerance: float = 1e-9) -> None:
    for name in ("V", "z_hat", "covariance", "log_det", "b", "noise"):
        assert_close(getattr(one, name), getattr(other, name), rtol=tolerance, atol=tolerance)
    x = torch.eye(one.dim).double().expand(*one.runs, -1, -1)
    assert_close(one.width(x), other.width(x), rtol=tolerance, atol=tolerance)


# Ridge regression


def test_by_hand() -> None:
    posterior = TaskPosterior.prior(dim=2, ridge=1.0, noise=0.5).update([2.0, 0.0], 5.0).update([0.0, 3.0], 10.0)
    assert posterior.V.tolist() == [[5, 0], [0, 10]]
    assert posterior.z_hat.tolist() == pytest.approx([2, 3])
    assert posterior.width([1.0, 1.0]).item() == pytest.approx(math.sqrt(1 / 5 + 1 / 10))
    assert posterior.width([[5.0, 0.0], [0.0, 5.0]]).tolist() == pytest.approx([math.sqrt(5), math.sqrt(2.5)])
    assert posterior.distance([3.0, 5.0]).item() == pytest.approx(math.sqrt(5 + 40))
    assert posterior.eigenvalues.tolist() == pytest.approx([5, 10])
    assert posterior.log_det.item() == pytest.approx(math.log(50))
    assert_close(posterior.covariance, double([[0.05, 0], [0, 0.025]]))


@given(data=pairs(), shuffle=st.randoms(use_true_random=False))
def test_it_is_ridge_regression_in_any_order_one_by_one_or_at_once(data: Pairs, shuffle: Any) -> None:
    phi, reward = data
    posterior = told(phi, reward, noise=0.7)
    V, z_hat, _ = ridge_regression(phi, reward)
    to_1e_9(posterior.V, V)
    to_1e_9(posterior.z_hat, z_hat)
    assert_close(posterior.covariance @ V, 0.49 * torch.eye(phi.shape[1]).double(), rtol=0, atol=1e-9)
    order = shuffle.sample(range(len(phi)), len(phi))
    assert_same(told(phi[order], reward[order], noise=0.7), posterior)
    half = len(phi) // 2
    prior = TaskPosterior.prior(dim=phi.shape[1], ridge=RIDGE, noise=0.7)
    assert_same(prior.learn(phi[:half], reward[:half]).learn(phi[half:], reward[half:]), posterior)


def test_it_is_ridge_regression_in_512_dimensions() -> None:
    phi, reward = random_pairs(5, 512)
    posterior = told(phi, reward)
    V, z_hat, _ = ridge_regression(phi, reward)
    to_1e_9(posterior.z_hat, z_hat)
    to_1e_9(posterior.covariance, torch.linalg.inv(V))


@pytest.mark.long
def test_100_000_updates_do_not_drift(unchecked: None) -> None:
    phi, reward = random_pairs(100_000, 4)
    phi[:, 3] *= 1e-3  # hardly seen: V's condition number is 1e6
    posterior = told(phi, reward)
    V, z_hat, _ = ridge_regression(phi, reward)
    to_1e_9(posterior.z_hat, z_hat)
    assert_close(posterior.covariance @ V, torch.eye(4).double(), rtol=0, atol=1e-9)


def test_runs_side_by_side_are_runs_alone() -> None:
    phi, reward = random_pairs(6 * 10, 4)
    phi, reward = phi.reshape(10, 2, 3, 4), reward.reshape(10, 2, 3)
    together = told(phi, reward, runs=(2, 3), noise=None)
    at_once = TaskPosterior.prior(dim=4, ridge=RIDGE, runs=(2, 3), noise=None)
    assert_same(at_once.learn(phi.movedim(0, -2), reward.movedim(0, -1)), together)
    seeds = torch.arange(6).reshape(2, 3)
    draws, ball = together.sample(5, Streams(seeds)), together.sample_ellipsoid(5, reward[0].abs(), Streams(seeds))
    for i, j in np.ndindex(2, 3):
        alone = told(phi[:, i, j], reward[:, i, j], noise=None)
        for name in ("V", "z_hat", "covariance", "log_det", "noise", "eigenvalues"):
            to_1e_9(getattr(together, name)[i, j], getattr(alone, name))
        assert_close(together.width(phi[0])[i, j], alone.width(phi[0, i, j]))
        assert_close(together.distance(phi[0])[i, j], alone.distance(phi[0, i, j]))
        assert_close(draws[i, j], alone.sample(5, Streams(seeds[i, j])))
        assert_close(ball[i, j], alone.sample_ellipsoid(5, reward[0, i, j].abs(), Streams(seeds[i, j])))


@given(data=pairs())
def test_log_det_grows_by_what_is_learned(data: Pairs) -> None:
    posterior = TaskPosterior.prior(dim=data[0].shape[1], ridge=RIDGE)
    for phi, reward in zip(*data, strict=True):
        after = posterior.update(phi, reward)
        gain = after.log_det - posterior.log_det
        assert gain > -1e-9
        to_1e_9(gain, torch.log1p(posterior.width(phi) ** 2))
        posterior = after


def test_runs_whose_reward_was_not_seen_learn_nothing() -> None:
    phi, reward = random_pairs(12 * 3, 4)
    phi, reward = phi.reshape(12, 3, 4), reward.reshape(12, 3)
    seen = torch.arange(36).reshape(12, 3) % 5 < 2
    together = TaskPosterior.prior(dim=4, ridge=RIDGE, runs=(3,), noise=None)
    for t in range(12):
        together = together.update(phi[t], reward[t], seen[t])
    for run in range(3):
        alone = TaskPosterior.prior(dim=4, ridge=RIDGE, noise=None)
        for t in range(12):
            alone = alone.update(phi[t, run], reward[t, run]) if seen[t, run] else alone
        for name in ("V", "z_hat", "covariance", "log_det", "noise", "weight"):
            to_1e_9(getattr(together, name)[run], getattr(alone, name))
        assert_close(together.width(phi[0])[run], alone.width(phi[0, run]))
    assert together.weight.tolist() != [12, 12, 12]
    before = TaskPosterior.prior(dim=4, ridge=RIDGE, runs=(3,)).update(phi[0], reward[0])
    unseen = before.update(phi[1], reward[1], [False, False, True])
    for name in ("z_hat", "factor", "V", "b"):  # to the last bit
        assert torch.equal(getattr(before, name)[:2], getattr(unseen, name)[:2])
        assert not torch.equal(getattr(before, name)[2], getattr(unseen, name)[2])


# Draws


@pytest.fixture
def narrow() -> TaskPosterior:
    """Ill-conditioned, and along no axis: a thousand φ that are almost one."""
    phi, reward = random_pairs(1000, 4)
    return TaskPosterior.prior(dim=4, ridge=RIDGE, noise=0.3).learn(torch.tensor([1.0, -2, 3, 4]) + 0.01 * phi, reward)


def whitened(posterior: TaskPosterior, draws: Tensor) -> Tensor:
    return torch.matmul(draws - posterior.z_hat, torch.linalg.cholesky(posterior.V))


def chi_square_p(posterior: TaskPosterior, draws: Tensor) -> float:
    """How likely these Mahalanobis distances are for N(ẑ, σ²V⁻¹)."""
    squares = (whitened(posterior, draws) ** 2).sum(-1) / posterior.noise**2
    return float(stats.kstest(squares, stats.chi2(posterior.dim).cdf).pvalue)


def test_draws_have_mean_z_hat_and_covariance_of_the_posterior(narrow: TaskPosterior) -> None:
    draws = narrow.sample(20_000, 0)
    assert chi_square_p(narrow, draws) > 0.01
    scores = whitened(narrow, draws) / 0.3
    assert float(scores.mean(0).abs().max()) * math.sqrt(20_000) < 4
    assert_close(scores.T.cov(), torch.eye(4).double(), rtol=0, atol=4 * math.sqrt(2 / 20_000))
    # R⁻ᵀε with V = RᵀR, the easy mistake, is told apart by the same test.
    R = torch.linalg.cholesky(narrow.V, upper=True)
    mistaken = 0.3 * torch.linalg.solve(R.T, scores[:1000].T).T + narrow.z_hat
    assert chi_square_p(narrow, mistaken) < 1e-9 < 0.01 < chi_square_p(narrow, draws[:1000])


def test_the_ellipsoid_is_filled_evenly(narrow: TaskPosterior) -> None:
    draws, d = whitened(narrow, narrow.sample_ellipsoid(20_000, 2.5, 0)), 4
    radius = draws.norm(dim=1, keepdim=True)
    assert float(radius.max()) <= 2.5 * (1 + 1e-9)
    assert stats.kstest((radius[:, 0] / 2.5) ** d, "uniform").pvalue > 0.01
    directions = draws / radius
    for coordinate in directions.T:  # (uᵢ + 1)/2 ~ Beta((d − 1)/2, (d − 1)/2)
        assert stats.kstest((coordinate + 1) / 2, stats.beta((d - 1) / 2, (d - 1) / 2).cdf).pvalue > 0.01
    assert_close(directions.T @ directions / 20_000, torch.eye(d).double() / d, rtol=0, atol=0.01)


def test_the_surface_is_at_the_radius(narrow: TaskPosterior) -> None:
    draws = narrow.sample_ellipsoid(1000, 2.5, 0, surface=True)
    assert_close(narrow.distance(draws), double([2.5] * 1000))
    assert float(whitened(narrow, draws).mean(0).abs().max()) < 4 * 2.5 / math.sqrt(4 * 1000)
    assert_close(narrow.sample_ellipsoid(3, 0.0, 0), narrow.z_hat.expand(3, 4))


# Noise


@given(data=pairs(least=1), scale=st.sampled_from([0.01, 1.0, 100.0]))
def test_the_estimated_noise_is_what_regression_leaves(data: Pairs, scale: float) -> None:
    phi, reward = data
    _, _, minimum = ridge_regression(phi, reward)
    squared = told(phi, scale * reward, noise=None).noise ** 2 / scale**2
    to_1e_9(squared, double(minimum / len(phi)))


@pytest.mark.parametrize("noise", [0.0, 0.3, 40.0])
def test_the_estimated_noise_finds_the_true_one(noise: float) -> None:
    phi, reward = random_pairs(20_000, 5, noise)
    prior = TaskPosterior.prior(dim=5, ridge=1e-6, noise=None)
    assert prior.noise == 1
    assert prior.learn(phi, reward).noise.item() == pytest.approx(noise, rel=0.02, abs=1e-4)
    assert TaskPosterior.prior(dim=5, ridge=RIDGE, noise=2.0).learn(phi, reward).noise == 2


def test_rounding_leaves_no_noise_that_is_no_number() -> None:
    phi, reward = random_pairs(50 * 5, 3, noise=0.0)
    prior = TaskPosterior.prior(dim=3, ridge=1e-15, noise=None, runs=(50,))
    noise = prior.learn(phi.reshape(50, 5, 3), reward.reshape(50, 5)).noise
    assert float(noise.min()) == 0  # Σr² − b·ẑ came out below 0 in some of the runs
    assert float(noise.max()) < 1e-6


# Bad input


@pytest.mark.parametrize(
    ("setting", "bad", "message"),
    [
        ("dim", 0, "must be at least 1, got 0"),
        ("ridge", 0.0, "must be above 0"),
        ("ridge", -1.0, "must be above 0 and finite, got -1.0"),
        ("noise", -0.1, "must be in"),
        ("noise", math.inf, "must be in"),
    ],
)
def test_priors_that_are_none(setting: str, bad: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"{setting} {message}"):
        TaskPosterior.prior(**{"dim": 2, "ridge": RIDGE, setting: bad})


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("update", ([math.nan, 0.0], 1.0), "phi holds NaN or inf"),
        ("update", ([0.0, math.inf], 1.0), "phi holds NaN or inf"),
        ("update", ([0.0, 1.0], math.nan), "reward holds NaN or inf"),
        ("update", ([0.0, 1.0], -math.inf), "reward holds NaN or inf"),
        ("update", ([0.0, 1.0, 2.0], 1.0), "phi has 3 entries, expected 2"),
        ("update", ([0.0, 1.0], [1.0, 2.0]), r"reward has shape \(2,\), expected a single number"),
        ("update", ([[0.0, 1.0]], 1.0), r"reward has shape \(\), expected one for each run, \[1\]"),
        ("update", ([0.0, 1.0], 1.0, [True]), "seen must be True or False, got"),
        ("update", ([0.0, 1.0], 1.0, 1), "seen must be True or False"),
        ("learn", ([0.0, 1.0], [1.0]), r"phi is one vector, expected pairs: phi \[\*b m 2\]"),
        ("learn", ([[0.0, 1.0]], [1.0, 2.0]), "expected one for each pair"),
        ("learn", ([[0.0, 1.0]], [math.nan]), "reward holds NaN or inf"),
        ("width", ([1.0],), "x has 1 entries, expected 2"),
        ("distance", ([1.0, math.nan],), "z holds NaN or inf"),
        ("sample", (-1, 0), "n must be at least 0, got -1"),
        ("sample", (1, True), "rng must be a torch.Generator or a seed"),
        ("sample_ellipsoid", (-1, 1.0, 0), "n must be at least 0, got -1"),
        ("sample_ellipsoid", (1, -1.0, 0), "radius must be ≥ 0, got -1.0"),
        ("sample_ellipsoid", (1, math.nan, 0), "radius holds NaN or inf"),
    ],
)
def test_misuse_is_refused_and_changes_nothing(method: str, arguments: tuple[Any, ...], message: str) -> None:
    posterior, untouched = (told(*random_pairs(3, 2)) for _ in range(2))
    with pytest.raises(ValueError, match=message):
        getattr(posterior, method)(*arguments)
    assert_same(posterior, untouched, 0)


def test_each_run_has_its_own_data() -> None:
    posterior = TaskPosterior.prior(dim=2, ridge=RIDGE, runs=(3,))
    with pytest.raises(ValueError, match=r"reward has shape \(\), expected one for each run, \[3\]"):
        posterior.update(torch.ones(3, 2), 1.0)
    with pytest.raises(ValueError, match=r"phi has shape \(2, 2\), expected \[3, 2\]"):
        posterior.update(torch.ones(2, 2), torch.ones(2))
    with pytest.raises(ValueError, match=r"x and the runs have batch dimensions \(4,\) and \(3,\)"):
        posterior.width(torch.ones(4, 2))


def test_a_posterior_is_a_value() -> None:
    prior, phi = TaskPosterior.prior(dim=2, ridge=RIDGE), double([1, 2])
    after = prior.update(phi, 1.0).learn(phi[None], [2.0])
    phi *= 0
    assert_same(prior, TaskPosterior.prior(dim=2, ridge=RIDGE), 0)
    assert_same(after, told(double([[1, 2], [1, 2]]), [1.0, 2.0]))
    with pytest.raises(FrozenInstanceError):
        prior.ridge = 2.0  # type: ignore[misc]


def test_one_posterior_told_of_many_runs_becomes_many() -> None:
    phi, reward = torch.eye(3).double() + 0.5, torch.tensor([1.0, 2.0, 3.0]).double()
    told = TaskPosterior.prior(dim=3, ridge=0.2).update([1.0, 0.0, 0.0], 1.0).update(phi, reward)
    for run in range(3):
        alone = TaskPosterior.prior(dim=3, ridge=0.2).update([1.0, 0.0, 0.0], 1.0).update(phi[run], reward[run])
        assert torch.allclose(told.z_hat[run], alone.z_hat)
        assert torch.allclose(told.V[run], alone.V)


def test_what_was_told_stays_told_when_its_memory_is_used_again() -> None:
    phi, reward = double([[1.0, 2.0], [3.0, 4.0]]), double([1.0, 2.0])
    for runs in ((), (2,)):
        told = TaskPosterior.prior(dim=2, ridge=RIDGE, runs=runs)
        some, its = (phi[0].clone(), reward[0].clone()) if not runs else (phi.clone(), reward.clone())
        told = told.update(some, its)
        expected = RIDGE * torch.eye(2) + some[..., None] * some[..., None, :], some * its[..., None]
        some.zero_()
        its.zero_()
        assert_close(told.V, expected[0].double())
        assert_close(told.b, expected[1])


def test_sums_do_not_depend_on_when_they_are_asked_for() -> None:
    rng = torch.Generator().manual_seed(0)
    asked = waiting = TaskPosterior.prior(dim=3, ridge=RIDGE, noise=None)
    for _ in range(200):  # more than wait at a time
        phi, reward = torch.randn(3, generator=rng).double(), float(torch.randn((), generator=rng))
        asked, waiting = asked.update(phi, reward), waiting.update(phi, reward)
        assert asked.V.isfinite().all()
    for name in ("V", "b", "reward_squares", "noise", "log_det"):
        assert torch.equal(getattr(asked, name), getattr(waiting, name)), (
            name
        )  # to the last bit: a saved run goes on alike
