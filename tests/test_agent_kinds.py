"""Which of the three agents a method gets, features of transitions, and the walk that all loops use."""

import copy
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from toys import Compass
from zscout import METHODS, ExactModel, Method, OnlineTransfer
from zscout.transfer.agent import ExplorerAgent, RolloutAgent
from zscout.transfer.explorers import RandomWalk
from zscout.transfer.rollout import Step, Walk
from zscout.transfer.rollout_searches import Unroll
from zscout.types import Agent


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("usf-ucb", OnlineTransfer),
        ("thompson", OnlineTransfer),
        ("unroll", RolloutAgent),
        ("lola", RolloutAgent),
        ("random", ExplorerAgent),
        ("explore-then-commit", ExplorerAgent),
    ],
)
def test_a_method_gets_the_agent_that_it_needs(
    name: str, kind: type, laplacian_model: ExactModel, tmp_path: Path
) -> None:
    agent = OnlineTransfer(laplacian_model, name, seed=3)
    assert type(agent) is kind
    assert isinstance(agent, OnlineTransfer)
    assert isinstance(agent, Agent)
    agent.act(40)
    agent.tell(41, 1.0)
    agent.save(tmp_path)
    others = copy.deepcopy(agent), OnlineTransfer.load(tmp_path, laplacian_model)
    for other in others:
        assert type(other) is kind
        assert other.t == 1
        assert np.asarray(other.act(41)) == np.asarray(agent.act(41))


def test_rollouts_and_explorers_are_not_combined() -> None:
    with pytest.raises(ValueError, match="cannot be combined with an explorer"):
        Method(search=Unroll(), explorer=RandomWalk())


class Mine(OnlineTransfer):
    """A subclass of a user."""


def test_a_subclass_stays_itself_or_is_refused(laplacian_model: ExactModel) -> None:
    assert type(Mine(laplacian_model)) is Mine
    assert Mine(laplacian_model).ask(0).equal(OnlineTransfer(laplacian_model).ask(0))
    with pytest.raises(ValueError, match=r"Mine cannot run this method: create OnlineTransfer\(bfm, method\)"):
        Mine(laplacian_model, "unroll")
    with pytest.raises(ValueError, match="ExplorerAgent cannot run this method"):
        ExplorerAgent(laplacian_model, "usf-ucb")


def test_a_z_is_held_as_long_after_exploring_as_ever(laplacian_model: ExactModel) -> None:
    method = replace(METHODS["random-z"](dim=9, hold=4), explorer=RandomWalk(), explore_for=3)
    agent, followed = OnlineTransfer(laplacian_model, method, seed=0), []
    for t in range(15):
        agent.act(t)
        if t >= 3:
            followed.append(tuple(agent.ask(t).tolist()))
        agent.tell(t + 1, 0.0)
    assert [len(list(same)) for _, same in groupby(followed)] == [4, 4, 4]


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ({"search": Unroll(), "hold": 7}, "hold has no effect with a RolloutSearch"),
        ({"explorer": RandomWalk}, "explorer must be an Explorer instance"),
    ],
)
def test_pieces_that_do_not_fit_are_refused(pieces: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Method(**pieces)


def test_a_search_returns_one_z_a_run(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, Method(search=lambda problem, rng: problem.fresh(1, rng)))
    with pytest.raises(ValueError, match=r"the search returned z of shape \(1, 9\), expected \(9,\)"):
        agent.ask(0)


def test_numbers_of_numpy_are_saved(laplacian_model: ExactModel, tmp_path: Path) -> None:
    method = replace(METHODS["greedy"](dim=9), hold=np.int64(5))  # type: ignore[arg-type]
    OnlineTransfer(laplacian_model, method, noise=float(np.float32(0.5))).save(tmp_path)
    assert OnlineTransfer.load(tmp_path, laplacian_model).method.hold == 5
    with pytest.raises(ValueError, match="memory.runs is missing"):
        OnlineTransfer.load(tmp_path, laplacian_model, replace(method, explorer=RandomWalk()))


class Displacement(Compass):
    """φ = S_{t+1} − S_t, and the square of the action as a cost."""

    def phi_of_transition(self, obs: Any, action: Any, next_obs: Any) -> Tensor:
        moved = np.asarray(next_obs) - np.asarray(obs)
        cost = 0.0 if action is None else float(np.square(action).sum())
        return torch.tensor([moved[0], cost], dtype=torch.float32)


def test_features_of_transitions_see_the_whole_step() -> None:
    agent, rng = OnlineTransfer(Displacement(), METHODS["greedy"](dim=2, ridge=1e-6), seed=0), np.random.default_rng(0)
    obs = np.zeros(2)
    for _ in range(30):
        action = np.asarray(agent.act(obs))
        after = obs + rng.normal(size=2)
        agent.tell(after, 2.0 * (after - obs)[0] - 0.5 * float(np.square(action).sum()))  # an action cost
        obs = after
    assert agent.z_hat.tolist() == pytest.approx([2.0, -0.5], abs=1e-3)
    with pytest.raises(ValueError, match="transition features"):
        agent.learn([obs], [1.0])
    with pytest.raises(ValueError, match="call wants_reward between act"):
        agent.wants_reward(obs)


class Corridor:
    """States 0 … 9; every third step ends an episode."""

    def __init__(self) -> None:
        self.state = self.steps = self.resets = 0

    def reset(self, *, seed: int | None = None) -> tuple[int, dict[str, Any]]:
        self.state, self.resets = 0, self.resets + 1
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.state, self.steps = self.state + 1, self.steps + 1
        return self.state, 1.0, self.steps % 3 == 0, False, {}


class Listener:
    """An agent that only remembers."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, Any, Any]] = []

    def act(self, obs: Any) -> int:
        return 0

    def tell(self, next_obs: Any, reward: Any, done: Any = False) -> None:
        self.told.append((next_obs, reward, done))


def test_a_walk_moves_first_and_tells_later() -> None:
    agent, env = Listener(), Corridor()
    walk = Walk(agent, env)
    steps: list[Step] = []
    for _ in range(4):
        step = walk.move()
        assert len(agent.told) == len(steps)  # nothing is told before tell
        walk.tell(step, -1.0)  # a reward that somebody else gives
        steps.append(step)
    assert agent.told == [(1, -1.0, False), (2, -1.0, False), (3, -1.0, True), (1, -1.0, False)]
    assert [(step.obs, step.next_obs, step.episode) for step in steps] == [(0, 1, 0), (1, 2, 0), (2, 3, 0), (0, 1, 1)]
    assert env.resets == 2


class Batch(Corridor):
    """Its flags are one for each of two runs."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        state, reward, *_ = super().step(action)
        return state, reward, np.zeros(2, dtype=bool), np.zeros(2, dtype=bool), {}


def test_a_walk_refuses_flags_of_many_runs() -> None:
    with pytest.raises(ValueError, match="use rollout for a vector environment"):
        Walk(Listener(), Batch()).move()
