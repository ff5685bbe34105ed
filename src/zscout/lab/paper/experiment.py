"""An experiment: the specs it runs, and the report section made from their records."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zscout.lab.arena import Tasks
from zscout.lab.comparison import Entrant
from zscout.lab.grid_arena import GridArena
from zscout.lab.paper.records import Runs
from zscout.lab.report_model import Section
from zscout.lab.spec import Spec, settings_json

FEATURES = {"clusters": "clusters", "laplacian": "Laplacian"}  # how texts write them; in the order of the paper
TITLES = {"clusters": "Cluster features", "laplacian": "Laplacian features"}
VARIANTS = "zscout.lab.paper.variants"


@dataclass(frozen=True)
class Scale:
    """How much is run: everything, or a quick test; the seed determines tasks and draws."""

    seed: int = 0
    quick: bool = False

    def runs(self, full: int) -> int:
        """The number of runs, given that of the full scale."""
        return max(3, full // 10) if self.quick else full

    def some(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """All values, or every other one."""
        return values[::2] if self.quick else values

    def steps(self, full: int) -> int:
        """The number of steps, given that of the full scale."""
        return min(full, 60) if self.quick else full


@dataclass(frozen=True)
class Experiment:
    """One part of the report."""

    specs: Callable[[Scale], Sequence[Spec]]
    tell: Callable[[Scale, Runs], Section]


def no_specs(scale: Scale) -> Sequence[Spec]:
    """The specs of an experiment that runs nothing through the store."""
    return ()


def all_of(groups: Callable[[Scale], Mapping[Any, Sequence[Spec]]]) -> Callable[[Scale], Sequence[Spec]]:
    """The specs of all groups, in order."""
    return lambda scale: [spec for specs in groups(scale).values() for spec in specs]


def transfers(scale: Scale, arena: GridArena, method: str, count: int, **rest: Any) -> list[Spec]:
    """Runs of a method on random tasks, one seed each; every method gets the same tasks."""
    tasks, steps = Tasks(scale.runs(count), 1, "report", scale.seed), scale.steps(rest.pop("steps", 200))
    return Entrant.of(arena, method, rest.pop("settings", {}), tasks, steps=steps, **rest).specs


def explorations(scale: Scale, arena: GridArena, method: str, count: int, steps: int, **settings: Any) -> list[Spec]:
    """Runs without a reward: z_r = 0, no noise."""
    zero = (0.0,) * arena.bfm.dim
    seeds = Tasks(scale.runs(count), 1, "report", scale.seed).run_seeds
    shared = {"settings": settings_json(settings), "noise": 0.0, "steps": scale.steps(steps)}
    return [Spec(arena, method, zero, seed=seed, **shared) for seed in seeds]  # type: ignore[arg-type]
