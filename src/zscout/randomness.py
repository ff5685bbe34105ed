"""One stream of random numbers for each run, by counting: a run draws the same numbers alone as beside others.

A number is a mix of (seed, place in the stream, index), so there is no state to carry along or to save: the numbers
of step t are those of ``Streams(seeds, t)``, however often and in whatever company they are asked for.
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
    """Uniform and normal numbers [*b …] for runs whose seeds are [*b]; each call goes on where the last one ended."""

    def __init__(self, seeds: Int[Tensor, "*b"], place: int = 0) -> None:
        self._seeds, self._place = seeds, place
        self._calls = 0

    @cached_property
    def _key(self) -> Int[Tensor, "*b"]:
        # Mixed twice: neighbouring seeds and neighbouring places are as far apart as any others.
        return _mix(_mix(self._seeds.long()) + _steps(self._place + 1))

    def fork(self) -> "Streams":
        """Other streams, the same ones however often it is asked and whatever was drawn before."""
        return Streams(self._key)

    @property
    def runs(self) -> tuple[int, ...]:
        """*b, the shape of the seeds."""
        return tuple(self._seeds.shape)

    def integers(self, *shape: int) -> Int[Tensor, "*b_and_shape"]:
        """Whole numbers, uniform over all of 64 bits."""
        self._calls += 1
        key = _mix(self._key + _steps(self._calls))
        if not shape:
            return _mix(key + GOLDEN)
        index = torch.arange(1, math.prod(shape) + 1, device=key.device)
        return _mix(key[..., None] + GOLDEN * index).reshape((*self.runs, *shape))

    def uniform(self, *shape: int) -> Float[Tensor, "*b_and_shape"]:
        """~ U(0, 1), neither end included."""
        return (((self.integers(*shape) >> 12) & (2**52 - 1)).double() + 0.5) * 2.0**-52

    def normal(self, *shape: int) -> Float[Tensor, "*b_and_shape"]:
        """~ N(0, 1)."""
        draws: Tensor = torch.special.ndtri(self.uniform(*shape))
        return draws

    def generators(self) -> list[Generator]:
        """A torch.Generator (on the CPU) for each run, in order, for what can only be drawn by one."""
        seeds = (self.integers() & (2**62 - 1)).flatten().tolist()
        return [Generator().manual_seed(seed) for seed in seeds]


Rng: TypeAlias = Generator | Streams
"""Where random numbers come from: one generator for a whole tensor, or a stream of its own for each run."""


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
        raise ValueError(f"there are streams for runs {rng.runs}, numbers are wanted for {tuple(shape)}")
    return tuple(shape[len(rng.runs) :])


def _steps(count: int) -> int:
    """Count · GOLDEN, modulo 2⁶⁴ as tensors do it."""
    return _signed(count * GOLDEN)


def _mix(x: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
    """The finaliser of splitmix64: every bit of x moves every bit of the answer."""
    if not x.ndim:  # one live run: whole numbers of Python's own are ten times as fast as tensors of one
        return torch.tensor(_mix_one(int(x)), device=x.device)
    x = (x ^ ((x >> 30) & (2**34 - 1))) * -0x40A7B892E31B1A47
    x = (x ^ ((x >> 27) & (2**37 - 1))) * -0x6B2FB644ECCEEE15
    return x ^ ((x >> 31) & (2**33 - 1))


def _mix_one(x: int) -> int:
    x &= ALL
    x = ((x ^ (x >> 30)) * -0x40A7B892E31B1A47) & ALL
    x = ((x ^ (x >> 27)) * -0x6B2FB644ECCEEE15) & ALL
    return _signed(x ^ (x >> 31))


def _signed(x: int) -> int:
    """Of the last 64 bits, the number that they are with a sign."""
    return ((x + 2**63) & ALL) - 2**63
