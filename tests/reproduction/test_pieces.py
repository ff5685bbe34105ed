"""Pieces of the paper's alternatives: closed forms, how often z_r is really inside, and what they do as agents."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import Generator, Tensor

from reproduction.pieces import explorers
from reproduction.pieces.scores import AveragedOverZ, Explore, LogDet, Optimism, SelfNormalised
from reproduction.pieces.searches import CountBonus, Gradient
from reproduction.variants import ALTERNATIVES, exhaustive, unroll, usf_ucb_short
from test_acquisition import hand_made, two_candidates
from test_agent import Plane
from test_search import best_score, problem, score
from toys import Compass
from zscout import METHODS, ExactModel, OnlineTransfer, TaskPosterior, load, rollout
from zscout.base.randomness import Streams
from zscout.transfer.score.acquisition import UCB, Acquisition
from zscout.transfer.score.forecast import Forecast
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import Shooting

RNG = Streams(torch.tensor(0))
RADIUS = torch.tensor(2.0, dtype=torch.float64)


def test_alternatives_are_beside_the_methods() -> None:
    assert not set(ALTERNATIVES) & set(METHODS)
    assert {name for name, factory in ALTERNATIVES.items() if factory(dim=9).intercept} == {"usf-ucb-short", "log-det"}


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        (Explore(), [(9 / 4 + 16) ** 0.5, 5.0]),
        (Optimism(), [3.0, 0.0]),
        # Without M the rank-1 stand-in: tr(V⁻¹ψψᵀ) = ‖ψ‖², and log det(V + ψψᵀ)/det V = log(1 + ‖ψ‖²).
        (LogDet(weight=3.0), [1.5 + 6 * 2.9575111, 5 + 6 * 3.2580965]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_scores_in_closed_form(piece: Acquisition, expected: list[float]) -> None:
    scores = piece(two_candidates(), hand_made(), RADIUS, RNG)
    assert torch.allclose(scores, torch.tensor(expected, dtype=torch.float64), rtol=1e-6)


def test_the_count_bonus_counts_visits(clusters_model: ExactModel, laplacian_model: ExactModel) -> None:
    now = problem(clusters_model)
    visits = now.posterior.V.diagonal()
    for power in (0.5, 1.0):
        expected = clusters_model.project_z(now.posterior.z_hat + visits**-power)
        assert torch.allclose(CountBonus(power)(now, RNG), expected)
    with pytest.raises(ValueError, match="one-hot"):
        CountBonus()(problem(laplacian_model), RNG)


def test_what_a_model_lacks_is_said(laplacian_model: ExactModel) -> None:
    with pytest.raises(ValueError, match="no gradient"):
        Gradient()(problem(laplacian_model), RNG)
    with pytest.raises(ValueError, match="learned γ = 0.8"):
        OnlineTransfer(load("grid9-laplacian"), usf_ucb_short()).ask(0)


def test_averages_need_a_neighbourhood_to_differ(laplacian_model: ExactModel, rng: Generator) -> None:
    bfm = load("grid9-laplacian")
    posterior = TaskPosterior.prior(dim=9, ridge=0.1).learn(laplacian_model.phi([3, 40, 60]), [1.0, 0.0, -1.0])
    forecast = Forecast(bfm, 40, bfm.sample_z(5, rng).double())
    plain = UCB()(forecast, posterior, RADIUS, RNG)
    still = AveragedOverZ(spread=0.0)(forecast, posterior, RADIUS, RNG)
    assert torch.allclose(plain, still, rtol=1e-5)
    moved = AveragedOverZ(draws=8, spread=0.3)(forecast, posterior, RADIUS, RNG)
    assert not torch.allclose(plain, moved, rtol=1e-3)


def test_projected_gradient_climbs_and_free_gradient_leaves_z() -> None:
    # A network that takes z as it comes, as the paper's: ψ grows without bound along z.
    model = Compass()
    now = Problem([0.2, 0.1], model, TaskPosterior.prior(dim=2, ridge=1.0), torch.tensor(1.0).double(), UCB())
    on_z = Gradient(starts=4, steps=20)(now, RNG)
    assert on_z.norm() == pytest.approx(1.0, rel=1e-5)
    best = best_score(now, model.sample_z(500, 0))
    assert score(now, on_z) == pytest.approx(best, rel=5e-3)
    free = Gradient(starts=4, steps=20, rate=1.0, project=False)(now, RNG)
    assert free.norm() > 20


def test_gradient_search_of_a_network_beats_its_starts() -> None:
    model = load("grid9-laplacian")
    gains = []
    for seed in range(4):
        now = problem(model, state=10 * seed, seed=seed)
        gains.append(score(now, Gradient(starts=4, steps=15)(now, RNG)) - score(now, Shooting(4)(now, RNG)))
    assert min(gains) > -1e-3
    assert max(gains) > 1


def test_exhaustive_goes_to_the_least_visited_state(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, exhaustive(), seed=0)
    visits, state = torch.zeros(81), 40
    for _ in range(300):
        visits[state] += 1
        ahead = laplacian_model.world.step([state] * 4, [0, 1, 2, 3])
        state = int(laplacian_model.world.step(state, agent.act(state)))
        assert visits[state] == visits[ahead].min()
        agent.tell(state, 0.0)
    assert (visits > 0).all()


def test_an_observation_is_kept_as_it_was(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, exhaustive())
    buffer = np.array(0)
    agent.act(buffer)
    buffer[...] = 40
    agent.tell(buffer, 0.0)
    assert agent._state.memory["visits"].nonzero().tolist() == [[0]]


class Later(Compass):
    """States and actions are counted from 3 and from 5."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space, self.action_space = Discrete(4, start=3), Discrete(2, start=5)

    def phi(self, obs: Any) -> Tensor:
        return torch.ones(*np.shape(obs), 2)


def test_exhaustive_counts_from_the_start_of_its_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(state: Tensor, action: Tensor) -> Tensor:  # 5: to the left, 6: to the right
        return (state + 2 * (action - 5) - 1).clamp(3, 6)

    monkeypatch.setattr(explorers, "world_named", lambda name: SimpleNamespace(step=step))
    agent, state, path = OnlineTransfer(Later(), exhaustive()), torch.tensor(3), []
    for _ in range(4):
        path.append(int(state))
        state = step(state, torch.as_tensor(agent.act(state)))
        agent.tell(state, 0.0)
    assert path == [3, 4, 5, 6]


def test_unroll_finds_its_best_arm() -> None:
    agent = OnlineTransfer(Compass(), unroll(arms=6, horizon=5), seed=3)
    for _ in rollout(agent, Plane(), steps=5 * 60, seed=0):
        pass
    memory = agent._state.memory
    assert memory["counts"].sum() == 60
    assert torch.equal(agent.best_z, memory["arms"][memory["arms"][:, 0].argmax()])
    assert memory["counts"].argmax() == memory["arms"][:, 0].argmax()


def prior(**settings: Any) -> TaskPosterior:
    return TaskPosterior.prior(**{"dim": 2, "ridge": 0.25, **settings})


def test_the_self_normalised_radius_by_hand() -> None:
    posterior = prior(noise=0.5).update([1.0, 0.0], 7.0)  # det V ÷ det λI = 5
    spread = math.sqrt(2 * math.log(10) + math.log(5))
    assert SelfNormalised(0.1)(1, posterior).item() == pytest.approx(0.5 * spread + 0.5 * math.sqrt(2))
    assert SelfNormalised(0.1, norm_bound=3.0)(1, posterior).item() == pytest.approx(0.5 * spread + 0.5 * 3)
    at_first = SelfNormalised(math.exp(-2), norm_bound=3.0)(0, prior(noise=0.5, runs=(2,)))
    assert at_first.tolist() == pytest.approx([0.5 * 2 + 0.5 * 3] * 2)


def drawn(posterior: TaskPosterior, z_r: Tensor, radius: Tensor, candidates: Tensor) -> Tensor:
    """The first: φ that depend on nothing."""
    return candidates[:, 0]


def optimistic(posterior: TaskPosterior, z_r: Tensor, radius: Tensor, candidates: Tensor) -> Tensor:
    """The largest φ·ẑ + √β‖φ‖_{V⁻¹}: φ that depend on all rewards so far."""
    score = (candidates @ posterior.z_hat[..., None])[..., 0] + radius[:, None] * posterior.width(candidates)
    return candidates[torch.arange(len(candidates)), score.argmax(1)]


def flattering(posterior: TaskPosterior, z_r: Tensor, radius: Tensor, candidates: Tensor) -> Tensor:
    """The φ whose reward ẑ overrates most: what would do most harm to a radius that trusts independent φ."""
    score = (candidates @ (posterior.z_hat - z_r)[..., None])[..., 0]
    return candidates[torch.arange(len(candidates)), score.argmax(1)]


@pytest.mark.parametrize("choice", [drawn, optimistic, flattering])
def test_the_task_stays_inside_at_all_times(choice: Callable[..., Tensor], rng: torch.Generator) -> None:
    runs, d, noise, delta = 500, 4, 0.5, 0.1
    z_r = 2 * torch.nn.functional.normalize(torch.randn(runs, d, generator=rng, dtype=torch.float64), dim=-1)
    posterior = TaskPosterior.prior(dim=d, ridge=1e-3, noise=noise, runs=(runs,))
    confidence = SelfNormalised(delta)
    left, left_a_fifth = torch.zeros(2, runs, dtype=torch.bool)
    for t in range(201):
        distance, radius = posterior.distance(z_r), confidence(t, posterior)
        left |= distance > radius
        left_a_fifth |= distance > radius / 5
        phi = choice(posterior, z_r, radius, torch.randn(runs, 6, d, generator=rng, dtype=torch.float64))
        errors = noise * torch.randn(runs, generator=rng, dtype=torch.float64)
        posterior = posterior.update(phi, (phi * z_r).sum(-1) + errors)
    assert left.double().mean() <= delta
    assert left_a_fifth.double().mean() > 5 * delta  # so there is something to cover


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_delta_is_a_probability(delta: float) -> None:
    with pytest.raises(ValueError, match=r"delta must be (in \[0.0, 1.0\]|in \(0, 1\)), got"):
        SelfNormalised(delta)
