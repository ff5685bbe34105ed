"""Adapters of models that are already built, by the members that their projects give them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from jaxtyping import Float
from torch import Tensor

from zscout.adapters.adapter import CPU, Adapter, ForwardBackward, Networks, Rows, Transitions
from zscout.base.types import Obs

CALLS = {"φ": ("b",), "ψ": ("f", "actor"), "act": ("actor",)}  # the networks of each call, as in their configs


def metamotivo(model: Any, observations: Obs | None = None, *, gamma: float | None = None) -> ForwardBackward:
    """A metamotivo FBModel or FBcprModel, or its agent: φ = C⁻¹ ``backward_map``, ψ = ``forward_map``.

    C = E BBᵀ over the observations; without them C = I. γ defaults to an agent's ``cfg.train.discount``.
    """
    return _forward_backward(model, observations, gamma, "metamotivo", {})


def bfm_zero(model: Any, observations: Obs | None = None, *, gamma: float | None = None) -> ForwardBackward:
    """A BFM-Zero model or agent: as metamotivo, with Dict observations.

    Each network reads the entries that its ``input_filter`` names. In the published models φ and ψ need
    ``privileged_state``, and ``act`` does not.
    """
    archi = _inner(model, "bfm_zero", ("cfg",)).cfg.archi
    filters = {name: getattr(getattr(archi, name), "input_filter", None) for name in ("f", "b", "actor")}
    keys = {name: getattr(one, "key", ()) for name, one in filters.items()}
    return _forward_backward(model, observations, gamma, "bfm_zero", keys)


def td_jepa(model: Any, *, gamma: float | None = None) -> Adapter:
    """A TD-JEPA model or agent: its ``psi`` is φ, its ``phi_predictor`` is ψ."""
    inner = _inner(model, "td_jepa", ("psi", "phi_predictor", "act", "cfg"))
    if hasattr(inner, "_actor_vf"):
        raise ValueError(
            f"td_jepa: the actor of {type(inner).__name__} draws noise of its own, expected one with a mean"
        )
    _check_sphere(inner.cfg.archi, "td_jepa")
    symmetric = bool(getattr(inner.cfg, "symmetric", False))
    dim = inner.cfg.archi.phi_dim if symmetric else inner.cfg.archi.psi_dim
    return Adapter(_of_model(inner, inner.psi, inner.phi_predictor, dim), _discount(model, gamma))


def hilp(agent: Any, *, gamma: float | None = None) -> Adapter:
    """A HILP agent (``hilp_zsrl``): φ = f(s′), f(s′) − f(s) or both, by ``cfg.feature_type``; ψ = ``successor_net``.

    f is ``feature_learner.feature_net``. ψ of a model that was trained with ``q_loss`` is right along z only.
    """
    _check_members(agent, "hilp", ("feature_learner", "successor_net", "actor", "cfg"))
    _check_goals(agent, None, "hilp")
    networks = _of_agent(
        agent, lambda obs: agent.feature_learner.feature_net(_encoded(agent, obs)), agent.successor_net
    )
    kind = getattr(agent.cfg, "feature_type", "state")
    if kind == "state":
        return Adapter(networks, gamma)
    if kind not in ("diff", "concat"):
        raise ValueError(f"feature_type is {kind!r}, expected state, diff or concat")
    return Transitions(networks, gamma, difference=kind == "diff")


def controllable_agent(
    agent: Any,
    observations: Obs | None = None,
    *,
    gamma: float | None = None,
    goals: Callable[[Float[Tensor, "n k"]], Float[Tensor, "n g"]] | None = None,
) -> ForwardBackward:
    """An FB agent of controllable_agent (``fb_ddpg``): φ = C⁻¹ ``backward_net``, ψ = ``forward_net``.

    ``goals`` maps observations to what B sees, if the agent was trained with a ``goal_space``.
    """
    _check_members(agent, "controllable_agent", ("backward_net", "forward_net", "actor", "cfg"))
    _check_sphere(agent.cfg, "controllable_agent")
    _check_goals(agent, goals, "controllable_agent")
    seen: Callable[[Any], Any] = goals or partial(_encoded, agent)
    networks = _of_agent(agent, lambda obs: agent.backward_net(seen(obs)), agent.forward_net)
    return ForwardBackward(networks, gamma).fitted(observations)


def _forward_backward(
    model: Any, observations: Obs | None, gamma: float | None, name: str, keys: Mapping[str, str | Sequence[str]]
) -> ForwardBackward:
    inner = _inner(model, name, ("backward_map", "forward_map", "act", "cfg"))
    _check_sphere(inner.cfg.archi, name)
    networks = _of_model(inner, inner.backward_map, inner.forward_map, inner.cfg.archi.z_dim, _entries_needed(keys))
    return ForwardBackward(networks, _discount(model, gamma)).fitted(observations)


def _entries_needed(keys: Mapping[str, str | Sequence[str]]) -> dict[str, list[str]]:
    """The entries of a Dict observation that φ, ψ and act need, from those of the networks b, f and actor."""
    lists = {name: [one] if isinstance(one, str) else list(one) for name, one in keys.items()}
    needs = {call: [key for name in names for key in lists.get(name, ())] for call, names in CALLS.items()}
    return {call: list(dict.fromkeys(names)) for call, names in needs.items() if names}


def _inner(model: Any, name: str, members: Sequence[str]) -> Any:
    """The model, also if its agent was given."""
    inner = getattr(model, "_model", model)
    _check_members(inner, name, members)
    return inner


def _check_members(model: Any, name: str, members: Sequence[str]) -> None:
    missing = [one for one in members if not hasattr(model, one)]
    if missing:
        raise ValueError(
            f"{name} expects a model with {', '.join(members)}; {type(model).__name__} has no {missing[0]}"
        )


def _check_sphere(settings: Any, name: str) -> None:
    if not getattr(settings, "norm_z", True):
        raise ValueError(f"{name}: norm_z is False, expected a model whose z lie on the sphere of radius √d")


def _check_goals(agent: Any, goals: object, name: str) -> None:
    space = getattr(agent.cfg, "goal_space", None)
    if space is not None and goals is None:
        raise ValueError(
            f"{name}: this agent's features see goal_space {space!r}, not the observation: pass goals=, a "
            "function of observations [n k], to controllable_agent"
        )


def _discount(model: Any, gamma: float | None) -> float | None:
    train = getattr(getattr(model, "cfg", None), "train", None)
    return getattr(train, "discount", None) if gamma is None else gamma


def _of_model(
    inner: Any, features: Callable[[Rows], Tensor], successors: Any, dim: int, needs: Mapping[str, Sequence[str]] = {}
) -> Networks:
    """The networks of a model that acts by ``act(obs, z, mean=True)``."""
    return Networks(
        features=features,
        successors=lambda obs, z, action: _with_heads(successors(obs, z, action)),
        action=lambda obs, z: inner.act(obs, z, mean=True),
        dim=dim,
        needs=needs,
        **_spaces(inner),
    )


def _with_heads(successors: Tensor) -> Float[Tensor, "h n d"]:
    return successors if successors.ndim == 3 else successors[None]  # a single head has no dimension of its own


def _of_agent(agent: Any, features: Callable[[Rows], Tensor], successors: Any) -> Networks:
    """The networks of an agent that has an actor."""
    std = () if getattr(agent.cfg, "boltzmann", False) else (1.0,)  # the mean does not depend on it
    return Networks(
        features=features,
        successors=lambda obs, z, action: torch.stack([*successors(_encoded(agent, obs), z, action)]),
        action=lambda obs, z: agent.actor(_encoded(agent, obs), z, *std).mean,
        dim=agent.cfg.z_dim,
        **_spaces(agent),
    )


def _encoded(agent: Any, obs: Rows) -> Any:
    encoder = getattr(agent, "encoder", None)
    return obs if encoder is None else encoder(obs)


def _spaces(model: Any) -> dict[str, Any]:
    """Spaces and device of a model for ``Networks``, from the members that have them."""
    cfg = model.cfg
    space = getattr(model, "obs_space", None)
    if space is None:
        shape = tuple(cfg.obs_shape) if hasattr(cfg, "obs_shape") else (cfg.obs_dim,)
        space = Box(-np.inf, np.inf, shape, np.float32)
    if not isinstance(space, Box | Dict):
        raise ValueError(f"obs_space is {space}, expected a Box or a Dict of them")
    actions = cfg.action_shape[0] if hasattr(cfg, "action_shape") else getattr(model, "action_dim", None)
    actions = cfg.action_dim if actions is None else actions
    module = model if isinstance(model, torch.nn.Module) else getattr(model, "actor", None)
    weights = next(module.parameters(), None) if isinstance(module, torch.nn.Module) else None
    device = CPU if weights is None else weights.device
    return {"observation_space": space, "action_space": Box(-1.0, 1.0, (int(actions),), np.float32), "device": device}
