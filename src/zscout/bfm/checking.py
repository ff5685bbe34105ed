"""A checker for any BehaviorModel: raises at the first fault and names it."""

import copy
from numbers import Integral
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Discrete
from torch import Generator, Tensor

from zscout.bfm.conventions import PsiReport, check_psi
from zscout.bfm.timing import check_timing
from zscout.edge import check_array_space
from zscout.types import (
    BehaviorModel,
    FiniteWorld,
    HasHeads,
    HasHorizons,
    HasSecondMoment,
    HasStates,
    SamplesForEachRun,
)

MEMBERS = ("dim", "observation_space", "action_space", "phi", "psi", "act", "sample_z", "project_z")
CANDIDATES = 5
RUNS = (2, 3)  # batch dimensions of the test inputs
SAME = 1e-4  # relative: a batch and its entries may round differently in float32


def check_model(
    model: object,
    world: FiniteWorld | None = None,
    tolerance: float = 0.25,
    *,
    env: Any = None,  # a gymnasium.Env, or a function that makes one
    steps: int = 20_000,
    seed: int = 0,
) -> PsiReport | None:
    """Raise ValueError with the reason unless ``model`` satisfies the contract of a BehaviorModel.

    Checks members, shapes, dtypes, batch dimensions, Z, determinism, gradients and optional abilities. With a
    ``world``, also checks that ψ is E Σ_{k≥0} γᵏ φ(S_{t+k+1}) of the model's own policy, computed exactly, with a
    relative error of at most ``tolerance`` (a trained network needs it, an exact model does not). γ is the model's
    ``gamma`` if it has one, else the best fit of a few.

    With an ``env``, or a function that makes one, measures the same with at most ``steps`` steps of rollouts and
    returns the report. Known mistakes are named if they explain the rollouts clearly better: ψ counts the current
    state, is scaled by 1 − γ, has another γ, or φ is of the state before the step. Features end when an episode
    terminates; when it is truncated, the model's own ψ bootstraps the rest. An ``env`` that you pass is reset and
    stepped but not closed; one made here is closed.
    """
    demand(not isinstance(model, type), f"{model!r} is a class: pass an instance")
    missing = [name for name in MEMBERS if not hasattr(model, name)]
    demand(not missing, f"{type(model).__name__} lacks {', '.join(missing)}")
    guarded: Any = Guarded(model)
    _check_spaces(guarded)
    _check_z(guarded)
    obs = _some_observations(guarded)
    _check_phi(guarded, obs)
    _check_psi(guarded, obs)
    _check_act(guarded, obs)
    _check_extras(guarded, obs)
    _check_frozen(model)
    if world is not None:
        demand(isinstance(world, FiniteWorld), f"{world!r} is not a FiniteWorld")
        check_timing(guarded, world, tolerance)
    return None if env is None else check_psi(guarded, env, tolerance, steps, seed)


class Guarded:
    """Wraps the model: an error raised by one of its methods becomes a ValueError that names the call."""

    def __init__(self, model: object) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._model, name)
        if not callable(member) or isinstance(member, gymnasium.Space):
            return member

        def call(*arguments: Any) -> Any:
            try:
                return member(*arguments)
            except Exception as error:
                said = f"{type(error).__name__}: {error}".splitlines()[0]
                raise ValueError(
                    f"check_model: {name}({', '.join(map(_described, arguments))}) raised {said}"
                ) from error

        self.__dict__[name] = call  # cached: rollouts call it thousands of times
        return call


def demand(holds: bool | np.bool_, message: str) -> None:
    """Raise ValueError unless ``holds``."""
    if not holds:
        raise ValueError(f"check_model: {message}")


def _check_spaces(model: BehaviorModel) -> None:
    dim = model.dim
    whole = isinstance(dim, Integral) and not isinstance(dim, bool)
    demand(whole and dim >= 1, f"dim must be an int ≥ 1, got {dim!r}")
    for name in ("observation_space", "action_space"):
        space = getattr(model, name)
        demand(isinstance(space, gymnasium.Space), f"{name} must be a gymnasium.Space, got {space!r}")
    check_array_space(model.observation_space, "check_model: this model's")
    if isinstance(model, HasStates):
        states, space = model.states(), model.observation_space
        demand(isinstance(states, Tensor), f"states() is {type(states).__name__}, expected a tensor")
        if isinstance(space, Discrete):
            every = not states.is_floating_point() and sorted(states.tolist()) == list(range(int(space.n)))
            demand(every, f"states() must hold each state of {space} once, got {len(states)} entries")


def _check_z(model: BehaviorModel) -> None:
    z, again, other = (model.sample_z(CANDIDATES, Generator().manual_seed(seed)) for seed in (0, 0, 1))
    _check_tensor("sample_z(5, rng)", z, (CANDIDATES, model.dim))
    demand(torch.equal(z, again), "sample_z gave different z for the same seed: draw only from rng")
    demand(not torch.equal(z, other), "sample_z gave the same z for different seeds: draw from rng")
    demand(_close(model.project_z(z), z), "project_z changes z drawn by sample_z: it must be the identity on Z")
    if isinstance(model, SamplesForEachRun):
        both = model.sample_z_each(CANDIDATES, [Generator().manual_seed(seed) for seed in (0, 1)])
        same = both.shape == (2, *z.shape) and _close(both, torch.stack([z, other]))
        demand(same, "sample_z_each differs from sample_z for the same generators: they must draw the same z")
    batch = torch.cat([z, 7 * z, torch.zeros_like(z[:2])]).reshape(*RUNS, 2, model.dim)
    image = model.project_z(batch)
    _check_tensor("project_z of z [2 3 2 d], including zeros", image, tuple(batch.shape))
    demand(_close(model.project_z(image), image), "project_z applied twice differs from once")


def _check_phi(model: BehaviorModel, obs: Tensor) -> None:
    d = model.dim
    phi = model.phi(obs)
    _check_tensor("phi(obs) of obs [2 3]", phi, (*RUNS, d))
    _check_tensor("phi(obs) of one observation", model.phi(obs[0, 0]), (d,))
    demand(_close(model.phi(obs[1, 2]), phi[1, 2]), "phi of one observation differs from the same in a batch")
    for kind, same in _other_kinds(model, obs):
        demand(_close(model.phi(same), phi[1, 2]), f"phi of a {kind} differs from phi of the tensor")
    demand(torch.equal(model.phi(obs), phi), "phi is not deterministic: two calls with the same observations differ")


def _check_psi(model: BehaviorModel, obs: Tensor) -> None:
    n, d = CANDIDATES, model.dim
    z = model.sample_z(6 * n, Generator().manual_seed(2)).reshape(*RUNS, n, d)
    psi = model.psi(obs, z)
    _check_tensor("psi(obs, z) of obs [2 3], z [2 3 n d]", psi, (*RUNS, n, d))
    demand(
        torch.equal(model.psi(obs, z), psi),
        "psi is not deterministic: two calls with the same input differ; is dropout on?",
    )
    one = model.psi(obs[1, 2], z[1, 2])
    _check_tensor("psi(obs, z) of one observation, z [n d]", one, (n, d))
    demand(_close(one, psi[1, 2]), "psi of one observation differs from the same in a batch")
    shared = model.psi(obs, z[1, 2])
    _check_tensor("psi(obs, z) of obs [2 3] and shared z [n d]", shared, (*RUNS, n, d))
    demand(_close(shared[1, 2], one), "psi with shared candidates [n d] differs from psi with candidates per run")
    flipped = model.psi(obs[1, 2], z[1, 2].flip(0)).flip(0)
    demand(_close(flipped, one), "psi of a candidate depends on the other candidates")
    for kind, same in _other_kinds(model, obs):
        demand(_close(model.psi(same, z[1, 2].cpu().numpy()), one), f"psi of a {kind} differs from psi of the tensor")


def _check_act(model: BehaviorModel, obs: Tensor) -> None:
    z = model.sample_z(6, Generator().manual_seed(3)).reshape(*RUNS, model.dim)
    action = model.act(obs, z, Generator().manual_seed(0))
    demand(
        isinstance(action, Tensor),
        f"act returned {type(action).__name__} for a tensor of observations, expected a tensor",
    )
    actions = torch.as_tensor(action)
    event = model.action_space.shape or ()
    demand(
        tuple(actions.shape) == (*RUNS, *event),
        f"act(obs, z) of obs [2 3] has shape {tuple(actions.shape)}, expected {(*RUNS, *event)}",
    )
    again = torch.as_tensor(model.act(obs, z, Generator().manual_seed(0)))
    demand(torch.equal(actions, again), "act gave different actions for the same rng: draw only from rng")
    for a in actions.reshape(6, *event).cpu().numpy():
        demand(a in model.action_space, f"act chose {a}, which is not in {model.action_space}")
    for kind, same in _other_kinds(model, obs):
        single = model.act(same, z[1, 2], Generator().manual_seed(0))
        demand(
            single in model.action_space, f"act of a {kind} returned {single!r}, which is not in {model.action_space}"
        )


def _check_extras(model: BehaviorModel, obs: Tensor) -> None:
    n, d = CANDIDATES, model.dim
    z = model.sample_z(n, Generator().manual_seed(4))
    if isinstance(model, HasHeads):
        heads = model.psi_heads(obs, z)
        shape = tuple(heads.shape) if isinstance(heads, Tensor) else type(heads).__name__
        demand(isinstance(heads, Tensor) and heads.ndim == 5, f"psi_heads returned {shape}, expected [*b h n d]")
        _check_tensor("psi_heads(obs, z) of obs [2 3]", heads, (*RUNS, heads.shape[2], n, d))
    if isinstance(model, HasHorizons):
        _check_tensor("psi_at(obs, z, .5) of obs [2 3]", model.psi_at(obs, z, 0.5), (*RUNS, n, d))
        gamma = getattr(model, "gamma", None)
        if gamma is not None:
            same = _close(model.psi_at(obs, z, gamma), model.psi(obs, z))
            demand(same, "psi_at at the model's gamma differs from psi")
    if isinstance(model, HasSecondMoment):
        moment = model.second_moment(obs, z, 0.5)
        _check_tensor("second_moment(obs, z, .5) of obs [2 3]", moment, (*RUNS, n, d, d))
        demand(_close(moment.mT, moment), "second_moment is not symmetric")
        lowest = torch.linalg.eigvalsh(moment.double()).min()
        demand(bool(lowest >= -SAME * moment.abs().max()), f"second_moment has a negative eigenvalue, {lowest:.3g}")


def _check_frozen(model: object) -> None:
    if isinstance(model, torch.nn.Module):
        free = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        demand(
            not free,
            f"parameter {free[0] if free else ''} has requires_grad on: freeze the model with requires_grad_(False)",
        )
        demand(not model.training, "the model is in training mode: call eval()")


def _some_observations(model: BehaviorModel) -> Tensor:
    """Six random observations of the model's space, as [2 3 …]."""
    space = copy.deepcopy(model.observation_space)  # sampling advances the space's generator
    space.seed(0)
    return torch.as_tensor(np.stack([space.sample() for _ in range(6)])).reshape(*RUNS, *(space.shape or ()))


def _other_kinds(model: BehaviorModel, obs: Tensor) -> list[tuple[str, Any]]:
    """The last observation in other types: numpy, and int if the space is Discrete."""
    last = obs[1, 2].cpu().numpy()
    kinds: list[tuple[str, Any]] = [("numpy array", last)]
    return [*kinds, ("plain int", int(last))] if isinstance(model.observation_space, Discrete) else kinds


def _check_tensor(what: str, value: object, shape: tuple[int, ...]) -> None:
    demand(isinstance(value, Tensor), f"{what} is {type(value).__name__}, expected a tensor")
    assert isinstance(value, Tensor)
    demand(tuple(value.shape) == shape, f"{what} has shape {tuple(value.shape)}, expected {shape}")
    demand(value.is_floating_point(), f"{what} is {value.dtype}, expected floating point")
    demand(bool(torch.isfinite(value).all()), f"{what} holds NaN or inf")
    demand(not value.requires_grad, f"{what} has requires_grad on: a BFM is frozen, detach it")


def _close(one: Tensor, other: Tensor) -> bool:
    one, other = one.double(), other.double()
    scale = float(other.abs().max()) if other.numel() else 0.0
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=SAME * max(scale, 1e-12))


def _described(value: object) -> str:
    shape: Any = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__} {list(shape)}"
