"""ψ_θ(s,a;z), the paper's network, with or without an actor: a learned BehaviorModel."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn

from zscout.bfm.inference import Inference, in_parts
from zscout.bfm.sphere import project_sphere, sample_sphere, sample_sphere_each
from zscout.edge import (
    as_discount,
    as_generator,
    as_given,
    as_index,
    as_size,
    as_vectors,
    common_shape,
    in_range,
    required_rng,
)
from zscout.randomness import Rng, uniform
from zscout.types import Action, Obs, Vectors


@dataclass(frozen=True, kw_only=True)
class USFAConfig:
    """The architecture of a USFA; the same object is its config.json."""

    n_states: int
    n_actions: int
    dim: int
    inputs: int  # size of the state input
    gamma: float = 0.99
    hidden: int = 256
    layers: int = 4
    heads: int = 2  # independent ψ networks
    actor: bool = True  # a policy network; without one the policy is greedy in ψ·z
    dropout: float = 0.0
    unit_z: bool = True  # project z to Z first, so that z and 2z have the same policy
    temperature: float = 0.0  # of the policy's softmax; 0: argmax

    def __post_init__(self) -> None:
        for name in ("n_states", "n_actions", "dim", "inputs", "hidden", "layers", "heads"):
            as_size(getattr(self, name), name, 1)
        as_discount(self.gamma)
        in_range(self.dropout, "dropout", 0.0, 1.0, open_end=True)
        in_range(self.temperature, "temperature", 0.0, math.inf, open_end=True)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and shape of every tensor in a saved file."""
        yield "features", (self.n_states, self.dim)
        yield "state_inputs", (self.n_states, self.inputs)
        networks = {"psi_networks": (self.heads, self.n_actions * self.dim)}
        networks |= {"actor": (1, self.n_actions)} if self.actor else {}
        for name, (copies, outputs) in networks.items():
            for layer in range(self.layers + 1):
                fan_in = self.hidden if layer else self.inputs + self.dim
                fan_out = self.hidden if layer < self.layers else outputs
                yield f"{name}.weights.{layer}", (copies, fan_in, fan_out)
                yield f"{name}.biases.{layer}", (copies, 1, fan_out)


class Networks(nn.Module):
    """``copies`` fully connected networks of the same shape on (s, z), batched.

    The first layer is split into its parts on s and on z, so that neither is computed twice for many z in the same
    states.
    """

    def __init__(self, config: USFAConfig, copies: int, outputs: int, rng: Generator) -> None:
        super().__init__()
        inputs = config.inputs + config.dim
        sizes = [inputs, *[config.hidden] * config.layers, outputs]
        self.state_inputs = config.inputs
        self.weights = nn.ParameterList(
            [_uniform((copies, fan_in, fan_out), fan_in, rng) for fan_in, fan_out in pairwise(sizes)]
        )
        self.biases = nn.ParameterList(
            [_uniform((copies, 1, fan_out), fan_in, rng) for fan_in, fan_out in pairwise(sizes)]
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, table: Float[Tensor, "S k"], state: Int[Tensor, "*n s"], z: Float[Tensor, "n d"]
    ) -> Float[Tensor, "copies n s out"]:
        """Outputs for each z at the states s of the table, shared by all z or one set per z."""
        first, bias = self.weights[0], self.biases[0]
        from_state = (table @ first[:, : self.state_inputs])[:, state]  # [copies s hidden] or [copies n s hidden]
        from_z = z @ first[:, self.state_inputs :] + bias  # [copies n hidden]
        x = torch.relu((from_state if state.ndim == 2 else from_state[:, None]) + from_z[:, :, None])
        copies, n, s, hidden = x.shape
        x = x.reshape(copies, n * s, hidden)
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            x = torch.baddbmm(bias, self.dropout(x), weight)
            if weight is not self.weights[-1]:
                x = torch.relu(x)
        return x.reshape(copies, n, s, x.shape[-1])


class USFA(nn.Module):
    """Universal successor features approximators: networks for π(·|s,z) and ψ(s;z), frozen at transfer.

    Heads are independent estimates of ψ; ``psi`` is their mean. With ``unit_z`` z is projected to Z first.
    """

    features: Tensor
    state_inputs: Tensor

    def __init__(
        self,
        config: USFAConfig,
        features: Float[Tensor, "S d"],
        state_inputs: Float[Tensor, "S k"],
        seed: int = 0,
    ) -> None:
        super().__init__()
        expected = {"features": (config.n_states, config.dim), "state_inputs": (config.n_states, config.inputs)}
        for name, table in (("features", features), ("state_inputs", state_inputs)):
            if tuple(table.shape) != expected[name]:
                raise ValueError(f"{name} have shape {tuple(table.shape)}, expected {expected[name]}")
        rng = Generator().manual_seed(seed)
        self.config = config
        self._frozen = False
        self._tensors: list[Tensor] = []
        self._ready: dict[bool, tuple[list[int], Inference]] = {}
        self.about: dict[str, Any] = {}  # origin, for the model card
        self.register_buffer("features", features.float())
        self.register_buffer("state_inputs", state_inputs.float())
        self.psi_networks = Networks(config, config.heads, config.n_actions * config.dim, rng)
        self.actor = Networks(config, 1, config.n_actions, rng) if config.actor else None
        self.observation_space = Discrete(config.n_states)
        self.action_space = Discrete(config.n_actions)

    # The networks, for training and whole tables: n tasks, at shared states or their own

    def psi_of_actions(self, state: Int[Tensor, "*n s"], z: Float[Tensor, "n d"]) -> Float[Tensor, "h n s A d"]:
        """ψ_θ(s,a;z) of each head."""
        return self._psi_of(self.psi_networks(self.state_inputs, state, self._seen_z(z)))

    def preferences(
        self, state: Int[Tensor, "*n s"], z: Float[Tensor, "n d"], psi: Tensor | None = None
    ) -> Float[Tensor, "n s A"]:
        """The actor's logits; without an actor, the lowest ψ·z of the heads."""
        if self.actor is not None:
            logits: Tensor = self.actor(self.state_inputs, state, self._seen_z(z))[0]
            return logits
        psi = self.psi_of_actions(state, z) if psi is None else psi
        return _least(psi, self._seen_z(z)[:, None].expand(*psi.shape[1:3], -1))

    def _seen_z(self, z: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        z = z.to(self.features.dtype)
        return project_sphere(z) if self.config.unit_z else z

    # The BehaviorModel

    @property
    def dim(self) -> int:
        """d, the number of features."""
        return self.config.dim

    @property
    def gamma(self) -> float:
        """The discount of ψ."""
        return self.config.gamma

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.features.device

    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s), the features of a state."""
        return self.features[self._states(obs)]

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """ψ(s;z): the mean of the heads at the policy's action."""
        return self.psi_heads(obs, z).mean(-3)

    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """ψ(s;z) of each head."""
        state, z = self._states(obs), self._z(z, candidates=True)
        runs = common_shape(state.shape, z.shape[:-2], "observations and z") if z.ndim > 2 else tuple(state.shape)
        pairs = (*runs, z.shape[-2])
        out = self._psi_at_policy(state[..., None].expand(pairs).flatten(), z.expand(*pairs, -1).reshape(-1, self.dim))
        return out.reshape(len(out), *pairs, self.dim).movedim(0, -3)

    @property
    def draws_for_each_run(self) -> bool:
        """Always True."""
        return True

    def act(self, obs: Obs, z: Vectors, rng: Rng | None = None) -> Action:
        """The best action; with a temperature, a sample from the softmax."""
        state, z = self._states(obs), self._z(z)
        runs = common_shape(state.shape, z.shape[:-1], "observations and z")
        rows = z.expand(*runs, self.dim).reshape(-1, self.dim)
        with torch.no_grad():
            logits = self._logits(state.expand(runs).flatten(), rows)
        if self.config.temperature:
            rng = required_rng(rng, "this policy draws its actions")
            u = uniform((*runs, logits.shape[-1]), rng).reshape(logits.shape).clamp(min=1e-300)
            noise = -torch.log(-torch.log(u))
            logits = logits / self.config.temperature + noise.to(logits)  # Gumbel: argmax draws from the softmax
        chosen = logits.argmax(-1).reshape(runs)
        return as_given(chosen, obs)

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """n draws, uniform on the sphere of radius √d."""
        return sample_sphere(n, self.dim, as_generator(rng, self.device), self.features.dtype).to(self.device)

    def sample_z_each(self, n: int, rngs: Sequence[Generator]) -> Float[Tensor, "runs n d"]:
        """``sample_z`` for each generator, stacked."""
        return sample_sphere_each(n, self.dim, rngs, self.features.dtype).to(self.device)

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """z projected to the sphere of radius √d; 0 maps to (1, …, 1)."""
        return project_sphere(self._z(z))

    def states(self) -> Int[Tensor, " S"]:
        """All observations."""
        return torch.arange(self.config.n_states, device=self.device)

    def feature_moments(self) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
        """φ̄ and Cov(φ) over all states."""
        covariance: Tensor = torch.cov(self.features.mT, correction=0)
        return self.features.mean(0), covariance.reshape(self.dim, self.dim)

    def policy(self, z: Vectors) -> Float[Tensor, "n S A"]:
        """π(a|s,z) of every state, as a table for ``ExactModel.evaluate``."""
        tasks = self._z(z)
        if tasks.ndim != 2:
            raise ValueError(f"policy expects z [n {self.dim}], got {tuple(tasks.shape)}")
        states = self.states()
        with torch.no_grad():
            logits = self._logits(states.repeat(len(tasks)), tasks.repeat_interleave(len(states), 0))
        return _policy_of(logits.reshape(len(tasks), len(states), -1), self.config.temperature).double()

    def freeze(self) -> "USFA":
        """Freeze for transfer: no gradients, dropout off for good."""
        self._frozen = True
        self._changed()
        return self.eval().requires_grad_(False)

    def train(self, mode: bool = True) -> "USFA":
        """Set training mode; no effect once frozen."""
        return super().train(mode and not self._frozen)

    def _psi_at_policy(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Float[Tensor, "h n d"]:
        """ψ of pairs of state and z, of each head, at the policy's action."""
        parts = [self._psi_of_part(*part) for part in in_parts(state, z)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def _psi_of_part(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Float[Tensor, "h n d"]:
        if self._frozen:
            seen = self._seen_z(z)
            out, *logits = self._inference(with_psi=True)(state, seen)
            psi = self._psi_of(out)
            preferences = logits[0][0] if logits else _least(psi, seen)
        else:
            psi = self.psi_of_actions(state[:, None], z)[:, :, 0]
            preferences = self.preferences(state[:, None], z, psi[:, :, None])[:, 0]
        if self.config.temperature:
            return (_policy_of(preferences, self.config.temperature).detach()[:, None] @ psi)[:, :, 0]
        return psi[:, torch.arange(len(state), device=state.device), preferences.argmax(-1)]

    def _logits(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n A"]:
        """The policy's logits for pairs of state and z."""
        return torch.cat([self._logits_of_part(*part) for part in in_parts(state, z)])

    def _logits_of_part(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n A"]:
        if not self._frozen:
            return self.preferences(state[:, None], z)[:, 0]
        seen = self._seen_z(z)
        (out,) = self._inference(with_psi=self.actor is None)(state, seen)
        return _least(self._psi_of(out), seen) if self.actor is None else out[0]

    def _psi_of(self, out: Float[Tensor, "h *n out"]) -> Float[Tensor, "h *n A d"]:
        # Networks output features per step, of size near 1; ψ sums 1/(1 − γ) of them.
        return out.view(*out.shape[:-1], self.config.n_actions, self.config.dim) / (1 - self.config.gamma)

    def _inference(self, with_psi: bool) -> Inference:
        """The inference networks, cached; rebuilt if a weight changed."""
        tracked = not any(
            tensor.is_inference() for tensor in self._tensors
        )  # inference tensors have no version counter
        versions = [tensor._version for tensor in self._tensors] if tracked else []
        if not tracked or with_psi not in self._ready or self._ready[with_psi][0] != versions:
            networks = [self.psi_networks] if with_psi else []
            networks += [] if self.actor is None else [self.actor]
            layers = [(list(network.weights), list(network.biases)) for network in networks]
            with torch.inference_mode(False):  # the cache may be used outside inference mode
                self._ready[with_psi] = (versions, Inference(layers, self.state_inputs))
        return self._ready[with_psi][1]

    def _apply(self, *arguments: Any, **named: Any) -> "USFA":
        """Move or cast the weights; clears the cache."""
        super()._apply(*arguments, **named)  # type: ignore[no-untyped-call]
        return self._changed()

    def load_state_dict(self, *arguments: Any, **named: Any) -> Any:
        """Load weights; clears the cache."""
        answer = super().load_state_dict(*arguments, **named)
        self._changed()
        return answer

    def _changed(self) -> "USFA":
        """Clear the inference cache."""
        self._ready.clear()
        self._tensors = [*self.parameters(), *self.buffers()]
        return self

    def _states(self, obs: Obs) -> Int[Tensor, "*b"]:
        return as_index(obs, self.config.n_states, "observation", self.device)

    def _z(self, z: Vectors, candidates: bool = False) -> Float[Tensor, "*b d"]:
        return as_vectors(z, self.dim, device=self.device, candidates=candidates).to(self.features.dtype)


def _policy_of(logits: Float[Tensor, "*b A"], temperature: float) -> Float[Tensor, "*b A"]:
    if temperature:
        return torch.softmax(logits / temperature, -1)
    return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)


def _least(psi: Float[Tensor, "h *n A d"], z: Float[Tensor, "*n d"]) -> Float[Tensor, "*n A"]:
    """The lowest ψ·z of the heads."""
    return (psi @ z[..., None])[..., 0].amin(0)


def _uniform(shape: tuple[int, ...], fan_in: int, rng: Generator) -> nn.Parameter:
    """~ U(−1/√fan_in, 1/√fan_in), as torch initialises linear layers."""
    return nn.Parameter((2 * torch.rand(shape, generator=rng) - 1) / math.sqrt(fan_in))
