"""A checker for any BehaviorModel: raises at the first fault and names it."""

import copy
from collections.abc import Mapping
from numbers import Integral
from types import SimpleNamespace
from typing import Any, overload

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import check_array_space, for_each_entry
from zscout.base.types import (
    BehaviorModel,
    FiniteWorld,
    HasHeads,
    HasHorizons,
    HasMomentDiscount,
    HasSecondMoment,
    HasStates,
    HasTransitionFeatures,
    Obs,
    SamplesForEachRun,
)
from zscout.models.checks.conventions import Passed, PsiReport, check_psi
from zscout.models.exact.model import ExactModel

MEMBERS = ("dim", "observation_space", "action_space", "phi", "psi", "act", "sample_z", "project_z")
OPTIONAL = (
    "gamma",
    "states",
    "sample_z_each",
    "psi_heads",
    "psi_at",
    "second_moment",
    "moment_gamma",
    "phi_of_transition",
)
CANDIDATES = 5
RUNS = (2, 3)  # batch dimensions of the test inputs
BATCH_ROUNDING = 1e-4  # relative: a batch and its entries may round differently in float32
SHORT_DISCOUNT = 0.5  # the discount at which psi_at and second_moment are checked, unless the model has only one
GAMMAS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)  # tried if the model has no gamma


@overload
def check_model(
    model: object, world: FiniteWorld | None = None, tolerance: float = 0.25, *, env: None = None
) -> Passed: ...
@overload
def check_model(
    model: object,
    world: FiniteWorld | None = None,
    tolerance: float = 0.25,
    *,
    env: object,
    steps: int = 20_000,
    seed: int = 0,
) -> PsiReport: ...
def check_model(
    model: object,
    world: FiniteWorld | None = None,
    tolerance: float = 0.25,
    *,
    env: Any = None,  # a gymnasium.Env, or a function that makes one
    steps: int = 20_000,
    seed: int = 0,
) -> Passed:
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
    _demand(not isinstance(model, type), f"{model!r} is a class: pass an instance")
    missing = [name for name in MEMBERS if not hasattr(model, name)]
    _demand(not missing, f"{type(model).__name__} lacks {', '.join(missing)}")
    guarded: Any = SimpleNamespace(
        **{name: _guarded(name, getattr(model, name)) for name in MEMBERS + OPTIONAL if hasattr(model, name)}
    )
    _check_spaces(guarded)
    _check_z(guarded)
    obs = _some_observations(guarded)
    _check_phi(guarded, obs)
    _check_psi(guarded, obs)
    _check_act(guarded, obs)
    _check_extras(guarded, obs)
    _check_frozen(model)
    if world is not None:
        _demand(isinstance(world, FiniteWorld), f"{world!r} is not a FiniteWorld")
        _check_in_world(guarded, world, tolerance)
    return Passed() if env is None else check_psi(guarded, env, tolerance, steps, seed)


def _guarded(name: str, member: Any) -> Any:
    """The member of a model; an error that it raises becomes a ValueError that names the call."""
    if not callable(member) or isinstance(member, gymnasium.Space):
        return member

    def described(value: object) -> str:
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{name}: {described(part)}' for name, part in value.items())}}}"
        shape: Any = getattr(value, "shape", None)
        return type(value).__name__ if shape is None else f"{type(value).__name__} {list(shape)}"

    def call(*arguments: Any) -> Any:
        try:
            return member(*arguments)
        except Exception as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ValueError(f"check_model: {name}({', '.join(map(described, arguments))}) raised {said}") from error

    return call


def _demand(holds: bool | np.bool_, message: str) -> None:
    """Raise ValueError unless ``holds``."""
    if not holds:
        raise ValueError(f"check_model: {message}")


def _check_spaces(model: BehaviorModel) -> None:
    dim = model.dim
    whole = isinstance(dim, Integral) and not isinstance(dim, bool)
    _demand(whole and dim >= 1, f"dim must be an int ≥ 1, got {dim!r}")
    for name in ("observation_space", "action_space"):
        space = getattr(model, name)
        _demand(isinstance(space, gymnasium.Space), f"{name} must be a gymnasium.Space, got {space!r}")
    check_array_space(model.observation_space, "check_model: this model's")
    if isinstance(model, HasStates):
        states, space = model.states(), model.observation_space
        _demand(isinstance(states, Tensor), f"states() is {type(states).__name__}, expected a tensor")
        if isinstance(space, Discrete):
            every = not states.is_floating_point() and sorted(states.tolist()) == list(range(int(space.n)))
            _demand(every, f"states() must hold each state of {space} once, got {len(states)} entries")


def _check_z(model: BehaviorModel) -> None:
    z, again, other = (model.sample_z(CANDIDATES, Generator().manual_seed(seed)) for seed in (0, 0, 1))
    _check_tensor("sample_z(5, rng)", z, (CANDIDATES, model.dim))
    _demand(torch.equal(z, again), "sample_z gave different z for the same seed: draw only from rng")
    _demand(not torch.equal(z, other), "sample_z gave the same z for different seeds: draw from rng")
    _demand(_close(model.project_z(z), z), "project_z changes z drawn by sample_z: it must be the identity on Z")
    if isinstance(model, SamplesForEachRun):
        both = model.sample_z_each(CANDIDATES, [Generator().manual_seed(seed) for seed in (0, 1)])
        same = both.shape == (2, *z.shape) and _close(both, torch.stack([z, other]))
        _demand(same, "sample_z_each differs from sample_z for the same generators: they must draw the same z")
    batch = torch.cat([z, 7 * z, torch.zeros_like(z[:2])]).reshape(*RUNS, 2, model.dim)
    image = model.project_z(batch)
    _check_tensor("project_z of z [2 3 2 d], including zeros", image, tuple(batch.shape))
    _demand(_close(model.project_z(image), image), "project_z applied twice differs from once")


def _check_phi(model: BehaviorModel, obs: Obs) -> None:
    d = model.dim
    phi = model.phi(obs)
    _check_tensor("phi(obs) of obs [2 3]", phi, (*RUNS, d))
    _check_tensor("phi(obs) of one observation", model.phi(_one(obs, 0, 0)), (d,))
    _demand(_close(model.phi(_one(obs, 1, 2)), phi[1, 2]), "phi of one observation differs from the same in a batch")
    for kind, same in _other_kinds(model, obs):
        _demand(_close(model.phi(same), phi[1, 2]), f"phi of a {kind} differs from phi of the tensor")
    _demand(torch.equal(model.phi(obs), phi), "phi is not deterministic: two calls with the same observations differ")


def _check_psi(model: BehaviorModel, obs: Obs) -> None:
    n, d = CANDIDATES, model.dim
    z = model.sample_z(6 * n, Generator().manual_seed(2)).reshape(*RUNS, n, d)
    psi = model.psi(obs, z)
    _check_tensor("psi(obs, z) of obs [2 3], z [2 3 n d]", psi, (*RUNS, n, d))
    same = torch.equal(model.psi(obs, z), psi)
    _demand(same, "psi is not deterministic: two calls with the same input differ; is dropout on?")
    one = model.psi(_one(obs, 1, 2), z[1, 2])
    _check_tensor("psi(obs, z) of one observation, z [n d]", one, (n, d))
    _demand(_close(one, psi[1, 2]), "psi of one observation differs from the same in a batch")
    shared = model.psi(obs, z[1, 2])
    _check_tensor("psi(obs, z) of obs [2 3] and shared z [n d]", shared, (*RUNS, n, d))
    _demand(_close(shared[1, 2], one), "psi with shared candidates [n d] differs from psi with candidates per run")
    flipped = model.psi(_one(obs, 1, 2), z[1, 2].flip(0)).flip(0)
    _demand(_close(flipped, one), "psi of a candidate depends on the other candidates")
    for kind, last in _other_kinds(model, obs):
        _demand(_close(model.psi(last, z[1, 2].cpu().numpy()), one), f"psi of a {kind} differs from psi of the tensor")


def _check_act(model: BehaviorModel, obs: Obs) -> None:
    z = model.sample_z(6, Generator().manual_seed(3)).reshape(*RUNS, model.dim)
    action = model.act(obs, z, Generator().manual_seed(0))
    kind_of_action = type(action).__name__
    _demand(
        isinstance(action, Tensor), f"act returned {kind_of_action} for a tensor of observations, expected a tensor"
    )
    actions = torch.as_tensor(action)
    event = model.action_space.shape or ()
    shape, expected = tuple(actions.shape), (*RUNS, *event)
    _demand(shape == expected, f"act(obs, z) of obs [2 3] has shape {shape}, expected {expected}")
    again = torch.as_tensor(model.act(obs, z, Generator().manual_seed(0)))
    _demand(torch.equal(actions, again), "act gave different actions for the same rng: draw only from rng")
    for a in actions.reshape(6, *event).cpu().numpy():
        _demand(a in model.action_space, f"act chose {a}, which is not in {model.action_space}")
    for kind, same in _other_kinds(model, obs):
        one, space = model.act(same, z[1, 2], Generator().manual_seed(0)), model.action_space
        _demand(one in space, f"act of a {kind} returned {one!r}, which is not in {space}")


def _check_extras(model: BehaviorModel, obs: Obs) -> None:
    n, d, short = CANDIDATES, model.dim, _short_discount(model)
    z = model.sample_z(n, Generator().manual_seed(4))
    if isinstance(model, HasTransitionFeatures):
        following = for_each_entry(lambda part: part.flip(0), obs)
        action = model.act(obs, z[0].expand(*RUNS, d), Generator().manual_seed(0))
        phi = model.phi_of_transition(obs, action, following)
        _check_tensor("phi_of_transition(obs, action, next_obs) of obs [2 3]", phi, (*RUNS, d))
        last = model.phi_of_transition(_one(obs, 1, 2), torch.as_tensor(action)[1, 2], _one(following, 1, 2))
        _demand(_close(last, phi[1, 2]), "phi_of_transition of one step differs from the same in a batch")
    if isinstance(model, HasHeads):
        heads = model.psi_heads(obs, z)
        shape = tuple(heads.shape) if isinstance(heads, Tensor) else type(heads).__name__
        _demand(isinstance(heads, Tensor) and heads.ndim == 5, f"psi_heads returned {shape}, expected [*b h n d]")
        _check_tensor("psi_heads(obs, z) of obs [2 3]", heads, (*RUNS, heads.shape[2], n, d))
    if isinstance(model, HasHorizons):
        _check_tensor(f"psi_at(obs, z, {short}) of obs [2 3]", model.psi_at(obs, z, short), (*RUNS, n, d))
        gamma = getattr(model, "gamma", None)
        if gamma is not None:
            same = _close(model.psi_at(obs, z, gamma), model.psi(obs, z))
            _demand(same, "psi_at at the model's gamma differs from psi")
    if isinstance(model, HasSecondMoment):
        moment = model.second_moment(obs, z, short)
        _check_tensor(f"second_moment(obs, z, {short}) of obs [2 3]", moment, (*RUNS, n, d, d))
        _demand(_close(moment.mT, moment), "second_moment is not symmetric")
        lowest = torch.linalg.eigvalsh(moment.double()).min()
        _demand(
            bool(lowest >= -BATCH_ROUNDING * moment.abs().max()),
            f"second_moment has a negative eigenvalue, {lowest:.3g}",
        )


def _check_frozen(model: object) -> None:
    if isinstance(model, torch.nn.Module):
        for name, parameter in model.named_parameters():
            grad = parameter.requires_grad
            _demand(not grad, f"parameter {name} has requires_grad on: freeze the model with requires_grad_(False)")
        _demand(not model.training, "the model is in training mode: call eval()")


def _check_in_world(model: BehaviorModel, world: FiniteWorld, tolerance: float) -> None:
    """Compare ψ, ``psi_at`` and M with the exact ones of the model's own policy."""
    of_states = not isinstance(model, HasTransitionFeatures)
    _demand(of_states, "a world checks features of states, this model has transition features: pass env= instead")
    space = model.observation_space
    same = isinstance(space, Discrete) and space.n == world.n_states
    _demand(same, f"observation_space is {space}, expected {world.n_states} states as in the world")
    states, z = torch.arange(world.n_states), model.sample_z(20, Generator().manual_seed(5))
    phi = model.phi(states).double().cpu()
    truth, policy = ExactModel(world, phi), _policy_table(model, world, z)

    psi = model.psi(states, z).double().cpu().transpose(0, 1)  # [n S d]
    own = getattr(model, "gamma", None)
    tried = {gamma: truth.evaluate(policy, gamma) for gamma in (GAMMAS if own is None else (float(own),))}
    gamma, psi_pi = min(tried.items(), key=lambda item: _error(psi, item[1]))
    error = _error(psi, psi_pi)
    # Σ_{k≥0} γᵏ φ(S_{t+k}) = φ(S_t) + γ Σ_{k≥0} γᵏ φ(S_{t+k+1}): a ψ that counts the current state
    early = _error(psi, phi + gamma * psi_pi) < 0.5 * error
    _demand(not early, "ψ counts the current state, expected E Σ_{k≥0} γᵏ φ(S_{t+k+1}), from the next state on")
    _demand(
        error <= tolerance,
        f"ψ(s;z) differs from the true ψ of the model's own policy by {error:.3g} of its size (tolerance "
        f"{tolerance:.3g}) at γ = {gamma:g}, {'the nearest tried' if own is None else 'its own'}: does it match this "
        "policy, these features and this world, and is it trained enough?",
    )
    extras, short = {}, _short_discount(model)
    if isinstance(model, HasHorizons):
        extras["psi_at"] = model.psi_at(states, z, short), truth
    if isinstance(model, HasSecondMoment):
        outer = ExactModel(world, (phi[:, :, None] * phi[:, None, :]).flatten(1))
        extras["second_moment"] = model.second_moment(states, z, short).flatten(2), outer
    for name, (given, exact) in extras.items():
        error = _error(given.double().cpu().transpose(0, 1), exact.evaluate(policy, short))
        differs = f"{name} at γ = {short} differs from the exact one of the model's policy by {error:.3g} of its size"
        _demand(error <= tolerance, f"{differs} (tolerance {tolerance:.3g})")


def _short_discount(model: BehaviorModel) -> float:
    return model.moment_gamma if isinstance(model, HasMomentDiscount) else SHORT_DISCOUNT


def _policy_table(model: BehaviorModel, world: FiniteWorld, z: Float[Tensor, "n d"]) -> Float[Tensor, "n S A"]:
    """π(a|s,z), from the model's actions in every state; sampled often if they are stochastic."""
    obs = torch.arange(world.n_states).expand(len(z), -1)
    own_z, rng = z[:, None].expand(-1, world.n_states, -1), Generator().manual_seed(6)
    actions = [torch.as_tensor(model.act(obs, own_z, rng)).cpu() for _ in range(2)]
    if not torch.equal(actions[0], actions[1]):
        actions += [torch.as_tensor(model.act(obs, own_z, rng)).cpu() for _ in range(254)]
    return torch.nn.functional.one_hot(torch.stack(actions), world.n_actions).double().mean(0)


def _error(given: Tensor, truth: Tensor) -> float:
    """Mean ‖given − truth‖ ÷ mean ‖truth‖."""
    return float((given - truth).norm(dim=-1).mean() / truth.norm(dim=-1).mean().clamp(min=1e-300))


def _some_observations(model: BehaviorModel) -> Any:
    """Six random observations of the model's space, as [2 3 …]; for a Dict space, a dict of them."""
    space = copy.deepcopy(model.observation_space)  # sampling advances the space's generator
    space.seed(0)
    samples = [space.sample() for _ in range(6)]
    return for_each_entry(lambda *parts: torch.as_tensor(np.stack(parts)).unflatten(0, RUNS), *samples)


def _one(obs: Any, i: int, j: int) -> Any:
    """The observation of one of the runs [2 3]."""
    return for_each_entry(lambda part: part[i, j], obs)


def _other_kinds(model: BehaviorModel, obs: Any) -> list[tuple[str, Any]]:
    """The last observation in other types: numpy, and int if the space is Discrete."""
    last = for_each_entry(lambda part: part.cpu().numpy(), _one(obs, 1, 2))
    kinds: list[tuple[str, Any]] = [("dict of numpy arrays" if isinstance(last, dict) else "numpy array", last)]
    return [*kinds, ("plain int", int(last))] if isinstance(model.observation_space, Discrete) else kinds


def _check_tensor(what: str, value: object, shape: tuple[int, ...]) -> None:
    _demand(isinstance(value, Tensor), f"{what} is {type(value).__name__}, expected a tensor")
    assert isinstance(value, Tensor)
    _demand(tuple(value.shape) == shape, f"{what} has shape {tuple(value.shape)}, expected {shape}")
    _demand(value.is_floating_point(), f"{what} is {value.dtype}, expected floating point")
    _demand(bool(torch.isfinite(value).all()), f"{what} holds NaN or inf")
    _demand(not value.requires_grad, f"{what} has requires_grad on: a BFM is frozen, detach it")


def _close(one: Tensor, other: Tensor) -> bool:
    one, other = one.double(), other.double()
    scale = float(other.abs().max()) if other.numel() else 0.0
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=BATCH_ROUNDING * max(scale, 1e-12))
