import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from zscout.features import grid_clusters
from zscout.worlds import GridEnv, GridWorld, LinearReward, open_grid

IDS = {"zscout/OpenGrid-v0": 81, "zscout/FourRooms-v0": 104, "zscout/Maze-v0": 129}


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_the_registered_environments_pass_gymnasiums_checker(name: str, slip: float) -> None:
    env = gymnasium.make(name, reward=lambda state: float(state), slip=slip, render_mode="rgb_array")
    assert env.observation_space.n == IDS[name]  # type: ignore[attr-defined]
    check_env(env.unwrapped)


def test_timing_the_reward_is_of_the_state_entered() -> None:
    env = gymnasium.make("zscout/OpenGrid-v0", reward=lambda state: float(state))
    obs, _ = env.reset(seed=0, options={"state": 0})
    assert obs == 0
    obs, reward, terminated, truncated, _ = env.step(3)
    assert (obs, reward, terminated, truncated) == (1, 1.0, False, False)


def test_a_seed_decides_starts_slips_and_noise() -> None:
    phi = grid_clusters(open_grid())

    def trace(seed: int) -> list[tuple[int, float]]:
        env = gymnasium.make("zscout/OpenGrid-v0", reward=LinearReward(phi, torch.ones(9), noise=1.0), slip=0.5)
        steps = [(int(env.reset(seed=seed)[0]), 0.0)]
        for _ in range(20):
            obs, reward, *_ = env.step(0)
            steps.append((int(obs), float(reward)))
        env.reset()  # without a seed: goes on, does not start over
        obs, reward, *_ = env.step(0)
        return [*steps, (int(obs), float(reward))]

    assert trace(3) == trace(3)
    assert trace(3) != trace(4)


def test_starts_are_spread_over_the_world() -> None:
    env = GridEnv(open_grid())
    env.reset(seed=0)
    starts = {int(env.reset()[0]) for _ in range(2000)}
    assert len(starts) == 81  # 2,000 uniform draws miss a given state with probability 2e-11


def test_a_failing_reward_leaves_the_episode_as_it_was() -> None:
    answers = iter([1.0, math.nan, 2.0])
    env = GridEnv(open_grid(slip=0.5), reward=lambda state: next(answers))
    env.reset(seed=1)
    env.step(0)
    before = env.state, env._rng.get_state()
    with pytest.raises(ValueError, match="expected a finite number"):
        env.step(0)
    assert env.state == before[0]
    assert torch.equal(env._rng.get_state(), before[1])
    _, reward, *_ = env.step(0)
    assert reward == 2.0


def test_rendering_shows_the_agent_the_walls_and_the_reward() -> None:
    world = GridWorld.from_map("..\n.#")
    env = GridEnv(world, reward=[1.0, -1.0, 0.0], render_mode="rgb_array")
    env.reset(seed=0, options={"state": 2})
    frame = env.render()
    assert frame is not None
    assert frame.shape == (48, 48, 3)
    assert frame.dtype == np.uint8
    good, bad, agent, wall = frame[6, 6], frame[6, 42], frame[36, 12], frame[36, 36]
    assert int(good[1]) > int(good[0])  # green
    assert int(bad[0]) > int(bad[1])  # red
    assert int(agent[2]) > int(agent[0])  # blue
    assert wall.max() < 60
    env.step(0)
    moved = env.render()
    assert moved is not None
    assert not np.array_equal(frame, moved)
    assert GridEnv(world).render() is None


def test_rendering_shows_thin_walls_and_nothing_of_a_black_box() -> None:
    def frame(*blocked: tuple[tuple[int, int], tuple[int, int]]) -> np.ndarray:
        env = GridEnv(GridWorld.from_map("..\n..", blocked=blocked), lambda state: 1.0, render_mode="rgb_array")
        picture = env.render()
        assert picture is not None
        return picture

    plain = frame()
    assert len(np.unique(plain.reshape(-1, 3), axis=0)) == 2  # cells and lines
    changed = (frame(((0, 0), (0, 1))) != plain).any(-1)
    assert np.flatnonzero(changed.any(0)).tolist() == [22, 23, 25, 26]  # beside the line between the columns
    assert np.flatnonzero(changed.any(1)).max() == 23  # in the upper row only
    changed = (frame(((0, 1), (1, 1))) != plain).any(-1)
    assert np.flatnonzero(changed.any(1)).tolist() == [22, 23, 25, 26]
    assert np.flatnonzero(changed.any(0)).min() == 25


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="the reward has 3 states, this world has 81"):
        gymnasium.make("zscout/OpenGrid-v0", reward=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"task must be \[d\], because an environment is one run, got \(2, 9\)"):
        GridEnv(open_grid(), LinearReward(grid_clusters(open_grid()), torch.ones(2, 9)))
    env = GridEnv(open_grid())
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    with pytest.raises(ValueError, match=r"options\['state'\] is 81"):
        env.reset(options={"state": 81})
    with pytest.raises(ValueError, match="unknown option 'start': reset takes options={'state': s}"):
        env.reset(options={"start": 3})
    env.reset(seed=0)
    with pytest.raises(ValueError, match="expected one action, because an environment is one run, got"):
        env.step(np.array([1, 2]))
    with pytest.raises(ValueError, match="action 7 is outside"):
        env.step(7)
    with pytest.raises(ValueError, match="render_mode"):
        GridEnv(open_grid(), render_mode="human")
