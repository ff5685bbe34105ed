"""An experiment: the specs it runs, and the report section made from their records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from zscout.lab.arena import Arena, Tasks
from zscout.lab.comparison import Entrant
from zscout.lab.grid_arena import GridArena, finite
from zscout.lab.report_model import ClaimVerdict, Curve, Section
from zscout.lab.spec import Spec, settings_json
from zscout.lab.statistics import LEVELS, Bootstrap, Estimate
from zscout.lab.store import Record, Store

FEATURES = {"clusters": "clusters", "laplacian": "Laplacian"}  # in the order of the paper, as they are written
TITLES = {"clusters": "Cluster features", "laplacian": "Laplacian features"}
VARIANTS = "zscout.lab.paper.variants"


@dataclass(frozen=True)
class Scale:
    """How much is run: the whole, or a first look; the seed decides tasks and draws."""

    seed: int = 0
    quick: bool = False

    def runs(self, whole: int) -> int:
        """How many runs where the whole has so many."""
        return max(3, whole // 10) if self.quick else whole

    def some(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """All of them, or every other one."""
        return values[::2] if self.quick else values

    def steps(self, whole: int) -> int:
        """How many steps where the whole has so many."""
        return min(whole, 60) if self.quick else whole


@dataclass(frozen=True)
class Experiment:
    """One part of the report."""

    specs: Callable[[Scale], Sequence[Spec]]
    tell: Callable[[Scale, "Runs"], Section]


def no_specs(scale: Scale) -> Sequence[Spec]:
    """Of an experiment that runs nothing through the store."""
    return ()


@dataclass(frozen=True, eq=False)
class Runs:
    """Records of specs that were run, read once."""

    store: Store
    _read: dict[Spec, Record] = field(default_factory=dict)

    def __getitem__(self, spec: Spec) -> Record:
        if spec not in self._read:
            self._read[spec] = self.store.record(spec)
        return self._read[spec]

    def steps(self, specs: Sequence[Spec], name: str) -> np.ndarray:
        """A column of the steps of each: [R T …], in float64 where it has fractions."""
        column = np.stack([self[spec].steps[name] for spec in specs])
        return column.astype(np.float64) if column.dtype == np.float32 else column

    def numbers(self, specs: Sequence[Spec], name: str) -> np.ndarray:
        """A number of each: [R 1], as the bootstrap wants it."""
        return np.array([self[spec].numbers[name] for spec in specs])[:, None]


def transfers(scale: Scale, arena: GridArena, method: str, count: int, **rest: Any) -> list[Spec]:
    """Runs of a method on random tasks of its own report, one seed each; the same tasks for every method."""
    tasks, steps = Tasks(scale.runs(count), 1, "report", scale.seed), scale.steps(rest.pop("steps", 200))
    return Entrant.of(arena, method, rest.pop("settings", {}), tasks, steps=steps, **rest).specs


def explorations(scale: Scale, arena: GridArena, method: str, count: int, steps: int, **settings: Any) -> list[Spec]:
    """Runs without a reward: z_r = 0, no noise."""
    zero = (0.0,) * arena.bfm.dim
    seeds = Tasks(scale.runs(count), 1, "report", scale.seed).run_seeds
    shared = {"settings": settings_json(settings), "noise": 0.0, "steps": scale.steps(steps)}
    return [Spec(arena, method, zero, seed=seed, **shared) for seed in seeds]  # type: ignore[arg-type]


def mean(values: np.ndarray) -> Estimate:
    """Of runs [R], with a 95 % interval."""
    table = np.asarray(values, dtype=np.float64).reshape(-1, 1)
    return Bootstrap(len(table), 1).mean(table)


def median(values: np.ndarray) -> Estimate:
    """The same of the lower median, which is one of the values: some may be infinite."""
    drawn = np.quantile(Bootstrap(len(values), 1).runs(values[:, None]), 0.5, axis=1, method="lower")
    low, high = np.quantile(drawn, LEVELS, method="nearest")
    return Estimate(float(np.quantile(values, 0.5, method="lower")), float(low), float(high))


def banded(label: str, rows: np.ndarray, dashed: bool = False, first: int = 1) -> Curve:
    """The mean over runs [R T] as a line in its 95 % band."""
    draws = np.random.default_rng(0).integers(len(rows), size=(500, len(rows)))
    weights = np.stack([np.bincount(draw, minlength=len(rows)) for draw in draws]) / len(rows)
    low, high = np.quantile(weights @ rows, LEVELS, axis=0)
    x = list(range(first, first + rows.shape[1]))
    return Curve(label, x, short(rows.mean(0)), short(low), short(high), dashed)


def through(label: str, x: Sequence[float], found: Sequence[Estimate], dashed: bool = False) -> Curve:
    """Estimates as a line in their intervals."""
    y, low, high = (short(np.array([getattr(e, part) for e in found])) for part in ("value", "low", "high"))
    return Curve(label, list(x), y, low, high, dashed)


def short(values: np.ndarray) -> list[float]:
    """Six digits, nine places: more would be noise of rounding in files that are compared."""
    return [float(f"{round(value, 9):.6g}") for value in values.tolist()]


def verdict(whole: bool, part: bool, refuted: bool = True) -> ClaimVerdict:
    """Holds, in part, or not; where neither rule is met and nothing speaks surely against it, too few runs to tell."""
    if whole or part:
        return "holds" if whole else "holds in part"
    return "does not hold" if refuted else "too few runs to tell"


def posteriors(record: Record, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V [T+1 d d] and ẑ [T+1 d] along a run, from the prior on, by regression of what it saw."""
    phi, ridge = features[record.steps["entered"]], record.numbers["ridge"]
    outer = phi[:, :, None] * phi[:, None, :]
    prior = ridge * np.eye(features.shape[1])
    V = np.concatenate([prior[None], prior + outer.cumsum(0)])
    b = np.concatenate([np.zeros((1, len(prior))), (phi * record.steps["reward"][:, None]).cumsum(0)])
    return V, np.linalg.solve(V, b[..., None])[..., 0]


def features_of(arena: Arena) -> np.ndarray:
    """φ of every state."""
    return np.asarray(finite(arena).ground.features.cpu().numpy())


def walked(record: Record, until: int) -> torch.Tensor:
    """States from S_0 to S_until."""
    start = record.steps["state"][:1]
    return torch.from_numpy(np.concatenate([start, record.steps["entered"][:until]]).astype(np.int64))
