"""Fast inference of frozen networks."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

ROWS = 1024  # rows whose activations fit a core's cache
MOST_ROWS = 2**18  # rows whose activations fit a GPU's memory


Layers: TypeAlias = tuple[Sequence[Tensor], Sequence[Tensor]]
"""Copies of a fully connected network on (s, z): weights [copies fan_in fan_out] and biases [copies 1 fan_out]."""


class Inference:
    """Networks of equal shape except their last layer, batched: one matrix product per layer.

    The state's part of the first layer is precomputed; only z passes through it.
    """

    def __init__(self, networks: Sequence[Layers], table: Float[Tensor, "S k"]) -> None:
        k = table.shape[1]
        with torch.no_grad():
            first = [(weights[0], biases[0]) for weights, biases in networks]
            self._from_state = torch.cat([table @ weight[:, :k] + bias for weight, bias in first])  # [copies S hidden]
            self._from_z = torch.cat([weight[:, k:] for weight, _ in first])  # [copies d hidden]
            self._hidden = [
                (torch.cat([weights[i] for weights, _ in networks]), torch.cat([biases[i] for _, biases in networks]))
                for i in range(1, len(networks[0][0]) - 1)
            ]
            self._last = [(weights[-1].detach(), biases[-1].detach()) for weights, biases in networks]

    def __call__(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> list[Float[Tensor, "copies n out"]]:
        """The outputs of each network for n pairs of state and z."""
        x = torch.baddbmm(self._from_state.index_select(1, state), z.expand(len(self._from_z), *z.shape), self._from_z)
        for weight, bias in self._hidden:
            x = torch.baddbmm(bias, _rectified(x), weight)
        x = _rectified(x)
        copies = [len(weight) for weight, _ in self._last]
        pairs = zip(self._last, x.split(copies), strict=True)
        return [torch.baddbmm(bias, part, weight) for (weight, bias), part in pairs]


def in_parts(state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Iterator[tuple[Tensor, Tensor]]:
    """Split pairs of state and z into parts that fit cache or GPU memory."""
    rows = ROWS if z.device.type == "cpu" else MOST_ROWS
    return zip(state.split(rows), z.split(rows), strict=True)


def _rectified(x: Tensor) -> Tensor:
    """ReLU, in place if no gradient is needed."""
    return torch.relu(x) if x.requires_grad else torch.relu_(x)
