"""The public edge: ints, lists, numpy and torch come in, are cast once, and are refused early and clearly."""

from typing import SupportsFloat

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.types import Obs, Vectors


def as_index(value: Obs, size: int, name: str, device: torch.device | None = None) -> Int[Tensor, "*b"]:
    """Integers in 0 … size − 1 as a long tensor of the same shape."""
    try:
        index = torch.as_tensor(value, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be whole numbers, came as {type(value).__name__}: {error}") from None
    if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        if index.numel() == 0 and not isinstance(value, Tensor):
            index = index.long()  # an empty list has no dtype of its own
        else:
            raise ValueError(f"{name} must be whole numbers, came as {index.dtype}")
    index = index.long()
    if index.numel():
        low, high = torch.aminmax(index)
        if low < 0 or high >= size:
            bad = int(low) if low < 0 else int(high)
            raise ValueError(f"{name} {bad} is outside 0 … {size - 1}")
    return index


def as_finite(value: Vectors, name: str, device: torch.device | None = None) -> Float[Tensor, "*shape"]:
    """Finite real numbers as a float64 tensor."""
    try:
        numbers = torch.as_tensor(value, device=device)
        if numbers.is_complex() or numbers.dtype == torch.bool:
            raise ValueError(f"{numbers.dtype} is not real")
        numbers = numbers.double()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be real numbers, came as {type(value).__name__}: {error}") from None
    if not torch.isfinite(numbers).all():
        raise ValueError(f"{name} holds NaN or inf")
    return numbers


def as_vectors(
    value: Vectors, dim: int, name: str = "z", device: torch.device | None = None, candidates: bool = False
) -> Float[Tensor, "*b d"]:
    """Finite vectors of d entries; with ``candidates`` at least two dimensions, [*b n d]."""
    vectors = as_finite(value, name, device)
    if vectors.ndim == 0:
        raise ValueError(f"{name} is a single number, {dim} entries are wanted")
    if vectors.shape[-1] != dim:
        raise ValueError(f"{name} has {vectors.shape[-1]} entries, {dim} are wanted")
    if candidates and vectors.ndim < 2:
        raise ValueError(f"{name} is one vector [{dim}], candidates are [*b n {dim}]: pass {name}[None]")
    return vectors


def as_generator(rng: Generator | int, device: torch.device | None = None) -> Generator:
    """The generator itself, or a fresh one from a seed."""
    if isinstance(rng, Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int):
        raise ValueError(f"rng must be a torch.Generator or a seed, came as {type(rng).__name__}")
    return Generator(device=device or torch.device("cpu")).manual_seed(rng)


def in_range(value: SupportsFloat, name: str, low: float, high: float, open_end: bool = False) -> float:
    """A number in [low, high], or in [low, high) with ``open_end``."""
    number = float(value)
    if not (low <= number < high if open_end else low <= number <= high):
        raise ValueError(f"{name} must be in [{low}, {high}{')' if open_end else ']'}, came as {number}")
    return number
