"""Check ψ in a known world, against the exact ψ of the model's own policy."""

import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.bfm.exact import ExactModel
from zscout.types import BehaviorModel, FiniteWorld, HasHorizons, HasSecondMoment

CANDIDATES = 20
DRAWS = 256  # action samples of a stochastic policy
SHORT = 0.5  # the discount at which psi_at and second_moment are checked
GAMMAS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)  # tried if the model has no gamma


def check_timing(model: BehaviorModel, world: FiniteWorld, tolerance: float) -> None:
    """Raise ValueError unless ψ, ``psi_at`` and M match the model's policy, to a relative ``tolerance``."""
    space = model.observation_space
    if not (isinstance(space, Discrete) and space.n == world.n_states):
        raise ValueError(f"check_model: observation_space is {space}, expected {world.n_states} states as in the world")
    states = torch.arange(world.n_states)
    z = model.sample_z(CANDIDATES, Generator().manual_seed(5))
    phi = model.phi(states).double().cpu()
    truth = ExactModel(world, phi)
    policy = _policy_table(model, world, z)

    psi = model.psi(states, z).double().cpu().transpose(0, 1)  # [n S d]
    own = getattr(model, "gamma", None)
    tried = {gamma: truth.evaluate(policy, gamma) for gamma in (GAMMAS if own is None else (float(own),))}
    gamma, psi_pi = min(tried.items(), key=lambda item: _error(psi, item[1]))
    # Σ_{k≥0} γᵏ φ(S_{t+k}) = φ(S_t) + γ Σ_{k≥0} γᵏ φ(S_{t+k+1}): a ψ that counts the current state
    _check_psi(psi, psi_pi, phi + gamma * psi_pi, gamma, "the nearest tried" if own is None else "its own", tolerance)
    if isinstance(model, HasHorizons):
        short = model.psi_at(states, z, SHORT).double().cpu().transpose(0, 1)
        _check_extra("psi_at", short, truth.evaluate(policy, SHORT), tolerance)
    if isinstance(model, HasSecondMoment):
        outer = ExactModel(world, (phi[:, :, None] * phi[:, None, :]).flatten(1))
        moment = model.second_moment(states, z, SHORT).double().cpu().transpose(0, 1).flatten(2)
        _check_extra("second_moment", moment, outer.evaluate(policy, SHORT), tolerance)


def _policy_table(model: BehaviorModel, world: FiniteWorld, z: Float[Tensor, "n d"]) -> Float[Tensor, "n S A"]:
    """π(a|s,z), from the model's actions in every state; sampled often if they are stochastic."""
    obs = torch.arange(world.n_states).expand(len(z), -1)
    own_z, rng = z[:, None].expand(-1, world.n_states, -1), Generator().manual_seed(6)
    actions = [torch.as_tensor(model.act(obs, own_z, rng)).cpu() for _ in range(2)]
    if not torch.equal(actions[0], actions[1]):
        actions += [torch.as_tensor(model.act(obs, own_z, rng)).cpu() for _ in range(DRAWS - 2)]
    return torch.nn.functional.one_hot(torch.stack(actions), world.n_actions).double().mean(0)


def _check_psi(
    psi: Float[Tensor, "n S d"],
    psi_pi: Float[Tensor, "n S d"],
    counting_the_present: Float[Tensor, "n S d"],
    gamma: float,
    whose: str,
    tolerance: float,
) -> None:
    error = _error(psi, psi_pi)
    if _error(psi, counting_the_present) < 0.5 * error:
        raise ValueError(
            "check_model: ψ counts the current state, expected E Σ_{k≥0} γᵏ φ(S_{t+k+1}), from the next state on"
        )
    if error > tolerance:
        raise ValueError(
            f"check_model: ψ(s;z) differs from the true ψ of the model's own policy by {error:.3g} of its size "
            f"(tolerance {tolerance:.3g}) at γ = {gamma:g}, {whose}: does it match this policy, these features "
            "and this world, and is it trained enough?"
        )


def _check_extra(name: str, came: Tensor, truth: Tensor, tolerance: float) -> None:
    error = _error(came, truth)
    if error > tolerance:
        raise ValueError(
            f"check_model: {name} at γ = {SHORT} differs from the exact one of the model's policy by {error:.3g} of "
            f"its size (tolerance {tolerance:.3g})"
        )


def _error(came: Tensor, truth: Tensor) -> float:
    """Mean ‖came − truth‖ ÷ mean ‖truth‖."""
    return float((came - truth).norm(dim=-1).mean() / truth.norm(dim=-1).mean().clamp(min=1e-300))
