"""What all measurements are told, and what they are."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from zscout.lab.arena import Arena
from zscout.lab.bench.measurement import Line

T = TypeVar("T")

LABELS = {"clusters": "clusters", "laplacian": "Laplacian"}
METHOD = "usf-ucb-paper"  # whose objective, eq. 5, all searches are measured on
NOISE = 0.3


@dataclass(frozen=True)
class Setting:
    """How much is measured, and where."""

    seed: int = 0
    quick: bool = False
    device: str = "cpu"

    @property
    def task_seed(self) -> int:
        """There are a thousand sets of tasks."""
        return self.seed % 1_000

    def of(self, whole: T, quick: T) -> T:
        """The one or the other."""
        return quick if self.quick else whole

    def arena(self, model: str, features: str) -> Arena:
        """The open grid, on the device."""
        return Arena(features=features, model=model, device=self.device)


def label(arena: Arena) -> str:
    """Model and features."""
    return f"{arena.model}, {LABELS[arena.features]}"


Measure: TypeAlias = Callable[[Setting], Iterator[Line]]
