"""Streams by counting: against splitmix64 as published, alone against together, and as random numbers."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from zscout.base.randomness import GOLDEN, Streams, _mix, normal, uniform

SEEDS = st.integers(-(2**63), 2**63 - 1)


def test_splitmix64_as_published() -> None:
    states = torch.tensor(1234567) + GOLDEN * torch.arange(1, 6)
    assert [number % 2**64 for number in _mix(states).tolist()] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@given(seed=SEEDS, place=st.integers(0, 10**6), calls=st.integers(1, 3))
def test_a_number_in_pure_python(seed: int, place: int, calls: int) -> None:
    def mix(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    def step(x: int, count: int) -> int:
        return mix((x + count * 0x9E3779B97F4A7C15) % 2**64)

    streams = Streams(torch.tensor(seed), place)
    for _ in range(calls):
        integers = streams.integers(4)
    key = step(step(mix(seed % 2**64), place + 1), calls)
    assert [number % 2**64 for number in integers.tolist()] == [step(key, index) for index in (1, 2, 3, 4)]


@given(seeds=st.lists(SEEDS, min_size=1, max_size=6), place=st.integers(0, 1000))
def test_a_run_draws_the_same_alone_as_beside_others(seeds: list[int], place: int) -> None:
    together = Streams(torch.tensor(seeds), place)
    first, second, generators = together.normal(3, 2), together.uniform(), together.generators()
    for i, seed in enumerate(seeds):
        alone = Streams(torch.tensor(seed), place)
        assert torch.equal(alone.normal(3, 2), first[i])
        assert torch.equal(alone.uniform(), second[i])
        (generator,) = alone.generators()
        assert generator.initial_seed() == generators[i].initial_seed()


def test_other_seeds_places_and_calls_are_other_numbers() -> None:
    numbers = []
    for place in range(4):
        streams = Streams(torch.arange(3), place)
        numbers += [streams.integers(5) for _ in range(3)]
        assert torch.equal(Streams(torch.arange(3), place).integers(5), numbers[-3])
    assert torch.stack(numbers).unique().numel() == 4 * 3 * 3 * 5


def test_no_uniform_number_is_an_end_and_no_normal_one_infinite(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = torch.tensor([0, -1, 2**63 - 1, -(2**63)])
    monkeypatch.setattr(Streams, "_integers", lambda self, *shape: ends)
    numbers = Streams(torch.tensor(0)).uniform(4)
    assert numbers.tolist() == [2.0**-53, 1 - 2.0**-53, 0.5 - 2.0**-53, 0.5 + 2.0**-53]
    assert Streams(torch.tensor(0)).normal(4).isfinite().all()


# As random numbers


def by_index(n: int) -> Tensor:
    return Streams(torch.tensor(7)).uniform(n)


def by_seed(n: int) -> Tensor:
    return Streams(torch.arange(n)).uniform()


def by_place(n: int) -> Tensor:
    return torch.stack([Streams(torch.tensor(7), place).uniform() for place in range(n)])


def by_call(n: int) -> Tensor:
    streams = Streams(torch.tensor(7))
    return torch.stack([streams.uniform() for _ in range(n)])


@pytest.mark.parametrize("sequence", [by_index, by_seed, by_place, by_call])
def test_neighbours_are_uniform_and_independent(sequence: Callable[[int], Tensor]) -> None:
    n = 4000
    u = sequence(n)
    assert stats.kstest(u, "uniform").pvalue > 0.001
    for lag in (1, 2, 3):
        pairs = torch.stack([u[:-lag], u[lag:]])
        assert abs(float(pairs.corrcoef()[0, 1])) * math.sqrt(n) < 4
        # Correlation sees only lines; a table of pairs sees the rest.
        cells = (pairs * 8).long()
        counts = torch.bincount(cells[0] * 8 + cells[1], minlength=64)
        assert stats.chisquare(counts).pvalue > 0.001


def test_neighbouring_streams_are_independent() -> None:
    seeds = Streams(torch.arange(30)).normal(4000)
    places = torch.stack([Streams(torch.tensor(3), place).normal(4000) for place in range(30)])
    streams = Streams(torch.tensor(3))
    calls = torch.stack([streams.normal(4000) for _ in range(30)])
    for rows in (seeds, places, calls):
        correlation = rows.corrcoef() - torch.eye(30, dtype=torch.float64)
        assert float(correlation.abs().max()) * math.sqrt(4000) < 4.5


def test_normal_numbers_are_normal() -> None:
    draws = Streams(torch.arange(5)).normal(10_000)
    for row in draws:
        assert stats.kstest(row, "norm").pvalue > 0.01
    assert not torch.equal(draws[0], draws[1])


# Either source


def test_a_generator_for_each_run() -> None:
    streams = Streams(torch.arange(6).reshape(2, 3))
    first, second = streams.generators(), streams.generators()
    draws = torch.stack([torch.rand(50, generator=generator) for generator in first + second])
    assert draws.unique(dim=0).shape == (12, 50)
    again = Streams(torch.arange(6).reshape(2, 3)).generators()
    assert torch.equal(torch.stack([torch.rand(50, generator=generator) for generator in again]), draws[:6])


def test_a_generator_or_streams() -> None:
    one, other = (torch.Generator().manual_seed(5) for _ in range(2))
    assert torch.equal(normal((2, 3), one), torch.randn(2, 3, generator=other, dtype=torch.float64))
    assert torch.equal(uniform((2, 3), one), torch.rand(2, 3, generator=other, dtype=torch.float64))
    seeds = torch.arange(2)
    assert torch.equal(normal((2, 3), Streams(seeds)), Streams(seeds).normal(3))
    assert torch.equal(uniform((2, 3), Streams(seeds)), Streams(seeds).uniform(3))
    for draw in (normal, uniform):
        with pytest.raises(
            ValueError, match=r"streams for runs \(2,\), expected streams for a tensor of shape \(3, 2\)"
        ):
            draw((3, 2), Streams(seeds))
