"""Does ψ say what the policy will meet? ψ(s;z) = E[φ(S') + γψ(S';z)], checked where the world is known."""

from dataclasses import dataclass

import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.types import BehaviorModel, FiniteWorld, HasHorizons, HasSecondMoment

CANDIDATES = 20
DRAWS = 256  # of a policy that draws its actions
SHORT = 0.5  # the discount at which what a model offers beyond the contract is checked


@dataclass(frozen=True, eq=False)
class OneStep:
    """What follows each state under each candidate's policy: draws × K outcomes and how likely each is."""

    successors: Int[Tensor, "S n outcomes"]
    probabilities: Float[Tensor, "S n outcomes"]

    @classmethod
    def of(cls, model: BehaviorModel, world: FiniteWorld, z: Float[Tensor, "n d"]) -> "OneStep":
        """By asking the model to act in every state, often if it does not always do the same."""
        n = len(z)
        obs = torch.arange(world.n_states)[:, None].expand(-1, n)
        everywhere, rng = z.expand(world.n_states, -1, -1), Generator().manual_seed(6)
        actions = [torch.as_tensor(model.act(obs, everywhere, rng)).cpu() for _ in range(2)]
        if not torch.equal(actions[0], actions[1]):
            actions += [torch.as_tensor(model.act(obs, everywhere, rng)).cpu() for _ in range(DRAWS - 2)]
        successors = torch.cat([world.successors[obs, action] for action in actions], dim=-1)
        probabilities = torch.cat([world.probabilities[obs, action] for action in actions], dim=-1)
        return cls(successors, probabilities.double() / len(actions))

    def expect(self, table: Float[Tensor, "S n *k"]) -> Float[Tensor, "S n *k"]:
        """E[table(S', candidate) | S = s]."""
        candidate = torch.arange(self.successors.shape[1])[:, None]
        weights = self.probabilities.reshape(*self.probabilities.shape, *[1] * (table.ndim - 2))
        return (weights * table[self.successors, candidate]).sum(2)


def check_timing(model: BehaviorModel, world: FiniteWorld, tolerance: float) -> None:
    """Raise ValueError unless ψ, and what else the model offers, obeys its Bellman equation to ``tolerance`` φ."""
    space = model.observation_space
    if not (isinstance(space, Discrete) and space.n == world.n_states):
        raise ValueError(f"check_model: observation_space is {space}, the world has {world.n_states} states")
    z = model.sample_z(CANDIDATES, Generator().manual_seed(5))
    step, states = OneStep.of(model, world, z), torch.arange(world.n_states)
    phi = model.phi(states).double().cpu()[:, None].expand(-1, CANDIDATES, -1)
    entered = step.expect(phi)
    psi = model.psi(states, z).double().cpu()
    _check_psi(psi, phi, entered, step.expect(psi), getattr(model, "gamma", None), tolerance)
    if isinstance(model, HasHorizons):
        short = model.psi_at(states, z, SHORT).double().cpu()
        _check_bellman("psi_at", short, entered, step.expect(short), SHORT, tolerance)
    if isinstance(model, HasSecondMoment):
        moment = model.second_moment(states, z, SHORT).double().cpu().flatten(2)
        outer = step.expect((phi[..., :, None] * phi[..., None, :]).flatten(2))
        _check_bellman("second_moment", moment, outer, step.expect(moment), SHORT, tolerance)


def _check_psi(
    psi: Float[Tensor, "S n d"],
    phi: Float[Tensor, "S n d"],
    entered: Float[Tensor, "S n d"],
    next_psi: Float[Tensor, "S n d"],
    gamma: float | None,
    tolerance: float,
) -> None:
    # ψ = a E φ(S') + b φ(s) + c E ψ(S'): a is 1 and b is 0, or the other way round if the present state is counted.
    columns = torch.stack([entered.flatten(), phi.flatten(), next_psi.flatten()], dim=1)
    a, b, _ = torch.linalg.lstsq(columns, psi.flatten(), driver="gelsd").solution.tolist()
    can_tell = float((entered - phi).norm()) > 1e-6 * float(phi.norm())  # not where no policy moves
    ours, fitted = _residual(psi, entered, next_psi, gamma)
    counting_the_present, _ = _residual(psi, phi, next_psi, gamma)
    if can_tell and a < 0.5 < b and counting_the_present <= min(ours, tolerance):
        raise ValueError(
            "check_model: ψ counts the present state: it should be E Σ_{k≥0} γᵏ φ(S_{t+k+1}), from the state entered "
            f"next (it holds {b:.2f} of φ(s) and {a:.2f} of φ(S'))"
        )
    if ours > tolerance or (can_tell and a < 0.5 and ours > 0.01):  # an equation that holds is not questioned
        whose = "fitted" if gamma is None else "the model's own"
        holds = "" if ours > tolerance else f" and ψ holds {a:.2f} of φ(S'), not 1"
        raise ValueError(
            f"check_model: ψ(s;z) differs from E[φ(S') + γψ(S';z)] by {ours:.3g} times a φ on average (tolerance "
            f"{tolerance:.3g}, γ = {fitted:.4g}, {whose}){holds}: is ψ of this policy, these features, this world?"
        )


def _check_bellman(name: str, x: Tensor, entered: Tensor, next_x: Tensor, gamma: float, tolerance: float) -> None:
    residual, _ = _residual(x, entered, next_x, gamma)
    if residual > tolerance:
        raise ValueError(
            f"check_model: {name} at γ = {gamma} differs from its Bellman equation by {residual:.3g} times what one "
            f"state adds, on average (tolerance {tolerance:.3g})"
        )


def _residual(x: Tensor, entered: Tensor, next_x: Tensor, gamma: float | None) -> tuple[float, float]:
    """Mean ‖x − entered − γx'‖ ÷ mean ‖entered‖, and γ: the given one, or what fits best."""
    rest = x - entered
    if gamma is None:
        gamma = float((rest * next_x).sum() / next_x.square().sum().clamp(min=1e-300))
    residual = (rest - gamma * next_x).norm(dim=-1).mean() / entered.norm(dim=-1).mean().clamp(min=1e-300)
    return float(residual), gamma
