"""check_model by rollouts: each wrong convention is named, an error of approximation is measured and not refused."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from toys import Drift, Drifter
from zscout import ExactModel, check_model
from zscout.base.types import Obs, Vectors
from zscout.features import laplacian
from zscout.models.checks.conventions import PsiReport
from zscout.worlds import open_grid
from zscout.worlds.grids.env import GridEnv

STEPS = 4_000


class Present(Drifter):
    """ψ = E Σ_{k≥0} γᵏ φ(S_{t+k})."""

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        return self.phi(obs)[..., None, :] + self.gamma * super().psi(obs, z)


class Scaled(Drifter):
    """ψ = (1 − γ) E Σ_{k≥0} γᵏ φ(S_{t+k+1})."""

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        return (1 - self.gamma) * super().psi(obs, z)


class Both(Drifter):
    """Scaled, and with the present state."""

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        return (1 - self.gamma) * (self.phi(obs)[..., None, :] + self.gamma * super().psi(obs, z))


class Elsewhen(Drifter):
    """ψ at γ = .97; ``gamma`` says what the test wants."""

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        return Drifter(gamma=0.97).psi(obs, z)


class Before(Drifter):
    """φ is of where the point was before the step."""

    def phi(self, obs: Obs) -> Tensor:
        return torch.as_tensor(obs, dtype=torch.float64)[..., 2:]

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        return Drifter(self.gamma).psi(obs, z)


class Rough(Drifter):
    """ψ off by a tenth of its length, in another direction for every state and z."""

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        psi, where = super().psi(obs, z), torch.as_tensor(obs, dtype=torch.float64)[..., None, :2]
        wave = torch.sin(37 * where + 91 * torch.as_tensor(z, dtype=torch.float64).flip(-1))
        rough: Tensor = psi + 0.1 * psi.norm(dim=-1, keepdim=True) * wave
        return rough


class Long(Drifter):
    """ψ a tenth too long: as if γ were a little greater."""

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        return 1.1 * super().psi(obs, z)


FAULTS = {
    "counts the present": (Present(0.9), 0.0, "ψ counts the current state", 0.15),
    "counts the present, noise": (Present(0.9), 0.1, "ψ counts the current state", 0.15),
    "counts the present, far ahead": (Present(0.99), 0.0, "ψ counts the current state", 0.015),
    "scaled": (Scaled(0.9), 0.1, "ψ is scaled by 1 − γ = 0.1", 0.9),
    "scaled and present": (Both(0.9), 0.1, "ψ counts the current state and ψ is scaled by 1 − γ = 0.1", 0.9),
    "gamma too great": (Elsewhen(0.99), 0.1, r"ψ has γ = 0\.97\d*, the model's gamma is 0\.99", 0.52),
    "gamma too small": (Elsewhen(0.9), 0.1, r"ψ has γ = 0\.9(7|69)\d*, the model's gamma is 0\.9", 2.4),
    "phi before": (Before(0.9), 0.1, "φ is of the state before the step, or ψ begins one state late", 0.15),
    "phi before, far ahead": (
        Before(0.99),
        0.0,
        "φ is of the state before the step, or ψ begins one state late",
        0.015,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_convention_is_named_with_the_size_of_the_error(fault: str) -> None:
    model, noise, message, size = FAULTS[fault]
    with pytest.raises(ValueError, match=f"check_model: {message}: relative error") as raised:
        check_model(model, env=Drift(noise), steps=STEPS)
    words = str(raised.value).split("relative error ")[1].split()
    before, after = float(words[0]), float(words[3])
    assert before == pytest.approx(size, rel=0.2)
    assert after < 0.4 * before


def test_noise_does_not_hide_a_present_state_that_is_one_hundredth_of_psi() -> None:
    with pytest.raises(ValueError, match="ψ counts the current state"):
        check_model(Present(0.99), env=Drift(noise=0.1), steps=STEPS)


@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.99])
def test_the_right_model_is_accepted_and_its_error_measured(gamma: float) -> None:
    exact = check_model(Drifter(gamma), env=Drift(noise=0.0), steps=STEPS)
    assert exact is not None
    assert exact.error < 1e-6
    noisy = check_model(Drifter(gamma), env=lambda: Drift(noise=0.1), steps=STEPS)
    assert noisy is not None
    assert noisy.low < 0.01
    assert noisy.high < 0.15


@pytest.mark.parametrize("gamma", [0.9, pytest.param(0.99, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", [Rough, pytest.param(Long, marks=pytest.mark.long)])
def test_ten_per_cent_of_error_is_measured_and_not_refused(kind: type[Drifter], gamma: float) -> None:
    report = check_model(kind(gamma), env=Drift(noise=0.1), steps=20_000)
    assert isinstance(report, PsiReport)
    assert report.low < 0.1 < report.high / (1 - report.bootstrapped)  # that share of it may be hidden
    assert report.error == pytest.approx(0.1, abs=0.035)
    assert f"ψ error {report.error:.2g} of its size" in str(report)


def test_more_error_than_the_tolerance_is_refused() -> None:
    with pytest.raises(ValueError, match=r"differs from \d+ pairs of rollouts .* by 0\.\d+ of its size"):
        check_model(Rough(0.9), env=Drift(noise=0.0), steps=STEPS, tolerance=0.02)


class Secretive(Drifter):
    """It does not tell its γ."""

    def __getattribute__(self, name: str) -> Any:
        if name == "gamma":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        return Drifter(0.95).psi(obs, z)


def test_a_model_that_does_not_tell_its_gamma_gets_the_nearest() -> None:
    class Early(Secretive):
        def psi(self, obs: Obs, z: Vectors) -> Tensor:
            return Present(0.95).psi(obs, z)

    report = check_model(Secretive(), env=Drift(noise=0.0), steps=STEPS)
    assert report is not None
    assert report.gamma == pytest.approx(0.95, abs=0.002)
    with pytest.raises(ValueError, match="ψ counts the current state"):
        check_model(Early(), env=Drift(noise=0.0), steps=STEPS)


# Episodes that end


class Walled(Drifter):
    """φ = (1, 0) in every state entered; an episode terminates with the third step."""

    def phi(self, obs: Obs) -> Tensor:
        return torch.ones_like(super().phi(obs)) * torch.tensor([1.0, 0.0], dtype=torch.float64)

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        left = 3 - torch.as_tensor(obs, dtype=torch.float64)[..., None, :1]
        total = (1 - self.gamma**left) / (1 - self.gamma)
        return total * torch.tensor([1.0, 0.0], dtype=torch.float64).expand(*torch.as_tensor(z).shape)


class Three(Drift):
    """Three steps, counted in the observation."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = np.zeros(2)
        return np.zeros(4), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at = self.at + 1.0
        return np.concatenate([self.at, self.at]), 0.0, bool(self.at[0] == 3), False, {}


def test_features_stop_where_an_episode_terminates() -> None:
    report = check_model(Walled(0.9), env=Three(), steps=STEPS)
    assert report is not None
    assert report.error < 1e-6
    assert report.terminated == 2 * report.pairs
    assert report.bootstrapped == 0


def test_a_truncated_rollout_goes_on_with_the_models_own_psi() -> None:
    cut = gymnasium.wrappers.TimeLimit(Drift(noise=0.0), 60)
    report = check_model(Drifter(0.97), env=cut, steps=STEPS)
    assert report is not None
    assert report.error < 1e-6
    assert 0.16 < report.bootstrapped < 0.3  # .97⁵⁹, and less is left to those that began later
    with pytest.raises(ValueError, match="ψ is scaled by 1 − γ"):
        check_model(Scaled(0.97), env=cut, steps=STEPS)
    with pytest.raises(ValueError, match=r"rollouts of \d+ steps are too short for γ = 0.99: pass more steps, or"):
        check_model(Drifter(0.99), env=cut, steps=STEPS)


# Finite worlds, and what is refused


def test_slips_of_a_grid_are_drawn_anew_in_the_second_rollout() -> None:
    world = open_grid(slip=0.2)
    report = check_model(ExactModel(world, laplacian(world), gamma=0.9), env=GridEnv(world), steps=1_000)
    assert report is not None
    assert report.low == 0
    assert report.high < 0.3


class Restless(Drift):
    """Another start at every reset, whatever the seed."""

    resets = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.resets += 1
        return super().reset(seed=self.resets)


@pytest.mark.parametrize(
    ("env", "steps", "message"),
    [
        (GridEnv(open_grid()), STEPS, r"observation_space is Box.*, the environment's is Discrete\(81\)"),
        ("Drift-v0", STEPS, "env must be a gymnasium.Env, or a function that makes one, got str"),
        (gymnasium.vector.SyncVectorEnv([Drift]), STEPS, "env must be a gymnasium.Env, .*got SyncVectorEnv"),
        (Restless(), STEPS, "gave different observations"),
        (Drift(noise=9.0), 1_000, "1000 steps are too few to decide"),
        (Drift(), 10, "steps must be at least 1000"),
    ],
)
def test_what_cannot_be_measured_is_refused(env: Any, steps: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_model(Drifter(), env=env, steps=steps)


def test_an_environment_made_here_is_closed_and_one_passed_in_is_not() -> None:
    closed = []

    class Closing(Drift):
        def close(self) -> None:
            closed.append(self)

    check_model(Drifter(), env=Closing, steps=1_000)
    assert len(closed) == 1
    check_model(Drifter(), env=Closing(), steps=1_000)
    assert len(closed) == 1
