"""Models and agents with the members of public projects: small random networks, computed in float64."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace as Has
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor

from zscout import adapters

K, D, A, ROWS = 5, 6, 3, 7  # entries of the observation, of z and of an action; rows
SIZES = {"state": 4, "privileged_state": 5, "last_action": 3, "time": 1}
SEEN = {"b": ["privileged_state", "state"], "f": ["state", "privileged_state"], "actor": ["state", "last_action"]}


def vectors(entries: int, seed: int = 1) -> Tensor:
    return torch.randn(ROWS, entries, generator=torch.Generator().manual_seed(seed))


def network(inputs: int, outputs: int, seed: int) -> Callable[..., Tensor]:
    """Two random layers of the inputs side by side."""
    rng = torch.Generator().manual_seed(seed)
    first, last = (
        torch.randn(m, n, generator=rng).double() / m**0.5 for m, n in ((inputs, 2 * inputs), (2 * inputs, outputs))
    )
    return lambda *parts: (torch.cat(parts, -1).double() @ first).tanh() @ last


def entries(network: str) -> int:
    return sum(SIZES[name] for name in SEEN[network])


@dataclass
class Project:
    """A built model, and what its networks give: φ (or f, or B) [n d], ψ [h n d], action [n a]."""

    adapted: Callable[..., Any]  # the function of zscout.adapters
    sees: Callable[[Any, str], Tensor] = lambda obs, network: obs  # what the networks b, f and actor see
    sizes: tuple[int, int, int] = (K, K, K)  # of these
    width: int = D  # entries of f
    obs: Any = field(default_factory=lambda: vectors(K))
    built: Any = None
    features: Callable[[Any], Tensor] = field(init=False)
    successors: Callable[[Any, Tensor, Tensor], Tensor] = field(init=False)
    action: Callable[[Any, Tensor], Tensor] = field(init=False)

    def __post_init__(self) -> None:
        b, f, actor = self.sizes
        B, policy = network(b, self.width, 2), network(actor + D, A, 3)
        heads = [network(f + D + A, D, seed) for seed in (4, 5)]
        self.features = lambda obs: B(self.sees(obs, "b"))
        self.successors = lambda obs, z, a: torch.stack([head(self.sees(obs, "f"), z, a) for head in heads])
        self.action = lambda obs, z: policy(self.sees(obs, "actor"), z).tanh()

    def act(self, obs: Any, z: Tensor, mean: bool) -> Tensor:
        assert mean
        return self.action(obs, z).float()

    def model(self, **settings: Any) -> Any:
        """What this project's function adapts."""
        return self.adapted(self.built, **settings)


def metamotivo() -> Project:
    made = Project(adapters.metamotivo)
    cfg = Has(obs_dim=K, action_dim=A, archi=Has(z_dim=D, norm_z=True))
    made.built = Has(cfg=cfg, backward_map=made.features, forward_map=made.successors, act=made.act)
    return made


def td_jepa() -> Project:
    made = Project(adapters.td_jepa)
    space = Box(-np.inf, np.inf, (K,), np.float32)
    cfg = Has(archi=Has(psi_dim=D, phi_dim=4, norm_z=True))
    made.built = Has(cfg=cfg, psi=made.features, phi_predictor=made.successors, act=made.act)
    made.built.obs_space, made.built.action_dim = space, A
    return made


def bfm_zero() -> Project:
    made = Project(
        adapters.bfm_zero,
        sees=lambda obs, network: torch.cat([obs[name] for name in SEEN[network]], -1),
        sizes=(entries("b"), entries("f"), entries("actor")),
        obs={name: vectors(k, k) for name, k in SIZES.items()},
    )
    filters = {name: Has(input_filter=Has(key=names)) for name, names in SEEN.items()}
    cfg = Has(archi=Has(z_dim=D, norm_z=True, **filters))
    made.built = Has(cfg=cfg, backward_map=made.features, forward_map=made.successors, act=made.act)
    made.built.obs_space = Dict({name: Box(-np.inf, np.inf, (k,), np.float32) for name, k in SIZES.items()})
    made.built.action_dim = A
    return made


def agent(project: str, feature_type: str = "state", **changes: Any) -> Project:
    """An agent of HILP or controllable_agent."""
    hilp = project == "hilp"
    made = Project(
        adapters.hilp if hilp else adapters.controllable_agent, width=D // 2 if feature_type == "concat" else D
    )
    cfg = {"obs_shape": (K,), "action_shape": (A,), "z_dim": D, "goal_space": None, "feature_type": feature_type}
    made.built = Has(
        cfg=Has(**cfg | changes),
        encoder=torch.nn.Identity(),
        actor=lambda obs, z, std: Has(mean=made.action(obs, z).float()),
    )
    if hilp:
        made.built.feature_learner = Has(feature_net=made.features)
        made.built.successor_net = made.successors
    else:
        made.built.backward_net, made.built.forward_net = made.features, made.successors
    return made


PROJECTS: dict[str, Callable[[], Project]] = {
    "metamotivo": metamotivo,
    "td-jepa": td_jepa,
    "bfm-zero": bfm_zero,
    "hilp": lambda: agent("hilp"),
    "hilp-diff": lambda: agent("hilp", "diff"),
    "hilp-concat": lambda: agent("hilp", "concat"),
    "controllable-agent": lambda: agent("controllable-agent"),
}
