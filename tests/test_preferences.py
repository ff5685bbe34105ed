"""Preferences between clips: their posterior against sampling, flips, mixing with rewards, pairs to show, files."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

import zscout
from benchmarks.preferences import Found, Grid, joined, measured
from toys import Compass
from zscout import ExactModel, OnlineTransfer, TaskPosterior
from zscout.base.files import read_headed, write_headed
from zscout.transfer import saving
from zscout.transfer.belief.feedback import Preferences, logit_unit
from zscout.transfer.constants import FLIPS, LOGITS


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


def answers(z: Tensor, n: int, flips: float, seed: int, scale: float = 1.0) -> Tensor:
    """Φ_better − Φ_worse [*b n d] of random pairs, as a person with this z answers."""
    rng = Generator().manual_seed(seed)
    apart = torch.randn(*z.shape[:-1], n, z.shape[-1], generator=rng, dtype=torch.float64)
    p = flips + (1 - 2 * flips) * torch.sigmoid(scale * (apart @ z[..., None])[..., 0])
    likes = torch.rand(p.shape, generator=rng, dtype=torch.float64) < p
    return torch.where(likes[..., None], apart, -apart)


# The posterior


@pytest.mark.parametrize(
    ("dim", "pairs", "rewards"), [(2, 1, 0), (2, 8, 0), (3, 5, 0), (3, 15, 0), (4, 8, 0), (3, 10, 3)]
)
def test_mean_spread_and_flips_equal_those_of_samples(dim: int, pairs: int, rewards: int) -> None:
    """Importance sampling from the rewards' posterior, summed over the same scales and flips: 10,000 or more count."""
    for seed in (0, 2):
        z, phi = 2 * drawn(dim, seed=seed), drawn(rewards, dim, seed=seed + 10)
        told = TaskPosterior.prior(dim=dim, ridge=0.1).learn(phi, phi @ z + drawn(rewards, seed=seed + 20))
        apart = answers(z, pairs, 0.1, seed)
        found = Preferences.of(told, apart)
        tasks = told.z_hat + found.spread * drawn(150_000, dim, seed=seed + 30) @ told.factor.mT
        x = logit_unit(told, found.spread, apart) * tasks @ apart.T
        likely = torch.stack(
            [prior * (f + (1 - 2 * f) * torch.sigmoid(logit * x)).prod(1) for logit in LOGITS for f, prior in FLIPS]
        )
        weight = likely.sum(0) / likely.sum()
        assert 1 / (weight**2).sum() > 10_000
        mean = weight @ tasks
        spread = (weight @ (tasks - mean) ** 2).sqrt()
        assert ((found.posterior.z_hat - mean) / spread).abs().max() < 0.03
        own = found.spread * (found.posterior.factor**2).sum(-1).sqrt()
        assert (own / spread - 1).abs().max() < 0.05
        by_flips = likely.sum(1).reshape(len(LOGITS), len(FLIPS)).sum(0)
        expected = sum(float(part) * f for part, (f, _) in zip(by_flips / by_flips.sum(), FLIPS, strict=True))
        assert abs(float(found.flip_rate) - expected) < 0.005


def test_the_order_of_labels_does_not_matter(laplacian_model: ExactModel) -> None:
    clips = np.random.default_rng(0).integers(81, size=(8, 12))
    one, other = (OnlineTransfer(laplacian_model) for _ in range(2))
    for i in range(0, 8, 2):
        one.prefer(clips[i], clips[i + 1])
    one.learn([3, 70], [0.1, 0.9])
    other.prefer(clips[6], clips[7])
    other.learn([3, 70], [0.1, 0.9])
    for i in (2, 0, 4):
        other.prefer(clips[i], clips[i + 1])
    assert torch.allclose(one.z_hat, other.z_hat, atol=1e-6)
    assert torch.allclose(one.posterior.V, other.posterior.V, atol=1e-6)


def test_flips_are_estimated() -> None:
    z = 3 * drawn(8, 3, seed=1)  # eight people
    told = TaskPosterior.prior(dim=3, ridge=0.1, runs=(8,))
    careful, careless = (Preferences.of(told, answers(z, 150, f, 2)).flip_rate for f in (0.0, 0.25))
    assert careful.mean() < 0.05
    assert careless.mean() > 0.15
    assert (careless > careful).all()


def test_both_kinds_of_labels_together_are_better_than_either() -> None:
    z, runs = drawn(100, 6, seed=1), (100,)
    phi = drawn(100, 6, 6, seed=2)
    rewards = (phi @ z[..., None])[..., 0] + drawn(100, 6, seed=3)
    nothing = TaskPosterior.prior(dim=6, ridge=1.0, runs=runs)
    told, apart = nothing.learn(phi, rewards), answers(z, 12, 0.1, 4, scale=3.0)
    both, only = (Preferences.of(start, apart).posterior.z_hat for start in (told, nothing))
    close = [float(torch.cosine_similarity(found, z).mean()) for found in (both, told.z_hat, only)]
    assert close[0] > max(close[1:]) + 0.03


def test_a_larger_reward_makes_a_larger_z_and_changes_no_answer() -> None:
    z, phi = drawn(3, seed=1), drawn(20, 3, seed=2)
    rewards, apart = phi @ z + 0.3 * drawn(20, seed=3), answers(z, 10, 0.1, 4)
    prior = TaskPosterior.prior(dim=3, ridge=0.1, noise=None, intercept=True)
    one, other = (Preferences.of(prior.learn(phi, a * rewards + c), apart) for a, c in ((1, 0), (50, 7)))
    assert torch.allclose(50 * one.posterior.z_hat, other.posterior.z_hat)
    assert torch.allclose(one.posterior.V, other.posterior.V)
    assert torch.allclose(one.scale, 50 * other.scale)


def test_noise_and_number_of_rewards_stay_those_of_the_rewards(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model)
    agent.learn(list(range(40)), np.random.default_rng(0).normal(size=40))
    before = agent.posterior
    agent.prefer([1, 2], [70, 71])
    assert torch.allclose(agent.posterior.noise, before.noise)
    assert torch.equal(agent.posterior.weight, before.weight)
    assert torch.linalg.eigvalsh(agent.posterior.V - before.V).min() > -1e-9
    assert torch.allclose(agent.posterior.V @ agent.z_hat, agent.posterior.b)


def test_a_run_alone_equals_the_same_run_in_a_batch(laplacian_model: ExactModel) -> None:
    method = zscout.Method()
    clips = np.random.default_rng(1).integers(81, size=(3, 6, 7))
    together = OnlineTransfer(laplacian_model, method, runs=3)
    alone = [OnlineTransfer(laplacian_model, method, seed=run) for run in range(3)]
    for k in range(0, 6, 2):
        together.prefer(clips[:, k], clips[:, k + 1, :5])
        together.ask([4, 4, 4])
        together.tell([5, 6, 7], [0.0, 1.0, 2.0])
        for run, agent in enumerate(alone):
            agent.prefer(clips[run, k], clips[run, k + 1, :5])
            agent.ask(4)
            agent.tell(5 + run, float(run))
    for run, agent in enumerate(alone):
        assert torch.allclose(agent.z_hat, together.z_hat[run], atol=1e-6)
        assert torch.allclose(agent.preferences.flip_rate, together.preferences.flip_rate[run], atol=1e-6)
        assert torch.allclose(agent.certificate().share, together.certificate().share[run], atol=1e-4)


def test_equal_clips_teach_nothing(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model)
    agent.prefer([1, 2, 3], [3, 2, 1])
    assert agent.z_hat.abs().max() < 1e-9
    assert agent.preferences.count == 1


def test_hundreds_of_contradictory_answers_stay_finite() -> None:
    apart = drawn(200, 2, seed=3) * torch.tensor([1.0, 1e-6], dtype=torch.float64)
    found = Preferences.of(TaskPosterior.prior(dim=2, ridge=0.1), torch.cat([apart, -apart[:150]]))
    assert torch.isfinite(found.posterior.z_hat).all()
    assert torch.isfinite(found.posterior.V).all()
    assert (found.scale * found.posterior.z_hat[0]).abs() < 1.0  # half of the answers along the first axis are wrong


# The agent


@pytest.mark.long
def test_preferences_alone_find_the_corner(laplacian_model: ExactModel) -> None:
    """The model's own clips, and a person who likes to be near the last cell."""
    found = measured("grid", Grid(), 3, 25)
    assert found.values[:, -1].median() > 0.8
    assert found.values[:, 0].median() < 0.5
    assert found.row()[:2] == ("grid", "3")


def test_two_kinds_of_tasks_are_one_row_and_each_task_counts_alike() -> None:
    one = Found("walker", torch.tensor([[0.0, 0.9]]), flip_rate=0.1, equal=0.4)
    other = Found("walker", torch.tensor([[0.0, 0.0], [0.0, 0.9], [0.0, 0.9]]), flip_rate=0.2, equal=0.0)
    assert joined([one, other]).row() == ("walker", "4", "5", "5", "0.00", "0.18", "10%")


FAULTS: list[tuple[Any, Any, str]] = [
    ([], [1], "the better clip must be the observations entered along it"),
    (3, [1], "the better clip must be the observations entered along it"),
    ([1], [[1, 2], [3, 4]], "the worse clip must be the observations entered along it"),
    ([1], [1, 81], "outside 0 … 80"),
    ([1], [1.5], "must be whole numbers"),
    ([1], [[1, 2], [3]], "the worse clip holds observations of different shapes"),
]


@pytest.mark.parametrize(("better", "worse", "message"), FAULTS)
def test_bad_clips_change_nothing(laplacian_model: ExactModel, better: Any, worse: Any, message: str) -> None:
    agent = OnlineTransfer(laplacian_model)
    agent.prefer([1, 2], [3])
    before = agent.z_hat
    with pytest.raises(ValueError, match=message):
        agent.prefer(better, worse)
    assert torch.equal(agent.z_hat, before)
    assert agent.preferences.count == 1


def test_vectors_must_be_finite_and_fit_the_runs() -> None:
    agent = OnlineTransfer(Compass(), runs=2)
    good = np.ones((2, 5, 2))
    for bad, message in ((good[:1], "has shape"), (good[..., :1], "has shape"), (np.nan * good, "holds NaN or inf")):
        with pytest.raises(ValueError, match=message):
            agent.prefer(good, bad)
    with pytest.raises(ValueError, match="of a single agent"):
        zscout.most_telling(agent, [good, good])
    assert agent.preferences.count == 0


def test_methods_and_models_that_cannot_use_preferences_say_so(laplacian_model: ExactModel) -> None:
    with pytest.raises(ValueError, match="scores rollouts by their returns"):
        OnlineTransfer(laplacian_model, "lola").prefer([1], [2])

    class Moving(Compass):
        def phi_of_transition(self, obs: Any, action: Any, next_obs: Any) -> Tensor:
            return self.phi(next_obs) - self.phi(obs)

    with pytest.raises(ValueError, match="features of transitions"):
        OnlineTransfer(Moving()).prefer(np.ones((3, 2)), np.zeros((3, 2)))


@pytest.mark.parametrize("runs", [None, 2])
def test_a_loaded_agent_goes_on_as_the_saved_one(laplacian_model: ExactModel, tmp_path: Path, runs: int | None) -> None:
    def clip(seed: int) -> np.ndarray:
        return np.random.default_rng(seed).integers(81, size=(5,) if runs is None else (runs, 5))

    agent = OnlineTransfer(laplacian_model, runs=runs)
    agent.prefer(clip(0), clip(1))
    agent.prefer(clip(2), clip(3))
    agent.save(tmp_path)
    loaded = OnlineTransfer.load(tmp_path, laplacian_model)
    copied = copy.deepcopy(agent)
    for each in (agent, loaded, copied):
        each.prefer(clip(4), clip(5))
        assert each.preferences.count == 3
    assert torch.equal(agent.z_hat, loaded.z_hat)
    assert torch.equal(agent.z_hat, copied.z_hat)


def test_a_file_with_wrong_answers_is_refused(laplacian_model: ExactModel, tmp_path: Path) -> None:
    agent = OnlineTransfer(laplacian_model)
    agent.prefer([1], [2])
    agent.save(tmp_path)
    path = tmp_path / "agent.safetensors"
    about, tensors = read_headed(path, "agent", saving.FORMAT)
    for wrong in (tensors["answers"][0], tensors["answers"][:0], tensors["answers"] * math.nan):
        write_headed(path, "agent", about, tensors | {"answers": wrong})
        with pytest.raises(ValueError, match="answers"):
            OnlineTransfer.load(tmp_path, laplacian_model)


# What to show


def test_information_equals_that_of_samples() -> None:
    told, pairs = TaskPosterior.prior(dim=3, ridge=0.1), 0.5 * drawn(6, 3, seed=1)
    known = Preferences.of(told, answers(drawn(3), 6, 0.1, 2))
    scale, f = float(known.scale), float(known.flip_rate)
    posterior = known.posterior
    tasks = posterior.z_hat + known.spread * drawn(100_000, 3, seed=3) @ posterior.factor.mT
    p = f + (1 - 2 * f) * torch.sigmoid(scale * tasks @ pairs.T)

    def entropy(q: Tensor) -> Tensor:
        return -(q * q.log() + (1 - q) * (1 - q).log())

    expected = entropy(p.mean(0)) - entropy(p).mean(0)
    assert torch.allclose(known.information(pairs, scale), expected, atol=0.005)


def test_the_most_telling_pair_is_one_not_yet_answered() -> None:
    """φ(s) = s: many answers along the first axis, none along the second."""
    agent = OnlineTransfer(Compass())
    right, left, up, same = ([[x, y]] for x, y in ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.5), (0.9, 0.0)))
    for _ in range(15):
        agent.prefer(right, left)
    assert zscout.most_telling(agent, [right, same, left, np.array(up)]) in ((0, 3), (1, 3), (2, 3))
    assert zscout.most_telling(OnlineTransfer(Compass()), [right, same, left]) == (0, 2)
    with pytest.raises(ValueError, match="got 1 clips, expected at least two"):
        zscout.most_telling(agent, [right])
    with pytest.raises(ValueError, match="clip 1 must be the observations"):
        zscout.most_telling(agent, [right, []])
