"""An experiment: the specs it runs, their records as arrays, and the report section made from them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reproduction.report.model import Panel, Section
from zscout.lab.arenas.arena import Arena, Tasks
from zscout.lab.arenas.grid import GridArena, finite
from zscout.lab.compare.comparison import Entrant
from zscout.lab.runs.spec import Spec, named, settings_json
from zscout.lab.runs.store import Record, Store
from zscout.transfer.methods import Method

FEATURES = {"clusters": "clusters", "laplacian": "Laplacian"}  # how texts write them; in the order of the paper
TITLES = {"clusters": "Cluster features", "laplacian": "Laplacian features"}
NOISE = 0.3  # σ of the rewards of runs, known to methods that need it
QUICK_RUNS, QUICK_STEPS = 24, 150  # at most, of each method in a quick test


@dataclass(frozen=True)
class Scale:
    """How much is run: everything, or a quick test; the seed determines tasks and draws."""

    seed: int = 0
    quick: bool = False

    def runs(self, full: int) -> int:
        """The number of runs, given that of the full scale."""
        return min(full, QUICK_RUNS) if self.quick else full

    def some(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """All values, or every other one."""
        return values[::2] if self.quick else values

    def steps(self, full: int) -> int:
        """The number of steps, given that of the full scale."""
        return min(full, QUICK_STEPS) if self.quick else full


@dataclass(frozen=True, eq=False)
class Runs:
    """Records of specs that were run, each read once."""

    store: Store
    _read: dict[Spec, Record] = field(default_factory=dict)

    def __getitem__(self, spec: Spec) -> Record:
        if spec not in self._read:
            self._read[spec] = self.store.record(spec)
        return self._read[spec]

    def steps(self, specs: Sequence[Spec], name: str) -> np.ndarray:
        """One column of the steps of each run [R T …]; fractions in float64."""
        column = np.stack([self[spec].steps[name] for spec in specs])
        return column.astype(np.float64) if column.dtype == np.float32 else column

    def numbers(self, specs: Sequence[Spec], name: str) -> np.ndarray:
        """One number of each run [R]."""
        return np.array([self[spec].numbers[name] for spec in specs])


@dataclass(frozen=True)
class Experiment:
    """One part of the report; ``groups`` are its runs through the store, by any keys."""

    tell: Callable[[Scale, Runs], Section]
    groups: Callable[[Scale], Mapping[Any, Sequence[Spec]]] = lambda scale: {}

    def specs(self, scale: Scale) -> list[Spec]:
        """All runs, in order."""
        return [spec for specs in self.groups(scale).values() for spec in specs]


def transfers(scale: Scale, arena: GridArena, method: str | Method, count: int, **rest: Any) -> list[Spec]:
    """Runs of a method on random tasks, one seed each; every method gets the same tasks."""
    tasks, steps = Tasks(scale.runs(count), 1, "report", scale.seed), scale.steps(rest.pop("steps", 200))
    return Entrant.of(arena, method, rest.pop("settings", {}), tasks, steps=steps, **rest).specs


def explorations(
    scale: Scale, arena: GridArena, method: str | Method, count: int, steps: int, **settings: Any
) -> list[Spec]:
    """Runs without a reward: z_r = 0, no noise."""
    zero = (0.0,) * arena.bfm.dim
    seeds = Tasks(scale.runs(count), 1, "report", scale.seed).run_seeds
    method, value = named(method)
    first = Spec(arena, method, zero, settings_json(settings), noise=0.0, steps=scale.steps(steps), value=value)
    return [replace(first, seed=seed) for seed in seeds]


def features_of(arena: Arena) -> np.ndarray:
    """φ of every state [S d]."""
    return np.asarray(finite(arena).ground.features.cpu().numpy())


def posteriors(record: Record, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V [T+1 d d] and ẑ [T+1 d] along a run, starting with the prior (eq. 3)."""
    phi, ridge = features[record.steps["entered"]], record.numbers["ridge"]
    prior = ridge * np.eye(features.shape[1])
    V = np.concatenate([prior[None], prior + (phi[:, :, None] * phi[:, None, :]).cumsum(0)])
    b = np.concatenate([np.zeros((1, len(prior))), (phi * record.steps["reward"][:, None]).cumsum(0)])
    return V, np.linalg.solve(V, b[..., None])[..., 0]


def visited(record: Record, until: int | None = None) -> np.ndarray:
    """States from S_0 to S_until."""
    return np.concatenate([record.steps["state"][:1], record.steps["entered"][:until]]).astype(np.int64)


def map_panel(title: str, arena: Arena, values: np.ndarray, path: Sequence[int] | np.ndarray = ()) -> Panel:
    """A value for each state [S] as a map, with a path of states."""
    world = finite(arena).ground.world
    return Panel(title, world.to_map(values), world.cells.numpy()[np.asarray(path, dtype=np.int64)])
