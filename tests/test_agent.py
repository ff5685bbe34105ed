"""OnlineTransfer as a user meets it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from toys import Compass, Drifter, Fixed
from zscout import METHODS, ExactModel, Method, OnlineTransfer, check_model, load, rollout
from zscout.base.randomness import Streams
from zscout.base.types import Agent
from zscout.transfer.baselines.explorers import Exploring, RandomWalk
from zscout.transfer.saving import numbers_of, tensors_of
from zscout.transfer.score.acquisition import UCB, Thompson
from zscout.transfer.score.search import Shooting
from zscout.transfer.state import AgentState

NAMES = [name for name in METHODS if name != "oracle"]


def method(name: str, model: ExactModel) -> Method:
    return METHODS[name](dim=model.dim, noise=0.3, task=model.sample_z(1, 7)[0])


def play(agent: OnlineTransfer, model: ExactModel, steps: int, state: Any = 40, noise_seed: int = 0) -> list[Any]:
    """Walk with rewards φ·z_r + noise that depend on the step alone; what was done."""
    task, done = model.sample_z(1, 7)[0], []
    for _ in range(steps):
        action = agent.act(state)
        state = model.world.step(state, torch.as_tensor(action))
        noise = torch.randn((), generator=torch.Generator().manual_seed(noise_seed + agent.t)).double()
        agent.tell(state, model.phi(state) @ task + 0.3 * noise)
        done.append((torch.as_tensor(action).tolist(), state.tolist(), agent.z_hat.tolist()))
    return done


def same(one: AgentState, other: AgentState) -> bool:
    a, b = tensors_of(one), tensors_of(other)
    return numbers_of(one) == numbers_of(other) and a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


# The loop


def test_ask_answers_the_same_until_told(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, seed=3)
    assert agent.t == 0
    first = agent.ask(40)
    assert torch.equal(first, agent.ask(40))
    agent.tell(41, 1.0)
    second = agent.ask(41)
    assert torch.equal(second, agent.ask(41))
    assert agent.t == 1
    assert first.dtype == second.dtype == torch.float64
    assert first.norm() == pytest.approx(3.0)


def test_the_first_z_explores_as_eq_5_says(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, Method(ridge=0.09, search=Shooting(300)), seed=0)
    psi = laplacian_model.psi(40, agent.ask(40)[None])[0]
    others = laplacian_model.psi(40, laplacian_model.sample_z(300, 1))
    assert psi.norm() >= others.norm(dim=-1).quantile(0.95) - 1e-6  # V = λI: the longest ψ


def test_a_reward_that_was_not_seen_teaches_nothing_but_counts_as_a_step(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model)
    agent.ask(0)
    agent.tell(1)
    assert agent.t == 1
    assert torch.equal(agent.z_hat, torch.zeros(9).double())
    agent.learn([1, 2], [1.0, 0.5])
    other = OnlineTransfer(laplacian_model)
    for state, reward in ((1, 1.0), (2, 0.5)):
        other.ask(0)
        other.tell(state, reward)
    assert torch.allclose(agent.z_hat, other.z_hat)
    assert agent.t == 1


# Which rewards are worth asking for


def test_a_reward_is_wanted_until_the_place_is_known(clusters_model: ExactModel) -> None:
    agent = OnlineTransfer(clusters_model)
    wanted = []
    for _ in range(6):
        agent.act(0)
        wanted.append(agent.wants_reward(1))  # of the same cluster
        agent.tell(0, 1.0)
    assert wanted == [True] * 4 + [False] * 2  # 1/4 = .5²: as surely as by four answers
    assert agent.wants_reward(80) is True  # another cluster
    assert agent.wants_reward(1, least=0.35) is True
    assert agent.wants_reward(80, least=4.5) is False  # ‖e₁ − e₉‖/√λ = 4.47, and 1/n
    assert agent.wants_reward(80, least=4.47) is True


def test_the_gate_is_the_width_run_by_run_and_changes_nothing(laplacian_model: ExactModel) -> None:
    model = laplacian_model
    together = OnlineTransfer(model, seed=3, runs=4)
    alone = [OnlineTransfer(model, seed=3 + run) for run in range(4)]
    states, seen = torch.tensor([0, 20, 40, 80]), set()
    for t in range(30):
        states = model.world.step(states, torch.as_tensor(together.act(states)))
        before = together._state
        wanted = together.wants_reward(states, 0.8)
        assert together._state is before
        assert isinstance(wanted, Tensor)
        means = together.posterior.means
        assert means is not None
        apart = together.posterior.width(model.phi(states) - means.phi)
        assert torch.equal(wanted, (apart**2 + 1 / means.weight.clamp(min=1)).sqrt() > 0.8)
        reward = torch.linspace(-1, 1, 4).double() * t
        together.tell(states, torch.where(wanted, reward, torch.nan), seen=wanted)  # what nobody saw may be NaN
        for run, agent in enumerate(alone):
            agent.act(0)
            mine = agent.wants_reward(int(states[run]), 0.8)
            assert mine == bool(wanted[run])
            agent.tell(int(states[run]), float(reward[run]) if mine else None)
            assert torch.allclose(agent.z_hat, together.z_hat[run], atol=1e-9)
            assert float(agent.posterior.noise) == pytest.approx(float(together.posterior.noise[run]))
        seen.add(tuple(wanted.tolist()))
    assert len(seen) > 2  # runs differ in what they want


def test_methods_that_score_whole_rollouts_want_every_reward() -> None:
    agent = OnlineTransfer(Compass(), METHODS["lola"](dim=2, horizon=3))
    agent.learn(np.full((50, 2), 1.0), np.ones(50))
    assert agent.wants_reward([0.1, 0.1]) is True
    plain = OnlineTransfer(Compass(), METHODS["greedy"](dim=2))
    assert plain.wants_reward([0.1, 0.1]) is False  # φ is so short that V⁻¹ = I/λ is sure enough
    assert OnlineTransfer(Compass()).wants_reward([0.1, 0.1]) is True  # of the offset nothing is known
    many = OnlineTransfer(Compass(), METHODS["lola"](dim=2, horizon=3), runs=2)
    many.act(np.zeros((2, 2)))
    before = many._state
    with pytest.raises(ValueError, match="needs every reward"):
        many.tell(np.zeros((2, 2)), [1.0, 0.0], seen=[True, False])
    assert many._state is before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((81,), "observation 81 is outside"),
        ((1.5,), "observation must be whole numbers"),
        (([1, 2],), "for one run"),
        ((1, -0.1), "least must be in"),
        ((1, np.nan), "least must be in"),
        ((1, np.inf), "least must be in"),
    ],
)
def test_what_the_gate_refuses(laplacian_model: ExactModel, arguments: tuple[Any, ...], says: str) -> None:
    agent = OnlineTransfer(laplacian_model)
    before = agent._state
    with pytest.raises(ValueError, match=says):
        agent.wants_reward(*arguments)
    assert agent._state is before


def test_rewards_times_100_change_nothing(laplacian_model: ExactModel) -> None:
    model, task = laplacian_model, laplacian_model.sample_z(1, 3)[0]
    paths = []
    for factor in (1.0, 100.0, 1e-3):
        agent, state, path = OnlineTransfer(model, seed=1), torch.tensor(5), []
        for t in range(60):
            state = model.world.step(state, torch.as_tensor(agent.act(state)))
            noise = torch.randn((), generator=torch.Generator().manual_seed(t)).double()
            agent.tell(state, factor * (model.phi(state) @ task + 0.3 * noise))
            path.append(int(state))
        paths.append(path)
    assert paths[0] == paths[1] == paths[2]


@pytest.mark.parametrize("network", ["clusters_network", "laplacian_network"])
def test_the_best_state_is_found_and_kept(network: str, request: pytest.FixtureRequest) -> None:
    bfm, hidden = request.getfixturevalue(network), torch.randn(9, generator=torch.Generator().manual_seed(2))
    worth = (bfm.phi(bfm.states()) @ hidden).numpy()
    env = gymnasium.make("zscout/OpenGrid-v0", reward=lambda s: float(worth[s]))
    agent = OnlineTransfer(bfm, seed=0)
    steps = list(rollout(agent, env, steps=150, seed=0))
    late = np.mean([step.reward for step in steps[-30:]])
    assert late >= worth.mean() + 0.9 * (worth.max() - worth.mean())
    assert np.corrcoef(bfm.phi(bfm.states()) @ agent.best_z.float(), worth)[0, 1] > 0.9
    assert isinstance(agent, Agent)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_alone_is_the_same_run_in_a_batch(name: str, laplacian_model: ExactModel) -> None:
    model = laplacian_model
    chosen = replace(method(name, model), ridge=0.2)
    if name == "lola":
        chosen = METHODS[name](dim=9, horizon=7)
    alone = [play(OnlineTransfer(model, chosen, seed=s), model, 30, torch.tensor(40), 5) for s in (8, 10)]
    batch = play(OnlineTransfer(model, chosen, seed=8, runs=3), model, 30, torch.tensor([40, 40, 40]), 5)
    listed = play(OnlineTransfer(model, chosen, seed=[10, 8], runs=2), model, 30, torch.tensor([40, 40]), 5)
    for t in range(30):
        for run, i, together in ((0, 0, batch), (1, 2, batch), (0, 1, listed), (1, 0, listed)):
            actions, states, z_hats = together[t]
            action, state, z_hat = alone[run][t]
            assert (actions[i], states[i]) == (action, state)
            assert z_hats[i] == pytest.approx(z_hat, abs=1e-9)


def test_seeds_matter(laplacian_model: ExactModel) -> None:
    paths = [play(OnlineTransfer(laplacian_model, seed=s), laplacian_model, 30, torch.tensor(40)) for s in (0, 0, 1)]
    assert paths[0] == paths[1] != paths[2]


def test_models_that_take_streams_draw_for_each_run(laplacian_model: ExactModel) -> None:
    shipped = load("grid9-laplacian")
    drawing = type(shipped)(replace(shipped.config, temperature=20.0), shipped.features, shipped.state_inputs)
    drawing.load_state_dict(shipped.state_dict())
    together = OnlineTransfer(drawing.freeze(), "greedy", seed=5, runs=3)
    acted = []
    for t in range(10):
        acted.append(together.act(torch.tensor([40, 40, 40])))
        together.tell([t, t, t], [1.0, 1.0, 1.0])
    alone = OnlineTransfer(drawing, "greedy", seed=6)
    for t in range(10):
        assert int(torch.as_tensor(alone.act(40))) == int(torch.as_tensor(acted[t])[1])
        alone.tell(t, 1.0)
    assert len({tuple(torch.as_tensor(a).tolist()) for a in acted}) > 3


def test_ask_is_refused_while_actions_are_chosen(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, Method(search=Exploring(RandomWalk(), steps=2)), seed=0)
    with pytest.raises(ValueError, match="call act"):
        agent.ask(40)
    play(agent, laplacian_model, 2)
    assert torch.allclose(agent.ask(40), laplacian_model.project_z(agent.z_hat))


# What the rivals learn


def test_lola_moves_its_mean_uphill_by_adam() -> None:
    settings: dict[str, Any] = {"draws": 6, "horizon": 3, "std": 0.2, "rate": 0.1}
    agent = OnlineTransfer(Compass(), METHODS["lola"](dim=2, **settings), seed=2)
    steps = rollout(agent, Plane(), steps=18 * 30, seed=0)
    for _ in range(17):
        next(steps)
    before = agent._state.memory
    next(steps)
    after = agent._state.memory
    returns = after["returns"]
    others = (returns.sum() - returns) / 5
    slope = ((returns - others)[:, None] * before["noise"]).mean(0) / 0.2
    expected = before["mu"] + 0.1 * slope / (slope.abs() + 1e-8)  # Adam's first step
    assert torch.allclose(after["mu"], Compass().project_z(expected).double(), atol=1e-5)
    for _ in steps:
        pass
    assert agent.best_z[0] > 0.95


# Holding a z


def test_hold_keeps_z_for_so_many_steps(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, METHODS["random-z"](dim=9, hold=4), runs=2)
    tried = []
    for t in range(12):
        tried.append(agent.ask([t, t]))
        agent.tell([t + 1, t + 1], [0.0, 1.0])
    for t in range(1, 12):
        assert bool((tried[t] == tried[t - 1]).all()) == (t % 4 != 0)


def test_once_an_episode_each_run_by_its_own_end(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, replace(METHODS["random-z"](dim=9), hold="episode"), runs=2)
    tried = []
    for t in range(6):
        tried.append(agent.ask([t, t]))
        agent.tell([t + 1, t + 1], [0.0, 1.0], done=[t == 2, False])
    changed = [(tried[t] != tried[t - 1]).any(-1).tolist() for t in range(1, 6)]
    assert changed == [[False, False], [False, False], [True, False], [False, False], [False, False]]


# Other people's models and environments


class Plane(gymnasium.Env[Any, Any]):
    """A walk in the plane whose reward is to the right; an episode is 10 steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.steps = np.zeros(2), 0
        return self.at.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at, self.steps = self.at + np.clip(action, -1, 1), self.steps + 1
        return self.at.copy(), float(self.at[0]), False, self.steps == 10, {}


def test_any_model_in_any_environment_over_many_episodes() -> None:
    agent = OnlineTransfer(Compass(), seed=0)
    steps = list(rollout(agent, Plane(), steps=95, seed=0))
    assert [step.episode for step in steps] == [t // 10 for t in range(95)]
    assert all(step.truncated == (step.t % 10 == 9) for step in steps)
    assert all(np.array_equal(step.obs, [0, 0]) for step in steps if step.t % 10 == 0)
    assert agent.best_z[0] > 0.99
    assert steps[-1].reward > 4


class Fives(Plane):
    """Reward 5 everywhere; episodes are of other lengths and may terminate."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, _, _, truncated, info = super().step(action)
        return obs, 5.0, bool(obs[0] > 4), truncated, info


@pytest.mark.parametrize("mode", gymnasium.vector.AutoresetMode)
@pytest.mark.parametrize("intercept", [True, False])
def test_resets_of_a_vector_environment_are_not_learned_from(
    mode: gymnasium.vector.AutoresetMode, intercept: bool
) -> None:
    envs = gymnasium.vector.SyncVectorEnv([Fives] * 3, autoreset_mode=mode)
    method = replace(METHODS["usf-ucb"](dim=2), intercept=intercept)
    agent = OnlineTransfer(Compass(), method, runs=3)
    steps = list(rollout(agent, envs, steps=120, seed=0))
    resets = np.stack([step.only_reset for step in steps])
    ends = np.stack([step.terminated | step.truncated for step in steps])
    assert (ends.sum(0) >= 10).all()
    assert np.array_equal(resets[1:], ends[:-1] if mode == gymnasium.vector.AutoresetMode.NEXT_STEP else 0 * ends[1:])
    learned = ~resets
    assert agent.posterior.weight.tolist() == learned.sum(0).tolist()
    if agent.posterior.means is not None:
        assert agent.posterior.means.reward.tolist() == [5.0] * 3
    else:
        assert agent.posterior.reward_squares.tolist() == (25.0 * learned.sum(0)).tolist()
    for step in steps:
        at, before, there = np.asarray(step.next_obs), np.asarray(step.obs), ~step.only_reset
        assert np.allclose(at[there], (before + np.clip(step.action, -1, 1))[there])  # the last state, not the first
        assert (step.reward[there] == 5).all()
    assert np.array_equal(steps[-1].episode + ends[-1], ends.sum(0))


def test_a_held_z_is_chosen_at_the_start_of_the_next_episode() -> None:
    envs = gymnasium.vector.SyncVectorEnv([Plane] * 2)
    agent = OnlineTransfer(Compass(), replace(METHODS["random-z"](dim=2), hold="episode"), runs=2)
    z = [step.z for step in rollout(agent, envs, steps=33, seed=0)]
    changed = [t for t in range(1, 33) if z[t] is not None and not torch.equal(z[t], z[t - 1])]
    assert changed == [10, 11, 21, 22, 32]  # at the reset, whose action is ignored, and at the start


def test_vector_environments_that_cannot_be_followed_are_refused() -> None:
    envs = gymnasium.vector.SyncVectorEnv([Fives] * 2)
    with pytest.raises(ValueError, match=r"the observation has shape \(2, 2\), expected \(2,\) for one run"):
        list(rollout(OnlineTransfer(Compass()), envs, steps=2))
    envs.metadata = {}
    with pytest.raises(ValueError, match=r"metadata\['autoreset_mode'\] of the vector environment is None"):
        list(rollout(OnlineTransfer(Compass(), runs=2), envs, steps=2))
    with pytest.raises(ValueError, match="FlattenObservation"):
        list(rollout(OnlineTransfer(Compass(), runs=2), gymnasium.vector.SyncVectorEnv([Named] * 2), steps=2))

    class Plain:
        """An agent with no more than the protocol asks for."""

        def act(self, obs: Any) -> Any:
            return np.zeros((2, 2), dtype=np.float32)

        def tell(self, next_obs: Any, reward: Any, done: Any = False) -> None:
            pass

    with pytest.raises(ValueError, match="has no parameter seen"):
        list(rollout(Plain(), gymnasium.vector.SyncVectorEnv([Fives] * 2), steps=2))


class Named(Plane):
    """The plane, its observations as a dict."""

    observation_space = gymnasium.spaces.Dict({"at": Plane.observation_space})  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(seed=seed)
        return {"at": obs}, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, *rest = super().step(action)
        return ({"at": obs}, *rest)  # type: ignore[return-value]


def test_a_model_of_vectors_refuses_dicts_and_flat_ones_work() -> None:
    flat = gymnasium.wrappers.FlattenObservation(Named())
    assert len(list(rollout(OnlineTransfer(Compass()), flat, steps=3, seed=0))) == 3
    agent, model = OnlineTransfer(Compass()), Compass()
    model.observation_space = gymnasium.spaces.Dict({"both": gymnasium.spaces.Tuple([Plane.observation_space])})
    refused: list[Callable[[], object]] = [
        lambda: agent.ask({"at": np.zeros(2)}),
        lambda: agent.act({"at": np.zeros(2)}),
        lambda: agent.tell({"at": np.zeros(2)}, 1.0),
        lambda: list(rollout(agent, Named(), steps=3)),
        lambda: OnlineTransfer(model),
        lambda: check_model(model),
    ]
    agent.ask(np.zeros(2))
    for call in refused:
        with pytest.raises(ValueError, match=r"wrap the environment in gymnasium\.wrappers\.FlattenObservation"):
            call()
    with pytest.raises(ValueError, match=r"observation_space is Box.*, the environment's is Dict"):
        check_model(Drifter(), env=Named())


def test_lola_begins_its_rollouts_where_it_began() -> None:
    agent = OnlineTransfer(Compass(), METHODS["lola"](dim=2, horizon=5, draws=4))
    steps = list(rollout(agent, Plane(), steps=40, seed=0))
    assert [step.t for step in steps if np.array_equal(step.obs, [0, 0])] == list(range(0, 40, 5))


# Saving


@pytest.mark.parametrize("name", NAMES)
def test_a_restored_agent_goes_on_as_if_it_had_never_stopped(
    name: str, laplacian_model: ExactModel, tmp_path: Path
) -> None:
    model = laplacian_model
    chosen = method(name, model)
    agent = OnlineTransfer(model, chosen, seed=4, noise=None, norm_bound=3.0)
    play(agent, model, 13)
    agent.act(20)  # in the middle: asked, not told
    agent.save(tmp_path / "agent")
    restored = OnlineTransfer.load(tmp_path / "agent", model)
    assert same(agent._state, restored._state)
    for one in (agent, restored):
        one.tell(21, 0.7)
    assert play(agent, model, 15, torch.tensor(21)) == play(restored, model, 15, torch.tensor(21))
    assert torch.equal(agent.best_z, restored.best_z)


def test_a_batch_and_a_name_are_restored_too(laplacian_model: ExactModel, tmp_path: Path) -> None:
    agent = OnlineTransfer(laplacian_model, "thompson", seed=[5, 9], runs=2, noise=0.2)
    play(agent, laplacian_model, 5, torch.tensor([1, 2]))
    agent.save(tmp_path)
    restored = OnlineTransfer.load(tmp_path, laplacian_model)
    assert (restored.method_name, restored.noise, restored.seeds.tolist()) == ("thompson", 0.2, [5, 9])
    assert play(agent, laplacian_model, 5, torch.tensor([1, 2])) == play(
        restored, laplacian_model, 5, torch.tensor([1, 2])
    )


def test_what_cannot_be_restored_is_refused(laplacian_model: ExactModel, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="agent.safetensors is missing"):
        OnlineTransfer.load(tmp_path, laplacian_model)
    agent = OnlineTransfer(laplacian_model)
    agent.save(tmp_path)
    file = tmp_path / "agent.safetensors"
    whole = file.read_bytes()
    for content in (b"", b"\x80\x04.", whole[: len(whole) // 2], whole.replace(b"PathUCB", b"PathABC")):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="no saved agent|cannot restore"):
            OnlineTransfer.load(tmp_path, laplacian_model)
    file.write_bytes(whole)
    with pytest.raises(ValueError, match="9 features, this one has 2"):
        OnlineTransfer.load(tmp_path, Compass())
    poisoned = replace(agent.posterior, z_hat=torch.full((9,), torch.nan).double())
    agent._state = replace(agent._state, posterior=poisoned)
    agent.save(tmp_path)
    with pytest.raises(ValueError, match="NaN"):
        OnlineTransfer.load(tmp_path, laplacian_model)
    with pytest.raises(ValueError, match="it learned with ridge = 0.1"):
        OnlineTransfer.load(tmp_path, laplacian_model, method=Method(ridge=5.0))
    mine = OnlineTransfer(laplacian_model, Method(acquisition=lambda *_: torch.zeros(1)))
    mine.save(tmp_path)
    with pytest.raises(ValueError, match="pass method="):
        OnlineTransfer.load(tmp_path, laplacian_model)


# Bad input: a clear error, and the agent exactly as before


class Sick(Compass):
    """Its ψ is NaN wherever x > 5."""

    def psi(self, obs: Any, z: Any) -> Tensor:
        return super().psi(obs, z) + (torch.nan if np.asarray(obs)[0] > 5 else 0.0)


not_finite = st.sampled_from([np.nan, np.inf, -np.inf])
bad_tells = st.one_of(
    st.tuples(st.just(1), not_finite),
    st.tuples(st.just(1), st.lists(st.floats(-1, 1), min_size=0, max_size=3)),
    st.tuples(st.just(1), st.sampled_from(["a", b"1", object(), {}, [[1.0]], 1j])),
    st.tuples(st.sampled_from([-1, 81, 10**9, 1.5, np.nan, "s", [1, 2], [[0]], 2**70]), st.floats(-1, 1)),
)


@given(bad_tells, st.booleans())
def test_bad_tells_leave_the_agent_as_it_was(laplacian_model: ExactModel, told: tuple[Any, Any], started: bool) -> None:
    agent = OnlineTransfer(laplacian_model, METHODS["greedy"](dim=9))
    if started:
        agent.ask(3)
        agent.tell(4, 0.5)
    agent.ask(4)
    before = agent._state
    with pytest.raises(ValueError, match="reward|observation"):
        agent.tell(*told)
    assert agent._state is before
    agent.tell(5, 1.0)  # and it goes on


@given(st.sampled_from([-1, 81, 1.5, np.nan, "s", [1, 2], None, 2**70]))
def test_bad_asks_leave_the_agent_as_it_was(laplacian_model: ExactModel, obs: Any) -> None:
    agent = OnlineTransfer(laplacian_model, "greedy")
    before = agent._state
    for question in (agent.ask, agent.act):
        with pytest.raises(ValueError, match="observation"):
            question(obs)
    assert agent._state is before


def test_other_mistakes_leave_the_agent_as_it_was(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model, "greedy", runs=2)
    with pytest.raises(ValueError, match="each tell needs an ask"):
        agent.tell([1, 2], [0.0, 0.0])
    agent.ask([1, 2])
    before = agent._state
    mistakes: list[Callable[[], None]] = [
        lambda: agent.tell([1, 2], 0.5),
        lambda: agent.tell([1, 2], [0.5, 0.5, 0.5]),
        lambda: agent.tell([1, 2, 3], [0.5, 0.5]),
        lambda: agent.tell([1, 2], [0.5, 0.5], done=[True]),
        lambda: agent.tell([1, 2], [0.5, 0.5], done="yes"),  # type: ignore[arg-type]
        lambda: agent.tell([1, 2], [0.5, 0.5], seen=[True]),
        lambda: agent.tell([1, 2], [0.5, 0.5], seen=[1, 0]),  # type: ignore[list-item]
        lambda: agent.tell([1, 2], [0.5, np.nan], seen=[True, True]),
        lambda: agent.tell([1, 2], seen=[True, False]),
        lambda: agent.learn([[1, 2], [3, 4]], [[0.0, np.nan], [0.0, 0.0]]),
        lambda: agent.learn([[1, 2], [3, 4]], [0.0, 0.0]),
        lambda: agent.learn([[1, 2], [3, 99]], [[0.0, 0.0], [0.0, 0.0]]),
    ]
    for wrong in mistakes:
        with pytest.raises(ValueError, match="reward|observation|done|seen|batch"):
            wrong()
        assert agent._state is before


@pytest.mark.parametrize("name", ["lola", "usf-ucb", "thompson"])
def test_late_errors_leave_the_agent_as_it_was(name: str) -> None:
    settings: dict[str, Any] = {"horizon": 2} if name == "lola" else {}
    agent = OnlineTransfer(Sick(), METHODS[name](dim=2, **settings), seed=0)
    agent.act([0.0, 0.0])
    agent.tell([1.0, 0.0], 1.0)
    agent.act([1.0, 0.0])
    before = agent._state
    with pytest.raises(ValueError, match="at most 1e\\+100"):
        agent.tell([2.0, 0.0], 1e200)
    assert agent._state is before
    if name == "lola":
        with pytest.raises(ValueError, match="needs every reward"):
            agent.tell([2.0, 0.0])
    if name == "lola":  # its return ends with ψ·ẑ
        with pytest.raises(ValueError, match="ψ holds NaN"):
            agent.tell([6.0, 0.0], 1.0)
    assert agent._state is before
    agent.tell([2.0, 0.0], 1.0)


def test_pieces_that_give_nonsense_are_named(laplacian_model: ExactModel) -> None:
    def nothing(forecast: Any, *_: Any) -> Tensor:
        return torch.full(forecast.psi.shape[:-1], torch.nan)

    pieces: list[tuple[dict[str, Any], str]] = [
        ({"acquisition": nothing}, "scores of the candidates hold NaN"),
        ({"confidence": lambda t, posterior: -1.0}, "radius must be one number ≥ 0"),
        ({"confidence": lambda t, posterior: np.nan}, "radius holds NaN"),
    ]
    for piece, says in pieces:
        with pytest.raises(ValueError, match=says):
            OnlineTransfer(laplacian_model, Method(search=Shooting(3), **piece)).ask(0)
    half: Any = lambda t, posterior: 0.5  # noqa: E731
    assert OnlineTransfer(laplacian_model, Method(confidence=half), runs=2).radius.tolist() == [0.5, 0.5]


def test_a_model_with_nan_is_named() -> None:
    agent = OnlineTransfer(Sick(), seed=0)
    agent.ask([0.0, 0.0])
    before = agent._state
    with pytest.raises(ValueError, match="ψ holds NaN"):
        agent.ask([6.0, 0.0])
    assert agent._state is before
    with pytest.raises(ValueError, match="observation holds NaN"):
        agent.tell([np.nan, 0.0], 1.0)
    assert agent._state is before
    with pytest.raises(ValueError, match="ψ holds NaN"):
        OnlineTransfer(Fixed(torch.full((12, 2), torch.nan)), Method(search=Shooting(12), acquisition=UCB())).ask(0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"method": "usf"}, "there is no method 'usf': did you mean usf-ucb"),
        ({"method": "oracle"}, "pass|task=z_r"),
        ({"seed": -1}, "seed"),
        ({"seed": [1, 2]}, "expected one number: pass runs=2"),
        ({"seed": [1, 2], "runs": 3}, "one for each of runs=3"),
        ({"runs": 0}, "runs must be at least 1"),
        ({"noise": -0.1}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"norm_bound": 0.0}, "norm_bound"),
        ({"norm_bound": -1.0, "method": Method()}, "norm_bound"),
    ],
)
def test_agents_that_cannot_be(laplacian_model: ExactModel, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        OnlineTransfer(laplacian_model, **arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"ridge": 0.0}, "ridge must be above 0"),
        ({"ridge": -1.0}, "ridge"),
        ({"hold": 0}, "hold"),
        ({"hold": "epsiode"}, "a number of steps or 'episode'"),
        ({"acquisition": UCB}, "a callable instance, not a class"),
    ],
)
def test_methods_that_cannot_be(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Method(**arguments)
    with pytest.raises(ValueError, match="no setting 'colour': there are ridge, kappa"):
        METHODS["usf-ucb"](dim=9, colour=1)


def test_what_is_no_model_or_no_method_is_named(laplacian_model: ExactModel) -> None:
    with pytest.raises(ValueError, match=r"zscout.load\('grid9-clusters'\)"):
        OnlineTransfer("grid9-clusters")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a BehaviorModel: it has no act, action_space"):
        OnlineTransfer(object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="call it"):
        OnlineTransfer(laplacian_model, METHODS["greedy"])  # type: ignore[arg-type]

    class InNumpy(Compass):
        def sample_z(self, n: int, rng: Any) -> Any:
            return super().sample_z(n, rng).numpy()

    with pytest.raises(ValueError, match=r"sample_z\(1, 0\) is ndarray, expected a torch tensor"):
        OnlineTransfer(InNumpy())
    with pytest.raises(ValueError, match=r"psi has shape \[8, 3\], expected \[8, 2\]"):
        OnlineTransfer(Crooked()).ask([0.0, 0.0])


class Crooked(Compass):
    """Its ψ has an entry too many."""

    def psi(self, obs: Any, z: Any) -> Tensor:
        psi = super().psi(obs, z)
        return torch.cat([psi, psi[..., :1]], -1)


def test_swapping_one_piece_is_one_line(laplacian_model: ExactModel) -> None:
    model = laplacian_model
    agent = OnlineTransfer(model, replace(METHODS["usf-ucb"](dim=9), acquisition=Thompson()), seed=0, noise=1.0)
    agent.learn([3, 50, 70], [1.0, 0.5, -1.0])
    z = agent.ask(40)
    # One θ for all candidates of a step: what was chosen is best for it.
    theta = agent.posterior.sample(1, Streams(agent.seeds, 0).fork())[0]
    candidates = torch.cat([model.sample_z(1000, torch.Generator().manual_seed(0)), agent.best_z[None]])
    assert model.psi(40, z[None])[0] @ theta == pytest.approx(float((model.psi(40, candidates) @ theta).max()))
