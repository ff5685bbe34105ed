"""Counter-based random numbers, one stream per run: a run draws the same numbers alone as in a batch.

A number is a hash of (seed, place in the stream, index), so there is no state to save: step t always draws from
``Streams(seeds, t)``.
"""

import math
from functools import cached_property
from typing import Any, TypeAlias

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
    def _key(self) -> Any:
        seeds = self._seeds.long() if self.runs else int(self._seeds)  # Python ints are ten times faster than tensors
        # Mix twice: neighbouring seeds and places must give unrelated streams.
        return _mix(_mix(seeds) + _signed((self._place + 1) * GOLDEN))

    def fork(self) -> "Streams":
        """Independent streams; the same on every call, whatever was drawn before."""
        return Streams(torch.as_tensor(self._key, device=self._seeds.device))

    @property
    def runs(self) -> tuple[int, ...]:
        """*b, the shape of the seeds."""
        return tuple(self._seeds.shape)

    def integers(self, *shape: int) -> Int[Tensor, "*b_and_shape"]:
        """Integers, uniform over 64 bits."""
        return torch.as_tensor(self._integers(*shape), device=self._seeds.device)

    def _integers(self, *shape: int) -> Any:
        """``integers``; a single integer of a single run is a Python int."""
        self._calls += 1
        key = _mix(self._key + _signed(self._calls * GOLDEN))
        if not shape:
            return _mix(key + GOLDEN)
        index = torch.arange(1, math.prod(shape) + 1, device=self._seeds.device)
        key = key[..., None] if isinstance(key, Tensor) else key
        return _mix(key + GOLDEN * index).reshape((*self.runs, *shape))

    def uniform(self, *shape: int) -> Float[Tensor, "*b_and_shape"]:
        """~ U(0, 1), both ends excluded."""
        draws = (self._integers(*shape) >> 12) & (2**52 - 1)
        real = float(draws) if isinstance(draws, int) else draws.double()
        return torch.as_tensor((real + 0.5) * 2.0**-52, dtype=torch.float64, device=self._seeds.device)

    def normal(self, *shape: int) -> Float[Tensor, "*b_and_shape"]:
        """~ N(0, 1)."""
        draws: Tensor = torch.special.ndtri(self.uniform(*shape))
        return draws

    def generators(self) -> list[Generator]:
        """A CPU torch.Generator for each run, for functions that need one."""
        seeds = self._integers() & (2**62 - 1)
        each = [seeds] if isinstance(seeds, int) else seeds.flatten().tolist()
        return [Generator().manual_seed(seed) for seed in each]


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


def _mix(x: Any) -> Any:
    """The finaliser of splitmix64, of an int or a tensor: every input bit affects every output bit."""
    if isinstance(x, int):
        x &= ALL
        x = ((x ^ (x >> 30)) * -0x40A7B892E31B1A47) & ALL
        x = ((x ^ (x >> 27)) * -0x6B2FB644ECCEEE15) & ALL
        return _signed(x ^ (x >> 31))
    x = (x ^ ((x >> 30) & (2**34 - 1))) * -0x40A7B892E31B1A47
    x = (x ^ ((x >> 27) & (2**37 - 1))) * -0x6B2FB644ECCEEE15
    return x ^ ((x >> 31) & (2**33 - 1))


def _signed(x: int) -> int:
    """The last 64 bits as a signed integer, as int64 tensors overflow."""
    return ((x + 2**63) & ALL) - 2**63
