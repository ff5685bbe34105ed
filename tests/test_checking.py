"""check_model finds each fault: one broken model for each thing that it says it checks."""

from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
import torch

from zscout import ExactModel, check_model
from zscout.features import laplacian
from zscout.worlds import open_grid

EXACT: Any = ExactModel(open_grid(), laplacian(open_grid()))
EXTRAS = ("psi_heads", "psi_at", "second_moment", "states", "gamma")


class Broken:
    """The exact model with some members replaced."""

    def __init__(self, keep: tuple[str, ...] = (), **replaced: Any) -> None:
        self._replaced, self._keep = replaced, keep

    def __getattr__(self, name: str) -> Any:
        if name in self._replaced:
            if self._replaced[name] is None:
                raise AttributeError(name)
            return self._replaced[name]
        if name in EXTRAS and name not in self._keep:
            raise AttributeError(name)
        return getattr(EXACT, name)


counter = iter(range(10**6))
FAULTS: dict[str, tuple[Broken, str]] = {
    "missing member": (Broken(phi=None, act=None), "lacks phi, act"),
    "dim": (Broken(dim=9.0), "dim must be an int ≥ 1, got 9.0"),
    "a class": (ExactModel, "is a class: pass an instance"),  # type: ignore[dict-item]
    "space": (Broken(action_space=4), "action_space must be a gymnasium.Space"),
    "states": (Broken(states=lambda: torch.arange(80)), "must hold each state of Discrete\\(81\\) once, got 80"),
    "z shape": (Broken(sample_z=lambda n, rng: EXACT.sample_z(n, rng)[0]), "sample_z\\(5, rng\\) has shape"),
    "z ignores rng": (Broken(sample_z=lambda n, rng: EXACT.sample_z(n, 0)), "same z for different seeds"),
    "z global": (Broken(sample_z=lambda n, rng: EXACT.sample_z(n, next(counter))), "different z for the same seed"),
    "z each": (
        Broken(sample_z_each=lambda n, rngs: EXACT.sample_z_each(n, rngs[::-1])),
        "sample_z_each differs from sample_z",
    ),
    "z off Z": (Broken(sample_z=lambda n, rng: 2 * EXACT.sample_z(n, rng)), "identity on Z"),
    "zero z": (Broken(project_z=lambda z: z * 3 / z.norm(dim=-1, keepdim=True)), "including zeros holds NaN"),
    "phi flat": (
        Broken(phi=lambda o: EXACT.phi(o).reshape(-1, 9)),
        "phi\\(obs\\) of obs \\[2 3\\] has shape \\(6, 9\\)",
    ),
    "phi int": (Broken(phi=lambda o: EXACT.phi(o).long()), "expected floating point"),
    "phi NaN": (Broken(phi=lambda o: EXACT.phi(o) * float("nan")), "phi.* holds NaN"),
    "phi random": (Broken(phi=lambda o: EXACT.phi(o) + 1e-6 * next(counter)), "phi is not deterministic"),
    "phi numpy": (Broken(phi=lambda o: EXACT.phi(o) * (2 - isinstance(o, torch.Tensor))), "phi of a numpy array"),
    "phi raises": (Broken(phi=lambda o: EXACT.phi(int(o))), "phi\\(Tensor \\[2, 3\\]\\) raised"),
    "psi no numpy": (
        Broken(psi=lambda o, z: EXACT.psi(o.long(), z)),
        "psi\\(ndarray \\[\\], ndarray \\[5, 9\\]\\) raised Attr",
    ),
    "act without rng": (Broken(act=lambda o, z: EXACT.act(o, z)), "act\\(.*\\) raised TypeError"),
    "phi batch": (
        Broken(phi=lambda o: EXACT.phi(o) - (EXACT.phi(o).mean((0, 1)) if torch.as_tensor(o).ndim == 2 else 0)),
        "phi of one observation differs",
    ),
    "psi grad": (Broken(psi=lambda o, z: EXACT.psi(o, z).requires_grad_()), "psi.* has requires_grad on"),
    "psi random": (Broken(psi=lambda o, z: EXACT.psi(o, z) + next(counter)), "is dropout on"),
    "psi unshared": (
        Broken(psi=lambda o, z: EXACT.psi(o, z) if z.ndim == torch.as_tensor(o).ndim + 2 else EXACT.psi(o, z)[0]),
        "shared z \\[n d\\] has shape",
    ),
    "psi mixes": (Broken(psi=lambda o, z: EXACT.psi(o, z).cumsum(-2)), "depends on the other candidates"),
    "act shape": (Broken(act=lambda o, z, rng=None: EXACT.act(o, z).flatten()), "act\\(obs, z\\) of obs \\[2 3\\]"),
    "act outside": (Broken(act=lambda o, z, rng=None: EXACT.act(o, z) + 4), "not in Discrete\\(4\\)"),
    "act list": (Broken(act=lambda o, z, rng=None: EXACT.act(o, z).tolist()), "expected a tensor"),
    "act random": (
        Broken(act=lambda o, z, rng=None: (EXACT.act(o, z) + next(counter)) % 4),
        "act gave different actions",
    ),
    "heads": (Broken(psi_heads=EXACT.psi), "psi_heads returned \\(2, 3, 5, 9\\)"),
    "horizon": (
        Broken(("gamma",), psi_at=lambda o, z, g: EXACT.psi_at(o, z, g / 2)),
        "the model's gamma differs from psi",
    ),
    "moment": (Broken(second_moment=lambda o, z, g: EXACT.second_moment(o, z, g).triu()), "not symmetric"),
    "negative": (Broken(second_moment=lambda o, z, g: -EXACT.second_moment(o, z, g)), "negative eigenvalue"),
    "counts the present": (
        Broken(psi=lambda o, z: EXACT.phi(o).unsqueeze(-2) + EXACT.gamma * EXACT.psi(o, z)),
        "ψ counts the current state",
    ),
    "another policy's psi": (
        Broken(("gamma",), act=lambda o, z, rng=None: EXACT.act(o, -torch.as_tensor(z))),
        "differs from the true ψ.*γ = 0.99, its own",
    ),
    "no policy's psi": (
        Broken(act=lambda o, z, rng=None: EXACT.act(o, 0 * torch.as_tensor(z))),
        "γ = .*, the nearest tried",
    ),
    "another gamma": (Broken(gamma=0.9), "γ = 0.9, its own"),
    "tripled psi": (Broken(psi=lambda o, z: 3 * EXACT.psi(o, z)), "differs from the true ψ"),
    "constant psi": (Broken(("gamma",), psi=lambda o, z: 0 * EXACT.psi(o, z) + 50), "differs from the true ψ"),
    "shifted psi": (Broken(("gamma",), psi=lambda o, z: EXACT.psi(o, z) + 100), "differs from the true ψ"),
    "turned psi": (Broken(psi=lambda o, z: EXACT.psi(o, z).roll(1, -1)), "differs from the true ψ"),
    "horizon elsewhere": (Broken(psi_at=lambda o, z, g: EXACT.psi_at(o, z, 0.99)), "psi_at at γ = 0.5 differs"),
    "tripled moment": (Broken(second_moment=lambda o, z, g: 3 * EXACT.second_moment(o, z, g)), "second_moment at γ"),
    "another world": (Broken(observation_space=gymnasium.spaces.Discrete(50)), "expected 81 states"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_and_named(fault: str) -> None:
    model, message = FAULTS[fault]
    with pytest.raises(ValueError, match=f"check_model: .*{message}"):
        check_model(model, open_grid())


@pytest.mark.parametrize("keep", [(), EXTRAS], ids=["bare", "with extras"])
def test_a_model_without_fault_passes(keep: tuple[str, ...]) -> None:
    check_model(Broken(keep), open_grid(), tolerance=1e-9)
    assert str(check_model(Broken(keep))) == "all checks passed"
    check_model(Broken(keep, sample_z=lambda n, rng: EXACT.sample_z(n, rng).float()))  # mixed precision is no fault


class Softmax(Broken):
    """A policy that draws: with probability ½ what the exact one does, else any action."""

    def act(self, obs: Any, z: Any, rng: torch.Generator | None = None) -> Any:
        chosen = torch.as_tensor(EXACT.act(obs, z))
        drawn = torch.randint(4, chosen.shape, generator=rng)
        mixed = torch.where(torch.rand(chosen.shape, generator=rng) < 0.5, chosen, drawn)
        return mixed if isinstance(obs, torch.Tensor) else mixed.numpy()

    def psi(self, obs: Any, z: torch.Tensor) -> torch.Tensor:
        greedy = torch.nn.functional.one_hot(EXACT.policy(z), 4).double()
        psi = EXACT.evaluate(0.5 * greedy + 0.125)  # [*b n S d]
        state = torch.as_tensor(obs)
        if z.ndim > 2:
            psi = psi.gather(-2, state[..., None, None, None].expand(*z.shape[:-1], 1, 9))[..., 0, :]
        else:
            psi = psi[:, state].movedim(0, -2)
        return torch.as_tensor(psi)


def test_a_policy_that_draws_its_actions_is_averaged() -> None:
    check_model(Softmax(("gamma",)), open_grid())


class Network(torch.nn.Module):
    """The exact model as a module with a parameter of its own."""

    def __init__(self, frozen: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1), requires_grad=not frozen)
        for name in ("phi", "psi", "act", "sample_z", "project_z", "dim", "observation_space", "action_space"):
            setattr(self, name, getattr(EXACT, name))


def test_a_network_must_be_frozen_and_in_evaluation_mode() -> None:
    with pytest.raises(ValueError, match="parameter weight has requires_grad on"):
        check_model(Network(frozen=False).eval())
    with pytest.raises(ValueError, match="training mode"):
        check_model(Network(frozen=True).train())
    check_model(Network(frozen=True).eval())


def test_checking_leaves_the_models_spaces_as_they_were() -> None:
    def draws(before: Callable[[], object]) -> list[int]:
        EXACT.observation_space.seed(7)
        before()
        return [int(EXACT.observation_space.sample()) for _ in range(5)]

    assert draws(lambda: check_model(EXACT)) == draws(lambda: None)
