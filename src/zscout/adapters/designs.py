"""The networks that the settings of a checkpoint describe, and how they make φ, ψ and π."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor, nn

from zscout.adapters.adapter import Adapter, ForwardBackward, Networks, Place, Rows
from zscout.adapters.layers import Encoder, Moments, Policy, SeparateSuccessors, Successors
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
    adapter: Callable[[torch.device, float | None], Adapter]

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
    norm = Moments(obs) if settings.flag("norm_obs", True) else None
    if norm is not None:
        parts["_obs_normalizer"] = norm

    def adapter(device: torch.device, gamma: float | None) -> Adapter:
        networks = Networks(
            features=lambda rows: B(_normal(norm, rows)),
            successors=lambda rows, z, action: F(_normal(norm, rows), z, action),
            action=lambda rows, z: policy(_normal(norm, rows), z),
            dim=d,
            place=Place(Box(-np.inf, np.inf, (obs,), np.float32), action_box(actions), device),
        )
        return ForwardBackward(networks, gamma)

    return Design(parts, adapter)


def td_jepa_design(settings: Settings, arguments: Settings) -> Design:
    """TD-JEPA, and the FB model of its repository: an encoder of s before F, and before the policy if so set."""
    space, actions = arguments.part("obs_space").space(), arguments.size("action_dim")
    if not isinstance(space, Box):
        raise ValueError(f"{arguments.where}: obs_space is a Dict, expected a Box")
    obs, archi = space.shape[0], settings.part("archi")
    hint = ELSEWHERE + " (images)"
    archi.part("rgb_encoder").choice("name", IDENTITY, hint=hint)
    kind = settings.part("obs_normalizer").choice("name", (NO_NORM, BATCH_NORM), hint=hint)
    norm = Moments(obs) if kind == BATCH_NORM else None
    parts: dict[str, nn.Module] = {} if norm is None else {"_obs_normalizer._normalizer": norm}
    encoder: nn.Module | None = None
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

    def encode(rows: Rows) -> Tensor:
        normal = _normal(norm, rows)
        return normal if encoder is None else encoder(normal)

    def adapter(device: torch.device, gamma: float | None) -> Adapter:
        networks = Networks(
            features=lambda rows: features(_normal(norm, rows)),
            successors=lambda rows, z, action: F(encode(rows), z, action),
            action=lambda rows, z: policy(encode(rows) if encoded else _normal(norm, rows), z),
            dim=d,
            place=Place(space, action_box(actions), device),
        )
        return kind_of(networks, gamma)

    return Design(parts, adapter)


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
    kinds = {key: normalizers.part(key).choice("name", (NO_NORM, BATCH_NORM)) for key in used}
    norms = {key: Moments((space[key].shape or ())[0]) for key, kind in kinds.items() if kind == BATCH_NORM}
    d, forward = _z_dim(archi), archi.part("f")
    B = _encoder(archi.part("b"), sizes["b"], d, linear=False)
    # A residual F has as many layers in its embeddings as in its joint network.
    residual = forward.choice("model", ("simple", "residual"), "simple") == "residual"
    F = _successors(forward, sizes["f"], d, actions, "hidden_layers" if residual else "embedding_layers")
    policy = _policy(archi.part("actor"), sizes["actor"], d, actions)
    parts: dict[str, nn.Module] = {"_backward_map": B, "_forward_map": F, "_actor": policy}
    parts |= {f"_obs_normalizer._normalizers.{key}._normalizer": norm for key, norm in norms.items()}

    def seen(rows: Rows, name: str) -> Tensor:
        return torch.cat([_normal(norms.get(key), rows[key]) for key in keys[name]], -1)  # type: ignore[index]

    def adapter(device: torch.device, gamma: float | None) -> Adapter:
        networks = Networks(
            features=lambda rows: B(seen(rows, "b")),
            successors=lambda rows, z, action: F(seen(rows, "f"), z, action),
            action=lambda rows, z: policy(seen(rows, "actor"), z),
            dim=d,
            place=Place(space, action_box(actions), device),
            needs=entries_needed(keys),
        )
        return ForwardBackward(networks, gamma)

    return Design(parts, adapter)


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


def _hidden(network: Settings) -> int:
    hidden = network.size("hidden_dim")
    if hidden % 2:
        raise ValueError(f"{network.where}: hidden_dim is {hidden}, expected an even number")
    return hidden


def _encoder(network: Settings, inputs: int, outputs: int, linear: bool = True) -> Encoder:
    """With 0 hidden layers TD-JEPA has a linear map, the others still have one layer."""
    layers = network.size("hidden_layers", 2, low=0, high=DEEP)
    return Encoder(
        inputs,
        outputs,
        network.size("hidden_dim"),
        layers=layers if linear else max(layers, 1),
        on_sphere=network.flag("norm", True),
    )


def _successors(
    network: Settings, obs: int, d: int, actions: int, embeddings: str = "embedding_layers"
) -> Successors | SeparateSuccessors:
    heads = network.size("num_parallel", 2, high=16)
    separate = network.choice("ensemble_mode", ("batch", "seq"), "batch") == "seq"

    def successors(copies: int) -> Successors:
        return Successors(
            obs,
            d,
            actions,
            _hidden(network),
            layers=network.size("hidden_layers", 1, low=0, high=DEEP),
            embeddings=network.size(embeddings, 2, low=2, high=DEEP),
            heads=copies,
            residual=network.choice("model", ("simple", "residual"), "simple") == "residual",
        )

    return SeparateSuccessors([successors(1) for _ in range(heads)]) if separate else successors(heads)


def _policy(network: Settings, obs: int, d: int, actions: int) -> Policy:
    network.choice("name", ("actor", "simple", "residual"), "actor", hint=ELSEWHERE)
    return Policy(
        obs,
        d,
        actions,
        _hidden(network),
        layers=network.size("hidden_layers", 1, low=0, high=DEEP),
        embeddings=network.size("embedding_layers", 2, low=2, high=DEEP),
        residual=network.choice("model", ("simple", "residual"), "simple") == "residual",
    )


def _normal(norm: Moments | None, rows: Rows) -> Tensor:
    assert isinstance(rows, Tensor)
    return rows if norm is None else norm(rows)
