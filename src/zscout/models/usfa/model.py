"""ψ_θ(s,a;z), the paper's network, with or without an actor: a learned BehaviorModel."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, ClassVar

import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.base.edge import as_discount, as_given, as_size, common_shape, in_range, required_rng
from zscout.base.randomness import Rng, uniform
from zscout.base.types import Action, Obs, Vectors
from zscout.models.networks import Freezable
from zscout.models.sphere import SphereModel, project_sphere
from zscout.models.usfa.networks import Inference, Networks, in_parts


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
    moment_gamma: float | None = None  # the discount of M and of a second ψ, see MomentUSFA; None: without them
    moment_hidden: int = 96
    moment_layers: int = 2

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type is int:
                as_size(getattr(self, field.name), field.name, 1)
        as_discount(self.gamma)
        if self.moment_gamma is not None:
            in_range(self.moment_gamma, "moment_gamma", 0.0, 1.0, open_end=True)
        in_range(self.dropout, "dropout", 0.0, 1.0, open_end=True)
        in_range(self.temperature, "temperature", 0.0, math.inf, open_end=True)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and shape of every tensor in a saved file."""
        yield "features", (self.n_states, self.dim)
        yield "state_inputs", (self.n_states, self.inputs)
        inputs = self.inputs + self.dim
        networks = {"psi_networks": (self.heads, inputs, self.hidden, self.layers, self.n_actions * self.dim)}
        if self.actor:
            networks["actor"] = (1, inputs, self.hidden, self.layers, self.n_actions)
        if self.moment_gamma is not None:
            inputs = self.inputs + self.moment_inputs
            networks["occupancy_network"] = (1, inputs, self.moment_hidden, self.moment_layers, self.n_states)
        for name, (copies, inputs, hidden, layers, outputs) in networks.items():
            for layer in range(layers + 1):
                fan_in = hidden if layer else inputs
                fan_out = hidden if layer < layers else outputs
                yield f"{name}.weights.{layer}", (copies, fan_in, fan_out)
                yield f"{name}.biases.{layer}", (copies, 1, fan_out)

    @property
    def moment_inputs(self) -> int:
        """Inputs of the occupancy network beside the state's: z, ψ(s;z) and π(·|s,z)."""
        return 2 * self.dim + self.n_actions


class USFA(SphereModel, Freezable):
    """Universal successor features approximators: networks for π(·|s,z) and ψ(s;z), frozen at transfer.

    Heads are independent estimates of ψ; ``psi`` is their mean. With ``unit_z`` z is projected to Z first.
    """

    format: ClassVar[str] = "zscout-usfa-1"

    state_inputs: Tensor
    draws_for_each_run = True
    with_moments = False  # True: MomentUSFA

    def __init__(
        self, config: USFAConfig, features: Float[Tensor, "S d"], state_inputs: Float[Tensor, "S k"], seed: int = 0
    ) -> None:
        super().__init__()
        if (config.moment_gamma is not None) != self.with_moments:
            wanted = "a discount" if self.with_moments else "None, or a MomentUSFA"
            raise ValueError(f"moment_gamma is {config.moment_gamma}, expected {wanted}")
        shapes = dict(islice(config.shapes(), 2))
        for name, table in (("features", features), ("state_inputs", state_inputs)):
            if tuple(table.shape) != shapes[name]:
                raise ValueError(f"{name} have shape {tuple(table.shape)}, expected {shapes[name]}")
            self.register_buffer(name, table.float())
        self.config, self.dim, self.gamma = config, config.dim, config.gamma
        self.about: dict[str, Any] = {}  # origin, for the model card
        rng, sizes = Generator().manual_seed(seed), [config.inputs + config.dim, *[config.hidden] * config.layers]

        def networks(copies: int, outputs: int) -> Networks:
            return Networks(copies, [*sizes, outputs], config.inputs, config.dropout, rng)

        self.psi_networks = networks(config.heads, config.n_actions * config.dim)
        self.actor = networks(1, config.n_actions) if config.actor else None
        self.observation_space, self.action_space = Discrete(config.n_states), Discrete(config.n_actions)

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

    # The BehaviorModel

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """ψ(s;z): the mean of the heads at the policy's action."""
        return self.psi_heads(obs, z).mean(-3)

    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """ψ(s;z) of each head."""
        pairs, state, z = self._pairs(obs, z)
        parts = [self._psi_at_policy(*part) for part in in_parts(state, z)]
        psi = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return psi.reshape(len(psi), *pairs, self.dim).movedim(0, -3)

    def act(self, obs: Obs, z: Vectors, rng: Rng | None = None) -> Action:
        """The best action; with a temperature, a sample from the softmax."""
        state, z = self._states(obs), self._z(z)
        runs = common_shape(state.shape, z.shape[:-1], "observations and z")
        logits = self._logits(state.expand(runs).flatten(), z.expand(*runs, self.dim).reshape(-1, self.dim))
        if self.config.temperature:
            rng = required_rng(rng, "this policy draws its actions")
            u = uniform((*runs, logits.shape[-1]), rng).reshape(logits.shape).clamp(min=1e-300)
            noise = -torch.log(-torch.log(u))
            logits = logits / self.config.temperature + noise.to(logits)  # Gumbel: argmax draws from the softmax
        return as_given(logits.argmax(-1).reshape(runs), obs)

    def policy(self, z: Vectors) -> Float[Tensor, "n S A"]:
        """π(a|s,z) of every state, as a table for ``ExactModel.evaluate``."""
        tasks, states = self._z(z), self.states()
        if tasks.ndim != 2:
            raise ValueError(f"policy expects z [n {self.dim}], got {tuple(tasks.shape)}")
        logits = self._logits(states.repeat(len(tasks)), tasks.repeat_interleave(len(states), 0))
        return self.probabilities(logits.reshape(len(tasks), len(states), -1)).double()

    # Pairs of state and z, in parts that fit the cache

    def _pairs(self, obs: Obs, z: Vectors) -> tuple[tuple[int, ...], Int[Tensor, " m"], Float[Tensor, "m d"]]:
        """(*b, n), and the m = *b·n pairs of an observation and a candidate."""
        state, z = self._states(obs), self._z(z, candidates=True)
        runs = common_shape(state.shape, z.shape[:-2], "observations and z") if z.ndim > 2 else tuple(state.shape)
        pairs = (*runs, z.shape[-2])
        return pairs, state[..., None].expand(pairs).flatten(), z.expand(*pairs, -1).reshape(-1, self.dim)

    def _psi_at_policy(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Float[Tensor, "h n d"]:
        """ψ of each head, at the policy's action."""
        psi, logits = self.psi_and_logits(state, z)
        if self.config.temperature:
            return (self.probabilities(logits).detach()[:, None] @ psi)[:, :, 0]
        return psi[:, torch.arange(len(state), device=state.device), logits.argmax(-1)]

    def psi_and_logits(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
        """ψ(s,a;z) of each head [h n A d] and the policy's logits [n A]."""
        return self.outputs(state, z, with_psi=True)

    @torch.no_grad()
    def _logits(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n A"]:
        """The policy's logits."""
        with_psi = self.actor is None
        return torch.cat([self.outputs(*part, with_psi)[1] for part in in_parts(state, z)])

    def outputs(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"], with_psi: bool) -> tuple[Tensor, Tensor]:
        """ψ(s,a;z) of each head [h n A d], empty unless ``with_psi``, and the policy's logits [n A]."""
        seen = self._seen_z(z)
        if self._frozen:
            out = [part[:, :, None] for part in self._inference(with_psi)(state, seen)]
        else:
            out = [network(self.state_inputs, state[:, None], seen) for network in self._networks(with_psi)]
        psi = self._psi_of(out[0][:, :, 0]) if with_psi else seen[:0]
        return psi, _least(psi, seen) if self.actor is None else out[-1][0, :, 0]

    def _networks(self, with_psi: bool) -> list[Networks]:
        return ([self.psi_networks] if with_psi else []) + ([] if self.actor is None else [self.actor])

    def _inference(self, with_psi: bool) -> Inference:
        return self.derived(with_psi, lambda: Inference(self._networks(with_psi), self.state_inputs))

    def _seen_z(self, z: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        z = z.to(self.features.dtype)
        return project_sphere(z) if self.config.unit_z else z

    def _psi_of(self, out: Float[Tensor, "h *n out"]) -> Float[Tensor, "h *n A d"]:
        # Networks output features per step, of size near 1; ψ sums 1/(1 − γ) of them.
        return out.view(*out.shape[:-1], self.config.n_actions, self.dim) / (1 - self.gamma)

    def probabilities(self, logits: Float[Tensor, "*b A"]) -> Float[Tensor, "*b A"]:
        """π(a|s,z) of the policy's logits."""
        if self.config.temperature:
            return torch.softmax(logits / self.config.temperature, -1)
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)


def _least(psi: Float[Tensor, "h *n A d"], z: Float[Tensor, "*n d"]) -> Float[Tensor, "*n A"]:
    """The lowest ψ·z of the heads."""
    return (psi @ z[..., None])[..., 0].amin(0)
