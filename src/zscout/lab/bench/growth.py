"""How time and memory grow with d, candidates, states and runs."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

import torch
from torch import Generator

from zscout.bfm.exact import ExactModel
from zscout.features import laplacian
from zscout.lab.arena import Arena
from zscout.lab.bench import naive
from zscout.lab.bench.asking import streams
from zscout.lab.bench.clock import interleaved
from zscout.lab.bench.drawn import STATES, Drawn
from zscout.lab.bench.measurement import Growth
from zscout.lab.bench.memory import peaks
from zscout.lab.bench.problems import batch
from zscout.lab.bench.setting import METHOD, Setting
from zscout.lab.bench.updates import IN_A_ROW, in_a_row
from zscout.transfer.acquisition import UCB
from zscout.transfer.methods import Method
from zscout.transfer.posterior import TaskPosterior
from zscout.transfer.problem import Problem
from zscout.transfer.search import Bank, Search, Shooting
from zscout.worlds import open_grid

UPDATE = "posterior update"  # one of those in a row
Prepare = Callable[[int], Callable[[], object]]  # from a size to work of that size


@dataclass(frozen=True)
class Axis:
    """What is done at which sizes; of the first piece of work memory is measured too."""

    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    work: Mapping[str, Prepare]


def growth(setting: Setting) -> Iterator[Growth]:
    """Growth of time and memory."""
    sizes_of = {name: setting.of(axis.sizes, axis.quick) for name, axis in AXES.items()}
    memory = peaks(sizes_of)
    for name, axis in AXES.items():
        sizes = sizes_of[name]
        for what, prepare in axis.work.items():
            forget = Arena(model="exact").ground.exact.forget  # a run does not know its ẑ beforehand
            timings = interleaved({str(size): prepare(size) for size in sizes}, setting.of(5, 2), before=forget)
            seconds = tuple(timing.median / (IN_A_ROW if what == UPDATE else 1) for timing in timings.values())
            its = memory.pop(name, ())
            yield Growth(group="growth", what=what, axis=name, sizes=sizes, seconds=seconds, peak_bytes=its)


def _bank_of_dim(d: int) -> Callable[[], object]:
    return _search(Bank(1_000), _drawn(d))


def _bank_of_size(n: int) -> Callable[[], object]:
    return _search(Bank(n), _drawn(9))


def _fresh(n: int) -> Callable[[], object]:
    return _search(Shooting(n), batch(Arena(model="network").ground, METHOD, runs=1, steps=2, seed=0))


def _updates(d: int) -> Callable[[], object]:
    posterior, phi = _learned(d), torch.linspace(-1, 1, IN_A_ROW * d, dtype=torch.float64).reshape(IN_A_ROW, d)
    return lambda: in_a_row(posterior, phi, phi[:, 0])


def _inversion(d: int) -> Callable[[], object]:
    posterior, phi = _learned(d), torch.linspace(-1, 1, d, dtype=torch.float64)
    V, b = posterior.V, posterior.b
    return lambda: naive.learn(V, b, phi, 1.0)


def _solve(states: int) -> Callable[[], object]:
    world, seeds = open_grid(_side(states)), count()
    model = ExactModel(world, laplacian(world))
    return lambda: model.successor_features(model.sample_z(1, next(seeds)))


def _features(states: int) -> Callable[[], object]:
    world = open_grid(_side(states))
    return lambda: laplacian(world)


def _together(model: str) -> Prepare:
    default = Method().search
    assert callable(default)
    return lambda runs: _search(default, batch(Arena(model=model).ground, METHOD, runs=runs, steps=3, seed=0))


def _search(search: Search, problem: Problem) -> Callable[[], object]:
    return lambda: search(problem, streams(problem))


def _drawn(d: int) -> Problem:
    return Problem(0, Drawn(d), _learned(d), torch.tensor(1.0, dtype=torch.float64), UCB())


def _learned(d: int) -> TaskPosterior:
    phi = torch.randn(2 * d, d, generator=Generator().manual_seed(0), dtype=torch.float64) / d**0.5
    return TaskPosterior.prior(dim=d, ridge=0.1).learn(phi, phi[:, 0])


def _side(states: int) -> int:
    return math.isqrt(states)


AXES: Mapping[str, Axis] = {
    "d": Axis(
        (9, 16, 32, 64, 128, 256),
        (9, 32, 128, 256),
        {f"a recommendation, bank of 1,000, {STATES} states": _bank_of_dim},
    ),
    "d, posterior": Axis(
        (32, 64, 128, 256, 512, 1_024),
        (64, 128, 256, 512),
        {UPDATE: _updates, "naive: V inverted": _inversion},
    ),
    "candidates": Axis(
        (100, 1_000, 10_000, 100_000),
        (100, 1_000, 10_000),
        {"a recommendation, fresh z, network": _fresh, "a recommendation, bank, d = 9": _bank_of_size},
    ),
    "states": Axis(
        (81, 256, 1_024, 2_500, 10_000),
        (81, 1_024, 2_500),
        {"π* and ψ* of one z": _solve, "Laplacian features": _features},
    ),
    "runs": Axis(
        (1, 10, 100, 1_000),
        (1, 10, 100),
        {
            "recommendations, the default, exact": _together("exact"),
            "recommendations, the default, network": _together("network"),
        },
    ),
}
