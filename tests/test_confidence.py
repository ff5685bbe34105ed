"""√β_t: closed forms on hand-made posteriors, and how often z_r is really inside."""

import math
from typing import Any

import pytest
import torch

from zscout import TaskPosterior
from zscout.transfer.score.confidence import (
    Confidence,
    Constant,
    KnownNorm,
    PaperSchedule,
    ScaleFree,
    directions_seen,
)


def prior(**settings: Any) -> TaskPosterior:
    return TaskPosterior.prior(**{"dim": 2, "ridge": 0.25, **settings})


@pytest.mark.parametrize(
    ("t", "beta"), [(0, 4.0), (49, 4.0), (50, 4.0), (100, 2.0), (125, 1.0), (150, 0.0), (200, 0.0)]
)
def test_the_papers_beta_is_held_then_falls_linearly(t: int, beta: float) -> None:
    assert PaperSchedule(beta=4.0)(t, prior()).item() == pytest.approx(math.sqrt(beta))
    assert PaperSchedule(beta=4.0, hold=0, end=2)(1, prior()).item() == pytest.approx(math.sqrt(2))


def test_a_constant_beta() -> None:
    for t in (0, 1, 10_000):
        assert Constant(9.0)(t, prior(runs=(2, 1))).tolist() == [[3.0], [3.0]]


# Scale


def told(scale: float, rng: torch.Generator, **settings: Any) -> TaskPosterior:
    phi = torch.randn(20, 3, 5, generator=rng, dtype=torch.float64)
    reward = torch.randn(20, 3, generator=rng, dtype=torch.float64)
    reward[:, 2] = 0
    posterior = prior(dim=5, runs=(3,), **settings)
    for one, r in zip(phi, scale * reward, strict=True):
        posterior = posterior.update(one, r)
    return posterior


def test_rewards_times_100_are_a_radius_times_100() -> None:
    kinds: list[tuple[Confidence, Confidence]] = [
        (ScaleFree(), ScaleFree()),
        (KnownNorm(norm_bound=2.0), KnownNorm(norm_bound=200.0)),
    ]
    for small, large in kinds:
        one, other = (told(scale, torch.Generator().manual_seed(0), noise=None) for scale in (1.0, 100.0))
        torch.testing.assert_close(large(20, other)[:2], 100 * small(20, one)[:2], rtol=1e-9, atol=0)


@pytest.mark.parametrize("noise", [None, 0.0, 1.0])
def test_there_is_a_radius_before_any_reward_and_when_all_are_zero(noise: float | None, rng: torch.Generator) -> None:
    for confidence in (ScaleFree(), KnownNorm()):
        for posterior in (prior(dim=5, noise=noise), told(1.0, rng, noise=noise)):
            radius = confidence(0, posterior)
            assert radius.isfinite().all()
            assert (radius > 0).all()


# Bad input


@pytest.mark.parametrize("bad", [-1.0, math.inf, math.nan])
def test_sizes_that_are_none(bad: float) -> None:
    for kind in (Constant, PaperSchedule):
        with pytest.raises(ValueError, match=r"beta must be in \[0.0, inf\)"):
            kind(beta=bad)
    for bound in (bad, 0.0):
        with pytest.raises(ValueError, match="norm_bound must be above 0"):
            KnownNorm(norm_bound=bound)
    for scaled in (ScaleFree, KnownNorm):
        with pytest.raises(ValueError, match=r"kappa must be above 0"):
            scaled(kappa=bad)


@pytest.mark.parametrize(("hold", "end"), [(50, 50), (60, 50), (-1, 50)])
def test_schedules_that_end_before_they_begin(hold: int, end: int) -> None:
    with pytest.raises(ValueError, match=f"end must be above hold, got hold={hold} and end={end}"):
        PaperSchedule(hold=hold, end=end)


def test_scale_free_and_known_norm_in_closed_form() -> None:
    # d = 2, λ = 1, three times φ = (1, 0) with r = 2: V = diag(4, 1), ẑ = (3/2, 0), d_eff = 2 − (1/4 + 1) = 3/4.
    posterior = TaskPosterior.prior(dim=2, ridge=1.0).learn([[1.0, 0.0]] * 3, [2.0] * 3)
    assert float(directions_seen(posterior)) == pytest.approx(0.75)
    expected = 1.5 * math.sqrt(2.25 / 0.75 * (1 + 4 / 0.75))
    assert float(ScaleFree(kappa=1.5, caution=4.0)(3, posterior)) == pytest.approx(expected)
    left = math.sqrt((4.0**2 - 2.25) / (2 - 0.75 + 0.3))  # more than S/√2 = 2.83: what a direction holds on average
    assert left > 4 / math.sqrt(2)
    assert float(KnownNorm(kappa=1.5, norm_bound=4.0)(3, posterior)) == pytest.approx(1.5 * 4 / math.sqrt(2))
    within = math.sqrt((1.6**2 - 2.25) / (2 - 0.75 + 0.3))
    assert float(KnownNorm(kappa=1.5, norm_bound=1.6)(3, posterior)) == pytest.approx(1.5 * within)
    assert float(KnownNorm(kappa=1.0)(3, posterior)) == pytest.approx(0.3)  # ‖ẑ‖ > √2: the floor
    ridged = TaskPosterior.prior(dim=2, ridge=0.25)
    assert float(ScaleFree(kappa=2.0)(0, ridged)) == pytest.approx(1.0)  # nothing seen: κ√λ
