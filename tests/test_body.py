"""Bodies: physics, observations and rewards equal dm_control's; batches, seeds, bad input, the environments."""

import os

os.environ["MUJOCO_GL"] = "disable"  # before dm_control is there: no test renders with OpenGL

import json
import math
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
import torch
from dm_control import suite
from gymnasium.utils.env_checker import check_env
from scipy.stats import ks_2samp

import zscout
from benchmarks.geometry import geometry
from zscout.worlds import Body, BodyEnv, body, body_task, body_tasks
from zscout.worlds.bodies.goals import FILE
from zscout.worlds.bodies.planar import PLANAR
from zscout.worlds.bodies.quadruped import Quadruped
from zscout.worlds.bodies.tasks import tolerance
from zscout.worlds.registry import of_kind

BODIES = list(of_kind("body"))
SUITE = [(name, task) for name, task in suite.BENCHMARKING if name in BODIES]
SUITE += [("quadruped", "walk"), ("quadruped", "run")]
WORLDS = {name: body(name, threads=2) for name in BODIES}


def dm_control(name: str) -> Any:
    task = next(task for domain, task in SUITE if domain == name)
    return suite.load(name, task, task_kwargs={"random": 0}, environment_kwargs={"flat_observation": True})


def state_of(world: Body, physics: Any) -> torch.Tensor:
    data = physics.data
    sensors = data.sensordata[world._sensors] if world._sensors else []  # dm_control computes more of them
    return torch.tensor(np.r_[data.qpos, data.qvel, data.qacc_warmstart, data.act, sensors])


def controls(env: Any, action: np.ndarray) -> np.ndarray:
    """dm_control's action, which is not always in [−1, 1]."""
    low, high = env.action_spec().minimum, env.action_spec().maximum
    return np.asarray((high + low) / 2 + (high - low) / 2 * action)


def some_states(world: Body, n: int, rng: torch.Generator, steps: int = 20) -> torch.Tensor:
    state = world.random_states(n, rng)
    for _ in range(steps):
        state, _ = world.advance(state, 2 * torch.rand(n, world.action_space.shape[0], generator=rng) - 1)
    return state


# Equal to dm_control


@pytest.mark.parametrize("lengths", [(60, 20), pytest.param((1_000, 100, 100), marks=pytest.mark.long)])
@pytest.mark.parametrize("name", BODIES)
def test_episodes_equal_dm_controls(name: str, lengths: tuple[int, ...]) -> None:
    world, env = WORLDS[name], dm_control(name)
    rewards = [
        (body_task(world, task), suite.load(name, task).task.get_reward) for domain, task in SUITE if domain == name
    ]
    draws = np.random.default_rng(0)
    for length in lengths:  # from other starts
        entered = env.reset()
        state = state_of(world, env.physics)
        for _ in range(length):
            action = draws.uniform(-1, 1, world.action_space.shape)
            entered = env.step(controls(env, action))
            (state,), (diverged,) = world.advance(state[None], torch.tensor(action)[None])
            assert torch.equal(state, state_of(world, env.physics))  # bit for bit
            assert not diverged
            obs = world.observe(state)
            np.testing.assert_allclose(obs, entered.observation["observations"], rtol=0, atol=1e-12)
            for ours, theirs in rewards:
                assert float(ours(obs)) == pytest.approx(theirs(env.physics), abs=1e-12)


@pytest.mark.parametrize("name", PLANAR)
def test_goal_features_and_segments_are_mujocos(name: str) -> None:
    world, env = WORLDS[name], dm_control(name)
    draws = np.random.default_rng(1)
    env.reset()
    capsules = np.flatnonzero(env.physics.model.geom_bodyid > 0)
    for _ in range(60):
        env.step(draws.uniform(-1, 1, world.action_space.shape))
        model, data, named = env.physics.model, env.physics.data, env.physics.named.data
        mujoco.mj_subtreeVel(model.ptr, data.ptr)
        state = state_of(world, env.physics)
        expected = [
            named.xpos["torso", "z"],
            named.xmat["torso", "zz"],
            named.xmat["torso", "xz"],
            named.sensordata["torso_subtreelinvel"][0],
            named.qvel["rooty"][0],
            named.subtree_angmom["torso"][1],
        ]
        np.testing.assert_allclose(world.goal_features(world.observe(state)), expected, rtol=0, atol=1e-11)
        ends, radii = world.segments(state)
        axis = data.geom_xmat[capsules].reshape(-1, 3, 3)[:, ::2, 2]
        half = model.geom_size[capsules, 1, None] * axis
        places = data.geom_xpos[capsules][:, ::2]
        np.testing.assert_allclose(ends, np.stack([places - half, places + half], 1), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(radii, model.geom_size[capsules, 0])


def test_goal_features_and_segments_of_the_quadruped_are_mujocos() -> None:
    world, env = WORLDS["quadruped"], dm_control("quadruped")
    draws = np.random.default_rng(1)
    env.reset()
    for _ in range(60):
        env.step(controls(env, draws.uniform(-1, 1, 12)))
        physics, named = env.physics, env.physics.named.data
        state = state_of(world, physics)
        expected = [
            physics.torso_upright(),
            *physics.torso_velocity(),
            *named.sensordata["imu_gyro"],
            -physics.toe_positions()[:, 2].mean(),
        ]
        np.testing.assert_allclose(world.goal_features(world.observe(state)), expected, rtol=0, atol=1e-11)
        ends, _ = world.segments(state)
        places = ["toe_front_left", "toe_front_right", "toe_back_right", "toe_back_left"]
        torso, toes = named.xpos["torso"], named.xpos[places]
        seen = np.stack([toes[:, 0] + toes[:, 1] / 2, toes[:, 2] + (toes[:, 1] - torso[1]) / 4], 1)
        np.testing.assert_allclose(ends[4::3, 1], seen, rtol=0, atol=1e-11)
        np.testing.assert_allclose(ends[2:-1:3, 1], ends[3::3, 0], rtol=0, atol=1e-12)  # knees


def test_a_quadruped_starts_just_above_the_floor(rng: torch.Generator) -> None:
    world, data = WORLDS["quadruped"], mujoco.MjData(WORLDS["quadruped"].model)
    assert isinstance(world, Quadruped)
    for state in world.random_states(30, rng):
        for lower, touches in ((0.0, False), (0.01, True)):
            data.qpos[:] = state[:23]
            data.qpos[2] -= lower
            mujoco.mj_forward(world.model, data)
            assert (data.ncon > 0) == touches


@pytest.mark.parametrize("name", BODIES)
def test_starts_are_distributed_as_dm_controls(name: str, rng: torch.Generator) -> None:
    world, env = WORLDS[name], dm_control(name)
    theirs = []
    for _ in range(300):
        env.reset()
        theirs.append(state_of(world, env.physics).numpy())
    ours = world.random_states(1_000, rng).numpy()
    for entry, (one, other) in enumerate(zip(ours.T, np.array(theirs).T, strict=True)):
        if np.ptp(other) > 1e-9:
            assert ks_2samp(one, other).pvalue > 1e-3, entry
        else:
            np.testing.assert_allclose(one, other[0], atol=1e-9)


def test_tolerance_is_dm_controls() -> None:
    from dm_control.utils.rewards import tolerance as theirs

    x = np.linspace(-4, 4, 101)
    for bounds in ((1.0, 2.0), (0.0, math.inf), (-math.inf, 0.5)):
        for margin, value, linear in ((0.0, 0.1, False), (1.5, 0.1, False), (1.5, 0.0, True), (1.5, 0.5, True)):
            shape = "linear" if linear else "gaussian"
            expected = theirs(x, bounds, margin, shape, value)
            ours = tolerance(torch.tensor(x), *bounds, margin=margin, at_margin=value, linear=linear)
            np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-15)


# Batches and seeds


@pytest.mark.parametrize("name", BODIES)
def test_a_batch_equals_its_runs_whatever_the_threads(name: str, rng: torch.Generator) -> None:
    world, alone = WORLDS[name], body(name, threads=1)
    state = some_states(world, 40, rng)
    action = 3 * torch.randn(40, world.action_space.shape[0], generator=rng)
    together, _ = world.advance(state, action)
    for run in (0, 7, 39):
        assert torch.equal(alone.step(state[run], action[run])[0], together[run])
        assert torch.equal(world.advance(state[run : run + 1], action[run : run + 1])[0][0], together[run])
    assert torch.equal(world.step(state, action.clamp(-1, 1))[0], together)  # actions are clipped
    assert world.step(state.reshape(4, 10, -1), action.reshape(4, 10, -1))[0].shape == (4, 10, world.state_size)
    obs = world.observe(state)
    assert obs.shape == (40, *world.observation_space.shape)
    torch.testing.assert_close(world.goal_features(obs.float()), world.goal_features(obs).float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", BODIES)
def test_repeat_holds_the_action(name: str, rng: torch.Generator) -> None:
    world, twice = WORLDS[name], body(name, repeat=2, threads=1)
    state = world.random_states(3, rng)
    action = torch.rand(3, world.action_space.shape[0], generator=rng)
    once, _ = world.advance(state, action)
    assert torch.equal(world.advance(once, action)[0], twice.advance(state, action)[0])
    assert twice.seconds == pytest.approx(2 * world.seconds)
    assert world.seconds == pytest.approx(dm_control(name).control_timestep())


@pytest.mark.parametrize("name", BODIES)
def test_starts_follow_their_seed(name: str) -> None:
    one, same, other = (WORLDS[name].random_states(5, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert len(torch.unique(one, dim=0)) == 5
    assert body(name).random_states(0, torch.Generator()).shape == (0, WORLDS[name].state_size)


# Tasks


@pytest.mark.parametrize("name", BODIES)
def test_tasks_are_rewards_of_one_observation_or_many(name: str, rng: torch.Generator) -> None:
    world = WORLDS[name]
    obs = world.observe(some_states(world, 500, rng))
    tasks = body_tasks(world)
    rewards = torch.stack([task(obs) for task in tasks])
    assert rewards.min() >= 0
    assert rewards.max() <= 1
    assert (rewards.std(1) > 0).all()  # no two states are always worth the same
    assert len(torch.unique(rewards, dim=0)) == len(tasks)
    assert float(tasks[0](obs[3].numpy())) == float(rewards[0, 3])
    assert len({task.name for task in tasks}) == len(tasks)
    assert {task for domain, task in SUITE if domain == name} <= {task.name for task in body_tasks(world, "suite")}
    assert len(body_tasks(world, "held-out")) >= (8 if name == "walker" else 4)
    with pytest.raises(ValueError, match="there is no kind of task 'suit': did you mean suite"):
        body_tasks(world, "suit")
    with pytest.raises(ValueError, match=f"there is no task of the {name} 'sit'"):
        body_task(world, "sit")


def test_backward_tasks_are_the_mirror_of_forward_ones(rng: torch.Generator) -> None:
    world = WORLDS["walker"]
    obs = world.observe(some_states(world, 200, rng))
    features = world.goal_features(obs)
    mirrored = features * torch.tensor([1, 1, 1, -1, -1, -1])
    for name in ("walk", "run", "flip", "spin", "sneak"):
        forward, backward = body_task(world, name), body_task(world, f"{name}-backward")
        torch.testing.assert_close(forward.field(features), backward.field(mirrored))


# The environment


@pytest.mark.filterwarnings("ignore:.*A Box observation space m.*imum value is -?infinity")  # velocities have no limit
@pytest.mark.parametrize("name", BODIES)
def test_the_registered_environment_passes_gymnasiums_checker(name: str) -> None:
    env = gymnasium.make(f"zscout/{name.title()}-v0", reward=lambda obs: obs[0], render_mode="rgb_array")
    check_env(env.unwrapped)


def test_named_rewards_timing_horizon_and_seeds() -> None:
    env = gymnasium.make("zscout/Walker-v0", reward="stand", horizon=3)
    world = WORLDS["walker"]
    first, _ = env.reset(seed=4)
    for t in range(3):
        obs, reward, terminated, truncated, _ = env.step(np.ones(6))
        assert reward == pytest.approx(float(body_task(world, "stand")(obs)), abs=1e-6)  # of the observation entered
        assert (terminated, truncated) == (False, t == 2)
    assert np.array_equal(env.reset(seed=4)[0], first)
    assert not np.array_equal(env.reset(seed=5)[0], first)
    start = world.random_states(1, torch.Generator().manual_seed(0))[0]
    seen, _ = env.reset(options={"state": start})
    np.testing.assert_array_equal(seen, world.observe(start).float())
    lambda_env = BodyEnv(world, lambda obs: float(obs[14]))
    lambda_env.reset(options={"state": start})
    obs, reward, *_ = lambda_env.step(np.zeros(6))
    assert reward == obs[14]  # the height


def test_rendering_shows_the_body_on_the_floor() -> None:
    env = BodyEnv(WORLDS["walker"], render_mode="rgb_array")
    env.reset(options={"state": np.zeros(27)})  # upright, the torso from 1 to 1.6 m
    frame = env.render()
    assert frame is not None
    assert frame.shape == (208, 320, 3)
    blue = (frame == frame[(208 - 16) - round(80 * 1.3), 160]).all(-1)
    assert blue[(208 - 16) - round(80 * 1.3), 160]
    assert not blue[:10].any()
    assert 0.015 < blue.mean() < 0.03


def test_bad_input_says_why_and_changes_nothing() -> None:
    world = WORLDS["walker"]
    env = BodyEnv(world, reward=lambda obs: math.nan if env.steps == 1 else 0.0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(6))
    env.reset(seed=0)
    env.step(np.zeros(6))
    assert env.state is not None
    before = env.state.copy()
    for action, message in (
        ([math.nan] * 6, "action holds NaN or inf"),
        ([0.0] * 5, r"the action has shape \(5,\), expected \(6,\)"),
        ([[0.0] * 6], r"expected \(6,\)"),
        ([0.0] * 6, "the reward is nan, expected a finite number"),
    ):
        with pytest.raises(ValueError, match=message):
            env.step(action)
        assert np.array_equal(env.state, before)
        assert env.steps == 1
    for options, message in (
        ({"state": [0.0]}, r"options\['state'\] has shape \(1,\), expected \(27,\)"),
        ({"state": [math.inf] * 27}, r"options\['state'\] holds NaN or inf"),
        ({"place": 3}, "unknown option 'place'"),
    ):
        with pytest.raises(ValueError, match=message):
            env.reset(options=options)
        assert np.array_equal(env.state, before)
    for call, message in (
        (lambda: world.step([0.0] * 26, [0.0] * 6), r"state has shape \(26,\), expected \[\*b 27\]"),
        (lambda: world.step([0.0] * 27, 3), r"action has shape \(\), expected \[\*b 6\]"),
        (lambda: world.observe(torch.zeros(3, 26)), r"state has shape \(3, 26\), expected \[\*b 27\]"),
        (lambda: world.goal_features(torch.zeros(3, 27)), r"observation has shape \(3, 27\), expected \[\*b 24\]"),
        (lambda: world.segments(torch.zeros(24)), r"state has shape \(24,\), expected \[\*b 27\]"),
        (lambda: world.step(torch.zeros(3, 27), torch.zeros(2, 6)), "states and actions have batch dimensions"),
        (lambda: body("waker"), "there is no body 'waker': did you mean walker"),
        (lambda: body("walker", repeat=0), "repeat must be from 1 to 100"),
        (lambda: body("walker", threads=0), "threads must be from 1 to"),
        (lambda: BodyEnv(world, reward=3.0), "reward must be a callable of the observation, or None"),  # type: ignore[arg-type]
        (lambda: BodyEnv(world, reward="wlak"), "there is no task of the walker 'wlak': did you mean walk"),
        (lambda: BodyEnv(world, horizon=0), "horizon must be at least 1"),
        (lambda: BodyEnv(world, render_mode="human"), "render_mode must be"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_simulation_that_diverges_terminates(
    rng: torch.Generator, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    world = WORLDS["walker"]
    state = world.random_states(3, rng)
    state[1, 9:18] = 1e12
    entered, diverged = world.advance(state, torch.zeros(3, 6))
    assert diverged.tolist() == [False, True, False]
    assert torch.isfinite(entered).all()
    assert torch.equal(entered[2], world.step(state[2], torch.zeros(6))[0])
    assert not world.advance(state[[0, 2]], torch.zeros(2, 6))[1].any()  # not remembered
    assert not list(tmp_path.iterdir())  # no MUJOCO_LOG.TXT


@pytest.mark.parametrize("missing", ["mujoco", "dm_control"])
def test_without_the_extra_a_sentence_says_what_to_install(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)  # its import fails
    for make in (lambda: body("walker"), lambda: gymnasium.make("zscout/Walker-v0")):
        with pytest.raises(ModuleNotFoundError, match=re.escape("pip install -e '.[mujoco]'")):
            make()


def test_bodies_are_public() -> None:
    assert zscout.worlds.body is body


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers and words of nested lists and dicts, by their place."""
    if not isinstance(value, dict | list):
        yield path, value
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from leaves(part, f"{path}/{key}")


@pytest.mark.parametrize("name", BODIES)
def test_the_stored_geometry_is_that_of_the_physics(name: str) -> None:
    stored = json.loads(files("zscout.worlds.bodies").joinpath(FILE).read_text())
    found = dict(leaves(geometry(WORLDS[name])))
    assert dict(leaves(stored[name])) == pytest.approx(found, rel=1e-14, abs=1e-16)  # processors round otherwise


def test_a_heavier_torso_and_another_friction_change_the_physics() -> None:
    plain, heavy, slippery = (
        body("walker", threads=1, scale=scale) for scale in (None, {"torso": 2}, {"friction": 0.1})
    )
    assert heavy.model.body("torso").mass == pytest.approx(2 * plain.model.body("torso").mass)
    state, force = plain.random_states(4, torch.Generator().manual_seed(0)), torch.ones(4, 6)
    for _ in range(30):
        state, _ = plain.advance(state, force)
    after = [one.advance(state, force)[0] for one in (plain, heavy, slippery)]
    assert not torch.allclose(after[0], after[1], atol=1e-3)
    assert not torch.allclose(after[0], after[2], atol=1e-3)
    for wrong in ({"tail": 2.0}, {"torso": 0.0}):
        with pytest.raises(ValueError, match="tail|torso"):
            body("walker", scale=wrong)
