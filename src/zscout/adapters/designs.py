"""The networks that the settings of a checkpoint describe, and how they make φ, ψ and π."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor, nn

from zscout.adapters.adapter import Adapter, ForwardBackward, Networks, Rows
from zscout.adapters.layers import Encoder, Moments, Policy, SeparateSuccessors, Shape, Successors
from zscout.adapters.projects import action_box, entries_needed
from zscout.adapters.settings import Settings

DEEP = 64  # layers
IDENTITY = ("Identity", "IdentityNNConfig")
BATCH_NORM, NO_NORM = "BatchNormNormalizerConfig", "IdentityNormalizerConfig"
ELSEWHERE = "; build other models in their project, and pass them to zscout.adapters"


@dataclass(frozen=True)
class Design:
    """Modules without weights, by the prefix of their tensors' names in the file, and the adapter that uses them."""

    parts: dict[str, nn.Module]
    kind: Callable[[Networks, float | None], Adapter]
    networks: Networks  # of these modules

    def tensors(self) -> Iterator[tuple[str, nn.Module, str, tuple[int, ...]]]:
        """Of each tensor: its name in the file, its module, its name there and its shape."""
        for prefix, module in self.parts.items():
            for name, blank in module.state_dict().items():
                yield f"{prefix}.{name}", module, name, tuple(blank.shape)


def metamotivo_design(settings: Settings) -> Design:
    """FB and FB-CPR of metamotivo: one vector, one batch norm."""
    obs, actions, archi = settings.size("obs_dim"), settings.size("action_dim"), settings.part("archi")
    d = _z_dim(archi)
    B, F = _encoder(archi.part("b"), obs, d, linear=False), _successors(archi.part("f"), obs, d, actions)
    policy = _policy(archi.part("actor"), obs, d, actions)
    parts: dict[str, nn.Module] = {"_backward_map": B, "_forward_map": F, "_actor": policy}
    norm: nn.Module = nn.Identity()
    if settings.flag("norm_obs", True):
        norm = parts["_obs_normalizer"] = Moments(obs)
    networks = Networks(
        features=lambda rows: B(norm(rows)),
        successors=lambda rows, z, action: F(norm(rows), z, action),
        action=lambda rows, z: policy(norm(rows), z),
        dim=d,
        observation_space=Box(-np.inf, np.inf, (obs,), np.float32),
        action_space=action_box(actions),
    )
    return Design(parts, ForwardBackward, networks)


def td_jepa_design(settings: Settings, arguments: Settings) -> Design:
    """TD-JEPA, and the FB model of its repository: an encoder of s before F, and before the policy if so set."""
    space, actions = arguments.part("obs_space").space(), arguments.size("action_dim")
    if not isinstance(space, Box):
        raise ValueError(f"{arguments.where}: obs_space is a Dict, expected a Box")
    obs, archi = space.shape[0], settings.part("archi")
    hint = ELSEWHERE + " (images)"
    archi.part("rgb_encoder").choice("name", IDENTITY, hint=hint)
    kind = settings.part("obs_normalizer").choice("name", (NO_NORM, BATCH_NORM), hint=hint)
    parts: dict[str, nn.Module] = {}
    norm: nn.Module = nn.Identity()
    if kind == BATCH_NORM:
        norm = parts["_obs_normalizer._normalizer"] = Moments(obs)
    encoder: nn.Module = nn.Identity()
    if settings.choice("name", ("TDJEPAModel", "FBModel")) == "TDJEPAModel":
        symmetric, width = settings.flag("symmetric", False), archi.size("phi_dim")
        d = _z_dim(archi, "phi_dim" if symmetric else "psi_dim")
        encoder = parts["_phi_mlp_encoder"] = _encoder(archi.part("phi_mlp_encoder"), obs, width)
        features = encoder if symmetric else _encoder(archi.part("psi_mlp_encoder"), obs, d)
        if not symmetric:
            parts["_psi_mlp_encoder"] = features
        name, F = "_phi_predictor", _successors(archi.part("phi_predictor"), width, d, actions)
        encoded = settings.flag("actor_use_full_encoder", True)
        kind_of: type[Adapter] = Adapter
    else:
        d, left = _z_dim(archi), archi.part("left_encoder")
        width = obs
        if left.choice("name", (*IDENTITY, "BackwardArchi", "BackwardArchiConfig")) not in IDENTITY:
            width = archi.size("L_dim")
            encoder = parts["_left_encoder"] = _encoder(left, obs, width)
        features = parts["_backward_map"] = _encoder(archi.part("b"), obs, d)
        name, F = "_forward_map", _successors(archi.part("f"), width, d, actions)
        encoded = settings.flag("actor_encode_obs", True)
        kind_of = ForwardBackward
    policy = _policy(archi.part("actor"), width if encoded else obs, d, actions)
    parts |= {name: F, "_actor": policy}
    networks = Networks(
        features=lambda rows: features(norm(rows)),
        successors=lambda rows, z, action: F(encoder(norm(rows)), z, action),
        action=lambda rows, z: policy(encoder(norm(rows)) if encoded else norm(rows), z),
        dim=d,
        observation_space=space,
        action_space=action_box(actions),
    )
    return Design(parts, kind_of, networks)


def bfm_zero_design(settings: Settings, arguments: Settings) -> Design:
    """FB, FB-CPR and its successor of BFM-Zero: a norm for each entry of s; each network sees the entries it names."""
    whole, actions = arguments.part("obs_space").space(), arguments.size("action_dim")
    if not isinstance(whole, Dict):
        raise ValueError(f"{arguments.where}: obs_space is a Box, expected a Dict")
    archi, normalizers = settings.part("archi"), settings.part("obs_normalizer").part("normalizers")
    keys = {name: _entries(archi.part(name), list(whole)) for name in ("b", "f", "actor")}
    used = [key for key in whole if any(key in names for names in keys.values())]
    space = Dict({key: whole[key] for key in used})
    sizes = {name: sum((space[key].shape or ())[0] for key in names) for name, names in keys.items()}
    norms: dict[str, nn.Module] = dict.fromkeys(used, nn.Identity())
    of_norms = {}
    for key in used:
        if normalizers.part(key).choice("name", (NO_NORM, BATCH_NORM)) == BATCH_NORM:
            norms[key] = of_norms[f"_obs_normalizer._normalizers.{key}._normalizer"] = Moments(
                (space[key].shape or ())[0]
            )
    d, forward = _z_dim(archi), archi.part("f")
    B = _encoder(archi.part("b"), sizes["b"], d, linear=False)
    # A residual F has as many layers in its embeddings as in its joint network.
    residual = forward.choice("model", ("simple", "residual"), "simple") == "residual"
    F = _successors(forward, sizes["f"], d, actions, "hidden_layers" if residual else "embedding_layers")
    policy = _policy(archi.part("actor"), sizes["actor"], d, actions)
    parts: dict[str, nn.Module] = {"_backward_map": B, "_forward_map": F, "_actor": policy}
    parts |= of_norms

    def seen(rows: Rows, name: str) -> Tensor:
        return torch.cat([norms[key](rows[key]) for key in keys[name]], -1)  # type: ignore[index]

    networks = Networks(
        features=lambda rows: B(seen(rows, "b")),
        successors=lambda rows, z, action: F(seen(rows, "f"), z, action),
        action=lambda rows, z: policy(seen(rows, "actor"), z),
        dim=d,
        observation_space=space,
        action_space=action_box(actions),
        needs=entries_needed(keys),
    )
    return Design(parts, ForwardBackward, networks)


def _entries(network: Settings, names: list[str]) -> list[str]:
    """The entries of the observation that a network sees."""
    network.choice("name", ("ForwardArchi", "BackwardArchi", "actor", "simple", "residual"), "actor", hint=ELSEWHERE)
    seen = network.part("input_filter")
    seen.choice("name", ("DictInputFilterConfig",))
    keys = seen.words("key")
    for key in keys:
        if key not in names:
            raise ValueError(f"{seen.where}: key {key!r} is not in obs_space, which has {', '.join(names)}")
    return keys


def _z_dim(archi: Settings, name: str = "z_dim") -> int:
    if not archi.flag("norm_z", True):
        raise ValueError(f"{archi.where}: norm_z is false, expected a model whose z lie on the sphere of radius √d")
    return archi.size(name)


def _shape(network: Settings, embeddings: str) -> Shape:
    hidden = network.size("hidden_dim")
    if hidden % 2:
        raise ValueError(f"{network.where}: hidden_dim is {hidden}, expected an even number")
    return Shape(
        hidden=hidden,
        layers=network.size("hidden_layers", 1, low=0, high=DEEP),
        embeddings=network.size(embeddings, 2, low=2, high=DEEP),
        residual=network.choice("model", ("simple", "residual"), "simple") == "residual",
    )


def _encoder(network: Settings, inputs: int, outputs: int, linear: bool = True) -> Encoder:
    """With 0 hidden layers TD-JEPA has a linear map, the others still have one layer."""
    layers = max(network.size("hidden_layers", 2, low=0, high=DEEP), 0 if linear else 1)
    hidden, on_sphere = network.size("hidden_dim"), network.flag("norm", True)
    return Encoder(inputs, outputs, hidden, layers=layers, on_sphere=on_sphere)


def _successors(
    network: Settings, obs: int, d: int, actions: int, embeddings: str = "embedding_layers"
) -> Successors | SeparateSuccessors:
    heads, shape = network.size("num_parallel", 2, high=16), _shape(network, embeddings)
    if network.choice("ensemble_mode", ("batch", "seq"), "batch") == "seq":
        return SeparateSuccessors([Successors(obs, d, actions, shape, heads=1) for _ in range(heads)])
    return Successors(obs, d, actions, shape, heads=heads)


def _policy(network: Settings, obs: int, d: int, actions: int) -> Policy:
    network.choice("name", ("actor", "simple", "residual"), "actor", hint=ELSEWHERE)
    return Policy(obs, d, actions, _shape(network, "embedding_layers"))
