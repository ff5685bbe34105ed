"""Fully connected networks on (s, z): for training, and fast inference once frozen."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn

from zscout.models.networks import rectified

ROWS_ON_CPU = 4096  # at a time: fewer load the weights more often, more hold more memory
ROWS_ON_GPU = 2**18  # rows whose activations fit a GPU's memory


class Networks(nn.Module):
    """``copies`` fully connected networks of the same shape on (s, z), batched.

    The first layer is split into its parts on s and on z, so that neither is computed twice for many z in the same
    states.
    """

    def __init__(self, copies: int, sizes: Sequence[int], state_inputs: int, dropout: float, rng: Generator) -> None:
        super().__init__()
        fans = list(pairwise(sizes))
        self.state_inputs = state_inputs
        self.weights = nn.ParameterList([_uniform((copies, *fan), fan[0], rng) for fan in fans])
        self.biases = nn.ParameterList([_uniform((copies, 1, fan[1]), fan[0], rng) for fan in fans])
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, table: Float[Tensor, "S k"], state: Int[Tensor, "*n s"], z: Float[Tensor, "n d"]
    ) -> Float[Tensor, "copies n s out"]:
        """Outputs for each z at the states s of the table, shared by all z or one set per z."""
        first, bias = self.weights[0], self.biases[0]
        from_state = (table @ first[:, : self.state_inputs])[:, state]  # [copies s hidden] or [copies n s hidden]
        from_z = z @ first[:, self.state_inputs :] + bias  # [copies n hidden]
        x = torch.relu((from_state if state.ndim == 2 else from_state[:, None]) + from_z[:, :, None])
        copies, n, s, hidden = x.shape
        x = x.reshape(copies, n * s, hidden)
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            x = torch.baddbmm(bias, self.dropout(x), weight)
            if weight is not self.weights[-1]:
                x = torch.relu(x)
        return x.reshape(copies, n, s, x.shape[-1])


class Inference:
    """Networks of equal shape except their last layer, batched: one matrix product per layer.

    The state's part of the first layer is precomputed; only z passes through it.
    """

    def __init__(self, networks: Sequence[Networks], table: Float[Tensor, "S k"]) -> None:
        k = table.shape[1]
        with torch.no_grad():
            # [copies S hidden] and [copies d hidden]
            self._from_state = torch.cat([table @ each.weights[0][:, :k] + each.biases[0] for each in networks])
            self._from_z = torch.cat([each.weights[0][:, k:] for each in networks])
            self._hidden = [
                (torch.cat([each.weights[i] for each in networks]), torch.cat([each.biases[i] for each in networks]))
                for i in range(1, len(networks[0].weights) - 1)
            ]
            self._last = [(each.weights[-1].detach(), each.biases[-1].detach()) for each in networks]

    def __call__(self, state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> list[Float[Tensor, "copies n out"]]:
        """The outputs of each network for n pairs of state and z."""
        x = torch.baddbmm(self._from_state.index_select(1, state), z.expand(len(self._from_z), *z.shape), self._from_z)
        for weight, bias in self._hidden:
            x = torch.baddbmm(bias, rectified(x), weight)
        x = rectified(x)
        copies = [len(weight) for weight, _ in self._last]
        pairs = zip(self._last, x.split(copies), strict=True)
        return [torch.baddbmm(bias, part, weight) for (weight, bias), part in pairs]


def in_parts(state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Iterator[tuple[Tensor, Tensor]]:
    """Split pairs of state and z into parts that fit memory."""
    rows = ROWS_ON_CPU if z.device.type == "cpu" else ROWS_ON_GPU
    if len(z) <= rows:  # torch's split is slow
        return iter([(state, z)])
    return zip(state.split(rows), z.split(rows), strict=True)


def _uniform(shape: tuple[int, ...], fan_in: int, rng: Generator) -> nn.Parameter:
    """~ U(−1/√fan_in, 1/√fan_in), as torch initialises linear layers."""
    return nn.Parameter((2 * torch.rand(shape, generator=rng) - 1) / math.sqrt(fan_in))
