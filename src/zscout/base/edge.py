"""Input checks of the public API: ints, lists, numpy and torch are cast once; bad input raises early."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import gymnasium
import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.base.hints import known_name as known_name
from zscout.base.randomness import Rng, Streams
from zscout.base.types import Action, Obs, Vectors

LARGEST_COUNT = 10_000_000  # candidates, rounds or rollouts: a larger number is a typo or a tampered file


def as_index(
    value: Any, size: int, name: str, device: torch.device | None = None, whose: str = ""
) -> Int[Tensor, "*b"]:
    """Integers in 0 … size − 1 as a long tensor of the same shape; an error ends with ``whose`` limits these are."""
    if isinstance(value, int | np.integer) and type(value) is not bool and 0 <= value < size:  # fast path: a single run
        return torch.tensor(int(value), device=device)
    index = _as_tensor(value, name, "whole numbers", device)
    whole = not (index.is_floating_point() or index.is_complex() or index.dtype == torch.bool)
    if not whole and (index.numel() or isinstance(value, Tensor)):  # an empty list has no dtype
        raise ValueError(f"{name} must be whole numbers, got {index.dtype}")
    index = index.long()
    if index.numel():
        low, high = (int(extreme) for extreme in torch.aminmax(index))
        if low < 0 or high >= size:
            raise ValueError(f"{name} {low if low < 0 else high} is outside 0 … {size - 1}{whose}")
    return index


def is_double(value: object) -> TypeGuard[np.ndarray]:
    """Whether it is an array of floats that float64 holds."""
    return type(value) is np.ndarray and value.dtype.kind == "f" and value.dtype.itemsize <= 8


def as_finite(value: Any, name: str, device: torch.device | None = None) -> Float[Tensor, "*shape"]:
    """Finite real numbers as a float64 tensor; keeps gradients."""
    if type(value) is float and math.isfinite(value):  # fast path: the reward of a single run
        return torch.tensor(value, dtype=torch.float64, device=device)
    if is_double(value) and np.isfinite(value).all():  # fast path: an observation
        return torch.from_numpy(np.array(value, dtype=np.float64, order="C")).to(device)
    numbers = as_real(value, name, device)
    if not all_finite(numbers):
        raise ValueError(f"{name} holds NaN or inf")
    return numbers


def as_real(value: Any, name: str, device: torch.device | None = None) -> Float[Tensor, "*shape"]:
    """Real numbers as a float64 tensor; allows NaN and inf."""
    numbers = _as_tensor(value, name, "real numbers", device)
    if numbers.is_complex():
        raise ValueError(f"{name} must be real numbers, got {numbers.dtype}")
    return numbers if numbers.dtype == torch.float64 else numbers.double()


def all_finite(numbers: Tensor) -> bool:
    """Whether all entries are finite: checks the sum first, entries only if the sum overflows."""
    return math.isfinite(numbers.sum().item()) or bool(torch.isfinite(numbers).all())


def as_table(value: Vectors, rows: int, name: str) -> Float[Tensor, "S d"]:
    """A finite table [S d] with one row per state, copied."""
    table = as_real(value, name)
    if table.ndim != 2 or len(table) != rows or not table.shape[1]:
        raise ValueError(f"{name} have shape {tuple(table.shape)}, expected [{rows} d], one row for each state")
    if not all_finite(table):
        row = int((~torch.isfinite(table)).any(1).nonzero()[0])
        raise ValueError(f"{name} hold NaN or inf at row {row}: {table[row].tolist()}, expected finite numbers")
    return table.detach().clone()


def as_vectors(
    value: Vectors,
    dim: int,
    name: str = "z",
    device: torch.device | None = None,
    candidates: bool = False,
    finite: bool = True,
) -> Float[Tensor, "*b d"]:
    """Vectors of d entries, finite unless that is checked later; with ``candidates`` at least [*b n d]."""
    vectors = as_finite(value, name, device) if finite else as_real(value, name, device)
    if vectors.ndim == 0:
        raise ValueError(f"{name} is a single number, expected {dim} entries")
    if vectors.shape[-1] != dim:
        raise ValueError(f"{name} has {vectors.shape[-1]} entries, expected {dim}")
    if candidates and vectors.ndim < 2:
        raise ValueError(f"{name} is one vector [{dim}], expected candidates [*b n {dim}]: pass {name}[None]")
    return vectors


def as_device(device: torch.device | str) -> torch.device:
    """The device; raises unless it is here and holds numbers."""
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).item()
    except (RuntimeError, NotImplementedError, AssertionError, TypeError) as error:
        why = str(error).splitlines()[0].split(". ")[0]
        raise ValueError(f"the device {str(device)!r} cannot be used ({why}): pass 'cpu'") from None
    return place


def as_generator(rng: object, device: torch.device | None = None) -> Generator:
    """The generator, or a new one from a seed."""
    if isinstance(rng, Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        raise ValueError(f"rng must be a torch.Generator or a seed, got {_kind(rng)}")
    return Generator(device=device or torch.device("cpu")).manual_seed(int(rng))


def required_rng(rng: object, because: str) -> Rng:
    """The source of randomness; raises if it is missing."""
    if not isinstance(rng, Generator | Streams):
        raise ValueError(f"{because}: it needs rng, a torch.Generator, got {_kind(rng)}")
    return rng


def as_size(value: object, name: str, low: int, high: int | None = None, where: str = "") -> int:
    """A whole number from low to high."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < low or (high is not None and value > high):
        limits = f"at least {low}" if high is None else f"from {low} to {high}{where}"
        raise ValueError(f"{name} must be {limits}, got {value}")
    return int(value)


def in_range(
    value: object, name: str, low: float, high: float, open_end: bool = False, open_start: bool = False
) -> float:
    """A number in [low, high]; ``open_end`` excludes high, ``open_start`` excludes low."""
    limits = f"in {'(' if open_start else '['}{low}, {high}{')' if open_end else ']'}"
    if open_start and high == math.inf:
        limits = f"above {low:g} and finite"
    if isinstance(value, bool | np.complexfloating) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{name} must be a number {limits}, got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an int of hundreds of digits
        raise ValueError(f"{name} must be {limits}, got a number too large for a float") from None
    if not low <= number <= high or (open_end and number == high) or (open_start and number == low):
        raise ValueError(f"{name} must be {limits}, got {number}")
    return number


def as_positive(value: object, name: str) -> float:
    """A finite number above 0."""
    return in_range(value, name, 0.0, math.inf, open_end=True, open_start=True)


def as_discount(gamma: object) -> float:
    """γ in [0, 1)."""
    return in_range(gamma, "gamma", 0.0, 1.0, open_end=True)


def for_each_entry(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """function(first, *others); if the first is a dict (or a Dict space), a dict of the results for its entries."""
    if not isinstance(first, Mapping):
        return function(first, *others)
    return {name: for_each_entry(function, entry, *(one[name] for one in others)) for name, entry in first.items()}


def entries_of(obs: Any) -> list[Any]:
    """The observation, or the entries of a dict, of dicts within it too."""
    return [entry for part in obs.values() for entry in entries_of(part)] if isinstance(obs, Mapping) else [obs]


def check_array_space(space: object, whose: str) -> None:
    """Raise unless observations are numbers or arrays, or dicts of them: Tuple and others have no shape."""
    for part in entries_of(space):
        if isinstance(part, gymnasium.Space) and part.shape is None:
            raise ValueError(
                f"{whose} observations are {type(part).__name__}, expected numbers or arrays (Discrete, Box, …), or a "
                "Dict of them: wrap the environment in gymnasium.wrappers.FlattenObservation, and use a model of the "
                "flat vector"
            )


def as_given(answer: Tensor, question: object) -> Action:
    """A tensor if the input was a tensor (or a dict of them), else numpy, as Gymnasium environments expect."""
    return answer if isinstance(entries_of(question)[0], Tensor) else answer.cpu().numpy()[()]


def common_shape(one: tuple[int, ...], other: tuple[int, ...], names: str) -> tuple[int, ...]:
    """The broadcast batch shape of two arguments."""
    if one == other:  # torch.broadcast_shapes is slow
        return tuple(one)
    try:
        return tuple(torch.broadcast_shapes(one, other))
    except RuntimeError:
        raise ValueError(f"{names} have batch dimensions {tuple(one)} and {tuple(other)}, which do not match") from None


def check_entries(rows: Tensor, name: str, entries: int) -> None:
    """Raise ValueError unless the last dimension has that many entries; a Box takes longer than a whole step."""
    if not rows.ndim or rows.shape[-1] != entries:
        raise ValueError(f"{name} has shape {tuple(rows.shape)}, expected [*b {entries}]")


def as_rows(
    state: Obs, action: Action, sizes: tuple[int, int], what: str
) -> tuple[tuple[int, ...], Float[Tensor, "n k"], Float[Tensor, "n a"]]:
    """*b, and states and actions (``what`` they are called) as rows, on the state's device if it is a tensor."""
    device = state.device if isinstance(state, Tensor) else None
    here, force = as_finite(state, "state", device), as_finite(action, what, device)
    check_entries(here, "state", sizes[0])
    check_entries(force, what, sizes[1])
    runs = common_shape(here.shape[:-1], force.shape[:-1], f"states and {what}s")
    return runs, here.expand(*runs, -1).reshape(-1, sizes[0]), force.expand(*runs, -1).reshape(-1, sizes[1])


def _as_tensor(value: Any, name: str, wanted: str, device: torch.device | None) -> Tensor:
    try:
        # Copy through numpy: accepts views with any strides, read-only arrays and lists of arrays.
        tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value, order="C"))
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} must be {wanted}, got {_kind(value)}") from None
    if tensor.is_meta or tensor.layout != torch.strided:
        kind = "on the device 'meta', which holds no numbers" if tensor.is_meta else "that is sparse: pass to_dense()"
        raise ValueError(f"{name} must be {wanted}, got a tensor {kind}")
    return tensor if device is None or device == tensor.device else tensor.to(device)


def _kind(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
