"""The edge itself, with what the annotations of everything above would already refuse while tests run."""

import math

import numpy as np
import pytest
import torch

from zscout.base.edge import (
    as_finite,
    as_generator,
    as_index,
    as_positive,
    as_size,
    as_table,
    as_vectors,
    in_range,
    required_rng,
)


def test_whole_numbers() -> None:
    assert as_size(np.int64(3), "n", 1) == 3
    with pytest.raises(ValueError, match=r"dim must be a whole number, got 3\.0"):
        as_size(3.0, "dim", 1)
    with pytest.raises(ValueError, match="dim must be a whole number, got True"):
        as_size(True, "dim", 1)
    with pytest.raises(ValueError, match="n must be from 1 to 9 here, got 10"):
        as_size(10, "n", 1, 9, " here")
    assert as_index([[1, 2]], 3, "state").tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="state must be whole numbers, got list"):
        as_index(["a"], 3, "state")
    with pytest.raises(ValueError, match="got torch.bool"):
        as_index([True], 3, "state")


def test_real_numbers() -> None:
    assert as_finite([1, 2], "x").dtype == torch.float64
    assert as_finite([torch.tensor(1.0), torch.tensor(2.0)], "x").tolist() == [1, 2]
    assert as_finite(torch.ones(2, requires_grad=True), "x").requires_grad  # a search may want it
    for bad in (["a"], [[1.0], [1.0, 2.0]], [None], [1j]):
        with pytest.raises(ValueError, match="x must be real numbers, got"):
            as_finite(bad, "x")
    for bad_number in (math.nan, math.inf, -math.inf):
        for value in (bad_number, [1.0, bad_number], torch.tensor([bad_number, -bad_number])):
            with pytest.raises(ValueError, match="x holds NaN or inf"):
                as_finite(value, "x")
    with pytest.raises(ValueError, match="x must be real numbers"):
        as_finite(np.array([np.longdouble("1e400")]), "x")  # finite there, not in float64
    assert as_finite([1e308, 1e308], "x").tolist() == [1e308, 1e308]  # each is finite, their sum is not
    assert in_range(np.float32(0.5), "gamma", 0.0, 1.0) == 0.5
    for other in ("0.9", None, True, [0.5]):
        with pytest.raises(ValueError, match=r"gamma must be a number in \[0.0, 1.0\)"):
            in_range(other, "gamma", 0.0, 1.0, open_end=True)
    for number in (1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match=r"gamma must be in \[0.0, 1.0\), got"):
            in_range(number, "gamma", 0.0, 1.0, open_end=True)


def test_limits_are_in_the_message() -> None:
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"ridge must be above 0 and finite, got {bad}"):
            as_positive(bad, "ridge")
    with pytest.raises(ValueError, match="ridge must be a number above 0 and finite, got 'a'"):
        as_positive("a", "ridge")
    with pytest.raises(ValueError, match=r"share must be in \(0.0, 1.0\], got 0.0"):
        in_range(0.0, "share", 0.0, 1.0, open_start=True)
    with pytest.raises(ValueError, match="observation 5 is outside 0 … 4, the states of this model"):
        as_index(5, 5, "observation", whose=", the states of this model")


def test_a_table_names_the_row_that_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"features hold NaN or inf at row 1: \[nan, 1.0\]"):
        as_table([[1.0, 2.0], [math.nan, 1.0]], 2, "features")
    with pytest.raises(ValueError, match=r"features have shape \(1, 2\), expected \[3 d\], one row for each state"):
        as_table([[1.0, 2.0]], 3, "features")


def test_vectors() -> None:
    with pytest.raises(ValueError, match="z is a single number, expected 9 entries"):
        as_vectors(torch.tensor(1.0), 9)
    with pytest.raises(ValueError, match="z has 0 entries"):
        as_vectors([], 9)


def test_randomness() -> None:
    mine = torch.Generator()
    assert as_generator(mine) is mine
    draws = [torch.rand(3, generator=as_generator(seed)).tolist() for seed in (7, np.int64(7), 8)]
    assert draws[0] == draws[1] != draws[2]
    with pytest.raises(ValueError, match="got numpy.random._generator.Generator"):
        as_generator(np.random.default_rng(0))
    with pytest.raises(ValueError, match="this slips: it needs rng, a torch.Generator, got int"):
        required_rng(0, "this slips")
