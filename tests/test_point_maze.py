"""The point maze: collisions by hand, batches, termination, the Gymnasium environment, the planner, tasks."""

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

import zscout
from zscout.worlds import PointMaze, PointMazeEnv, point_maze
from zscout.worlds.points.maze import SKIN
from zscout.worlds.points.planner import PointPlanner
from zscout.worlds.points.tasks import KINDS, point_tasks

SMALL = "...\n.#.\n..."


def one_step(map: str = SMALL) -> PointMaze:
    return point_maze(map, repeat=1)


def near(x: float, y: float) -> object:
    return pytest.approx([x, y], abs=1e-6)


# Physics


def test_free_flight_by_hand() -> None:
    world = point_maze(SMALL)  # v ← .75 v + .075 f, three times
    state, over = world.step([0.2, 0.5, 0.0, 0.0], [1.0, 0.0])
    v = [0.075, 0.75 * 0.075 + 0.075, 0.75 * (0.75 * 0.075 + 0.075) + 0.075]
    assert state.tolist() == pytest.approx([0.2 + sum(v), 0.5, v[2], 0.0], abs=1e-6)
    assert not over
    assert world.top_speed == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("start", "force", "place", "speed"),
    [
        ((0.95, 1.5, 0.2, 0.0), (0, 0), (1 - SKIN, 1.5), (0.0, 0.0)),  # into the wall from the left
        ((2.05, 1.5, -0.2, 0.0), (0, 0), (2 + SKIN, 1.5), (0.0, 0.0)),  # from the right
        ((1.5, 0.95, 0.0, 0.2), (0, 0), (1.5, 1 - SKIN), (0.0, 0.0)),  # from above
        ((1.5, 2.05, 0.0, -0.2), (0, 0), (1.5, 2 + SKIN), (0.0, 0.0)),  # from below
        ((0.05, 0.5, -0.2, 0.0), (0, 0), (SKIN, 0.5), (0.0, 0.0)),  # the border is a wall
        ((2.9, 2.9, 0.2, 0.2), (0, 0), (3 - SKIN, 3 - SKIN), (0.0, 0.0)),  # both axes at once
        ((0.95, 1.5, 0.2, 0.1), (0, 0), (1 - SKIN, 1.575), (0.0, 0.075)),  # slides along the wall
        ((0.95, 0.95, 0.2, 0.2), (0, 0), (1.1, 1 - SKIN), (0.15, 0.0)),  # at a corner x moves first
        ((0.5, 0.5, 0.0, 0.0), (5, -5), (0.575, 0.425), (0.075, -0.075)),  # forces are clipped
    ],
)
def test_collisions_by_hand(
    start: tuple[float, ...], force: tuple[float, ...], place: tuple[float, float], speed: tuple[float, float]
) -> None:
    state, _ = one_step().step(start, force)
    assert state[:2].tolist() == near(*place)
    assert state[2:].tolist() == near(*speed)


def test_nothing_ever_enters_a_wall_and_a_batch_equals_its_runs(rng: torch.Generator) -> None:
    world = point_maze()
    state = world.random_states(2_000, rng)
    for _ in range(60):
        force = 3 * torch.randn(2_000, 2, generator=rng)
        entered, _ = world.advance(state, force)
        alone, _ = world.step(state[7], force[7])
        assert torch.equal(alone, entered[7])
        state = entered
        world.check_free(state.double())  # raises inside a wall or above the top speed
    assert state[:, :2].std(0).min() > 2  # spread over the map


def test_starts_are_uniform_over_free_cells(rng: torch.Generator) -> None:
    state = point_maze("..\n.o").random_states(3_000, rng)
    cells = state[:, 1].floor() * 2 + state[:, 0].floor()
    counts = torch.bincount(cells.long(), minlength=4)
    assert counts[3] == 0  # not in the pit
    assert counts[:3].min() > 900
    assert not state[:, 2:].any()


# Termination


def test_a_pit_terminates_and_holds_the_point() -> None:
    world = point_maze("..o")
    state, over = world.step([1.9, 0.5, 0.3, 0.0], [1.0, 0.0])
    assert bool(over)
    assert state[:2].tolist() == near(2.2, 0.5)  # where it entered, though two physics steps were left
    assert state[2:].tolist() == [0.0, 0.0]
    again, over = world.step(state, [-1.0, 0.0])
    assert bool(over)
    assert torch.equal(again[:2], state[:2])
    env = PointMazeEnv(world, lambda obs: 1.0, horizon=None)
    env.reset(options={"state": [1.9, 0.5, 0.3, 0.0]})
    assert env.step([1.0, 0.0])[1:4] == (1.0, True, False)


# The environment


@pytest.mark.parametrize("mode", ["rgb_array", "ansi"])
def test_the_registered_environment_passes_gymnasiums_checker(mode: str) -> None:
    env = gymnasium.make("zscout/PointMaze-v0", reward=lambda obs: obs[0], map=".o.\n...", render_mode=mode)
    check_env(env.unwrapped)


def test_reward_timing_horizon_and_seeds() -> None:
    env = gymnasium.make("zscout/PointMaze-v0", reward=lambda obs: float(obs[0]), horizon=3)
    first, _ = env.reset(seed=4)
    for t in range(3):
        obs, reward, terminated, truncated, _ = env.step(np.array([1.0, 0.0]))
        assert reward == obs[0]  # of the observation entered
        assert (terminated, truncated) == (False, t == 2)
    assert np.array_equal(env.reset(seed=4)[0], first)
    assert not np.array_equal(env.reset(seed=5)[0], first)
    assert env.reset(options={"state": [1.5, 0.5, 0.1, 0.0]})[0] == pytest.approx([1.5, 0.5, 0.1, 0.0])


def test_rendering_shows_the_point() -> None:
    env = PointMazeEnv(point_maze("..\n#o"), render_mode="ansi")
    env.reset(options={"state": [1.5, 0.5, 0, 0]})
    assert env.render() == ".@\n#o"
    picture = PointMazeEnv(point_maze("..\n#o"), render_mode="rgb_array")
    picture.reset(options={"state": [1.5, 0.5, 0, 0]})
    frame = picture.render()
    assert frame.shape == (48, 48, 3)
    assert frame[12, 36].argmax() == 2  # blue at the point
    assert frame[36, 12].max() < 60  # a dark wall
    assert frame[36, 36].argmax() == 0  # a red pit
    assert str(point_maze("..\n#o")) == "..\n#o"


def test_bad_input_says_why_and_changes_nothing() -> None:
    env = PointMazeEnv(point_maze(SMALL), reward=lambda obs: math.nan if obs[0] > 1.9 else 0.0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step([0, 0])
    env.reset(options={"state": [1.8, 0.5, 0.3, 0.0]})
    before, steps = env.state, env.steps
    for action, message in (
        ([math.nan, 0.0], "force holds NaN or inf"),
        ([0.0], r"the action has shape \(1,\), expected \(2,\)"),
        ([[0.0, 0.0]], r"expected \(2,\)"),
        ([1.0, 0.0], r"the reward is nan, expected a finite number"),
    ):
        with pytest.raises(ValueError, match=message):
            env.step(action)
        assert env.state is before
        assert env.steps == steps
    for state, message in (
        ([1.5, 1.5, 0, 0], r"\(1.5, 1.5\) is not in a free cell of this 3×3 map"),
        ([-0.1, 0.5, 0, 0], "is not in a free cell"),
        ([0.5, 0.5, 9, 0], "a velocity is 9, expected at most 0.3"),
        ([0.5, 0.5], r"options\['state'\] has shape \(2,\)"),
        ([0.5, math.inf, 0, 0], "NaN or inf"),
    ):
        with pytest.raises(ValueError, match=message):
            env.reset(options={"state": state})
        assert env.state is before
    with pytest.raises(ValueError, match="unknown option 'place'"):
        env.reset(options={"place": 3})
    with pytest.raises(ValueError, match="reward must be a callable"):
        PointMazeEnv(point_maze(), reward=3.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="horizon must be at least 1"):
        PointMazeEnv(point_maze(), horizon=0)
    with pytest.raises(ValueError, match="render_mode must be"):
        PointMazeEnv(point_maze(), render_mode="human")


def test_bad_worlds() -> None:
    for arguments, message in (
        ({"map": "x."}, "map row 1 holds 'x'"),
        ({"map": 3}, "expected a map, text of '#', '.' and 'o', got int"),
        ({"map": "oo"}, "every free cell is a pit"),
        ({"map": ".#."}, "cannot be reached"),
        ({"push": 0.5}, r"top speed of 2 cells per physics step, expected push/\(1 − drag\) at most 0.9"),
        ({"repeat": 0}, "repeat must be from 1 to 100"),
    ):
        with pytest.raises(ValueError, match=message):
            point_maze(**arguments)
    with pytest.raises(ValueError, match=r"state has shape \(3,\), expected \[\*b 4\]"):
        point_maze().step([1.0, 2.0, 0.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="states and forces have batch dimensions"):
        point_maze().step(torch.ones(3, 4) * 0.2, torch.zeros(2, 2))


# The planner and the tasks


def test_a_plan_executes_what_it_promises_and_finer_grids_agree(rng: torch.Generator) -> None:
    world = point_maze("....\n.##.\n....")
    starts = world.random_states(40, rng)
    goal = point_tasks(world, "goal", 1, 3)[0]
    returns = []
    for planner in (PointPlanner(world), PointPlanner(world, per_cell=4, speeds=7)):
        plan = planner.plan(goal, horizon=30)
        executed = plan.execute(starts)
        assert float((executed - plan.expected(starts)).mean().abs()) < 0.4  # of 30
        returns.append(float(executed.mean()))
    assert returns[0] == pytest.approx(returns[1], rel=0.02)


def test_a_plan_is_optimal_in_a_corridor_and_avoids_pits() -> None:
    world = point_maze(".....")
    plan = PointPlanner(world).plan(lambda obs: (obs[:, 0] > 4).float(), horizon=10)
    start = torch.tensor([[0.5, 0.5, 0.0, 0.0]])
    state, best = start, 0.0
    for _ in range(10):  # full force to the right is optimal
        state, _ = world.advance(state, torch.tensor([[1.0, 0.0]]))
        best += float(state[0, 0] > 4)
    assert float(plan.execute(start)) == pytest.approx(best)
    pit = point_maze("...\n.o.")
    safe = PointPlanner(pit).plan(lambda obs: torch.ones(len(obs)), horizon=20)
    assert float(safe.execute(torch.tensor([[1.5, 0.5, 0.0, 0.2]]))) == 20.0
    with pytest.raises(ValueError, match="reward of .* observations has shape"):
        PointPlanner(world).plan(lambda obs: torch.ones(3))
    with pytest.raises(ValueError, match="reward holds NaN or inf"):
        PointPlanner(world).plan(lambda obs: obs[:, 0] * math.nan)


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_follow_their_seed_and_take_one_observation_or_many(kind: str, rng: torch.Generator) -> None:
    world = point_maze()
    one, same, other = (point_tasks(world, kind, 3, seed) for seed in (0, 0, 1))
    obs = world.random_states(500, rng) + torch.tensor([0, 0, 0.1, -0.2])
    tables = [torch.stack([task(obs) for task in tasks]) for tasks in (one, same, other)]
    assert torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[0], tables[2])
    assert tables[0].abs().max() <= 1
    assert float(one[0](obs[5].numpy())) == float(tables[0][0, 5])
    with pytest.raises(ValueError, match="there is no kind of task 'gaol': did you mean goal"):
        point_tasks(world, "gaol", 1, 0)


def test_the_point_maze_is_public() -> None:
    assert zscout.worlds.point_maze is point_maze
