"""Models and environments of other people: dicts, vector environments, features of transitions, and what goes wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor

from toys import Compass, Drift, Drifter
from zscout import METHODS, ExactModel, Method, OnlineTransfer, calibrated, check_model, rollout
from zscout.base.types import BehaviorModel
from zscout.models.checks.conventions import Fit
from zscout.models.checks.rollouts import rollout_pairs
from zscout.models.fb.model import FB, FBConfig
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.offline import infer_task
from zscout.transfer.score.search import Shooting


class Limited(Drift):
    """Drift with the reward x₀: terminates past 1.2, truncates after 15 steps, and may break at a step."""

    def __init__(self, breaks: int | None = None, how: str = "raise") -> None:
        super().__init__(wall=1.2)
        self.breaks, self.how, self.taken, self.steps = breaks, how, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, _, terminated, _, info = super().step(action)
        reward = float(obs[0])
        if self.taken == self.breaks:
            if self.how == "raise":
                raise ZeroDivisionError("the motor stalled")
            obs = {"nan": np.full(4, np.nan), "shape": obs[:3]}.get(self.how, obs)
            reward = np.nan if self.how == "reward" else reward
        self.taken, self.steps = self.taken + 1, self.steps + 1
        return obs, reward, terminated, self.steps == 15, info


class Nested(gymnasium.ObservationWrapper[Any, Any, Any]):
    """An environment of Drift with its observation as nested dicts, in another order, and with an entry too many."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        now = Box(-np.inf, np.inf, (2,))
        self.observation_space = Dict({"more": Box(0, 1, ()), "past": Dict({"x": now}), "x": now})

    def observation(self, observation: Any) -> Any:
        return {"more": np.float32(0.5), "past": {"x": observation[2:]}, "x": observation[:2]}


class NestedDrifter(Drifter):
    """Drifter of dicts."""

    def __init__(self) -> None:
        super().__init__()
        now = Box(-np.inf, np.inf, (2,), np.float64)
        self.observation_space = Dict({"x": now, "past": Dict({"x": now})})

    def phi(self, obs: Any) -> Tensor:
        return torch.as_tensor(obs["x"], dtype=torch.float64)

    def act(self, obs: Any, z: Any, rng: Any = None) -> Any:
        action = torch.as_tensor(z).float().expand_as(self.phi(obs))
        return action if isinstance(obs["x"], Tensor) else action.numpy()


def nested() -> gymnasium.Env[Any, Any]:
    return Nested(Limited())


def flat(obs: Any) -> Any:
    """The observation of Drift."""
    return np.concatenate([obs["x"], obs["past"]["x"]], -1) if isinstance(obs, dict) else obs


# Dict observations: the same as a flat vector


def test_dicts_give_the_steps_that_vectors_give() -> None:
    agents = [OnlineTransfer(model, seed=3) for model in (Drifter(), NestedDrifter())]
    both = [list(rollout(agent, env, 60, seed=0)) for agent, env in zip(agents, (Limited(), nested()), strict=True)]
    for one, other in zip(*both, strict=True):
        assert np.array_equal(flat(one.next_obs), flat(other.next_obs))
        assert torch.equal(one.z, other.z)
    assert torch.equal(agents[0].z_hat, agents[1].z_hat)
    assert {step.terminated for step in both[1]} == {step.truncated for step in both[1]} == {False, True}


@pytest.mark.parametrize("mode", AutoresetMode)
def test_dicts_of_vector_environments_too(mode: AutoresetMode) -> None:
    agents = [OnlineTransfer(model, runs=3) for model in (Drifter(), NestedDrifter())]
    envs = [SyncVectorEnv([make] * 3, autoreset_mode=mode) for make in (Limited, nested)]
    both = [list(rollout(agent, env, 50, seed=0)) for agent, env in zip(agents, envs, strict=True)]
    for one, other in zip(*both, strict=True):
        assert np.allclose(flat(one.next_obs), flat(other.next_obs), atol=1e-6)  # the dict's arrays are float32
    assert torch.allclose(agents[0].z_hat, agents[1].z_hat, atol=1e-4)
    assert agents[0].posterior.weight.tolist() == agents[1].posterior.weight.tolist()


def test_dicts_are_checked_and_calibrated_as_vectors_are() -> None:
    report = check_model(NestedDrifter(), env=Nested(Drift()), steps=4_000)
    assert report == check_model(Drifter(), env=Drift(), steps=4_000)
    rows = np.random.default_rng(0).normal(size=(500, 2))
    model = calibrated(NestedDrifter(), {"x": rows, "past": {"x": rows}})
    check_model(model, env=Nested(Drift()), steps=4_000)
    phi = model.phi({"x": rows, "past": {"x": rows}})
    assert torch.allclose(torch.cov(phi.mT, correction=0), torch.eye(2).double(), atol=1e-6)


class Deaf(NestedDrifter):
    def psi(self, obs: Any, z: Any) -> Tensor:
        return super().psi(obs, z).expand(obs["past"]["y"].shape)


def test_the_checker_says_which_dict_it_asked_with() -> None:
    with pytest.raises(ValueError, match=r"psi\({past: {x: Tensor \[2, 3, 2\]}, x: Tensor \[2, 3, 2\]}, .*KeyError"):
        check_model(Deaf())
    with pytest.raises(ValueError, match=r"observation_space is Dict.*, the environment's is Box"):
        check_model(NestedDrifter(), env=Drift())


def test_a_dict_that_waits_is_saved(tmp_path: Path) -> None:
    obs = {"x": np.zeros(2), 'past "': {"x": torch.ones(2)}, "past": {"x": np.ones(2)}}
    agent = OnlineTransfer(NestedDrifter(), seed=1)
    agent.act(obs)
    agent.save(tmp_path)
    again = OnlineTransfer.load(tmp_path, NestedDrifter())
    asked: Any = again._state.asked
    assert isinstance(asked['past "']["x"], Tensor)
    assert isinstance(asked["past"]["x"], np.ndarray)
    for one in (agent, again):
        one.tell(obs, 1.0)
    assert torch.equal(agent.ask(obs), again.ask(obs))


def test_the_z_of_a_dict_stays_until_told_and_its_buffers_are_copied() -> None:
    agent, obs = OnlineTransfer(NestedDrifter()), {"x": np.zeros(2), "past": {"x": np.zeros(2)}}
    agent.act(obs)
    assert agent._asked(obs)["action"] is not None
    obs["past"]["x"][0] = 1.0  # type: ignore[index]
    assert agent._asked(obs)["action"] is None
    assert agent._asked({"x": np.zeros(2), "past": {"x": np.zeros(2)}, "new": 1})["action"] is None


@pytest.mark.parametrize("kind", [np.zeros, torch.zeros])
def test_actions_are_of_the_kind_of_a_dicts_entries(kind: Callable[[int], Any]) -> None:
    for method in ("random", "usf-ucb"):
        action = OnlineTransfer(NestedDrifter(), method).act({"x": kind(2), "past": {"x": kind(2)}})
        assert isinstance(action, type(kind(2)))


# Vector environments


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_batch_learns_its_steps_and_no_resets_in_a_maze_with_pits(mode: AutoresetMode) -> None:
    config = {"observation_low": (0.0, 0.0, -0.3, -0.3), "observation_high": (5.0, 5.0, 0.3, 0.3), "actions": 2}
    model = FB(FBConfig(**config, dim=10, hidden=16), seed=0).freeze()  # type: ignore[arg-type]
    options: dict[str, Any] = {"map": "...\n.o.\n...", "horizon": 12, "reward": lambda obs: 3.0 + float(obs[0])}
    envs = gymnasium.make_vec(
        "zscout/PointMaze-v0", num_envs=8, vector_kwargs={"autoreset_mode": mode}, vectorization_mode="sync", **options
    )
    agent = OnlineTransfer(model, METHODS["random-z"](dim=10), runs=8)
    steps = list(rollout(agent, envs, steps=60, seed=0))
    assert np.any([step.terminated for step in steps])
    assert np.any([step.truncated for step in steps])
    for run in range(8):
        lived = [step for step in steps if not np.broadcast_to(step.only_reset, 8)[run]]
        rewards = [float(step.reward[run]) for step in lived]
        assert rewards == pytest.approx([3.0 + step.next_obs[run][0] for step in lived], abs=1e-5)
        prior = TaskPosterior.prior(dim=10, ridge=agent.method.ridge, intercept=agent.method.intercept)
        alone = prior.learn(model.phi(np.stack([step.next_obs[run] for step in lived])), torch.tensor(rewards).double())
        assert torch.allclose(agent.z_hat[run], alone.z_hat, atol=1e-6)
        resets = steps[-1].episode[run] if mode is AutoresetMode.NEXT_STEP else 0
        assert len(lived) == 60 - resets


# Features of transitions


class Moved(Drifter):
    """φ = S_{t+1} − S_t, as HILP's; Σγᵏ(x_{k+1} − x_k) = (1 − γ)ψ_x + … in closed form."""

    def phi_of_transition(self, obs: Any, action: Any, next_obs: Any) -> Tensor:
        return self.phi(next_obs) - self.phi(obs)

    def psi(self, obs: Any, z: Any) -> Tensor:
        return (1 - self.gamma) * super().psi(obs, z) - self.phi(obs)[..., None, :]  # Σγᵏx_{k+1} − Σγᵏx_k


class OfStates(Moved):
    def psi(self, obs: Any, z: Any) -> Tensor:
        return Drifter.psi(self, obs, z)


class Untidy(Moved):
    def phi_of_transition(self, obs: Any, action: Any, next_obs: Any) -> Tensor:
        return super().phi_of_transition(obs, action, next_obs).mean(0, keepdim=True)


def test_psi_of_transitions_is_checked_by_rollouts() -> None:
    report = check_model(Moved(), env=Drift(), steps=4_000)
    assert report is not None
    assert report.high < 0.1
    with pytest.raises(ValueError, match="differs from|ψ is scaled"):
        check_model(OfStates(), env=Drift(), steps=4_000)
    with pytest.raises(ValueError, match=r"phi_of_transition\(obs, action, next_obs\) of obs \[2 3\] has shape"):
        check_model(Untidy())


def test_no_transition_enters_the_start_so_it_cannot_be_counted() -> None:
    pairs = rollout_pairs(Moved(), Drift(), 20, 2_000, seed=0)
    assert pairs.phi[:, :, 0].isnan().all()
    assert not pairs.phi[:, :, 1:].isnan().any()
    assert not Fit.of(pairs, 0.9, begins=0).clearly_better(Fit.of(pairs, 0.5), tolerance=10.0)
    assert Fit.of(pairs, 0.9).clearly_better(Fit.of(pairs, 0.5), tolerance=10.0)


class Steps(ExactModel):
    def phi_of_transition(self, obs: Any, action: Any, next_obs: Any) -> Tensor:
        return self.phi(next_obs) - self.phi(obs)


def test_transitions_are_not_checked_by_a_table_of_states(laplacian_model: ExactModel) -> None:
    with pytest.raises(ValueError, match=r"this model has transition features: pass env= instead"):
        check_model(Steps(laplacian_model.world, laplacian_model.features), laplacian_model.world)


def test_transitions_are_calibrated() -> None:
    rng = np.random.default_rng(0)
    obs, after = rng.normal(size=(2, 400, 4))
    model = calibrated(Moved(), (obs, None, after))
    phi = model.phi_of_transition(obs, None, after)  # type: ignore[attr-defined]
    assert torch.allclose(phi.mean(0), torch.zeros(2).double(), atol=1e-9)
    assert torch.allclose(torch.cov(phi.mT, correction=0), torch.eye(2).double(), atol=1e-9)
    check_model(model, env=Drift(), steps=4_000)
    for sample in (obs, None):
        with pytest.raises(ValueError, match=r"pass a sample of transitions, \(observations, actions, next obs"):
            calibrated(Moved(), sample)
    with pytest.raises(ValueError, match="transition features"):
        infer_task(Moved(), obs, np.zeros(400))


# What goes wrong: a sentence, and the agent exactly as before


def env_of(kind: str, **broken: Any) -> Any:
    def make() -> Any:
        return Nested(Limited(**broken)) if kind == "dict" else Limited(**broken)

    return SyncVectorEnv([Limited, make, Limited]) if kind == "vector" else make()


@pytest.mark.parametrize("kind", ["single", "vector", "dict"])
@pytest.mark.parametrize("how", ["raise", "nan", "shape", "reward"])
def test_an_environment_that_breaks_leaves_the_agent_as_it_was(kind: str, how: str) -> None:
    model: BehaviorModel = NestedDrifter() if kind == "dict" else Drifter()
    runs = 3 if kind == "vector" else None
    agent, seen = OnlineTransfer(model, runs=runs), []
    where = {"single": "", "vector": " of run 1", "dict": r"\['past'\]\['x'\]"}[kind]
    says = {
        "raise": "the motor stalled",
        "nan": f"the observation{where} holds NaN or inf",
        "shape": "shape" if kind == "vector" else f"the observation{where} has shape",  # Gymnasium's own, with a note
        "reward": "reward.* NaN",
    }

    def watch() -> None:
        for step in rollout(agent, env_of(kind, breaks=7, how=how), 40, seed=0):
            seen.append((agent.t, agent.posterior))
            assert step.t == agent.t - 1

    with pytest.raises((ValueError, ZeroDivisionError), match=says[how]) as raised:
        watch()
    if how == "raise" or (how, kind) == ("shape", "vector"):
        (note,) = raised.value.__notes__
        assert f"raised this after {len(seen)} steps" in note
    t, posterior = seen[-1]
    assert agent.t == t == len(seen) >= 7
    assert all(torch.equal(value, agent.posterior.tensors()[name]) for name, value in posterior.tensors().items())
    assert len(list(rollout(agent, env_of(kind), 5, seed=1))) == 5  # and it goes on
    assert agent.t == t + 5


def test_wrong_observations_are_named_by_entry_and_shape() -> None:
    good = {"x": np.zeros(2), "past": {"x": np.zeros(2)}}
    wrong: list[tuple[Any, str]] = [
        ({"x": np.zeros(2)}, "the observation is a dict with x, this model expects a dict with past, x"),
        ({**good, "past": {}}, r"the observation\['past'\] is a dict with , this model expects a dict with x"),
        ({**good, "past": np.zeros(2)}, r"the observation\['past'\] is ndarray, this model expects a dict with x"),
        (np.zeros(4), "the observation is ndarray, this model expects a dict with past, x"),
        ({**good, "x": np.zeros(3)}, r"the observation\['x'\] has shape \(3,\), expected \(2,\) for one run"),
        ({**good, "x": {"y": 1}}, r"the observation\['x'\] is a dict with y, this model expects Box"),
        ({**good, "past": {"x": np.array([0.0, np.inf])}}, r"the observation\['past'\]\['x'\] holds NaN or inf"),
        ({**good, "x": "left"}, r"observation\['x'\] must be real numbers, got str"),
    ]
    agent = OnlineTransfer(NestedDrifter())
    agent.act(good)
    before = agent._state
    for obs, says in wrong:
        calls: list[Callable[[], object]] = [
            lambda obs=obs: agent.ask(obs),  # type: ignore[misc]
            lambda obs=obs: agent.act(obs),  # type: ignore[misc]
            lambda obs=obs: agent.tell(obs, 1.0),  # type: ignore[misc]
            lambda obs=obs: agent.wants_reward(obs),  # type: ignore[misc]
        ]
        for call in calls:
            with pytest.raises(ValueError, match=says):
                call()
            assert agent._state is before
    with pytest.raises(ValueError, match=r"\['past'\]\['x'\] has shape \(2,\), expected \(5, 2\) for 5 runs"):
        OnlineTransfer(NestedDrifter(), runs=5).act(good)


def in_numpy(self: Any, *arguments: Any) -> Any:
    return np.zeros(2)


def ones(d: int) -> Callable[..., Tensor]:
    return lambda self, n, rng: torch.ones(n, d)


def one_more(name: str) -> Callable[..., Tensor]:
    """The output with a dimension too many, as of a batch of one."""
    return lambda self, *arguments: getattr(Drifter, name)(self, *arguments)[None]


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"psi": in_numpy}, "the model's psi is ndarray, expected a torch tensor"),
        ({"psi": one_more("psi")}, r"the model's psi has shape \[1, 8, 2\], expected \[8, 2\]"),
        ({"phi": in_numpy, "psi": lambda self, obs, z: z}, "the model's φ is ndarray, expected a torch tensor"),
        ({"phi": one_more("phi"), "psi": lambda self, obs, z: z}, r"the model's φ has shape \[1, 2\], expected \[2\]"),
        ({"project_z": in_numpy, "sample_z": ones(2)}, r"project_z\(z \[1 d\]\) is ndarray, expected a torch tensor"),
        ({"sample_z": ones(3)}, r"sample_z\(1, 0\) has shape \[1, 3\], expected \[1, 2\]"),
    ],
)
def test_what_a_model_returns_is_named(members: dict[str, Any], says: str) -> None:
    kind = type("Theirs", (Drifter,), {"act": lambda self, obs, z, rng=None: np.zeros(2), **members})

    def step() -> None:
        agent = OnlineTransfer(kind())
        agent.act(np.zeros(4))
        agent.tell(np.zeros(4), 1.0)

    with pytest.raises(ValueError, match=says + ".*run zscout.check_model"):
        step()


class Heads(Compass):
    def psi_heads(self, obs: Any, z: Any) -> Tensor:
        return self.psi(obs, z)[..., None, :]  # [n h d]


def test_scores_heads_and_searches_of_a_wrong_shape_are_named() -> None:
    def best(problem: Any, rng: Any) -> Any:
        return problem.fresh(1, rng)[0].numpy()

    def mean(forecast: Any, *_: Any) -> Tensor:
        scores: Tensor = forecast.psi.mean(-1, keepdim=True)
        return scores

    nothing: Any = lambda *_: np.zeros(3)  # noqa: E731
    pieces: list[tuple[Any, Any, str]] = [
        (Compass(), Method(search=Shooting(3), acquisition=mean), r"output has shape \[3, 1\], expected \[3\]"),
        (Compass(), Method(search=Shooting(3), acquisition=nothing), "output is ndarray"),
        (Compass(), Method(search=best), "the search returned ndarray, expected a torch tensor"),
        (Heads(), "opti", r"psi_heads has shape \[\d+, 1, 2\], expected \[any, \d+, 2\]"),
    ]
    for model, method, says in pieces:
        agent = OnlineTransfer(model, method)
        with pytest.raises(ValueError, match=says):
            agent.ask(np.zeros(2))
        assert agent.t == 0
