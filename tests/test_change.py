"""The change test: its statistic in a second way, what it finds, and that it leaves a fixed task alone."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor

from benchmarks.drift import Drift
from zscout import METHODS, ChangeTest, ExactModel, Method, OnlineTransfer, TaskPosterior
from zscout.transfer.belief.change import FEWEST_REWARDS

TEST = ChangeTest()


def told(
    phi: Tensor, reward: Tensor, intercept: bool, ridge: float = 0.1, seen: Tensor | None = None
) -> tuple[TaskPosterior, TaskPosterior, dict[str, Tensor], list[bool]]:
    """Prior, posterior and pairs after all rewards, and after which of them the task changed."""
    prior = TaskPosterior.prior(dim=phi.shape[-1], ridge=ridge, intercept=intercept)
    posterior, recent, found = prior, TEST.begin(prior), []
    for i, (row, r) in enumerate(zip(phi, reward, strict=True)):
        now = True if seen is None else bool(seen[i])
        posterior = posterior.update(row, r, now)
        posterior, recent, changed = TEST(prior, posterior, recent, row, r, float(now))
        found.append(bool(changed))
    return prior, posterior, recent, found


def log_marginal(phi: Tensor, reward: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """−½ log det(I + φφᵀ/λ), and rᵀ(I + φφᵀ/λ)⁻¹r: the parts of the density of r with z ~ N(0, σ²/λ), in σ²."""
    covariance = torch.eye(len(phi), dtype=torch.float64) + phi @ phi.T / ridge
    return -0.5 * torch.logdet(covariance), reward @ torch.linalg.solve(covariance, reward)


@pytest.mark.parametrize("intercept", [False, True])
def test_the_statistic_is_the_ratio_of_two_marginal_likelihoods(intercept: bool) -> None:
    """In the space of rewards, where z and c are integrated out, and not in that of features."""
    rng = Generator().manual_seed(3)
    phi = torch.randn(40, 3, generator=rng, dtype=torch.float64)
    reward = phi @ torch.ones(3, dtype=torch.float64) + 2 + 0.3 * torch.randn(40, generator=rng, dtype=torch.float64)
    prior, posterior, recent, found = told(phi, reward, intercept, ridge=0.2)
    assert not any(found)
    factors = TEST.log_factors(prior, posterior, recent)
    rows, values = phi, reward
    if intercept:
        rows = torch.cat([phi - phi.mean(0), torch.ones(40, 1, dtype=torch.float64)], 1)
        values = reward - reward.mean()
    det, square = log_marginal(rows, values, 0.2)
    for k, factor in enumerate(factors, 1):
        if k > 40 - FEWEST_REWARDS:
            assert factor == -torch.inf
            continue
        (old, old_square), (new, new_square) = (
            log_marginal(rows[part], values[part], 0.2) for part in (slice(40 - k), slice(40 - k, 40))
        )
        expected = old + new - det + 20 * torch.log(square / (old_square + new_square))
        assert float(factor) == pytest.approx(float(expected), abs=1e-8)


def walk(length: int, dim: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = Generator().manual_seed(seed)
    return (
        torch.randn(length, dim, generator=rng, dtype=torch.float64),
        0.3 * torch.randn(length, generator=rng).double(),
    )


def test_a_change_is_found_soon_and_the_posterior_is_that_of_the_rewards_since() -> None:
    phi, noise = walk(120)
    z_r = torch.tensor([[1.0, -1.0, 0.5, 0.0], [-1.0, 0.5, 1.0, 1.0]], dtype=torch.float64)
    reward = (phi * z_r[(torch.arange(120) >= 80).long()]).sum(-1) + noise
    _, posterior, recent, found = told(phi, reward, True)
    assert sum(found) == 1
    assert 80 <= found.index(True) < 90
    assert torch.allclose(posterior.z_hat, z_r[1], atol=0.3)
    kept = int(posterior.weight)
    alone = TaskPosterior.prior(dim=4, ridge=0.1, intercept=True).learn(phi[-kept:], reward[-kept:])
    assert torch.allclose(posterior.z_hat, alone.z_hat)
    assert torch.allclose(posterior.V, alone.V)
    assert int(recent["changes"]) == 1


def test_scale_and_offset_change_nothing_and_unseen_rewards_are_no_rewards() -> None:
    phi, noise = walk(90, seed=1)
    z_r = torch.tensor([[1.0, -1.0, 0.5, 0.0], [0.0, 0.5, 1.0, 1.0]], dtype=torch.float64)
    reward = (phi * z_r[(torch.arange(90) >= 60).long()]).sum(-1) + noise
    found = told(phi, reward, True)[3]
    assert any(found)
    assert told(phi, 1e4 * reward - 7e5, True)[3] == found
    seen = torch.rand(90, generator=Generator().manual_seed(0)) < 0.5
    _, sparse, _, at = told(phi, torch.where(seen, reward, torch.nan), True, seen=seen)
    _, alone, _, expected = told(phi[seen], reward[seen], True)
    assert [flag for flag, now in zip(at, seen, strict=True) if now] == expected
    assert not any(flag for flag, now in zip(at, seen, strict=True) if not now)
    assert torch.allclose(sparse.z_hat, alone.z_hat, atol=1e-12)


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_rewards_that_never_differ_are_no_change(constant: float) -> None:
    phi, _ = walk(100)
    assert not any(told(phi, torch.full((100,), constant, dtype=torch.float64), True)[3])


# In the agent


def with_test() -> Method:
    return replace(METHODS["usf-ucb"](dim=9), change=TEST)


def steps(agent: OnlineTransfer, model: ExactModel, tasks: Tensor, length: int, state: Tensor) -> Tensor:
    """Walk with rewards φ·z_r + noise that depends on seed and step."""
    for _ in range(length):
        state = model.world.step(state, torch.as_tensor(agent.act(state)))
        draws = [Generator().manual_seed(int(seed) * 10_000 + agent.t) for seed in agent.seeds]
        noise = torch.stack([torch.randn((), generator=rng).double() for rng in draws])
        agent.tell(state, (model.phi(state) * tasks).sum(-1) + 0.3 * noise)
    return state


def test_a_run_alone_in_a_batch_and_loaded_is_the_same(laplacian_model: ExactModel, tmp_path: Path) -> None:
    model, tasks = laplacian_model, laplacian_model.sample_z(6, 2)
    batch = OnlineTransfer(model, with_test(), seed=[5, 6, 7], runs=3)
    there = steps(batch, model, tasks[:3], 40, torch.tensor([0, 40, 80]))
    alone = OnlineTransfer(model, with_test(), seed=[6], runs=1)
    here = steps(alone, model, tasks[1:2], 40, torch.tensor([40]))
    batch.save(tmp_path)
    loaded = OnlineTransfer.load(tmp_path, model)
    assert loaded.method == batch.method
    ends = [
        steps(batch, model, tasks[3:], 25, there),
        steps(loaded, model, tasks[3:], 25, there),
        steps(alone, model, tasks[4:5], 25, here),
    ]
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(batch.z_hat, loaded.z_hat)
    assert torch.allclose(batch.z_hat[1:2], alone.z_hat)
    assert torch.equal(ends[0][1:2], ends[2])
    assert int(torch.as_tensor(batch.changes).sum()) >= 2
    assert torch.equal(torch.as_tensor(batch.changes), torch.as_tensor(loaded.changes))
    plain = replace(batch.method, change=None)
    OnlineTransfer(model, plain, seed=[5, 6, 7], runs=3).save(tmp_path)
    with pytest.raises(ValueError, match="recent"):
        OnlineTransfer.load(tmp_path, model, with_test())


def test_one_live_run_counts_its_changes(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, with_test())
    assert agent.changes == 0
    assert OnlineTransfer(laplacian_model).changes == 0
    for reward in [1.0] * 40 + [-1.0] * 10:
        agent.ask(40)
        agent.tell(41, reward + 0.01 * (agent.t % 3))
    assert agent.changes == 1
    assert int(agent.posterior.weight) <= 10


def test_what_cannot_be_combined_is_refused() -> None:
    with pytest.raises(ValueError, match="no effect with a RolloutSearch"):
        replace(METHODS["lola"](dim=9), change=TEST)
    with pytest.raises(ValueError, match="change must be a ChangeTest"):
        Method(change=ChangeTest)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="evidence"):
        ChangeTest(evidence=0.0)


@pytest.mark.long
def test_it_loses_far_less_after_a_change_than_without(capsys: pytest.CaptureFixture[str]) -> None:
    """Measured with 100 runs of 200 + 200 steps: 127 lost steps without, about 20 with it."""
    drift = Drift(tasks=8, steps=120)
    without, with_test = (float(drift.row("laplacian", "exact", test)[4].split()[0]) for test in (None, TEST))
    assert with_test < 0.6 * without
    assert replace(drift, fixed=True).row("laplacian", "exact", TEST)[5:7] == ("0", "0")
    replace(drift, quick=True, fixed=True, features=("clusters",)).run()
    assert "change test" in capsys.readouterr().out


def test_with_an_atlas_eight_rewards_count_as_one() -> None:
    phi, noise = walk(120)
    reward = phi[:, 0] * torch.where(torch.arange(120) < 80, 1.0, -1.0) + noise
    prior = TaskPosterior.prior(dim=4, ridge=0.1, intercept=True)
    posterior, recent, at = prior, TEST.begin(prior), {1.0: 0, 8.0: 0}
    for t, (row, r) in enumerate(zip(phi, reward, strict=True)):
        posterior = posterior.update(row, r)
        for together, found in at.items():
            changed = TEST(prior, posterior, recent, row, r, 1.0, together)[2]
            at[together] = t if bool(changed) and not found else found
        recent = TEST(prior, posterior, recent, row, r, 1.0, math.inf)[1]
    assert 80 <= at[1.0] < at[8.0] < 120
