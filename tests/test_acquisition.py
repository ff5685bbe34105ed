import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor

from toys import Fixed
from zscout import ExactModel, TaskPosterior
from zscout.base.randomness import Streams
from zscout.base.types import Obs, Vectors
from zscout.transfer.score.acquisition import (
    UCB,
    Acquisition,
    Greedy,
    OverHeads,
    PathUCB,
    Thompson,
)
from zscout.transfer.score.forecast import Forecast


def two_candidates(spread: float = 0.0) -> Forecast:
    psi = torch.tensor([[3.0, 4.0], [10.0, 0.0]], dtype=torch.float64)
    return Forecast(Fixed(psi, spread), 0, torch.eye(2, dtype=torch.float64))


def hand_made() -> TaskPosterior:
    """V = diag(4, 1), ẑ = (1/2, 0)."""
    return TaskPosterior.prior(dim=2, ridge=1.0, noise=0.5).learn([[1.0, 0.0]] * 3, [2 / 3] * 3)


RNG = Streams(torch.tensor(0))
RADIUS = torch.tensor(2.0, dtype=torch.float64)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (UCB(), [1.5 + 2 * (9 / 4 + 16) ** 0.5, 5 + 2 * 5.0]),
        (UCB(bonus_scale=0.5), [1.5 + (9 / 4 + 16) ** 0.5, 5 + 5.0]),
        (Greedy(), [1.5, 5.0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_scores_in_closed_form(score: Acquisition, expected: list[float]) -> None:
    scores = score(two_candidates(), hand_made(), RADIUS, RNG)
    assert torch.allclose(scores, torch.tensor(expected, dtype=torch.float64), rtol=1e-6)


def test_thompson_scores_by_one_task_drawn_from_the_posterior() -> None:
    posterior = hand_made()
    runs = TaskPosterior.prior(dim=2, ridge=1.0, noise=0.5, runs=(4000,)).learn(
        torch.tensor([[1.0, 0.0]] * 3).expand(4000, 3, 2), torch.full((4000, 3), 2 / 3)
    )
    scores = Thompson()(two_candidates(), runs, RADIUS.expand(4000), Streams(torch.arange(4000)))
    alone = Thompson()(two_candidates(), posterior, RADIUS, Streams(torch.tensor(7)))
    assert torch.allclose(scores[7], alone)
    psi = two_candidates().psi
    assert torch.allclose(scores.mean(0), psi @ posterior.z_hat, atol=0.15)
    assert torch.allclose(scores.T.cov(), psi @ posterior.covariance @ psi.T, rtol=0.1)


def test_the_most_pessimistic_head_counts() -> None:
    score = OverHeads(Greedy())(two_candidates(spread=1.0), hand_made(), RADIUS, RNG)
    assert torch.allclose(score, torch.tensor([1.0, 4.5], dtype=torch.float64))


def test_information_is_the_sum_of_the_gains_of_the_states_entered(laplacian_model: ExactModel, rng: Generator) -> None:
    model, world = laplacian_model, laplacian_model.world
    posterior = TaskPosterior.prior(dim=9, ridge=0.1).learn(model.phi([3, 40, 60]), [0.0, 0.0, 0.0])
    z = model.sample_z(6, rng)
    gains = Forecast(model, 40, z).information(posterior, 0.5)
    state, total = torch.full((6,), 40), torch.zeros(6, dtype=torch.float64)
    for k in range(50):
        state = world.step(state, torch.as_tensor(model.act(state, z)))
        total += 0.5**k * posterior.width(model.phi(state)) ** 2
    assert torch.allclose(gains, total)


@given(st.integers(0, 80), st.integers(0, 10_000), st.floats(0.05, 3.0))
def test_ucb_is_the_greatest_value_over_the_ellipsoid(
    laplacian_model: ExactModel, state: int, seed: int, radius: float
) -> None:
    """With exact ψ: max_z UCB(z) = max over ‖θ − ẑ‖_V ≤ √β of v*(s;θ)."""
    model, rng = laplacian_model, Generator().manual_seed(seed)
    visited = torch.randint(81, (12,), generator=rng)
    task = model.sample_z(1, rng)[0]
    posterior = TaskPosterior.prior(dim=9, ridge=0.3).learn(model.phi(visited), model.phi(visited) @ task)
    inside = posterior.sample_ellipsoid(30, radius, rng)
    z = torch.cat([model.sample_z(30, rng), inside])
    for _ in range(4):  # the z that each present policy looks best for
        psi = model.psi(state, z)
        best_for = psi @ posterior.factor
        z = posterior.z_hat + radius * (best_for / best_for.norm(dim=-1, keepdim=True)) @ posterior.factor.mT
        ucb = UCB()(Forecast(model, state, z), posterior, torch.tensor(radius, dtype=torch.float64), RNG)
    values = model.value(z)[:, state]
    # No θ inside promises more than the best UCB, and the best UCB is promised by a θ inside.
    assert model.value(inside)[:, state].max() <= ucb.max() * (1 + 1e-9) + 1e-9
    assert torch.isclose(values.max(), ucb.max(), rtol=1e-9)


def test_the_path_bonus_in_closed_form_and_by_its_fallbacks(laplacian_model: ExactModel) -> None:
    model = laplacian_model
    posterior = TaskPosterior.prior(dim=9, ridge=0.1).learn(model.phi([3, 40, 60]), [1.0, 0.0, -1.0])
    z = model.sample_z(4, 2)
    inverse = torch.linalg.inv(posterior.V)
    trace = torch.stack([(inverse @ M).trace() for M in model.second_moment(40, z, 0.9)])
    expected = model.psi(40, z) @ posterior.z_hat + RADIUS * 100 * (0.1 * trace).sqrt()
    assert torch.allclose(PathUCB(0.9)(Forecast(model, 40, z), posterior, RADIUS, RNG), expected)

    class Horizons(Fixed):
        gamma = 0.95

        def psi_at(self, obs: Obs, z: Vectors, gamma: float) -> Tensor:
            return gamma * self.rows

    psi = two_candidates().psi
    short = PathUCB(0.8)(Forecast(Horizons(psi), 0, torch.eye(2).double()), hand_made(), RADIUS, RNG)
    widths = torch.tensor([18.25**0.5, 5.0], dtype=torch.float64)
    assert torch.allclose(short, torch.tensor([1.5, 5.0]).double() + RADIUS * 0.2 / 0.05 * 0.8 * widths)
    bare = PathUCB()(two_candidates(), hand_made(), RADIUS, RNG)
    assert torch.equal(bare, UCB()(two_candidates(), hand_made(), RADIUS, RNG))  # eq. 5


def test_models_without_an_extra_say_so() -> None:
    with pytest.raises(ValueError, match="no psi_at"):
        UCB(bonus_gamma=0.9)(two_candidates(), hand_made(), RADIUS, RNG)
    nan = Forecast(Fixed(torch.full((2, 2), torch.nan)), 0, torch.eye(2).double())
    with pytest.raises(ValueError, match="NaN"):
        UCB()(nan, hand_made(), RADIUS, RNG)
    with pytest.raises(ValueError, match="gamma"):
        UCB(bonus_gamma=1.5)
