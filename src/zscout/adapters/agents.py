"""Agents of HILP and controllable_agent, which are pickles: convert an open one to a folder, and rebuild it."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from jaxtyping import Float
from torch import Tensor, nn

from zscout.adapters.adapter import ForwardBackward, Networks, Rows
from zscout.adapters.designs import Design
from zscout.adapters.layers import OnSphere, perceptron
from zscout.adapters.projects import action_box, controllable_agent, hilp, of_feature_type
from zscout.adapters.settings import Settings
from zscout.base.edge import as_discount
from zscout.base.files import write_json, write_tensors

HILP_FORMAT, FB_FORMAT = "zscout-hilp-1", "zscout-controllable-agent-1"


def convert(agent: Any, folder: str | Path, *, gamma: float) -> Path:
    """Write an open HILP or controllable_agent FB agent as config.json and model.safetensors, which ``load`` reads."""
    is_hilp = hasattr(agent, "successor_net")
    (hilp if is_hilp else controllable_agent)(agent, gamma=as_discount(gamma))  # checks it
    cfg = agent.cfg
    kind = (getattr(cfg, "feature_learner", "hilp") if is_hilp else "fb", cfg.obs_type, cfg.boltzmann)
    if kind not in (("hilp", "states", False), ("fb", "states", False)):
        raise ValueError(f"convert writes agents of states with HILP or FB features and no boltzmann, got {kind}")
    settings: dict[str, object] = {
        "obs_dim": int(cfg.obs_shape[0]),
        "action_dim": int(cfg.action_shape[0]),
        **{name: int(getattr(cfg, name)) for name in ("z_dim", "hidden_dim", "feature_dim")},
        **{name: bool(getattr(cfg, name)) for name in ("preprocess", "add_trunk")},
        "features_hidden_dim": int(cfg.phi_hidden_dim if is_hilp else cfg.backward_hidden_dim),
    }
    if is_hilp:
        settings["feature_type"] = str(cfg.feature_type)
    networks = ("feature_learner", "successor_net", "actor") if is_hilp else ("backward_net", "forward_net", "actor")
    every = {
        f"{network}.{name}": tensor
        for network in networks
        for name, tensor in getattr(agent, network).state_dict().items()
    }
    config: dict[str, object] = {"format": HILP_FORMAT if is_hilp else FB_FORMAT, "gamma": gamma, "model": settings}
    design = agent_design(Settings(config, "this agent"))
    tensors = {}
    for name, _, _, shape in design.tensors():
        found = tuple(every[name].shape) if name in every else "nothing"
        if found != shape:
            raise ValueError(f"this agent's settings expect {name} of shape {shape}, got {found}")
        tensors[name] = every[name]
    write_tensors(Path(folder) / "model.safetensors", tensors)
    write_json(Path(folder) / "config.json", config)
    return Path(folder)


class Joint(nn.Module):
    """What F and the policy of these projects share: two embeddings, or one trunk."""

    def __init__(self, first: str, inputs: int, obs_z: int, whole: int, settings: Settings) -> None:
        super().__init__()
        hidden, feature = settings.size("hidden_dim"), settings.size("feature_dim")
        self.first = first if settings.flag("preprocess") else None
        self.trunk: nn.Module = nn.Identity()
        self.size = hidden
        if self.first is None:
            self.trunk = nn.Sequential(*perceptron(whole, hidden, hidden, 2), nn.ReLU())
            return
        setattr(self, first, nn.Sequential(*perceptron(inputs, feature, hidden, 1), nn.ReLU()))
        self.obs_z_net = nn.Sequential(*perceptron(obs_z, feature, hidden, 1), nn.ReLU())
        if settings.flag("add_trunk"):
            self.trunk = nn.Sequential(nn.Linear(2 * feature, hidden), nn.ReLU())
        else:
            self.size = 2 * feature

    def joined(self, obs: Tensor, z: Tensor, *action: Tensor) -> Float[Tensor, "n s"]:
        """The input of the last layers."""
        inputs = torch.cat([obs, z, *action], -1)
        if self.first is not None:
            of_first: Tensor = getattr(self, self.first)(torch.cat([obs, *action], -1))
            inputs = torch.cat([of_first, self.obs_z_net(torch.cat([obs, z], -1))], -1)
        out: Tensor = self.trunk(inputs)
        return out


class TwoSuccessors(Joint):
    """F1 and F2 of s, z and a."""

    def __init__(self, obs: int, d: int, actions: int, settings: Settings) -> None:
        super().__init__("obs_action_net", obs + actions, obs + d, obs + d + actions, settings)
        hidden = settings.size("hidden_dim")
        self.F1, self.F2 = (_last(self.size, hidden, d) for _ in range(2))

    def forward(self, obs: Tensor, z: Tensor, action: Tensor) -> Float[Tensor, "2 n d"]:
        """F of both heads."""
        joined = self.joined(obs, z, action)
        return torch.stack([self.F1(joined), self.F2(joined)])


class MeanPolicy(Joint):
    """π(s,z), the mean."""

    def __init__(self, obs: int, d: int, actions: int, settings: Settings) -> None:
        super().__init__("obs_net", obs, obs + d, obs + d, settings)
        self.policy = _last(self.size, settings.size("hidden_dim"), actions)

    def forward(self, obs: Tensor, z: Tensor) -> Float[Tensor, "n a"]:
        """The mean action."""
        return torch.tanh(self.policy(self.joined(obs, z)))


def _last(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def agent_design(config: Settings) -> Design:
    """The networks of a converted agent."""
    is_hilp = config.choice("format", (HILP_FORMAT, FB_FORMAT)) == HILP_FORMAT
    settings = config.part("model")
    obs, actions, d = settings.size("obs_dim"), settings.size("action_dim"), settings.size("z_dim")
    kind = settings.choice("feature_type", ("state", "diff", "concat")) if is_hilp else "state"
    if kind == "concat" and d % 2:
        raise ValueError(f"{settings.where}: z_dim is {d}, expected an even number for feature_type concat")
    width = d // 2 if kind == "concat" else d
    f = perceptron(obs, width, settings.size("features_hidden_dim"), 2)
    F, policy = TwoSuccessors(obs, d, actions, settings), MeanPolicy(obs, d, actions, settings)
    centre = nn.Module()  # of HILP's features
    centre.register_buffer("running_mean", torch.empty(width))
    parts: dict[str, nn.Module] = {"successor_net" if is_hilp else "forward_net": F, "actor": policy}
    parts |= {"feature_learner.phi1": f, "feature_learner": centre} if is_hilp else {"backward_net.B": f}

    def features(rows: Rows) -> Tensor:
        out: Tensor = f(rows) - centre.running_mean if is_hilp else OnSphere()(f(rows))
        return out

    space = Box(-np.inf, np.inf, (obs,), np.float32)
    networks = Networks(
        features=features, successors=F, action=policy, dim=d, observation_space=space, action_space=action_box(actions)
    )
    return Design(parts, partial(of_feature_type, kind) if is_hilp else ForwardBackward, networks)
