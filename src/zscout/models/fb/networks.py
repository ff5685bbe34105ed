"""The networks of an FB model: for training, and fast inference once frozen."""

import math
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from zscout.models.networks import rectified


class Perceptrons(nn.Module):
    """``copies`` fully connected networks of the same shape, batched; the first layer is normalised, or all are."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], rng: Generator, *, normalised: bool = False) -> None:
        super().__init__()
        self.normalised = normalised
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for shape in shapes:
            weight = torch.empty(shape)
            for one in weight:
                nn.init.orthogonal_(one, math.sqrt(2), generator=rng)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(shape[0], 1, shape[2])))
        with torch.no_grad():
            self.weights[-1].mul_(0.5)

    def forward(self, x: Float[Tensor, "n k"]) -> Float[Tensor, "copies n out"]:
        """The outputs of each copy."""
        return self.layers()(x)

    def layers(self) -> "Layers":
        """The parameters in plain lists: reading them from a module takes longer than a small product."""
        return Layers(self.weights, self.biases, normalised=self.normalised)


class Layers:
    """Weights [copies in out] and biases [copies 1 out] of perceptrons; a single frozen one has none of the copies."""

    def __init__(self, weights: Iterable[Tensor], biases: Iterable[Tensor], *, normalised: bool) -> None:
        self.weights, self.biases, self.normalised = list(weights), list(biases), normalised
        first = self.weights[0]
        if first.ndim == 3 and len(first) == 1 and not first.requires_grad:  # batches of one are slower
            self.weights, self.biases = ([each[0] for each in part] for part in (self.weights, self.biases))
        self.hidden = self.weights[1].shape[-2]
        self.gated = self.weights[0].shape[-1] == 2 * self.hidden
        self.minus_two = self.biases[0].new_full((self.hidden,), -2.0)

    def __call__(
        self, x: Float[Tensor, "n k"], bias: Float[Tensor, "*copies _ first"] | None = None
    ) -> Float[Tensor, "copies n out"]:
        """The outputs of each copy; ``bias`` replaces that of the first layer."""
        out = self.outputs(x, bias)
        return out if out.ndim == 3 else out[None]

    def outputs(
        self, x: Float[Tensor, "n k"], bias: Float[Tensor, "*copies _ first"] | None = None
    ) -> Float[Tensor, "*copies n out"]:
        """The same, without a dimension for copies if there is a single frozen one."""
        return product(self.inner(x, bias), self.weights[-1], self.biases[-1])

    def inner(
        self, x: Float[Tensor, "n k"], bias: Float[Tensor, "*copies _ first"] | None = None
    ) -> Float[Tensor, "*copies n hidden"]:
        """What the last layer sees."""
        out = product(x, self.weights[0], self.biases[0] if bias is None else bias)
        if not self.gated:
            out = torch.tanh(torch.layer_norm(out, (self.hidden,)))
        else:  # gate · tanh x with tanh x = 1 − 2σ(−2x): on a CPU, torch's σ takes a third of the time of its tanh
            gate, out = out.chunk(2, -1)
            share = torch.layer_norm(out, (self.hidden,), self.minus_two).sigmoid_()
            out = torch.addcmul(gate, gate, share, value=-2)
        for weight, shift in zip(self.weights[1:-1], self.biases[1:-1], strict=True):
            out = product(out, weight, shift)
            out = rectified(torch.layer_norm(out, (self.hidden,)) if self.normalised else out)
        return out


class Split:
    """Perceptrons whose first layer's product with an observation is computed once for all z there."""

    def __init__(self, layers: Layers, k: int) -> None:
        first, *others = layers.weights
        # Stored by columns: a product with a single row is then faster
        self._on_obs, self._bias = first[..., :k, :].mT.contiguous().mT, layers.biases[0]
        self.rest = Layers([first[..., k:, :].contiguous(), *others], layers.biases, normalised=layers.normalised)
        self._last: tuple[Tensor | None, Tensor] = (None, self._bias)

    def bias(self, encoded: Float[Tensor, "r k"], rows: int) -> Float[Tensor, "*copies _ first"]:
        """The bias of ``rest`` for rows of further inputs, equally many at each of r encoded observations."""
        last = self._last
        if last[0] is not encoded:
            last = (encoded, product(encoded, self._on_obs, self._bias))
            if encoded.shape[0] > 1:
                return last[1].repeat_interleave(rows // encoded.shape[0], -2)
            self._last = last
        return last[1]


class FBInference:
    """π(s,z) and ψ(s;z) of a frozen model, for n z at each of r encoded observations of k entries."""

    def __init__(self, actor: Layers, forward_map: Layers, k: int, to_psi: Float[Tensor, "d d"]) -> None:
        for part in (forward_map.weights, forward_map.biases):
            part[-1] = part[-1] @ to_psi
        self._actor, self._forward_map = Split(actor, k), Split(forward_map, k)
        # The mean of the heads is one product: of what the last layers of all heads see
        weight, bias = forward_map.weights[-1], forward_map.biases[-1]
        self._to_mean = (weight, bias) if weight.ndim == 2 else (weight.flatten(0, 1) / len(weight), bias.mean(0))
        self.last: tuple[object, Tensor] = (None, to_psi)  # the last single observation, and its encoding

    def actions(self, encoded: Float[Tensor, "r k"], z: Float[Tensor, "rn d"]) -> Float[Tensor, "rn a"]:
        """π(s,z)."""
        out = self._actor.rest.outputs(z, self._actor.bias(encoded, len(z)))
        return torch.tanh(out if out.ndim == 2 else out[0])  # a model that is not frozen keeps the dimension of copies

    def psi_heads(self, encoded: Float[Tensor, "r k"], z: Float[Tensor, "rn d"]) -> Float[Tensor, "h rn d"]:
        """ψ(s;z) of each head."""
        x = torch.cat([self.actions(encoded, z), z], -1)
        return self._forward_map.rest(x, self._forward_map.bias(encoded, len(z)))

    def psi(self, encoded: Float[Tensor, "r k"], z: Float[Tensor, "rn d"]) -> Float[Tensor, "rn d"]:
        """ψ(s;z): the mean of the heads."""
        x = torch.cat([self.actions(encoded, z), z], -1)
        inner = self._forward_map.rest.inner(x, self._forward_map.bias(encoded, len(z)))
        weight, bias = self._to_mean
        return product(inner if inner.ndim == 2 else inner.transpose(0, 1).flatten(1), weight, bias)


def product(x: Float[Tensor, "*copies n k"], weight: Tensor, bias: Tensor) -> Float[Tensor, "*copies n out"]:
    """xW + b, of each copy if there are some."""
    if weight.ndim == 2:
        return torch.addmm(bias, x, weight)
    x = x if x.ndim == 3 else x.expand(weight.shape[0], *x.shape)
    if torch.compiler.is_compiling():  # the sum joins the next kernel; baddbmm copies the bias first
        return torch.bmm(x, weight) + bias
    return torch.baddbmm(bias, x, weight)


def waves(x: Float[Tensor, "n k"], rates: Float[Tensor, "f 1"]) -> Float[Tensor, "n e"]:
    """x, and sines and cosines of x at each rate."""
    if not len(rates):
        return x
    turns = x[:, None] * rates
    return torch.cat([x, torch.stack([turns.sin(), turns.cos()], 2).flatten(1)], -1)
