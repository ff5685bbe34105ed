"""FB: the protocol, losses by hand, files, trainings that are resumed, learning on a small map, the shipped model."""

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import zscout
from zscout.lab.evaluation.judging import psi_error
from zscout.lab.training.fb import FBPretraining
from zscout.models.fb.data import random_forces
from zscout.models.fb.learner import centred, fb_loss, least, orthonormality_loss, value_loss
from zscout.models.fb.model import FB, FBConfig
from zscout.models.fb.recipe import FBRecipe
from zscout.models.fb.training import FBTrainer
from zscout.models.files.checkpoint import read_checkpoint, write_checkpoint
from zscout.worlds import point_maze

SMALL = point_maze("....\n.##.\n....")
TINY = FBRecipe(
    dim=12,
    hidden=32,
    layers=2,
    transitions=3_000,
    feature_steps=10,
    policy_steps=10,
    evaluation_steps=10,
    batch=64,
    runs=32,
    refresh=7,
    chain=5,
)


@pytest.fixture(scope="module")
def shipped() -> FB:
    model = zscout.load("pointmaze-fb")
    assert isinstance(model, FB)
    return model


def random_model(**changes: object) -> FB:
    config = {"observation_low": (0.0, 0.0, -0.3, -0.3), "observation_high": (4.0, 3.0, 0.3, 0.3), "actions": 2}
    model = FB(FBConfig(**{**config, "dim": 10, "hidden": 16, **changes}), seed=1)  # type: ignore[arg-type]
    return model.calibrate(random_forces(SMALL, 2_000, torch.Generator().manual_seed(0)).next_obs).freeze()


# The protocol


@pytest.mark.parametrize(
    "changes", [{}, {"gated": False, "frequencies": 0}, {"goal_features": "0,1", "heads": 1}, {"normalised": True}]
)
def test_a_model_keeps_the_contract(changes: dict[str, object]) -> None:
    zscout.check_model(random_model(**changes))


def test_features_are_centred_and_white_and_a_constant_has_no_part() -> None:
    model = random_model()
    obs = random_forces(SMALL, 2_000, torch.Generator().manual_seed(0)).next_obs
    phi = model.phi(obs).double()
    assert phi.mean(0).abs().max() < 1e-3
    assert (torch.cov(phi.mT, correction=0) - torch.eye(10)).abs().max() < 1e-2
    z = [zscout.infer_task(model, obs, obs[:, 0] + offset) for offset in (0.0, 100.0)]
    assert torch.allclose(z[0], z[1], atol=1e-2)


@pytest.mark.parametrize("goals", ["all", "0,1", "0,3", "0,-1"])
def test_an_angle_that_turns_once_is_the_same_for_the_whole_model(goals: str, tmp_path: Path) -> None:
    model = random_model(angles=(3,), goal_features=goals, dim=12)
    zscout.check_model(model)
    z = model.sample_z(1, 0)
    obs = torch.tensor([1.0, 0.5, 0.1, 0.2])
    turned, other = (obs + torch.tensor([0.0, 0.0, 0.0, angle]) for angle in (2 * math.pi, math.pi))
    for found in (model.act, model.psi):
        here, there, away = (torch.as_tensor(found(seen, z)) for seen in (obs, turned, other))
        torch.testing.assert_close(here, there, atol=1e-4, rtol=1e-4)
        assert (here - away).abs().max() > 1e-3
    torch.testing.assert_close(model.phi(turned), model.phi(obs), atol=1e-4, rtol=1e-4)
    assert torch.equal(model.phi(other), model.phi(obs)) == (goals == "0,1")
    loaded = zscout.load(zscout.save(model, tmp_path / "angles"))
    assert isinstance(loaded, FB)
    assert loaded.config.angles == (3,)
    for wrong, message in (((4,), "angles"), ((-1,), "angles"), ((0, 2) * 50_000, "^angles has entry 0 twice$")):
        with pytest.raises(ValueError, match=message):
            random_model(angles=wrong)


def test_goal_features_decide_what_b_sees() -> None:
    obs = torch.tensor([[1.0, 2.0, 0.1, 0.2], [1.0, 2.0, -0.2, 0.0]])
    places, everything = random_model(goal_features="0,1").phi(obs), random_model().phi(obs)
    assert torch.equal(places[0], places[1])
    assert not torch.equal(everything[0], everything[1])
    for name, message in (
        ("9", "expected indices of 4 entries"),
        ("0,x", "expected indices"),
        ("al", "did you mean all"),
    ):
        with pytest.raises(ValueError, match=message):
            random_model(goal_features=name)
    with pytest.raises(ValueError, match="4 goal features and their squares need more than 8"):
        random_model(dim=8)


def test_bad_input_says_why() -> None:
    model = random_model()
    z = model.sample_z(1, 0)[0]
    for obs, message in (([1.0, 2.0], r"expected \[\*b 4\]"), ([0.0, 0.0, 0.0, float("nan")], "NaN or inf")):
        with pytest.raises(ValueError, match=message):
            model.act(obs, z)
    with pytest.raises(ValueError, match="z has 9 entries, expected 10"):
        model.psi([1.0, 1.0, 0.0, 0.0], torch.ones(3, 9))


# Inference


def test_a_normalised_network_ignores_the_scale_of_its_hidden_layers() -> None:
    """Where inputs of a ReLU have mean 0 and variance 1, its weights may be of any size."""
    for normalised in (False, True):
        model = FB(replace(random_model(layers=3).config, normalised=normalised), seed=1)
        x = torch.randn(7, model.actor.weights[0].shape[1], generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            before = model.actor(x)
            model.actor.weights[1].mul_(5.0)
            near = torch.allclose(model.actor(x), before, rtol=1e-3, atol=1e-4)
        assert near == normalised


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gated": False, "frequencies": 0},
        {"heads": 1, "layers": 1},
        {"dim": 1, "quadratic": False},
        {"layers": 3, "normalised": True},
    ],
)
def test_inference_equals_the_trained_networks(changes: dict[str, object]) -> None:
    model, states = random_model(**changes), SMALL.random_states(5, torch.Generator().manual_seed(2))
    z = model.sample_z(15, 3).reshape(5, 3, -1)
    encoded, own = model.encode(states.repeat_interleave(3, 0)), model.to_z(z.flatten(0, 1))
    with torch.no_grad():
        action = model.action_of(encoded, own)
        psi = (model.forward_of(encoded, action, own) @ model.root).unflatten(1, (5, 3))  # [h 5 3 d]
    close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-6 * float(psi.abs().max()))
    close(model.psi_heads(states, z), psi.movedim(0, 1))
    close(model.psi(states, z), psi.mean(0))
    close(model.act(states, z[:, 0]), action[::3])
    for _ in range(2):  # one observation at a time: what is kept of the last one serves it alone
        for i, obs in enumerate(states.numpy()):
            close(model.psi_heads(obs, z[i]), psi[:, i])
            close(model.psi(obs, z[i]), psi[:, i].mean(0))
            close(model.psi(obs, z), model.psi(states[i].expand(5, 4), z))
            close(torch.as_tensor(model.act(obs, z[i, 0])), action[3 * i])
            close(model.psi(obs.astype("f8"), z[i]), model.psi(states[i], z[i]))


def test_a_model_that_is_not_frozen_answers_the_same() -> None:
    model, states = random_model(), SMALL.random_states(4, torch.Generator().manual_seed(2))
    z = model.sample_z(8, 3).reshape(4, 2, -1)
    loose = FB(model.config)
    loose.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(loose.psi(states, z), model.psi(states, z))
        torch.testing.assert_close(loose.psi_heads(states, z), model.psi_heads(states, z))


def test_a_frozen_model_that_is_changed_answers_anew() -> None:
    model, obs = random_model(), np.array([1.0, 0.5, 0.1, 0.0], dtype=np.float32)
    z, shift = model.sample_z(3, 0), np.array([0.5, 0.0, 0.0, 0.0], dtype=np.float32)
    before, moved, phi = model.psi(obs, z), model.psi(obs + shift, z), model.phi(obs)
    with torch.no_grad():
        model.obs_mean.sub_(torch.from_numpy(shift))
    torch.testing.assert_close(model.psi(obs, z), moved)
    with torch.no_grad():
        model.obs_mean.add_(torch.from_numpy(shift))
        model.forward_map.biases[-1].add_(1)
        model.backward_map.biases[-1].add_(1)
    torch.testing.assert_close(model.psi(obs, z), before + model.root.sum(0) / (1 - model.gamma), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(model.phi(obs), phi)
    other = random_model(hidden=8)
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict(other.state_dict())
    with torch.inference_mode():
        loaded = zscout.load("pointmaze-fb")
        inside = loaded.psi(np.ones(4), loaded.sample_z(2, 0))
    torch.testing.assert_close(loaded.psi(np.ones(4), loaded.sample_z(2, 0)), inside)


# Losses by hand


def test_losses_equal_their_definitions(rng: torch.Generator) -> None:
    n, d = 7, 3
    B, target_B = (centred(torch.randn(n, d, generator=rng, dtype=torch.float64)) for _ in range(2))
    F, tail = torch.randn(2, n, d, generator=rng, dtype=torch.float64), torch.randn(n, d, generator=rng).double()
    by_hand = sum(
        sum(
            0.5 * float(F[h, i] @ B[j] - tail[i] @ target_B[j]) ** 2 - 0.5 * float(tail[i] @ target_B[j]) ** 2
            for i in range(n)
            for j in range(n)
        )
        / n**2
        - sum(float(F[h, i] @ B[i]) for i in range(n)) / n
        for h in range(2)
    )
    assert float(fb_loss(F, B, tail, target_B)) == pytest.approx(by_hand)
    pairs = sum(float(B[i] @ B[j]) ** 2 for i in range(n) for j in range(n)) / n**2
    by_hand = pairs - 2 * sum(float(B[i] @ B[i]) for i in range(n)) / n + d  # as Touati et al. write it, plus d
    assert float(orthonormality_loss(B.float())) == pytest.approx(by_hand, rel=1e-4)
    z = torch.randn(n, d, generator=rng, dtype=torch.float64)
    assert torch.equal((least(F, z) * z).sum(-1), (F * z).sum(-1).amin(0))
    by_hand = sum(0.5 * float((F[h, i] - B[i] - tail[i]) @ z[i]) ** 2 for h in range(2) for i in range(n)) / n / d
    assert float(value_loss(F, B, tail, z)) == pytest.approx(by_hand)


# Files


def test_save_and_load_are_bit_equal(tmp_path: Path) -> None:
    model = random_model()
    model.about = {"name": "mine"}
    again = zscout.load(zscout.save(model, tmp_path / "full"))
    assert isinstance(again, FB)
    assert again.config == model.config
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))
    half = zscout.load(zscout.save(model, tmp_path / "half", half=True))
    size = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("full", "half")]
    assert size[1] < 0.75 * size[0]
    obs = torch.tensor([1.0, 0.5, 0.1, 0.0])
    assert torch.allclose(half.phi(obs), model.phi(obs), atol=0.05)
    assert "# mine" in (tmp_path / "full" / "README.md").read_text()
    config = json.loads((tmp_path / "full" / "config.json").read_text())
    config["model"]["observation_low"] = "low"
    (tmp_path / "full" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="observation_low must be a list, got 'low'"):
        zscout.load(tmp_path / "full")


# Training


def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = FBTrainer(SMALL, TINY, seed=3)
    for line in whole.train(every=5):
        if line.step in (5, 10, 25):
            write_checkpoint(whole, tmp_path / f"{line.step}")
    for step in (5, 10, 25):
        resumed = FBTrainer(SMALL, TINY, seed=3)
        assert read_checkpoint(resumed, tmp_path / f"{step}")
        list(resumed.train(every=5))
        assert resumed.log == whole.log
        for one, other in zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True):
            assert torch.equal(one, other)
    with pytest.raises(ValueError, match="was written with other settings"):
        read_checkpoint(FBTrainer(SMALL, TINY, seed=4), tmp_path / "5")


@pytest.mark.long
def test_a_short_training_improves_zero_shot_values_and_psi(rng: torch.Generator) -> None:
    recipe = replace(TINY, hidden=48, feature_steps=200, policy_steps=150, evaluation_steps=300, batch=96)
    trainer = FBTrainer(SMALL, replace(recipe, transitions=20_000, refresh=25, chain=10), seed=0)
    starts = SMALL.random_states(100, rng)

    def value(model: FB) -> float:
        """Mean place along four directions after an episode, in cells from the middle."""
        found = []
        for c, s in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            labels = trainer.data.next_obs[:2_000]
            z, state = zscout.infer_task(model, labels, labels[:, 0] * c + labels[:, 1] * s), starts
            for _ in range(25):
                state, _ = SMALL.advance(state, torch.as_tensor(model.act(state, z)))
            found.append((state[:, 0] - 2) * c + (state[:, 1] - 1.5) * s)
        return float(torch.stack(found).mean())

    before = trainer.model
    list(trainer.train(every=100))
    after = trainer.model
    assert value(after) > value(before) + 0.5  # the best is about 1.7
    assert psi_error(after, starts, SMALL) < 0.9 * psi_error(before, starts, SMALL)


def test_data_follow_their_seed() -> None:
    one, same = (random_forces(SMALL, 1_000, torch.Generator().manual_seed(2)) for _ in range(2))
    assert torch.equal(one.next_obs, same.next_obs)
    entered, _ = SMALL.advance(one.obs, one.action)
    assert torch.equal(entered, one.next_obs)


def test_bad_recipes() -> None:
    for changes, message in (
        ({"gamma": 1.0}, "gamma must be in"),
        ({"batch": 1}, "batch must be at least 8"),
        ({"on_policy": 2.0}, "on_policy must be in"),
        ({"tau": 0.0}, "tau must be above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            FBRecipe(**changes)


# The shipped model


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_z_that_is_not_finite_is_refused(shipped: FB, bad: float) -> None:
    z = torch.ones(2, shipped.dim).double()
    z[1, 3] = bad
    obs = np.array([2.0, 2.0, 0.0, 0.0], dtype=np.float32)
    for call in (shipped.project_z, lambda z: shipped.psi(obs, z), lambda z: shipped.act(np.stack([obs, obs]), z)):
        with pytest.raises(ValueError, match="z holds NaN or inf"):
            call(z)


def test_the_shipped_model_follows_its_psi(shipped: FB) -> None:
    env = gymnasium.make("zscout/PointMaze-v0", horizon=None)
    report = zscout.check_model(shipped, env=env, tolerance=0.4, steps=2_000)
    assert report is not None
    assert report.error < 0.4


def test_the_shipped_model_reaches_goals_from_labels(shipped: FB) -> None:
    world, rng = point_maze(), torch.Generator().manual_seed(1)
    labels, starts = random_forces(world, 40_000, rng).next_obs[::8], world.random_states(50, rng)
    for x, y in ((1.5, 1.5), (9.5, 9.5), (9.5, 1.5)):
        reward = ((labels[:, 0] - x) ** 2 + (labels[:, 1] - y) ** 2 < 1).float()
        z, state = zscout.infer_task(shipped, labels, reward), starts
        for _ in range(40):
            state, _ = world.advance(state, torch.as_tensor(shipped.act(state, z)))
        reached = (state[:, 0] - x) ** 2 + (state[:, 1] - y) ** 2 < 1
        assert float(reached.float().mean()) > 0.9


def test_recipes_check_words_and_flags() -> None:
    with pytest.raises(ValueError, match="gated is 5, expected true or false"):
        replace(TINY, gated=5)  # type: ignore[arg-type]
    recipe = FBPretraining(changes=("goal_features=0,1",)).build_recipe()
    assert recipe.goal_features == "0,1"
