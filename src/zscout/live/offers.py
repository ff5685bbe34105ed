"""The worlds that the page offers, each with its features, models and methods."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from zscout.lab.ground import OF_ARENAS, SHIPPED
from zscout.lab.point_arena import POINT_MAZE, PointArena
from zscout.lab.trace_file import MODELS
from zscout.live.grid_world import LiveGrid
from zscout.live.live_world import LiveWorld
from zscout.live.point_world import PER_CELL, LivePointMaze
from zscout.worlds.maps import WORLDS


@dataclass(frozen=True)
class Offer:
    """What the page offers in one world."""

    title: str
    features: tuple[str, ...]
    models: tuple[str, ...]
    networks: tuple[str, ...]  # the features for which the model "network" ships
    make: Callable[[str, str], LiveWorld]  # from features and model
    per_cell: int = 1  # squares along a cell of the map
    brush: tuple[int, int, int] = (1, 2, 3)  # sizes in cells
    horizon: int | None = None  # steps of an episode; None: it never ends
    without: tuple[str, ...] = ()  # methods that need a finite world or an exact model
    traces: bool = True  # whether ``zscout compare --traces`` reads runs of this world

    @property
    def defaults(self) -> dict[str, Any]:
        """Parts of a set-up that have only one value here."""
        single = {"features": self.features, "model": self.models}
        return {part: names[0] for part, names in single.items() if len(names) == 1}


def _grid(name: str) -> Offer:
    networks = tuple(features for world, features in SHIPPED if world == name)
    return Offer(GRID_TITLES[name], OF_ARENAS, MODELS, networks, partial(LiveGrid, name))


GRID_TITLES = {"open-grid": "Open 9×9", "four-rooms": "Four rooms", "maze": "Maze"}
LEARNED = "learned"  # the features of a network that learned its own
OFFERS = {
    **{name: _grid(name) for name in WORLDS},
    POINT_MAZE: Offer(
        "Point maze",
        (LEARNED,),
        (PointArena.model,),
        (),
        lambda features, model: LivePointMaze(),
        per_cell=PER_CELL,
        brush=(2, 3, 4),  # the features express little of a smaller patch
        horizon=PointArena.horizon,
        without=("exhaustive", "mbie", "usf-ucb-short"),
        traces=False,
    ),
}


@cache
def live_world(name: str, features: str, model: str) -> LiveWorld:
    """A world by name, made once in each process."""
    with torch.inference_mode(False):  # weights loaded in inference mode would be converted again at each step
        return OFFERS[name].make(features, model)
