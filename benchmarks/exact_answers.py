"""Exact policies, ψ, features and environment steps: speed and difference beside plain references."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Generator, Tensor

from benchmarks.measurement import Call, Row, Setting, Timing, interleaved
from benchmarks.naive import dense_eigenfunctions, linear_solve, rollouts, value_iteration, walk, walk_alone
from zscout.features import graph_laplacian, grid_clusters, laplacian
from zscout.models.exact.model import ExactModel
from zscout.worlds import GridWorld, four_rooms, maze, open_grid

SWEEPS = 5_000
SLIP = 0.2


def solving(setting: Setting) -> Iterator[Row]:
    """Exact models, features and worlds."""
    yield from _policies(setting)
    yield from _slippery(setting)
    yield _rollouts(setting)
    yield from _eigenfunctions(setting)
    yield from _stepping(setting)


def _side_by_side(ours: Call, theirs: Call, rounds: int, warm: bool = True) -> tuple[Timing, Timing]:
    timings = interleaved({"ours": ours, "theirs": theirs}, rounds, warm=warm)
    return timings["ours"], timings["theirs"]


def _policies(setting: Setting) -> Iterator[Row]:
    """π* and ψ* beside value iteration."""
    worlds: dict[str, tuple[GridWorld, Callable[[GridWorld], Float[Tensor, "S d"]]]] = {
        "9×9 clusters": (open_grid(), grid_clusters),
        "9×9 Laplacian": (open_grid(), laplacian),
        "four rooms": (four_rooms(), laplacian),
        "maze": (maze(), laplacian),
    }
    for name, (world, features) in worlds.items():
        model = ExactModel(world, features(world))
        n, few, rounds = setting.of(10_000, 2_500), setting.of(256, 32), 2
        z = model.sample_z(n * (rounds + 1), setting.seed).split(n)  # the model remembers the last ones
        ours = Call(lambda model, each: model.successor_features(next(each)), model, iter(z))
        theirs = Call(value_iteration, model, z[-1][:few], SWEEPS)
        timing, reference = _side_by_side(ours, theirs, rounds)
        value = (ours.answer[:few] * z[-1][:few, None]).sum(-1)
        yield Row.of(
            timing,
            group="solving",
            what=f"π* and ψ*, {name}",
            where="exact",
            amount=n,
            unit="z",
            difference="|ψ*·z − v*|",
            largest=float((value - theirs.answer).abs().max()),
            limit=1e-6,
        ).against(f"value iteration, {SWEEPS:,} sweeps", reference, few)


def _slippery(setting: Setting) -> Iterator[Row]:
    world = open_grid(slip=SLIP)
    model = ExactModel(world, laplacian(world))
    policy = model.policy(model.sample_z(setting.of(1_000, 100), setting.seed))
    ours, theirs = Call(model.evaluate, policy), Call(linear_solve, model, policy)
    timing, reference = _side_by_side(ours, theirs, 3)
    yield Row.of(
        timing,
        group="solving",
        what=f"ψ of policies, 9×9 Laplacian, slip {SLIP}",
        where="exact",
        amount=len(policy),
        unit="z",
        difference="|ψ − theirs|",
        largest=float((ours.answer - theirs.answer).abs().max()),
        limit=1e-6,
    ).against("dense linear solve", reference, len(policy))


def _rollouts(setting: Setting) -> Row:
    world = open_grid(slip=SLIP)
    model, runs = ExactModel(world, laplacian(world)), setting.of(10_000, 1_000)
    rng = Generator().manual_seed(setting.seed)
    other, z = model.sample_z(10, rng).split(5)
    model.psi(0, other)  # warms up, with other z
    ours, theirs = Call(model.psi, 0, z), Call(rollouts, world, model, z, 0, runs, rng)
    timing, reference = _side_by_side(ours, theirs, 1, warm=False)
    samples = theirs.answer
    standard_error = samples.std(1) / runs**0.5 + 1e-6  # the constant feature does not vary
    return Row.of(
        timing,
        group="solving",
        what=f"ψ(0;z), 9×9 Laplacian, slip {SLIP}",
        where="exact",
        amount=len(z),
        unit="z",
        difference="|ψ − mean| in standard errors",
        largest=float(((ours.answer - samples.mean(1)) / standard_error).abs().max()),
        limit=4.5,  # 45 numbers: chance alone exceeds it once in 3,000 runs
    ).against(f"mean of {runs:,} rollouts", reference, len(z))


def _eigenfunctions(setting: Setting) -> Iterator[Row]:
    world = open_grid(setting.of(50, 24))
    L = graph_laplacian(world)
    ours, theirs = Call(laplacian, world), Call(dense_eigenfunctions, L)
    timing, reference = _side_by_side(ours, theirs, setting.of(1, 3))
    phi, (values, functions) = ours.answer, theirs.answer
    unit = phi.numpy() / np.sqrt(world.n_states / phi.shape[1])
    gaps = {
        "‖Lf − λf‖, λ the dense one": np.linalg.norm(L @ unit - unit * values, axis=0).max(),
        "|FᵀF − I|": np.abs(unit.T @ unit - np.eye(unit.shape[1])).max(),
        "|FFᵀ − theirs|": np.abs(unit @ unit.T - functions @ functions.T).max(),
    }
    difference, gap = max(gaps.items(), key=lambda item: item[1])
    yield Row.of(
        timing,
        group="solving",
        what=f"Laplacian features, {world.n_states:,} states",
        amount=phi.shape[1],
        unit="eigenfunctions",
        difference=difference,
        largest=float(gap),
        limit=1e-9,
    ).against("dense eigh", reference, phi.shape[1])


def _stepping(setting: Setting) -> Iterator[Row]:
    """Environment steps of many runs at once beside one Gymnasium environment."""
    runs, steps = 10_000, setting.of(200, 20)
    for slip in (0.0, SLIP):
        world, rng = open_grid(slip=slip), Generator().manual_seed(setting.seed)
        action = torch.randint(world.n_actions, (steps, runs), generator=rng)
        start = world.random_states(runs, rng)
        ours, theirs = Call(walk, world, start, action, rng), Call(walk_alone, world, action[:, 0], setting.seed)
        timing, reference = _side_by_side(ours, theirs, 3)
        what = f"{runs:,} runs stepped at once, slip {slip}"
        row = Row.of(timing, group="solving", what=what, amount=runs * steps, unit="steps")
        yield row.against("one Gymnasium run", reference, steps)
