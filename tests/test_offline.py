"""From labelled states to z, and how much of a reward the features can say."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from zscout import ExactModel, infer_task
from zscout.transfer.offline import fit_task


def test_a_linear_reward_is_recovered(laplacian_model: ExactModel) -> None:
    model = laplacian_model
    for z_r in 5 * model.sample_z(5, 0) * torch.tensor([0.01, 0.5, 1, 2, 1e4])[:, None]:
        reward = model.phi(model.states()) @ z_r
        varies = z_r * (torch.arange(9) > 0)  # its first feature is the constant
        assert_close(infer_task(model, model.states(), reward, ridge=1e-9), model.project_z(varies), rtol=0, atol=1e-8)
        few = [0, 7, 10, 22, 31, 40, 53, 66, 72, 80]  # barely more than d
        fit = fit_task(model, few, reward[few].numpy(), ridge=1e-14)
        assert_close(fit.z, model.project_z(varies), rtol=0, atol=1e-6)
        assert_close(fit.z_hat, varies, rtol=1e-6, atol=1e-6)
        plain = fit_task(model, few, reward[few].numpy(), ridge=1e-14, intercept=False)
        assert_close(plain.z_hat, z_r, rtol=1e-8, atol=1e-8)
        assert_close(plain.z, model.project_z(z_r), rtol=0, atol=1e-8)
        assert_close(fit.decode(model.states()), reward, rtol=1e-8, atol=1e-8)
        assert fit.expressed == pytest.approx(1, abs=1e-9)


def test_the_ridge_by_hand(laplacian_model: ExactModel) -> None:
    model = laplacian_model
    phi = model.phi([3, 3, 50]).numpy()
    reward = np.array([1.0, 2.0, -1.0])
    for intercept in (True, False):
        mean, level = (phi.mean(0), reward.mean()) if intercept else (np.zeros(9), 0.0)
        X, y = phi - mean, reward - level
        expected = np.linalg.solve(0.5 * np.eye(9) + X.T @ X, X.T @ y)
        offset = level - mean @ expected
        fit = fit_task(model, [3, 3, 50], reward, ridge=0.5, intercept=intercept)
        assert_close(fit.z_hat, torch.from_numpy(expected), rtol=1e-9, atol=1e-9)
        assert fit.offset == pytest.approx(offset)
        assert fit.decode(7).item() == pytest.approx(float(model.phi(7).numpy() @ expected) + offset)
        assert fit.decode([[7, 8, 9]]).shape == (1, 3)
        squares = ((reward - phi @ expected - offset) ** 2).sum() / ((reward - reward.mean()) ** 2).sum()
        assert fit.expressed == pytest.approx(1 - squares)


def test_a_constant_changes_the_offset_and_nothing_else(laplacian_model: ExactModel, rng: torch.Generator) -> None:
    model = laplacian_model
    reward = torch.randn(81, generator=rng, dtype=torch.float64)
    fit, other = (fit_task(model, model.states(), reward + c) for c in (0.0, 1e3))
    assert_close(fit.z_hat, other.z_hat, rtol=1e-9, atol=1e-9)
    assert_close(fit.z, other.z, rtol=1e-9, atol=1e-9)
    assert other.offset - fit.offset == pytest.approx(1e3)
    assert other.expressed == pytest.approx(fit.expressed)


def test_noise_is_not_expressed(laplacian_model: ExactModel, rng: torch.Generator) -> None:
    states = torch.randint(81, (20_000,), generator=rng)
    noise = torch.randn(20_000, generator=rng, dtype=torch.float64)
    assert abs(fit_task(laplacian_model, states, noise).expressed) < 0.002
    # As much signal as noise: half of the variance.
    signal = laplacian_model.phi(states) @ laplacian_model.sample_z(1, 0)[0]
    mixed = signal / signal.std() + noise
    assert fit_task(laplacian_model, states, 10 + mixed).expressed == pytest.approx(0.5, abs=0.02)


def test_a_constant_reward_is_expressed_by_a_constant_feature(
    laplacian_model: ExactModel, clusters_model: ExactModel
) -> None:
    for model in (laplacian_model, clusters_model):
        for reward in (4.0, -0.25):
            fit = fit_task(model, model.states(), torch.full((81,), reward))
            assert fit.expressed == pytest.approx(1, abs=1e-6)
        assert fit_task(model, model.states(), torch.zeros(81)).z_hat.tolist() == [0] * 9
    without = ExactModel(laplacian_model.world, laplacian_model.features[:, 1:])
    plain, fitted = (fit_task(without, without.states(), torch.ones(81), intercept=i) for i in (False, True))
    assert plain.expressed == pytest.approx(0, abs=1e-6)
    assert fitted.expressed == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("observations", "rewards", "message"),
    [
        ([], [], "got no observations: expected at least one"),
        ([1, 2], [1.0, math.nan], "reward holds NaN or inf"),
        ([1, 2], [math.inf, 1.0], "reward holds NaN or inf"),
        ([1, 2], [1.0], r"reward has shape \(1,\), expected one for each pair, \[2\]"),
        ([1, 2], [[1.0], [2.0]], r"reward has shape \(2, 1\)"),
        (3, [1.0], r"phi is one vector, expected pairs: phi \[\*b m 9\] and rewards \[\*b m\]"),
        ([1, 81], [1.0, 2.0], "observation 81 is outside 0 … 80"),
    ],
)
def test_labels_that_are_none(observations: Any, rewards: Any, message: str, laplacian_model: ExactModel) -> None:
    for infer in (infer_task, fit_task):
        with pytest.raises(ValueError, match=message):
            infer(laplacian_model, observations, rewards)


def test_a_ridge_of_zero_is_refused(laplacian_model: ExactModel) -> None:
    with pytest.raises(ValueError, match="ridge must be above 0"):
        infer_task(laplacian_model, [1], [1.0], ridge=0.0)
