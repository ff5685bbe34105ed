"""How a method chooses, features of transitions, and the walk that all loops use."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from toys import PAPER_MODELS, Compass
from zscout import METHODS, ChangeTest, ExactModel, Method, OnlineTransfer, load
from zscout.base.types import Agent
from zscout.loop.rollout import Step, Walk
from zscout.transfer.baselines.explorers import Exploring, RandomWalk
from zscout.transfer.baselines.rollout_searches import LoLA
from zscout.transfer.choosers import Chooser
from zscout.transfer.score.acquisition import OverHeads, PathUCB, Thompson
from zscout.transfer.score.search import AnyZ, AtEstimate, FixedPoint

CHOOSERS = {
    "usf-ucb": Chooser,
    "thompson": Chooser,
    "lola": LoLA,
    "random": Exploring,
}


@pytest.mark.parametrize("name", CHOOSERS)
def test_a_method_chooses_in_its_own_way(name: str, laplacian_model: ExactModel, tmp_path: Path) -> None:
    agent = OnlineTransfer(laplacian_model, name, seed=3)
    assert type(agent._chooser) is CHOOSERS[name]
    agent.act(40)
    agent.tell(41, 1.0)
    agent.save(tmp_path)
    other = OnlineTransfer.load(tmp_path, laplacian_model)
    assert np.asarray(other.act(41)) == np.asarray(agent.act(41))


@pytest.mark.parametrize("name", CHOOSERS)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_a_copy_goes_on_alone(name: str, copied: Callable[[Any], Any], laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, name, seed=3)
    assert isinstance(agent, Agent)
    agent.act(40)
    agent.tell(41, 1.0)
    other = copied(agent)
    assert np.asarray(other.act(41)) == np.asarray(agent.act(41))
    with agent._one_thread:  # as another thread that is inside the first agent
        other.tell(42, 1.0)
    assert (agent.t, other.t) == (1, 2)
    assert agent.posterior.weight == 1


class Mine(OnlineTransfer):
    """A subclass of a user."""


@pytest.mark.parametrize("name", CHOOSERS)
def test_a_subclass_runs_every_method(name: str, laplacian_model: ExactModel) -> None:
    agents = Mine(laplacian_model, name), OnlineTransfer(laplacian_model, name)
    assert type(agents[0]) is Mine
    assert np.asarray(agents[0].act(0)) == np.asarray(agents[1].act(0))


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ({"search": LoLA(), "hold": 7}, "hold have no effect with a RolloutSearch"),
        ({"search": LoLA(), "change": ChangeTest()}, "change and hold have no effect"),
        ({"search": Exploring}, "search must be a callable, a RolloutSearch or Exploring"),
        ({"search": Exploring(RandomWalk()), "acquisition": Thompson()}, "acquisition has no effect with Exploring"),
        ({"search": AtEstimate(), "acquisition": Thompson()}, "acquisition has no effect with AtEstimate"),
    ],
)
def test_pieces_that_do_not_fit_are_refused(pieces: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Method(**pieces)
    for wrong in (RandomWalk, AnyZ(), None):
        with pytest.raises(ValueError, match="explorer must be an Explorer instance"):
            Exploring(wrong)  # type: ignore[arg-type]


def test_a_search_returns_one_z_a_run(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, Method(search=lambda problem, rng: problem.fresh(1, rng)))
    with pytest.raises(ValueError, match=r"the search returned z of shape \(1, 9\), expected \(9,\)"):
        agent.ask(0)


def test_numbers_of_numpy_are_saved(laplacian_model: ExactModel, tmp_path: Path) -> None:
    method = replace(METHODS["greedy"](dim=9), hold=np.int64(5))  # type: ignore[arg-type]
    OnlineTransfer(laplacian_model, method, noise=float(np.float32(0.5))).save(tmp_path)
    assert OnlineTransfer.load(tmp_path, laplacian_model).method.hold == 5
    with pytest.raises(ValueError, match="memory.runs is missing"):
        OnlineTransfer.load(tmp_path, laplacian_model, replace(method, search=Exploring(RandomWalk())))


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


def test_an_action_of_another_observation_is_dropped() -> None:
    agent = OnlineTransfer(Displacement(), METHODS["greedy"](dim=2, ridge=1e-6), seed=0)
    agent.act(np.zeros(2))
    agent.ask(np.zeros(2))  # the same observation: the action is still the one that was taken
    agent.tell(np.zeros(2), 1.0)
    assert agent.z_hat[1] != 0
    other = OnlineTransfer(Displacement(), METHODS["greedy"](dim=2, ridge=1e-6), seed=0)
    other.act(np.zeros(2))
    other.ask(np.ones(2))  # another z at another observation: who acts there is not known
    other.tell(np.ones(2), 1.0)
    assert other.z_hat.tolist() == [0.0, 0.0]


def test_tensors_that_wait_are_restored_as_tensors(laplacian_model: ExactModel, tmp_path: Path) -> None:
    for obs, kind in ((torch.tensor(40), Tensor), (40, np.generic)):
        agent = OnlineTransfer(laplacian_model, seed=3)
        agent.act(obs)
        agent.save(tmp_path)
        state = OnlineTransfer.load(tmp_path, laplacian_model)._state
        assert isinstance(state.asked, kind)
        assert isinstance(state.action, kind)
        assert int(state.asked) == 40


def test_a_setting_of_the_method_is_pointed_to_its_place(laplacian_model: ExactModel) -> None:
    with pytest.raises(TypeError, match=r"settings belong to the method: .*METHODS\['opti'\]\(dim=9, radius=0.2\)"):
        OnlineTransfer(laplacian_model, "opti", radius=0.2)
    with pytest.raises(TypeError, match="OnlineTransfer has no argument 'colour'"):
        OnlineTransfer(laplacian_model, "opti", colour=1)


@pytest.mark.parametrize("score", [PathUCB(0.5), OverHeads(PathUCB(0.5))])
def test_a_gamma_without_effect_is_said_once(score: Any, laplacian_model: ExactModel) -> None:
    with pytest.warns(
        UserWarning, match=r"gamma=0\.\d of \w+ has no effect: MomentUSFA has no psi_at at 0\.\d, only at 0\.8"
    ) as said:
        agent = OnlineTransfer(load("grid9-laplacian"), Method(acquisition=score, search=FixedPoint()))
    assert len(said) == 1
    agent.ask(0)  # a second warning would be an error
    agent.tell(1, 1.0)
    agent.ask(1)
    OnlineTransfer(laplacian_model, Method(acquisition=score)).ask(0)  # used: no warning, which would be an error
    OnlineTransfer(load(PAPER_MODELS / "grid9-laplacian-paper")).ask(0)  # the default, documented to fall back


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
