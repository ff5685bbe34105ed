"""The networks of public checkpoints; names and order of modules give the tensors' names in the files."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class HeadsLinear(nn.Module):
    """A linear layer for each of h heads."""

    def __init__(self, inputs: int, outputs: int, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, inputs, outputs))
        self.bias = nn.Parameter(torch.empty(heads, 1, outputs))

    def forward(self, x: Float[Tensor, "h n i"]) -> Float[Tensor, "h n o"]:
        """x W + b of each head."""
        return x @ self.weight + self.bias


class HeadsNorm(nn.Module):
    """Layer normalisation with weights for each of h heads."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, 1, size))
        self.bias = nn.Parameter(torch.empty(heads, 1, size))

    def forward(self, x: Float[Tensor, "h n i"]) -> Float[Tensor, "h n i"]:
        """Each row with mean 0 and variance 1, scaled and shifted."""
        return functional.layer_norm(x, x.shape[-1:]) * self.weight + self.bias


class OnSphere(nn.Module):
    """√d x / ‖x‖; 0 stays 0."""

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The row on the sphere of radius √d."""
        return math.sqrt(x.shape[-1]) * functional.normalize(x, dim=-1)


class Moments(nn.Module):
    """(x − mean) / √(variance + 10⁻⁵): a batch norm after training."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.empty(size))
        self.register_buffer("running_var", torch.empty(size))

    def forward(self, x: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """The normalised rows."""
        return (x - self.running_mean) / (self.running_var + 1e-5).sqrt()


class Residual(nn.Module):
    """Mish(W norm(x) + b), added to x if ``skip``; the last one of a network is linear."""

    def __init__(self, inputs: int, outputs: int, heads: int, *, skip: bool = False, last: bool = False) -> None:
        super().__init__()
        self.mlp = nn.Sequential(_norm(inputs, heads), _linear(inputs, outputs, heads))
        if not last:
            self.mlp.append(nn.Mish())
        self.skip = skip

    def forward(self, x: Float[Tensor, "*h n i"]) -> Float[Tensor, "*h n o"]:
        """The block's output."""
        out: Tensor = self.mlp(x)
        return x + out if self.skip else out


def _linear(inputs: int, outputs: int, heads: int) -> nn.Module:
    return nn.Linear(inputs, outputs) if heads == 1 else HeadsLinear(inputs, outputs, heads)


def _norm(size: int, heads: int) -> nn.Module:
    return nn.LayerNorm(size) if heads == 1 else HeadsNorm(size, heads)


def embedding(inputs: int, shape: "Shape", heads: int = 1) -> nn.Sequential:
    """From ``inputs`` to hidden/2."""
    hidden, layers = shape.hidden, shape.embeddings
    if shape.residual:
        inner = [Residual(hidden, hidden, heads, skip=True) for _ in range(layers - 2)]
        return nn.Sequential(Residual(inputs, hidden, heads), *inner, Residual(hidden, hidden // 2, heads))
    sequence: list[nn.Module] = [_linear(inputs, hidden, heads), _norm(hidden, heads), nn.Tanh()]
    for layer in range(layers - 1):
        outputs = hidden // 2 if layer == layers - 2 else hidden
        sequence += [_linear(hidden, outputs, heads), nn.ReLU()]
    return nn.Sequential(*sequence)


def top(outputs: int, shape: "Shape", heads: int = 1) -> nn.Sequential:
    """From two embeddings to the output."""
    hidden, layers = shape.hidden, shape.layers
    if shape.residual:
        inner = [Residual(hidden, hidden, heads, skip=True) for _ in range(layers)]
        return nn.Sequential(*inner, Residual(hidden, outputs, heads, last=True))
    sequence: list[nn.Module] = []
    for _ in range(layers):
        sequence += [_linear(hidden, hidden, heads), nn.ReLU()]
    return nn.Sequential(*sequence, _linear(hidden, outputs, heads))


class Shape(NamedTuple):
    """The layers of F and of the policy."""

    hidden: int
    layers: int  # of the joint network
    embeddings: int  # layers of an embedding
    residual: bool


class Successors(nn.Module):
    """F(s,a,z) of h heads: embeddings of (s,a) and of (s,z), then a joint network."""

    def __init__(self, obs: int, z: int, actions: int, shape: Shape, *, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.embed_z = embedding(obs + z, shape, heads)
        self.embed_sa = embedding(obs + actions, shape, heads)
        self.Fs = top(z, shape, heads)

    def forward(
        self, obs: Float[Tensor, "n k"], z: Float[Tensor, "n d"], action: Float[Tensor, "n a"]
    ) -> Float[Tensor, "h n d"]:
        """F of each head."""
        of_z, of_action = self.embed_z(torch.cat([obs, z], -1)), self.embed_sa(torch.cat([obs, action], -1))
        out: Tensor = self.Fs(torch.cat([of_action, of_z], -1))
        return out.reshape(self.heads, len(obs), -1)


class SeparateSuccessors(nn.Module):
    """The same with a network of its own for each head."""

    def __init__(self, models: Sequence[Successors]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(
        self, obs: Float[Tensor, "n k"], z: Float[Tensor, "n d"], action: Float[Tensor, "n a"]
    ) -> Float[Tensor, "h n d"]:
        """F of each head."""
        return torch.cat([model(obs, z, action) for model in self.models])


class Policy(nn.Module):
    """π(s,z), the mean: embeddings of s and of (s,z), then a joint network and tanh."""

    def __init__(self, obs: int, z: int, actions: int, shape: Shape) -> None:
        super().__init__()
        self.embed_z, self.embed_s = embedding(obs + z, shape), embedding(obs, shape)
        self.policy = top(actions, shape)

    def forward(self, obs: Float[Tensor, "n k"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n a"]:
        """The mean action."""
        of_z, of_obs = self.embed_z(torch.cat([obs, z], -1)), self.embed_s(obs)
        return torch.tanh(self.policy(torch.cat([of_obs, of_z], -1)))


class Encoder(nn.Module):
    """A perceptron of s, as B and TD-JEPA's encoders: tanh after the first layer, ReLU after the others."""

    def __init__(self, inputs: int, outputs: int, hidden: int, *, layers: int, on_sphere: bool) -> None:
        super().__init__()
        self.net = perceptron(inputs, outputs, hidden, layers)
        if on_sphere:
            self.net.append(OnSphere())

    def forward(self, x: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """The features."""
        out: Tensor = self.net(x)
        return out


def perceptron(inputs: int, outputs: int, hidden: int, layers: int) -> nn.Sequential:
    """Linear, norm, tanh, then linear and ReLU; with 0 hidden layers one linear map."""
    if not layers:
        return nn.Sequential(nn.Linear(inputs, outputs))
    sequence: list[nn.Module] = [nn.Linear(inputs, hidden), nn.LayerNorm(hidden), nn.Tanh()]
    for _ in range(layers - 1):
        sequence += [nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*sequence, nn.Linear(hidden, outputs))
