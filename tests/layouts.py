"""Small checkpoints in the layouts of public projects, with random weights, and φ, ψ, π computed from them by name.

The computations are in float64 and use only the tensors' names, so they share no code with ``zscout.adapters``.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

K, D, A, ROWS = 5, 6, 3, 7  # entries of the observation, of z and of an action; rows


class Weights(dict[str, Tensor]):
    """Random tensors by name, and the operations that read them."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = torch.Generator().manual_seed(0)

    def new(self, name: str, *shape: int, scale: float = 1.0) -> None:
        self[name] = torch.randn(shape, generator=self.rng) * scale

    def linear(self, name: str, inputs: int, outputs: int, heads: int = 1) -> None:
        self.new(
            f"{name}.weight",
            *((outputs, inputs) if heads == 1 else (heads, inputs, outputs)),
            scale=(2 / inputs) ** 0.5,
        )
        self.new(f"{name}.bias", *((outputs,) if heads == 1 else (heads, 1, outputs)), scale=0.3)

    def norm(self, name: str, size: int, heads: int = 1) -> None:
        for part in ("weight", "bias"):
            self.new(f"{name}.{part}", *((size,) if heads == 1 else (heads, 1, size)))

    def moments(self, name: str, size: int) -> None:
        self.new(f"{name}.running_mean", size)
        self[f"{name}.running_var"] = torch.rand(size, generator=self.rng) + 0.5
        self[f"{name}.num_batches_tracked"] = torch.tensor(7)

    def perceptron(self, name: str, inputs: int, hidden: int, outputs: int) -> None:
        """Two hidden layers: 0 linear, 1 norm, 3 linear, 5 linear."""
        self.linear(f"{name}.0", inputs, hidden)
        self.norm(f"{name}.1", hidden)
        self.linear(f"{name}.3", hidden, hidden)
        self.linear(f"{name}.5", hidden, outputs)

    # Operations, in float64

    def map(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self[f"{name}.weight"].double(), self[f"{name}.bias"].double()
        out: Tensor = x @ (weight.mT if weight.ndim == 2 else weight) + bias
        return out

    def normed(self, name: str, x: Tensor) -> Tensor:
        spread = (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        return (x - x.mean(-1, keepdim=True)) / spread * self[f"{name}.weight"].double() + self[f"{name}.bias"].double()

    def standard(self, name: str, x: Tensor) -> Tensor:
        mean, variance = self[f"{name}.running_mean"].double(), self[f"{name}.running_var"].double()
        return (x - mean) / (variance + 1e-5).sqrt()

    def of_perceptron(self, name: str, x: Tensor) -> Tensor:
        first = self.normed(f"{name}.1", self.map(f"{name}.0", x)).tanh()
        return self.map(f"{name}.5", self.map(f"{name}.3", first).relu())

    def block(self, name: str, x: Tensor, last: bool = False) -> Tensor:
        out = self.map(f"{name}.mlp.1", self.normed(f"{name}.mlp.0", x))
        return out if last else torch.nn.functional.mish(out)


def sphere(x: Tensor) -> Tensor:
    out: Tensor = x / x.norm(dim=-1, keepdim=True) * x.shape[-1] ** 0.5
    return out


@dataclass
class Layout:
    """A checkpoint, and what its networks give: φ (or f, or B) [n d], ψ [h n d], action [n a]."""

    config: dict[str, Any]
    weights: Weights
    features: Callable[[Any], Tensor]
    successors: Callable[[Any, Tensor, Tensor], Tensor]
    action: Callable[[Any, Tensor], Tensor]
    arguments: dict[str, Any] | None = None
    obs: Any = field(default_factory=lambda: torch.randn(ROWS, K, generator=torch.Generator().manual_seed(1)).double())

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(dict(self.weights), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.config))
        if self.arguments is not None:
            (folder / "init_kwargs.json").write_text(json.dumps(self.arguments))
        return folder


def tower(w: Weights, name: str, inputs: int, hidden: int, layers: int, heads: int, residual: bool) -> None:
    """An embedding to hidden/2."""
    if residual:
        for i in range(layers):
            size = inputs if i == 0 else hidden
            w.norm(f"{name}.{i}.mlp.0", size, heads)
            w.linear(f"{name}.{i}.mlp.1", size, hidden // 2 if i == layers - 1 else hidden, heads)
        return
    w.linear(f"{name}.0", inputs, hidden, heads)
    w.norm(f"{name}.1", hidden, heads)
    for i in range(layers - 1):
        w.linear(f"{name}.{3 + 2 * i}", hidden, hidden // 2 if i == layers - 2 else hidden, heads)


def of_tower(w: Weights, name: str, x: Tensor, layers: int, residual: bool) -> Tensor:
    if residual:
        for i in range(layers):
            x = w.block(f"{name}.{i}", x) + (x if 0 < i < layers - 1 else 0)
        return x
    x = w.normed(f"{name}.1", w.map(f"{name}.0", x)).tanh()
    for i in range(layers - 1):
        x = w.map(f"{name}.{3 + 2 * i}", x).relu()
    return x


def top(w: Weights, name: str, hidden: int, outputs: int, layers: int, heads: int, residual: bool) -> None:
    for i in range(layers + 1):
        size = outputs if i == layers else hidden
        if residual:
            w.norm(f"{name}.{i}.mlp.0", hidden, heads)
        w.linear(f"{name}.{i}.mlp.1" if residual else f"{name}.{2 * i}", hidden, size, heads)


def of_top(w: Weights, name: str, x: Tensor, layers: int, residual: bool) -> Tensor:
    for i in range(layers):
        x = x + w.block(f"{name}.{i}", x) if residual else w.map(f"{name}.{2 * i}", x).relu()
    return w.block(f"{name}.{layers}", x, last=True) if residual else w.map(f"{name}.{2 * layers}", x)


@dataclass
class Network:
    """F (``second`` is sa) or the policy (s) of the newer projects."""

    w: Weights
    name: str
    obs: int
    actions: int
    outputs: int
    hidden: int
    layers: int
    embeddings: int
    heads: int
    residual: bool
    second: str
    last: str

    def __post_init__(self) -> None:
        w, h, n = self.w, self.hidden, self.name
        tower(w, f"{n}.embed_z", self.obs + D, h, self.embeddings, self.heads, self.residual)
        tower(w, f"{n}.{self.second}", self.obs + self.actions, h, self.embeddings, self.heads, self.residual)
        top(w, f"{n}.{self.last}", h, self.outputs, self.layers, self.heads, self.residual)

    def __call__(self, obs: Tensor, z: Tensor, *action: Tensor) -> Tensor:
        second, of_z = torch.cat([obs, *action], -1), torch.cat([obs, z], -1)
        one = of_tower(self.w, f"{self.name}.{self.second}", second, self.embeddings, self.residual)
        two = of_tower(self.w, f"{self.name}.embed_z", of_z, self.embeddings, self.residual)
        return of_top(self.w, f"{self.name}.{self.last}", torch.cat([one, two], -1), self.layers, self.residual)


def successors(w: Weights, name: str, obs: int, heads: int, residual: bool, layers: int, embeddings: int) -> Network:
    return Network(w, name, obs, A, D, 8, layers, embeddings, heads, residual, "embed_sa", "Fs")


def policy(w: Weights, obs: int, residual: bool, layers: int, embeddings: int) -> Network:
    return Network(w, "_actor", obs, 0, A, 10, layers, embeddings, 1, residual, "embed_s", "policy")


def archi(kind: str, heads: int, layers: int, embeddings: int, mode: str) -> dict[str, Any]:
    sizes = {"model": kind, "hidden_layers": layers, "embedding_layers": embeddings}
    return {
        "z_dim": D,
        "norm_z": True,
        "f": {**sizes, "hidden_dim": 8, "num_parallel": heads, "ensemble_mode": mode},
        "b": {"hidden_dim": 4, "hidden_layers": 2, "norm": True},
        "actor": {**sizes, "hidden_dim": 10},
    }


def metamotivo(
    kind: str = "simple", heads: int = 2, mode: str = "batch", layers: int = 1, embeddings: int = 3
) -> Layout:
    w, residual = Weights(), kind == "residual"
    w.perceptron("_backward_map.net", K, 4, D)
    if mode == "seq":
        each = [successors(w, f"_forward_map.models.{i}", K, 1, residual, layers, embeddings) for i in range(heads)]
    else:
        each = [successors(w, "_forward_map", K, heads, residual, layers, embeddings)]
    act = policy(w, K, residual, layers, embeddings)
    w.moments("_obs_normalizer", K)
    w.new("_critic.Fs.0.weight", 3, 3)  # FB-CPR and training networks: not needed
    w.new("_target_backward_map.net.0.weight", 3, 3)

    def normal(obs: Tensor) -> Tensor:
        return w.standard("_obs_normalizer", obs)

    config = {"obs_dim": K, "action_dim": A, "device": "cuda", "norm_obs": True, "actor_std": 0.2, "seq_length": 1}
    return Layout(
        {**config, "archi": archi(kind, heads, layers, embeddings, mode)},
        w,
        lambda obs: sphere(w.of_perceptron("_backward_map.net", normal(obs))),
        lambda obs, z, a: torch.stack([one(normal(obs), z, a) for one in each]).reshape(heads, -1, D),
        lambda obs, z: act(normal(obs), z).tanh(),
    )


def box(entries: int) -> dict[str, Any]:
    ends = {"low": [-float("inf")] * entries, "high": [float("inf")] * entries}
    return {**ends, "shape": [entries], "dtype": "float32", "type": "Box"}


def td_jepa(symmetric: bool = False, whole: bool = True) -> Layout:
    w, width = Weights(), D if symmetric else 4
    w.perceptron("_phi_mlp_encoder.net", K, 4, width)
    if not symmetric:
        w.perceptron("_psi_mlp_encoder.net", K, 6, D)
    F = successors(w, "_phi_predictor", width, 2, False, 1, 2)
    act = policy(w, width if whole else K, False, 1, 2)
    w.moments("_obs_normalizer._normalizer", K)
    w.new("_z_cov", D, D)
    w.new("_psi_predictor.Fs.0.weight", 3, 3)

    def encoded(obs: Tensor, name: str = "_phi") -> Tensor:
        normal = w.standard("_obs_normalizer._normalizer", obs)
        out = w.of_perceptron(f"{name}_mlp_encoder.net", normal)
        return sphere(out) if name == "_psi" else out

    forward = {"hidden_dim": 8, "model": "simple", "hidden_layers": 1, "embedding_layers": 2, "num_parallel": 2}
    config = {
        "name": "TDJEPAModel",
        "device": "cuda",
        "obs_normalizer": {"name": "BatchNormNormalizerConfig", "momentum": 0.01},
        "actor_use_full_encoder": whole,
        "symmetric": symmetric,
        "archi": {
            "phi_dim": width,
            "psi_dim": D,
            "norm_z": True,
            "rgb_encoder": {"name": "Identity"},
            "phi_predictor": {**forward, "ensemble_mode": "batch"},
            "phi_mlp_encoder": {"hidden_dim": 4, "hidden_layers": 2, "norm": False},
            "psi_mlp_encoder": {"hidden_dim": 6, "hidden_layers": 2, "norm": True},
            "actor": {"name": "simple", "hidden_dim": 10, "hidden_layers": 1, "embedding_layers": 2},
        },
    }
    return Layout(
        config,
        w,
        lambda obs: encoded(obs, "_phi" if symmetric else "_psi"),
        lambda obs, z, a: F(encoded(obs), z, a),
        lambda obs, z: act(encoded(obs) if whole else w.standard("_obs_normalizer._normalizer", obs), z).tanh(),
        {"obs_space": box(K), "action_dim": A},
    )


def td_jepa_fb(left: bool) -> Layout:
    """The FB model of TD-JEPA's repository; with ``left`` an encoder before F, which the actor does not see."""
    w, width = Weights(), 4 if left else K
    w.perceptron("_backward_map.net", K, 4, D)
    if left:
        w.perceptron("_left_encoder.net", K, 6, width)
    F, act = successors(w, "_forward_map", width, 2, False, 1, 3), policy(w, K, False, 1, 3)
    described = archi("simple", 2, 1, 3, "batch")
    described["actor"]["name"] = "simple"
    described |= {"L_dim": 4, "rgb_encoder": {"name": "Identity"}, "left_encoder": {"name": "Identity"}}
    if left:
        described["left_encoder"] = {"name": "BackwardArchi", "hidden_dim": 6, "hidden_layers": 2, "norm": True}
    config = {"name": "FBModel", "archi": described, "obs_normalizer": {"name": "IdentityNormalizerConfig"}}
    return Layout(
        {**config, "actor_encode_obs": False},
        w,
        lambda obs: sphere(w.of_perceptron("_backward_map.net", obs)),
        lambda obs, z, a: F(sphere(w.of_perceptron("_left_encoder.net", obs)) if left else obs, z, a),
        lambda obs, z: act(obs, z).tanh(),
        {"obs_space": box(K), "action_dim": A},
    )


SIZES = {"state": 4, "privileged_state": 5, "last_action": 3, "history_actor": 2, "time": 1}
SEEN = {
    "b": ["privileged_state", "state"],
    "f": ["state", "privileged_state", "last_action", "history_actor"],
    "actor": ["state", "last_action", "history_actor"],
}


def bfm_zero(kind: str = "residual") -> Layout:
    w, residual, layers, embeddings = Weights(), kind == "residual", 3, 4
    sizes = {name: sum(SIZES[key] for key in keys) for name, keys in SEEN.items()}
    w.perceptron("_backward_map.net", sizes["b"], 4, D)
    F = successors(w, "_forward_map", sizes["f"], 2, residual, layers, layers if residual else embeddings)
    act = policy(w, sizes["actor"], residual, layers, embeddings)
    normed = [name for name in SIZES if name not in ("last_action", "time")]
    for name in normed:
        w.moments(f"_obs_normalizer._normalizers.{name}._normalizer", SIZES[name])

    def seen(obs: dict[str, Tensor], network: str) -> Tensor:
        names = {name: f"_obs_normalizer._normalizers.{name}._normalizer" for name in normed}
        return torch.cat([w.standard(names[k], obs[k]) if k in names else obs[k] for k in SEEN[network]], -1)

    described = archi(kind, 2, layers, embeddings, "batch")
    for name, own in (("f", "ForwardArchi"), ("b", "BackwardArchi"), ("actor", "actor")):
        described[name] |= {"name": own, "input_filter": {"name": "DictInputFilterConfig", "key": SEEN[name]}}
    norms = {
        name: {"name": "BatchNormNormalizerConfig" if name in normed else "IdentityNormalizerConfig"} for name in SIZES
    }
    config = {"name": "FBcprAuxModel", "archi": described, "obs_normalizer": {"normalizers": norms}}
    rng = torch.Generator().manual_seed(2)
    return Layout(
        config,
        w,
        lambda obs: sphere(w.of_perceptron("_backward_map.net", seen(obs, "b"))),
        lambda obs, z, a: F(seen(obs, "f"), z, a),
        lambda obs, z: act(seen(obs, "actor"), z).tanh(),
        {"obs_space": {"type": "Dict", "spaces": {n: box(k) for n, k in SIZES.items()}}, "action_dim": A},
        {name: torch.randn(ROWS, k, generator=rng).double() for name, k in SIZES.items()},
    )


def agent(project: str, kind: str = "state", preprocess: bool = True, trunk: bool = False, k: int = K) -> Layout:
    """HILP and controllable_agent, as ``convert`` writes them."""
    w, hidden, feature, width = Weights(), 8, 4, D // 2 if kind == "concat" else D
    hilp = project == "hilp"
    f, F = ("feature_learner.phi1", "successor_net") if hilp else ("backward_net.B", "forward_net")
    w.perceptron(f, k, 4, width)
    if hilp:
        w.new("feature_learner.running_mean", width)
    for name, first, inputs in ((F, "obs_action_net", k + A), ("actor", "obs_net", k)):
        if preprocess:
            for net, size in ((first, inputs), ("obs_z_net", k + D)):
                w.linear(f"{name}.{net}.0", size, hidden)
                w.norm(f"{name}.{net}.1", hidden)
                w.linear(f"{name}.{net}.3", hidden, feature)
            if trunk:
                w.linear(f"{name}.trunk.0", 2 * feature, hidden)
        else:
            w.perceptron(f"{name}.trunk", inputs + D, hidden, hidden)
        last = hidden if trunk or not preprocess else 2 * feature
        for head, outputs in (("F1", D), ("F2", D)) if name == F else (("policy", A),):
            w.linear(f"{name}.{head}.0", last, hidden)
            w.linear(f"{name}.{head}.2", hidden, outputs)

    def small(net: str, x: Tensor) -> Tensor:
        return w.map(f"{net}.3", w.normed(f"{net}.1", w.map(f"{net}.0", x)).tanh()).relu()

    def joined(name: str, first: str, obs: Tensor, z: Tensor, *action: Tensor) -> Tensor:
        if not preprocess:
            return w.of_perceptron(f"{name}.trunk", torch.cat([obs, z, *action], -1)).relu()
        one = small(f"{name}.{first}", torch.cat([obs, *action], -1))
        both = torch.cat([one, small(f"{name}.obs_z_net", torch.cat([obs, z], -1))], -1)
        return w.map(f"{name}.trunk.0", both).relu() if trunk else both

    def last_of(name: str, x: Tensor) -> Tensor:
        return w.map(f"{name}.2", w.map(f"{name}.0", x).relu())

    def features(obs: Tensor) -> Tensor:
        out = w.of_perceptron(f, obs)
        return out - w["feature_learner.running_mean"].double() if hilp else sphere(out)

    def both_heads(obs: Tensor, z: Tensor, action: Tensor) -> Tensor:
        x = joined(F, "obs_action_net", obs, z, action)
        return torch.stack([last_of(f"{F}.F1", x), last_of(f"{F}.F2", x)])

    model = {"obs_dim": k, "action_dim": A, "z_dim": D, "hidden_dim": hidden, "feature_dim": feature}
    model |= {"preprocess": preprocess, "add_trunk": trunk, "features_hidden_dim": 4}
    config = {"format": f"zscout-{project}-1", "gamma": 0.9, "model": model | ({"feature_type": kind} if hilp else {})}
    obs = torch.randn(ROWS, k, generator=torch.Generator().manual_seed(1)).double()
    return Layout(
        config,
        w,
        features,
        both_heads,
        lambda s, z: last_of("actor.policy", joined("actor", "obs_net", s, z)).tanh(),
        obs=obs,
    )


LAYOUTS: dict[str, Callable[[], Layout]] = {
    "metamotivo": metamotivo,
    "metamotivo-residual": lambda: metamotivo("residual", 3, layers=2),
    "metamotivo-one-head": lambda: metamotivo("residual", 1, embeddings=2),
    "metamotivo-separate": lambda: metamotivo(mode="seq", layers=0),
    "td-jepa": td_jepa,
    "td-jepa-symmetric": lambda: td_jepa(True),
    "td-jepa-actor-of-s": lambda: td_jepa(whole=False),
    "td-jepa-fb": lambda: td_jepa_fb(False),
    "td-jepa-fb-left": lambda: td_jepa_fb(True),
    "bfm-zero": bfm_zero,
    "bfm-zero-simple": lambda: bfm_zero("simple"),
    "hilp": lambda: agent("hilp"),
    "hilp-diff": lambda: agent("hilp", "diff", trunk=True),
    "hilp-concat": lambda: agent("hilp", "concat", preprocess=False),
    "controllable-agent": lambda: agent("controllable-agent"),
}
