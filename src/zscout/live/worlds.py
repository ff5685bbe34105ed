"""The worlds that the page offers, each with its features, models and methods."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import torch

from zscout.lab.ground import OF_ARENAS, SHIPPED
from zscout.lab.trace_file import MODELS
from zscout.live.grid_world import LiveGrid
from zscout.live.world import LiveWorld
from zscout.worlds.maps import WORLDS


@dataclass(frozen=True)
class Offer:
    """What the page offers in one world."""

    title: str
    features: tuple[str, ...]
    models: tuple[str, ...]
    networks: tuple[str, ...]  # the features for which a network ships
    make: Callable[[str, str], LiveWorld]  # from features and model
    per_cell: int = 1  # squares along a cell of the map
    horizon: int | None = None  # steps of an episode; None: it never ends
    traces: bool = True  # whether ``zscout compare --traces`` reads runs of this world


def _grid(name: str, title: str) -> Offer:
    networks = tuple(features for world, features in SHIPPED if world == name)
    return Offer(title, OF_ARENAS, MODELS, networks, partial(LiveGrid, name))


OFFERS = {name: _grid(name, title) for name, title in zip(WORLDS, ("Open 9×9", "Four rooms", "Maze"), strict=True)}


@cache
def live_world(name: str, features: str, model: str) -> LiveWorld:
    """A world by name, made once in each process."""
    with torch.inference_mode(False):  # weights loaded in inference mode would be converted again at each step
        return OFFERS[name].make(features, model)
