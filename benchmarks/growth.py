"""Growth of time and memory with d, candidates, states and runs."""

import json
import math
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context

import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float, Int
from torch import Generator, Tensor

from benchmarks import naive
from benchmarks.fresh_processes import peak_bytes, start
from benchmarks.kernels import IN_A_ROW, updates_in_a_row
from benchmarks.measurement import Growth, Setting, interleaved
from benchmarks.problems import METHOD, batch_problem, streams
from zscout.base.edge import as_generator, as_given, as_index, as_vectors
from zscout.base.types import Action, Obs, Vectors
from zscout.features import laplacian
from zscout.lab.arenas.grid import GridArena
from zscout.models.exact.model import ExactModel
from zscout.models.sphere import project_sphere, sample_sphere
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.methods import Method
from zscout.transfer.score.acquisition import UCB
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import Search, Shooting, TableSearch
from zscout.worlds import open_grid

STATES = 4  # of the random model
UPDATE = "posterior update"  # one of many in a row
Prepare = Callable[[int], Callable[[], object]]  # makes the work of a size


@dataclass(frozen=True)
class Axis:
    """Work at several sizes; the memory of its first piece is measured too."""

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
            forget = GridArena(model="exact").ground.exact.forget  # a run does not know its next ẑ
            timings = interleaved({str(size): prepare(size) for size in sizes}, setting.of(5, 2), before=forget)
            seconds = tuple(timing.median / (IN_A_ROW if what == UPDATE else 1) for timing in timings.values())
            its = memory.pop(name, ())
            yield Growth(group="growth", what=what, axis=name, sizes=sizes, seconds=seconds, peak_bytes=its)


def _table_of_dim(d: int) -> Callable[[], object]:
    return _search(TableSearch(1_000), _random_problem(d))


def _table_of_size(n: int) -> Callable[[], object]:
    return _search(TableSearch(n), _random_problem(9))


def _fresh(n: int) -> Callable[[], object]:
    return _search(Shooting(n), batch_problem(GridArena(model="network").ground, METHOD, runs=1, steps=2, seed=0))


def _updates(d: int) -> Callable[[], object]:
    posterior, phi = _learned(d), torch.linspace(-1, 1, IN_A_ROW * d, dtype=torch.float64).reshape(IN_A_ROW, d)
    return lambda: updates_in_a_row(posterior, phi, phi[:, 0])


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
    return lambda runs: _search(
        default, batch_problem(GridArena(model=model).ground, METHOD, runs=runs, steps=3, seed=0)
    )


def _search(search: Search, problem: Problem) -> Callable[[], object]:
    return lambda: search(problem, streams(problem))


def _random_problem(d: int) -> Problem:
    return Problem(0, RandomModel(d), _learned(d), torch.tensor(1.0, dtype=torch.float64), UCB())


def _learned(d: int) -> TaskPosterior:
    phi = torch.randn(2 * d, d, generator=Generator().manual_seed(0), dtype=torch.float64) / d**0.5
    return TaskPosterior.prior(dim=d, ridge=0.1).learn(phi, phi[:, 0])


def _side(states: int) -> int:
    return math.isqrt(states)


class RandomModel:
    """ψ(s;z) = tanh(A_s z) for random A_s: a BehaviorModel of any d whose ψ costs little beside the search."""

    def __init__(self, dim: int, seed: int = 0) -> None:
        rng = Generator().manual_seed(seed)
        self.dim = dim
        self._maps: Tensor = torch.randn(STATES, dim, dim, generator=rng, dtype=torch.float64) / dim**0.5
        self._features: Tensor = torch.randn(STATES, dim, generator=rng, dtype=torch.float64) / dim**0.5
        self.observation_space, self.action_space = Discrete(STATES), Discrete(1)

    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s)."""
        return self._features[as_index(obs, STATES, "observation")]

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """ψ(s;z) of n candidates."""
        here = self._maps[as_index(obs, STATES, "observation")]
        psi: Tensor = torch.tanh(as_vectors(z, self.dim, candidates=True) @ here)
        return psi

    def act(self, obs: Obs, z: Vectors, rng: Generator | None = None) -> Action:
        """Action 0, the only one."""
        return as_given(torch.zeros_like(as_index(obs, STATES, "observation")), obs)

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """Random z on the sphere of radius √d."""
        return sample_sphere(n, self.dim, as_generator(rng))

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """Z scaled to norm √d."""
        return project_sphere(as_vectors(z, self.dim))

    def states(self) -> Int[Tensor, " S"]:
        """All states."""
        return torch.arange(STATES)


AXES: Mapping[str, Axis] = {
    "d": Axis(
        (9, 16, 32, 64, 128, 256),
        (9, 32, 128, 256),
        {f"a recommendation, table of 1,000, {STATES} states": _table_of_dim},
    ),
    "d, posterior": Axis(
        (32, 64, 128, 256, 512, 1_024),
        (64, 128, 256, 512),
        {UPDATE: _updates, "naive: V inverted": _inversion},
    ),
    "candidates": Axis(
        (100, 1_000, 10_000, 100_000),
        (100, 1_000, 10_000),
        {"a recommendation, fresh z, network": _fresh, "a recommendation, table, d = 9": _table_of_size},
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


def peaks(sizes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Peak bytes after each size above the start, for each axis; empty on Windows."""
    if sys.platform == "win32":
        return {}
    found: dict[str, list[int]] = json.loads(start("-m", __name__, json.dumps({a: list(s) for a, s in sizes.items()})))
    return {axis: tuple(numbers) for axis, numbers in found.items()}


def peaks_of_axis(axis: str, sizes: Sequence[int]) -> list[int]:
    """Peak bytes after each size above the start, in a process that has only imported."""
    torch.set_num_threads(1)
    prepare = next(iter(AXES[axis].work.values()))
    prepare(sizes[0])()  # memory that every size needs
    before, found = peak_bytes(), []
    for size in sizes:
        prepare(size)()
        found.append(peak_bytes() - before)
    return found


def main(sizes: Mapping[str, Sequence[int]]) -> None:
    """Print the peaks as JSON, each axis in a fork of its own; the child process of ``peaks``."""
    ignore_ctrl_c = signal.SIGINT, signal.SIG_IGN
    with get_context("fork").Pool(1, signal.signal, ignore_ctrl_c, maxtasksperchild=1) as pool:
        print(json.dumps(dict(zip(sizes, pool.starmap(peaks_of_axis, sizes.items(), chunksize=1), strict=True))))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
