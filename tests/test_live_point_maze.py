"""A live run in the point maze, without a server: compared with the laboratory and with the maze itself."""

import json
import math
import re
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from live_frames import close, frames, messages, side, steps
from toys import Regression
from zscout.lab.arenas.point import PointArena
from zscout.lab.arenas.simulation import simulated
from zscout.lab.arenas.vector import VectorRuns
from zscout.live.places.point import OF_PLACES, LivePointMaze
from zscout.live.server.choices import choices
from zscout.live.session.run import LiveRun
from zscout.live.session.setup import Setup
from zscout.transfer.agent import OnlineTransfer
from zscout.worlds.points.tasks import point_tasks

ARENA = PointArena()
[OFFER] = [offer for offer in choices()["worlds"] if offer["name"] == "point-maze"]
PLACES: list[tuple[int, int]] = OFFER["cells"]  # squares of half a cell
TOP_RIGHT = [index for index, (row, column) in enumerate(PLACES) if 2 <= row < 6 and 16 <= column < 20]  # 2×2 cells


def begun(most_steps: int = 500, **setup: Any) -> LiveRun:
    return LiveRun(Setup.from_json({"world": "point-maze", **setup}), most_steps)


def state_at(row: float, column: float) -> Tensor:
    """At rest at a row and column of squares."""
    return torch.tensor([(column + 0.5) / 2, (row + 0.5) / 2, 0.0, 0.0])


PRIOR = ARENA.bfm.task_covariance()
AT_REST = torch.stack([state_at(*place) for place in PLACES])


def square_of(point: tuple[float, float]) -> int:
    """The place that holds a point of a path."""
    return PLACES.index((math.floor(point[0] + 0.5), math.floor(point[1] + 0.5)))


# The set-up


def test_missing_parts_are_those_of_the_maze_and_survive_json() -> None:
    setup = Setup.from_json({"world": "point-maze", "reward": {"task": 3}})
    assert (setup.features, setup.model) == ("learned", "pointmaze-fb")
    assert Setup.from_json(json.loads(json.dumps(setup.to_json()))) == setup
    table = [0.5, *[0.0] * (len(PLACES) - 1)]
    painted = begun(reward={"table": table})
    assert messages(painted.begun("key"))[0]["reward"] == table
    assert painted.setup.to_json()["reward"] == {"table": table}


@pytest.mark.parametrize(
    ("setup", "why"),
    [
        ({"features": "laplacian"}, "no feature set 'laplacian'"),
        ({"model": "exact"}, "no model 'exact'"),
        ({"model": "network"}, "no model 'network'"),
        ({"methods": ["lola"], "who": "person"}, "needs every reward"),
        ({"reward": {"table": [0.0] * 81}}, f"the table has 81 numbers, this world has {len(PLACES)} states"),
        ({"world": "open-grid", "features": "learned"}, "no feature set 'learned'"),
    ],
)
def test_what_does_not_apply_is_refused_with_the_reason(setup: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        begun(**setup)


@pytest.mark.parametrize("method", [one["name"] for one in choices()["methods"]])
def test_every_method_that_is_offered_runs(method: str) -> None:
    [offer] = [offer for offer in choices()["methods"] if offer["name"] == method]
    for who in ("hidden", "person") if offer["person"] else ("hidden",):
        run = begun(who=who, methods=[method], seed=3)
        shown = [side(frame) for frame in steps(run, 4)]
        assert [one["told"] for one in shown] == ([0] * 4 if who == "person" else [1, 2, 3, 4])
        for one in shown:
            assert np.isfinite([*one["estimate"], *one["doubt"], *(one["after"] or [])]).all()
            assert len(one["estimate"]) == len(one["doubt"]) == len(PLACES)


# The frames


@pytest.mark.parametrize("method", ["thompson", "lola", "random"])
def test_a_run_is_the_one_that_the_laboratory_has_for_that_seed(method: str) -> None:
    run = begun(methods=[method], may_change=False, noise=0.2, seed=11, reward={"task": 4})
    shown = [side(frame) for frame in steps(run, 75)]  # longer than an episode
    table = torch.tensor(messages(run.begun("key"))[0]["reward"], dtype=torch.float64)

    def reward(obs: Tensor) -> Tensor:
        return table[[square_of((2 * float(y) - 0.5, 2 * float(x) - 0.5)) for x, y, *_ in obs]]

    agent = OnlineTransfer(ARENA.bfm, run.setup.build(method), seed=[11], runs=1)
    rows = list(islice(simulated(agent, VectorRuns(ARENA, reward, 0.2, agent.seeds)), 75))
    entered = torch.cat([row.next_obs for row in rows])
    ends = torch.tensor([one["path"][-1] for one in shown])
    assert torch.allclose(ends, 2 * entered[:, [1, 0]] - 0.5, atol=2e-3)
    assert torch.allclose(
        torch.tensor([one["reward"] for one in shown]), torch.cat([row.reward for row in rows]).float(), atol=1e-3
    )
    assert [one["episode"] for one in shown] == [row.episode + 1 for row in rows]


def test_the_point_moves_along_its_path_and_never_through_a_wall() -> None:
    run = begun(seed=2, reward={"task": 5})
    first = side(frames(run.begun("key"))[0])
    shown = [first, *(side(frame) for frame in steps(run, 69))]
    assert len(first["path"]) == 1
    for before, one in pairwise(shown):
        path = np.array(one["path"])
        assert len(path) == 1 + ARENA.world.repeat
        assert path[0] == pytest.approx(before["path"][-1], abs=1e-3)
        assert np.abs(np.diff(path, axis=0)).max() <= 2 * ARENA.world.top_speed + 1e-3
        assert (one["from"], one["at"]) == (square_of(path[0]), square_of(path[-1]))
        for place in path:
            square_of(place)  # raises inside a wall
    moved = np.array([one["path"][-1] for one in shown])
    assert np.ptp(moved, axis=0).max() > 4  # it does not stay where it began
    assert len({tuple(place) for place in np.round(moved % 1, 3)}) > 20  # it is not only in the middle of squares


def test_an_episode_has_seventy_decisions_and_then_a_new_start() -> None:
    run = begun(methods=["random"], noise=0.0, reward={"task": 2}, seed=4)
    shown = [side(frame) for frame in steps(run, 145)]
    assert [(one["episode"], one["decision"]) for one in shown] == [(1 + t // 70, 1 + t % 70) for t in range(145)]
    for t in (70, 140):
        assert math.dist(shown[t]["path"][0], shown[t - 1]["path"][-1]) > 0.5
    assert shown[70]["path"][0] != shown[140]["path"][0]
    for begin in (0, 70, 140):
        rewards = np.cumsum([one["reward"] for one in shown[begin : begin + 70]])
        assert close([one["return"] for one in shown[begin : begin + 70]], rewards, 3)
    assert abs(rewards[-1]) > 0.1
    assert messages(begun(most_steps=1).step())[0]["sides"][0]["return"] == 0


def test_maps_are_of_a_point_at_rest() -> None:
    run = begun(may_change=False, reward={"task": 1}, seed=1)
    shown = [*frames(run.begun("key")), *steps(run, 12)]
    features = ARENA.bfm.phi(AT_REST).double()
    entered: list[Tensor] = []
    rewards: list[float] = []
    for frame in shown:
        one = side(frame)
        if frame["step"]:
            entered.append(torch.as_tensor(run._sides[0].steps[frame["step"] - 1].entered))
            rewards.append(one["reward"])
        phi = ARENA.bfm.phi(torch.stack(entered)).double() if entered else torch.zeros(0, 32, dtype=torch.float64)
        fit = Regression(phi, torch.tensor(rewards).double(), covariance=PRIOR)
        assert close(one["estimate"], fit.reward(features), 3)
        assert close(one["doubt"], fit.reward_width(features), 3)
        assert one["estimate"][one["best"]] == max(one["estimate"])


def test_the_ring_is_where_the_behaviour_leads() -> None:
    """The model's own forecast against 30 decisions of the behaviour; 86 of 100 within a cell, measured on 400."""
    maze, rng = LivePointMaze(), Generator().manual_seed(0)
    state, z = ARENA.world.random_states(100, rng), ARENA.bfm.sample_z(100, 1)
    expected = [PLACES[int(maze.leads_to(state[i].numpy(), z[i : i + 1]))] for i in range(100)]
    places = []
    for _ in range(30):
        state = ARENA.advance(state, torch.as_tensor(ARENA.bfm.act(state, z)).float())
        places.append(2 * state[:, [1, 0]] - 0.5)
    led = torch.stack(places[-10:]).mean(0)
    assert float(((led - torch.tensor(expected)).norm(dim=-1) < 2).float().mean()) > 0.75


# A hidden reward


def test_what_is_painted_is_the_reward_of_the_squares_entered() -> None:
    run = begun(noise=0.0, methods=["random"], seed=5)
    for _ in range(3):
        [frame] = steps(run, 1)
    here = side(frame)["at"]
    around = [index for index, place in enumerate(PLACES) if math.dist(place, PLACES[here]) < 3]
    [reward] = messages(run.paint(around, 2))
    assert reward["since"] == 3
    assert reward["attainable"] is None
    assert reward["reward"] == [2.0 if index in around else 0.0 for index in range(len(PLACES))]
    shown = [side(frame) for frame in steps(run, 60)]
    assert [one["reward"] for one in shown] == [2.0 if one["at"] in around else 0.0 for one in shown]
    assert {one["reward"] for one in shown} == {0.0, 2.0}
    run.clear()
    assert [side(frame)["reward"] for frame in steps(run, 3)] == [0, 0, 0]


def test_random_tasks_are_of_places() -> None:
    for number, kind in enumerate(OF_PLACES):
        [told] = messages(begun().task(number))
        [task] = point_tasks(ARENA.world, kind, 1, number)
        assert close(told["reward"], task(AT_REST))
        assert max(told["reward"]) > min(told["reward"])


def test_all_of_a_direction_is_expressed_and_little_of_one_square() -> None:
    [direction] = messages(begun().task(2))
    [patch] = messages(begun().paint(TOP_RIGHT, 1))
    [square] = messages(begun().paint(TOP_RIGHT[:1], 1))
    [constant] = messages(begun().paint([*range(len(PLACES))], 1))
    assert direction["expressed"] > 0.95
    assert 0 < square["expressed"] < 0.2 < patch["expressed"] < 0.8
    assert constant["expressed"] is None


@pytest.mark.long
def test_it_finds_a_painted_patch_and_stays_there() -> None:
    found = 0
    for seed in range(3):
        run = begun(seed=seed)
        run.paint(TOP_RIGHT, 1)
        shown = [side(frame) for frame in steps(run, 280)]  # four episodes
        last = shown[-1]
        found += last["return"] > 35 and last["mode"] == "stays" and "around the top right" in last["says"]
    assert found >= 2


# A person's reward


def test_a_person_teaches_it_and_it_asks_until_it_knows() -> None:
    run = begun(who="person", may_change=False)
    entered, given = [], []
    for step in range(1, 41):
        told = run.step()
        one = side(frames(told)[0])
        assert one["return"] is None
        if one["asks"]:
            assert told.asks
            value = 1.0 if PLACES[one["at"]][1] > 11 else -1.0
            assert side(frames(run.give(step, value))[-1])["reward"] == value
            entered.append(run._sides[0].steps[-1].entered)
            given.append(value)
    assert len(given) >= 5
    fit = Regression(ARENA.bfm.phi(np.stack(entered)).double(), torch.tensor(given).double(), covariance=PRIOR)
    assert close(side(frames(run.begun("key"))[-1])["estimate"], fit.reward(ARENA.bfm.phi(AT_REST).double()), 3)


def test_a_late_answer_is_learned() -> None:
    run = begun(who="person", may_change=False)
    steps(run, 4)
    old, newest = frames(run.give(2, 1))
    assert (side(old)["reward"], side(newest)["told"]) == (1, 1)
    fit = Regression(
        ARENA.bfm.phi(run._sides[0].steps[1].entered[None]).double(), torch.ones(1).double(), covariance=PRIOR
    )
    assert close(side(newest)["estimate"], fit.reward(ARENA.bfm.phi(AT_REST).double()), 3)


# What is refused


@pytest.mark.parametrize("who", ["hidden", "person"])
def test_a_refused_call_changes_nothing(who: str) -> None:
    run = begun(who=who, seed=1)
    steps(run, 3)
    before = list(run.begun("key").messages)
    cells: list[Any] = [[], None, "1", [-1], [len(PLACES)], [0.5], [[1]], [True], [1, 10**30]]
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("paint", {"cells": some, "value": 1}) for some in cells),
        *(("paint", {"cells": [1], "value": value}) for value in (None, 11, math.nan, "1")),
        *(("task", {"number": value}) for value in (-1, 10**6, None, 1.5)),
        *(("give", {"step": value, "value": 1}) for value in (0, 4, None, 3.0)),
        *([("clear", {})] if who == "person" else [("give", {"step": 3, "value": 1})]),
    ]
    for do, fields in calls:
        with pytest.raises(ValueError, match="."):
            getattr(run, do)(**fields)
    assert list(run.begun("key").messages) == before
    [answer] = messages(run.export())
    assert [step["episode"] for step in answer["content"]["runs"][0]["steps"]] == [1, 1, 1]
    steps(run, 1)


def test_the_same_set_up_gives_the_same_frames_and_two_methods_do_what_each_does_alone() -> None:
    setup: dict[str, Any] = {"reward": {"task": 3}, "seed": 6}
    both = steps(begun(methods=["greedy", "random"], **setup), 8)
    for which, method in enumerate(("greedy", "random")):
        alone = steps(begun(methods=[method], **setup), 8)
        assert [side(frame, which) for frame in both] == [side(frame) for frame in alone]
