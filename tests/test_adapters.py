"""Public models: φ, each head of ψ and the action equal a second computation; other folders are refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

import zscout
from projects import PROJECTS, SIZES, A, D, K, Project, agent, bfm_zero, metamotivo
from zscout import adapters
from zscout.adapters import adapter as adapter_module
from zscout.base.edge import for_each_entry

NEAR = 2e-6  # float32 against float64, for outputs of size 1


def differences(model: Any, made: Project) -> dict[str, float]:
    """The largest difference from the project's own computation, relative to the largest output if that is above 1."""
    z = model.sample_z(7, 3)
    action = made.action(made.obs, z)
    pairs = {
        "φ": (model._features(made.obs), made.features(made.obs)),
        "ψ": (model.psi_heads(made.obs, z[:, None])[:, :, 0], made.successors(made.obs, z, action).movedim(0, 1)),
        "act": (model.act(made.obs, z), action),
    }
    for name, (ours, theirs) in pairs.items():
        assert ours.shape == theirs.shape, name
        assert float(theirs.std(0).mean()) > 0.02, f"{name} hardly varies"
    return {name: float((a - b).abs().max() / max(1, b.abs().max())) for name, (a, b) in pairs.items()}


@pytest.mark.parametrize("name", PROJECTS)
def test_a_built_model_computes_what_its_networks_say(name: str) -> None:
    made = PROJECTS[name]()
    model = made.model(gamma=0.9)
    apart = differences(model, made)
    assert max(apart.values()) < NEAR, apart
    assert model.gamma == 0.9
    zscout.check_model(model)


def test_gamma_is_read_from_the_training_settings_of_an_agent() -> None:
    made = metamotivo()
    trained = SimpleNamespace(_model=made.built, cfg=SimpleNamespace(train=SimpleNamespace(discount=0.97)))
    assert adapters.metamotivo(trained).gamma == 0.97
    assert adapters.metamotivo(trained, gamma=0.5).gamma == 0.5
    with pytest.raises(ValueError, match="has no gamma"):
        zscout.calibrated(made.model(), made.obs)


def test_features_of_a_transition() -> None:
    for kind in ("diff", "concat"):
        made = agent("hilp", kind)
        model = made.model(gamma=0.9)
        obs, after = made.obs, made.obs.flip(0)
        f, g = made.features(obs), made.features(after)
        expected = g - f if kind == "diff" else torch.cat([f, g], -1)
        assert torch.allclose(model.phi_of_transition(obs, None, after).double(), expected, atol=NEAR)
        assert zscout.calibrated(model, (obs.repeat(9, 1), None, torch.randn(63, K))).dim <= D
    assert not hasattr(agent("hilp").model(), "phi_of_transition")


def test_phi_of_a_forward_backward_model_is_the_one_whose_psi_is_F() -> None:
    """The least-squares F of a Markov chain is exactly the ψ of C⁻¹B, and not that of B."""
    rng = torch.Generator().manual_seed(0)
    S, d, gamma = 12, 4, 0.9
    P = torch.rand(S, S, generator=rng).double().pow(4)
    P /= P.sum(1, keepdim=True)
    M = P @ torch.linalg.inv(torch.eye(S) - gamma * P)  # Σ γᵏ Pᵏ⁺¹
    B = torch.randn(S, d, generator=rng).double() * torch.tensor([1.0, 2.0, 0.5, 1.5])
    F = torch.linalg.lstsq(B, (M * S).mT).solution.mT  # min E (F·B − M/ρ)², ρ uniform
    cfg = SimpleNamespace(archi=SimpleNamespace(z_dim=d, norm_z=True), obs_dim=S, action_dim=1)
    model = SimpleNamespace(
        cfg=cfg,
        backward_map=lambda obs: obs @ B.float(),
        forward_map=lambda obs, z, action: (obs @ F.float())[None],
        act=lambda obs, z, mean: torch.zeros(len(obs), 1),
    )
    states = torch.eye(S)
    fitted, plain = adapters.metamotivo(model, states, gamma=gamma), adapters.metamotivo(model, gamma=gamma)
    psi = fitted.psi(states, fitted.sample_z(1, 0))[:, 0].double()
    assert torch.allclose(M @ fitted.phi(states).double(), psi, atol=1e-4)
    assert float((M @ plain.phi(states).double() - psi).norm() / psi.norm()) > 0.3
    calibrated = zscout.calibrated(plain, states)  # fits it, too
    phi, psi = calibrated.phi(states), calibrated.psi(states, calibrated.sample_z(1, 0))[:, 0]
    assert torch.allclose(phi.mT @ phi / S, torch.eye(d).double(), atol=1e-4)
    assert torch.allclose(M @ phi, psi, atol=1e-3)
    assert fitted.fitted(states[:5]) is fitted
    with pytest.raises(ValueError, match="needs at least 4 observations"):
        plain.fitted(states[:3])


def test_privileged_entries_are_named_when_they_are_missing() -> None:
    made = bfm_zero()
    model = made.model()
    robot = {name: part for name, part in made.obs.items() if name != "privileged_state"}
    z = model.sample_z(7, 0)
    assert torch.equal(model.act(robot, z), model.act(made.obs, z))
    said = "needs 'privileged_state', the observation has 'state', .*is an input of φ and ψ: take it from the simulator"
    with pytest.raises(ValueError, match=f"φ {said}"):
        model.phi(robot)
    with pytest.raises(ValueError, match=f"ψ {said}"):
        model.psi(robot, z)
    with pytest.raises(ValueError, match="act needs 'last_action'"):
        model.act({"state": robot["state"]}, z)
    with pytest.raises(ValueError, match=r"batch dimensions \[\(\), \(7,\)\]"):
        model.act({**robot, "state": robot["state"][0]}, z)


def test_many_rows_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bfm-zero", "hilp-diff"):
        made = PROJECTS[name]()
        model = made.model()
        z = model.sample_z(5, 0)
        whole = model.psi(made.obs, z), model.act(made.obs, z[0])
        monkeypatch.setattr(adapter_module, "PART", 3)
        for one, other in zip(whole, (model.psi(made.obs, z), model.act(made.obs, z[0])), strict=True):
            assert torch.allclose(one, other, atol=1e-6)
        monkeypatch.undo()


class Point(gymnasium.Env[Any, Any]):
    """Five numbers that drift with the action; Dict observations of BFM-Zero if ``split``."""

    def __init__(self, split: bool = False) -> None:
        self.split, self.action_space = split, Box(-1.0, 1.0, (A,), np.float32)
        one = Box(-np.inf, np.inf, (K,), np.float64)
        parts = Dict({name: Box(-np.inf, np.inf, (k,), np.float64) for name, k in SIZES.items()})
        self.observation_space: Any = parts if split else one

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=K)
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self.state = 0.9 * self.state + np.concatenate([action, action[:2]]) * 0.3
        return self._obs(), float(self.state[0]), False, False, {}

    def _obs(self) -> Any:
        return {name: np.resize(self.state, k) for name, k in SIZES.items()} if self.split else self.state


@pytest.mark.parametrize("name", ["metamotivo", "hilp-diff", "bfm-zero"])
def test_agents_transfer_with_them(name: str) -> None:
    made = PROJECTS[name]()
    model = made.model(gamma=0.95)
    rng = torch.Generator().manual_seed(5)
    sample: Any = for_each_entry(lambda part: torch.randn(200, part.shape[-1], generator=rng), made.obs)
    if name == "hilp-diff":
        sample = (sample, None, sample.flip(0))
    agents = [zscout.OnlineTransfer(zscout.calibrated(model, sample), seed=0) for _ in range(2)]
    runs = [list(zscout.rollout(one, Point(name == "bfm-zero"), steps=12, seed=0)) for one in agents]
    assert [step.reward for step in runs[0]] == [step.reward for step in runs[1]]
    assert agents[0].t == 12
    assert torch.isfinite(agents[0].best_z).all()
    if name == "metamotivo":
        several = zscout.OnlineTransfer(model, runs=3, seed=0)
        several.tell(torch.randn(3, K), several.ask(torch.randn(3, K))[:, 0])
        assert several.t == 1


# Refusals


@pytest.mark.parametrize("files", [["latest.pt"], ["config.json", "model.safetensors"], ["config.json", "model"]])
def test_load_says_what_to_do_with_the_folder_of_another_project(files: list[str], tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).write_text('{"obs_dim": 5, "archi": {"z_dim": 6}}')
    with pytest.raises(ValueError, match="passed to zscout.adapters, as docs/adapters.md shows$") as caught:
        zscout.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_models_that_do_not_fit() -> None:
    for call, message in (
        (adapters.metamotivo, "metamotivo expects a model with backward_map, .*; int has no backward_map"),
        (adapters.td_jepa, "td_jepa expects a model with psi, phi_predictor"),
        (adapters.bfm_zero, "bfm_zero expects a model with cfg"),
        (adapters.hilp, "hilp expects a model with feature_learner"),
        (adapters.controllable_agent, "controllable_agent expects a model with backward_net"),
    ):
        with pytest.raises(ValueError, match=message):
            call(3)
    made = agent("controllable-agent", goal_space="simplified_walker")
    with pytest.raises(ValueError, match="see goal_space 'simplified_walker'.*pass goals="):
        made.model()
    model = made.model(goals=lambda obs: obs.flip(-1))
    assert torch.allclose(model.phi(made.obs).double(), made.features(made.obs.flip(-1)), atol=NEAR)
    with pytest.raises(ValueError, match="norm_z is False"):
        agent("controllable-agent", norm_z=False).model()
    with pytest.raises(ValueError, match="feature_type is 'value'"):
        agent("hilp", "value").model()
