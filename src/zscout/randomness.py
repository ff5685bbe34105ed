"""Counter-based random numbers, one stream per run: a run draws the same numbers alone as in a batch.

A number is a hash of (seed, place in the stream, index), so there is no state to save: step t always draws from
``Streams(seeds, t)``.
"""

import math
from functools import cached_property
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

GOLDEN = -0x61C8864680B583EB  # 2⁶⁴ ÷ the golden ratio, odd, as a signed 64-bit number: the step of splitmix64
ALL = 2**64 - 1


class Streams:
    """Uniform and normal numbers [*b …] for runs with seeds [*b]; each call continues the stream."""

    def __init__(self, seeds: Int[Tensor, "*b"], place: int = 0) -> None:
        self._seeds, self._place, self._calls = seeds, place, 0

    @cached_property
    def _key(self) -> Int[Tensor, "*b"]:
        # Mix twice: neighbouring seeds and places must give unrelated streams.
        return _mix(_mix(self._seeds.long()) + _signed((self._place + 1) * GOLDEN))

    def fork(self) -> "Streams":
        """Independent streams; the same on every call, whatever was drawn before."""
        return Streams(self._key)

    @property
    def runs(self) -> tuple[int, ...]:
        """*b, the shape of the seeds."""
        return tuple(self._seeds.shape)

    def integers(self, *shape: int) -> Int[Tensor, "*b_and_shape"]:
        """Integers, uniform over 64 bits."""
        self._calls += 1
        key = _mix(self._key + _signed(self._calls * GOLDEN))
        if not shape:
            return _mix(key + GOLDEN)
        index = torch.arange(1, math.prod(shape) + 1, device=key.device)
        return _mix(key[..., None] + GOLDEN * index).reshape((*self.runs, *shape))

    def uniform(self, *shape: int) -> Float[Tensor, "*b_and_shape"]:
        """~ U(0, 1), both ends excluded."""
        return (((self.integers(*shape) >> 12) & (2**52 - 1)).double() + 0.5) * 2.0**-52

    def normal(self, *shape: int) -> Float[Tensor, "*b_and_shape"]:
        """~ N(0, 1)."""
        draws: Tensor = torch.special.ndtri(self.uniform(*shape))
        return draws

    def generators(self) -> list[Generator]:
        """A CPU torch.Generator for each run, for functions that need one."""
        seeds = (self.integers() & (2**62 - 1)).flatten().tolist()
        return [Generator().manual_seed(seed) for seed in seeds]


Rng: TypeAlias = Generator | Streams
"""Source of random numbers: one generator for a whole tensor, or one stream per run."""


def uniform(shape: tuple[int, ...], rng: Rng) -> Float[Tensor, "*shape"]:
    """~ U(0, 1) in float64; with streams the leading dimensions are the runs."""
    if isinstance(rng, Streams):
        return rng.uniform(*_beyond_runs(shape, rng))
    return torch.rand(shape, generator=rng, dtype=torch.float64, device=rng.device)


def normal(shape: tuple[int, ...], rng: Rng) -> Float[Tensor, "*shape"]:
    """~ N(0, 1) in float64; with streams the leading dimensions are the runs."""
    if isinstance(rng, Streams):
        return rng.normal(*_beyond_runs(shape, rng))
    return torch.randn(shape, generator=rng, dtype=torch.float64, device=rng.device)


def _beyond_runs(shape: tuple[int, ...], rng: Streams) -> tuple[int, ...]:
    if tuple(shape[: len(rng.runs)]) != rng.runs:
        raise ValueError(f"got streams for runs {rng.runs}, expected streams for a tensor of shape {tuple(shape)}")
    return tuple(shape[len(rng.runs) :])


def _mix(x: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
    """The finaliser of splitmix64: every input bit affects every output bit."""
    if not x.ndim:  # single run: Python ints are ten times faster than one-element tensors
        one = int(x) & ALL
        one = ((one ^ (one >> 30)) * -0x40A7B892E31B1A47) & ALL
        one = ((one ^ (one >> 27)) * -0x6B2FB644ECCEEE15) & ALL
        return torch.tensor(_signed(one ^ (one >> 31)), device=x.device)
    x = (x ^ ((x >> 30) & (2**34 - 1))) * -0x40A7B892E31B1A47
    x = (x ^ ((x >> 27) & (2**37 - 1))) * -0x6B2FB644ECCEEE15
    return x ^ ((x >> 31) & (2**33 - 1))


def _signed(x: int) -> int:
    """The last 64 bits as a signed integer, as int64 tensors overflow."""
    return ((x + 2**63) & ALL) - 2**63
