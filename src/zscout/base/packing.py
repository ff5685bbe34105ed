"""Weight matrices in less space: float16, or 8-bit integers with a scale for each column."""

import torch
from torch import Tensor

SCALE = ".scale"  # ends the name of the tensor with the scales of an 8-bit one
LEVELS = 127


def may_be_packed(name: str) -> bool:
    """Weight matrices; features stay exact, since rewards are linear in them."""
    return ".weights." in name and not name.endswith(SCALE)


def in_bytes(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weight matrices [*b in out] as int8, with scales [*b 1 out]: the largest weight of a column is ±127."""
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        packed |= by_columns(name, tensor) if may_be_packed(name) else {name: tensor}
    return packed


def by_columns(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """A matrix [*b n k] as int8, and the scales [*b 1 k]."""
    largest = tensor.abs().amax(-2, keepdim=True)
    scale = torch.where(largest > 0, largest / LEVELS, 1.0)
    return {name: (tensor / scale).round().to(torch.int8), name + SCALE: scale}


def unpacked(tensors: dict[str, Tensor], where: str) -> dict[str, Tensor]:
    """8-bit matrices times their scales; the others as they are."""
    found = {name: tensor for name, tensor in tensors.items() if not name.endswith(SCALE)}
    for name, tensor in tensors.items():
        if name.endswith(SCALE):
            matrix = found.get(name.removesuffix(SCALE))
            if matrix is None or matrix.dtype != torch.int8 or tensor.dtype != torch.float32:
                raise ValueError(f"{where}: {name} needs float32 scales and a matrix of int8")
            if matrix.ndim < 2 or tensor.shape != (*matrix.shape[:-2], 1, matrix.shape[-1]):
                raise ValueError(f"{where}: {name} has shape {tuple(tensor.shape)} for {tuple(matrix.shape)}")
            found[name.removesuffix(SCALE)] = matrix * tensor
    return found
