"""A checker for anyone's BehaviorModel: it raises at the first fault and says what is wrong."""

import copy

import gymnasium
import numpy as np
import torch
from torch import Generator, Tensor

from zscout.types import (
    BehaviorModel,
    FiniteWorld,
    HasHeads,
    HasHorizons,
    HasSecondMoment,
    HasStates,
)

MEMBERS = ("dim", "observation_space", "action_space", "phi", "psi", "act", "sample_z", "project_z")
CANDIDATES = 5
RUNS = (2, 3)  # the batch dimensions that every method is tried with
SAME = 1e-4  # relative: a batch and its entries may round differently in float32


def check_model(model: object, world: FiniteWorld | None = None, tolerance: float = 0.05) -> None:
    """Raise ValueError, and say why, unless ``model`` keeps the contract of a BehaviorModel.

    Checked: members, shapes, dtypes, batch dimensions, Z, determinism, gradients, and what the model offers beyond
    the contract. With a ``world`` also the timing, ψ(s;z) = E[φ(S') + γψ(S';z)]: its residual may be
    ``tolerance`` times the size of ψ, which a trained network needs and an exact model does not.
    """
    _check_members(model)
    assert isinstance(model, BehaviorModel)
    _check_spaces(model)
    _check_z(model)
    obs = _some_observations(model)
    _check_phi(model, obs)
    _check_psi(model, obs)
    _check_act(model, obs)
    _check_extras(model, obs)
    _check_frozen(model)
    if world is not None:
        _check_timing(model, world, tolerance)


def _demand(holds: bool | np.bool_, message: str) -> None:
    if not holds:
        raise ValueError(f"check_model: {message}")


def _check_members(model: object) -> None:
    missing = [name for name in MEMBERS if not hasattr(model, name)]
    _demand(not missing, f"{type(model).__name__} lacks {', '.join(missing)}")


def _check_spaces(model: BehaviorModel) -> None:
    dim = model.dim
    _demand(type(dim) is int and dim >= 1, f"dim must be a whole number of at least 1, it is {dim!r}")
    for name in ("observation_space", "action_space"):
        space = getattr(model, name)
        _demand(isinstance(space, gymnasium.Space), f"{name} must be a gymnasium.Space, it is {space!r}")
    if isinstance(model, HasStates):
        states = model.states()
        space = model.observation_space
        _demand(len(states) > 0, "states() is empty")
        _demand(
            not isinstance(space, gymnasium.spaces.Discrete) or len(states) == space.n,
            f"states() has {len(states)} entries, observation_space is {space}",
        )


def _check_z(model: BehaviorModel) -> None:
    z, again, other = (model.sample_z(CANDIDATES, Generator().manual_seed(seed)) for seed in (0, 0, 1))
    _check_tensor("sample_z(5, rng)", z, (CANDIDATES, model.dim))
    _demand(torch.equal(z, again), "sample_z gave different z for the same seed: draw from rng alone")
    _demand(not torch.equal(z, other), "sample_z gave the same z for different seeds: draw from rng")
    _demand(_close(model.project_z(z), z), "project_z moves what sample_z drew: it must be the identity on Z")
    batch = torch.cat([z, 7 * z, torch.zeros_like(z[:2])]).reshape(*RUNS, 2, model.dim)
    image = model.project_z(batch)
    _check_tensor("project_z of z [2 3 2 d], zeros among them", image, tuple(batch.shape))
    _demand(_close(model.project_z(image), image), "project_z applied twice differs from once")


def _check_phi(model: BehaviorModel, obs: Tensor) -> None:
    d = model.dim
    phi = model.phi(obs)
    _check_tensor("phi(obs) of obs [2 3]", phi, (*RUNS, d))
    _check_tensor("phi(obs) of one observation", model.phi(obs[0, 0]), (d,))
    _demand(_close(model.phi(obs[1, 2]), phi[1, 2]), "phi of one observation differs from the same in a batch")
    _demand(_close(model.phi(obs.cpu().numpy()), phi), "phi of a numpy array differs from phi of the tensor")
    _demand(torch.equal(model.phi(obs), phi), "phi gave two answers for the same observations")


def _check_psi(model: BehaviorModel, obs: Tensor) -> None:
    n, d = CANDIDATES, model.dim
    z = model.sample_z(6 * n, Generator().manual_seed(2)).reshape(*RUNS, n, d)
    psi = model.psi(obs, z)
    _check_tensor("psi(obs, z) of obs [2 3], z [2 3 n d]", psi, (*RUNS, n, d))
    _demand(torch.equal(model.psi(obs, z), psi), "psi gave two answers for the same question: is dropout on?")
    one = model.psi(obs[1, 2], z[1, 2])
    _check_tensor("psi(obs, z) of one observation, z [n d]", one, (n, d))
    _demand(_close(one, psi[1, 2]), "psi of one observation differs from the same in a batch")
    shared = model.psi(obs, z[1, 2])
    _check_tensor("psi(obs, z) of obs [2 3] and shared z [n d]", shared, (*RUNS, n, d))
    _demand(_close(shared[1, 2], one), "psi with shared candidates [n d] differs from psi with its own")
    flipped = model.psi(obs[1, 2], z[1, 2].flip(0)).flip(0)
    _demand(_close(flipped, one), "psi of a candidate depends on the candidates beside it")


def _check_act(model: BehaviorModel, obs: Tensor) -> None:
    z = model.sample_z(6, Generator().manual_seed(3)).reshape(*RUNS, model.dim)
    action = model.act(obs, z, Generator().manual_seed(0))
    _demand(
        isinstance(action, Tensor),
        f"act gave {type(action).__name__} for a tensor of observations, not a tensor",
    )
    actions = torch.as_tensor(action)
    event = model.action_space.shape or ()
    _demand(
        tuple(actions.shape) == (*RUNS, *event),
        f"act(obs, z) of obs [2 3] has shape {tuple(actions.shape)}, it should be {(*RUNS, *event)}",
    )
    again = torch.as_tensor(model.act(obs, z, Generator().manual_seed(0)))
    _demand(torch.equal(actions, again), "act gave two answers for the same rng: draw from rng alone")
    for a in actions.reshape(6, *event).cpu().numpy():
        _demand(a in model.action_space, f"act chose {a}, which is not in {model.action_space}")
    single = model.act(obs[0, 0].cpu().numpy(), z[0, 0])
    _demand(
        single in model.action_space,
        f"act for one numpy observation gave {single!r}, not in {model.action_space}",
    )


def _check_extras(model: BehaviorModel, obs: Tensor) -> None:
    n, d = CANDIDATES, model.dim
    z = model.sample_z(n, Generator().manual_seed(4))
    if isinstance(model, HasHeads):
        heads = model.psi_heads(obs, z)
        _demand(heads.ndim == 5, f"psi_heads has shape {tuple(heads.shape)}, it should be [*b h n d]")
        _check_tensor("psi_heads(obs, z) of obs [2 3]", heads, (*RUNS, heads.shape[2], n, d))
    if isinstance(model, HasHorizons):
        _check_tensor("psi_at(obs, z, .5) of obs [2 3]", model.psi_at(obs, z, 0.5), (*RUNS, n, d))
        gamma = getattr(model, "gamma", None)
        if gamma is not None:
            same = _close(model.psi_at(obs, z, gamma), model.psi(obs, z))
            _demand(same, "psi_at at the model's own gamma differs from psi")
    if isinstance(model, HasSecondMoment):
        moment = model.second_moment(obs, z, 0.5)
        _check_tensor("second_moment(obs, z, .5) of obs [2 3]", moment, (*RUNS, n, d, d))
        _demand(_close(moment.mT, moment), "second_moment is not symmetric")
        lowest = torch.linalg.eigvalsh(moment.double()).min()
        _demand(
            bool(lowest >= -SAME * moment.abs().max()),
            f"second_moment has a negative eigenvalue, {lowest:.3g}",
        )


def _check_frozen(model: BehaviorModel) -> None:
    if isinstance(model, torch.nn.Module):
        free = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        _demand(not free, f"parameter {free[0] if free else ''} has requires_grad on: a BFM is frozen")
        _demand(not model.training, "the model is in training mode: call eval()")


def _check_timing(model: BehaviorModel, world: FiniteWorld, tolerance: float) -> None:
    """ψ(s;z) = E[φ(S') + γψ(S';z)], not φ(s) + γ E ψ(S';z)."""
    space = model.observation_space
    _demand(
        isinstance(space, gymnasium.spaces.Discrete) and space.n == world.n_states,
        f"observation_space is {space}, the world has {world.n_states} states",
    )
    n = 4 * CANDIDATES
    z = model.sample_z(n, Generator().manual_seed(5))
    states = torch.arange(world.n_states)
    # One policy draw for each state and z; 64 of them average a policy that draws its actions.
    rng = Generator().manual_seed(6)
    draws = torch.stack([_policy_table(model, states, z, rng) for _ in range(2)])
    if not torch.equal(draws[0], draws[1]):
        draws = torch.stack([_policy_table(model, states, z, rng) for _ in range(64)])
    successors = world.successors[states[:, None], draws]  # [draws S n K]
    probabilities = world.probabilities[states[:, None], draws] / len(draws)
    phi, psi = model.phi(states).double().cpu(), model.psi(states, z).double().cpu()
    next_phi = torch.einsum("rsnk,rsnkd->snd", probabilities, phi[successors])
    candidate = torch.arange(n)[None, None, :, None]
    next_psi = torch.einsum("rsnk,rsnkd->snd", probabilities, psi[successors, candidate])

    known = getattr(model, "gamma", None)
    ours, gamma = _bellman_residual(psi, next_phi, next_psi, known)
    other, _ = _bellman_residual(psi, phi[:, None].expand_as(psi), next_psi, known)
    # Where a network's error hides both, fit ψ(s) = α E φ(S') + (1−α) φ(s) + γ E ψ(S'): α = 1 is our timing.
    columns = torch.stack([(next_phi - phi[:, None]).flatten(), next_psi.flatten()], dim=1)
    alpha = float(torch.linalg.lstsq(columns, (psi - phi[:, None]).flatten()).solution[0])
    can_tell = bool(columns[:, 0].norm() > SAME * phi.norm())  # not where no policy moves
    _demand(
        not (other < ours / 2 or (ours <= tolerance and alpha < 0.25 and can_tell)),
        "ψ counts the present state: it should be E Σ_{k≥0} γᵏ φ(S_{t+k+1}), from the state entered next "
        f"(fitted share of that {alpha:.2f}, it should be 1)",
    )
    _demand(
        ours <= tolerance and (alpha > 0.5 or not can_tell),
        f"ψ(s;z) differs from E[φ(S') + γψ(S';z)] at γ = {gamma:.4g} by {ours:.2%} of ψ (tolerance {tolerance:.2%}) "
        f"and holds {alpha:.2f} of φ(S') (it should be 1): is ψ of this policy, of these features, of this world?",
    )


def _bellman_residual(psi: Tensor, entered: Tensor, next_psi: Tensor, gamma: float | None) -> tuple[float, float]:
    """Mean ‖ψ − entered − γψ'‖ ÷ mean ‖ψ‖, and γ: the model's own, or what fits best."""
    rest = psi - entered
    gamma = float((rest * next_psi).sum() / next_psi.square().sum().clamp(min=1e-300)) if gamma is None else gamma
    residual = (rest - gamma * next_psi).norm(dim=-1).mean() / psi.norm(dim=-1).mean().clamp(min=1e-300)
    return float(residual), gamma


def _policy_table(model: BehaviorModel, states: Tensor, z: Tensor, rng: Generator) -> Tensor:
    return torch.as_tensor(model.act(states[:, None], z, rng)).cpu()


def _some_observations(model: BehaviorModel) -> Tensor:
    """Six observations of the model's own space, as [2 3 …]."""
    space = copy.deepcopy(model.observation_space)  # sampling moves a space's own generator
    space.seed(0)
    return torch.as_tensor(np.stack([space.sample() for _ in range(6)])).reshape(*RUNS, *(space.shape or ()))


def _check_tensor(what: str, value: object, shape: tuple[int, ...]) -> None:
    _demand(isinstance(value, Tensor), f"{what} is {type(value).__name__}, it should be a tensor")
    assert isinstance(value, Tensor)
    _demand(tuple(value.shape) == shape, f"{what} has shape {tuple(value.shape)}, it should be {shape}")
    _demand(value.is_floating_point(), f"{what} is {value.dtype}, it should be floating point")
    _demand(bool(torch.isfinite(value).all()), f"{what} holds NaN or inf")
    _demand(not value.requires_grad, f"{what} carries gradients: a BFM is frozen")


def _close(one: Tensor, other: Tensor) -> bool:
    scale = float(other.abs().max()) if other.numel() else 0.0
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=SAME * max(scale, 1e-12))
