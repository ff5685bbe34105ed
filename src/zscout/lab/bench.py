"""Speed as a ratio to a plain reference in the same run, and how far the two answers differ."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Generator

from zscout.bfm.exact import ExactModel
from zscout.features import graph_laplacian, grid_clusters, laplacian
from zscout.lab.measurement import Measurement
from zscout.lab.references import (
    dense_eigenfunctions,
    linear_solve,
    rollouts,
    value_iteration,
    walk,
    walk_alone,
)
from zscout.worlds import open_grid

T = TypeVar("T")

SWEEPS = 5000
SLIP = 0.2


class Measure(Protocol):
    """A function that measures; its docstring is what the progress line says."""

    __doc__: str | None

    def __call__(self, *, seed: int, quick: bool) -> Sequence[Measurement]:
        """Do the work and its reference."""


def exact_against_value_iteration(*, seed: int, quick: bool) -> Sequence[Measurement]:
    """Exact model against value iteration."""
    rows = []
    for name, features in (("clusters", grid_clusters), ("Laplacian", laplacian)):
        world = open_grid()
        model = ExactModel(world, features(world))
        z = model.sample_z(1_000 if quick else 10_000, seed)
        seconds, psi = _timed(model.successor_features, z)
        swept = z[:200] if quick else z
        reference_seconds, v = _timed(value_iteration, model, swept, SWEEPS)
        value = (psi[: len(v)] * swept[:, None]).sum(-1)
        rows.append(
            Measurement(
                what=f"π* and ψ*, 9×9 {name}",
                amount=len(z),
                unit="z",
                seconds=seconds,
                reference=f"value iteration, {SWEEPS:,} sweeps",
                reference_amount=len(v),
                reference_seconds=reference_seconds,
                difference="|ψ*·z − v*|",
                largest=float((value - v).abs().max()),
                limit=1e-6,
            )
        )
    return rows


def exact_against_linear_solve(*, seed: int, quick: bool) -> Sequence[Measurement]:
    """Exact model in a slippery world against a dense linear solve."""
    world = open_grid(slip=SLIP)
    model = ExactModel(world, laplacian(world))
    z = model.sample_z(100 if quick else 1_000, seed)
    policy = model.policy(z)
    seconds, psi = _timed(model.evaluate, policy)
    reference_seconds, solved = _timed(linear_solve, model, policy)
    return [
        Measurement(
            what=f"ψ of policies, 9×9 Laplacian, slip {SLIP}",
            amount=len(z),
            unit="z",
            seconds=seconds,
            reference="dense linear solve",
            reference_amount=len(z),
            reference_seconds=reference_seconds,
            difference="|ψ − theirs|",
            largest=float((psi - solved).abs().max()),
            limit=1e-6,
        )
    ]


def exact_against_rollouts(*, seed: int, quick: bool) -> Sequence[Measurement]:
    """Exact model in a slippery world against Monte-Carlo rollouts."""
    world = open_grid(slip=SLIP)
    model = ExactModel(world, laplacian(world))
    rng = Generator().manual_seed(seed)
    z = model.sample_z(5, rng)
    runs = 1_000 if quick else 20_000
    seconds, psi = _timed(model.psi, 0, z)
    reference_seconds, samples = _timed(rollouts, world, model, z, 0, runs, rng)
    standard_error = samples.std(1) / runs**0.5 + 1e-6  # the constant feature does not vary at all
    return [
        Measurement(
            what=f"ψ(0;z), 9×9 Laplacian, slip {SLIP}",
            amount=len(z),
            unit="z",
            seconds=seconds,
            reference=f"mean of {runs:,} rollouts",
            reference_amount=len(z),
            reference_seconds=reference_seconds,
            difference="|ψ − mean| in standard errors",
            largest=float(((psi - samples.mean(1)) / standard_error).abs().max()),
            limit=4.5,  # 45 numbers: chance alone passes this once in 3,000 runs
        )
    ]


def laplacian_against_dense(*, seed: int, quick: bool) -> Sequence[Measurement]:
    """Eigenfunctions of a large world against a dense eigensolver."""
    world = open_grid(30 if quick else 50)
    seconds, phi = _timed(laplacian, world)
    L = graph_laplacian(world)
    reference_seconds, (values, functions) = _timed(dense_eigenfunctions, L)
    unit = phi.numpy() / np.sqrt(world.n_states / phi.shape[1])
    work = (phi.shape[1], "eigenfunctions", seconds, "dense eigh", phi.shape[1], reference_seconds)
    what = f"laplacian, {world.n_states:,} states"
    gaps = {
        "‖Lf − λf‖, λ the dense one": np.linalg.norm(L @ unit - unit * values, axis=0).max(),
        "|FᵀF − I|": np.abs(unit.T @ unit - np.eye(unit.shape[1])).max(),
        "|FFᵀ − theirs|": np.abs(unit @ unit.T - functions @ functions.T).max(),
    }
    return [Measurement(what, *work, difference, float(gap), 1e-9) for difference, gap in gaps.items()]


def grid_throughput(*, seed: int, quick: bool) -> Sequence[Measurement]:
    """Environment steps of many runs at once against one environment at a time."""
    rows = []
    runs, steps = 10_000, 20 if quick else 200
    for slip in (0.0, SLIP):
        world = open_grid(slip=slip)
        rng = Generator().manual_seed(seed)
        action = torch.randint(world.n_actions, (steps, runs), generator=rng)
        start = world.random_states(runs, rng)
        seconds, _ = _timed(walk, world, start, action, rng)
        reference_seconds, _ = _timed(walk_alone, world, action[:, 0], seed)
        rows.append(
            Measurement(
                what=f"{runs:,} runs stepped at once, slip {slip}",
                amount=runs * steps,
                unit="steps",
                seconds=seconds,
                reference="one Gymnasium run",
                reference_amount=steps,
                reference_seconds=reference_seconds,
                difference="",
                largest=None,
                limit=None,
            )
        )
    return rows


MEASUREMENTS: tuple[Measure, ...] = (
    exact_against_value_iteration,
    exact_against_linear_solve,
    exact_against_rollouts,
    laplacian_against_dense,
    grid_throughput,
)


def _timed(work: Callable[..., T], *arguments: Any) -> tuple[float, T]:
    """Seconds on one core, and the answer."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        start = time.perf_counter()
        answer = work(*arguments)
        return time.perf_counter() - start, answer
    finally:
        torch.set_num_threads(threads)
