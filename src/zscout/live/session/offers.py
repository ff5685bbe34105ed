"""The worlds that the page offers, each with its features, models and methods: maps, and stages with a body."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from zscout.base.hints import how_to_install, known_name
from zscout.lab.arenas.body import BodyArena
from zscout.lab.arenas.ground import OF_ARENAS
from zscout.lab.arenas.point import PointArena
from zscout.live.places.body import LiveBody
from zscout.live.places.grid import LiveGrid
from zscout.live.places.point import PER_CELL, LivePointMaze
from zscout.live.server.limits import Limits
from zscout.models.files.folder import CONFIG
from zscout.models.files.pretrained import shipped
from zscout.worlds.registry import LEARNED, PLACES, Kind, Place

LiveWorld: TypeAlias = LiveGrid | LivePointMaze | LiveBody
"""A world with its model. A hidden reward is a table: its entries are places of a map, or parts of a reward."""


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
    kind: Literal["map", "stage"] = "map"
    usual: dict[str, Any] = field(default_factory=dict)  # parts of a set-up with another default here
    length: int = 1  # steps of a run, relative to one on a map
    hold: int = 1  # steps for which a z is kept, unless the method says
    pace: float | None = None  # steps a second at first; None: the page's
    needs: tuple[str, ...] = ()  # packages that may be missing

    @property
    def defaults(self) -> dict[str, Any]:
        """Parts of a set-up that have only one value here, or another default."""
        single = {"features": self.features, "model": self.models}
        return {**{part: names[0] for part, names in single.items() if len(names) == 1}, **self.usual}

    @property
    def entry(self) -> str:
        """What the entries of a hidden reward's table are."""
        return "states" if self.kind == "map" else "parts of a reward"

    @property
    def missing(self) -> str:
        """How to install what is missing; empty if nothing is."""
        return "" if all(map(_installed, self.needs)) else f"needs MuJoCo: {how_to_install('mujoco')}"


@cache
def _installed(package: str) -> bool:
    return find_spec(package) is not None


def _grid(place: Place) -> Offer:
    return Offer(place.title, OF_ARENAS, ("network", "exact"), tuple(place.models), partial(LiveGrid, place.name))


def _learned(place: Place, make: Callable[[str, str], LiveWorld], **rest: Any) -> Offer:
    return Offer(place.title, (LEARNED,), (place.model,), (), make, **rest)


def _point(place: Place) -> Offer:
    brush = (2, 3, 4)  # the features express little of a smaller patch
    rest = {"per_cell": PER_CELL, "brush": brush, "horizon": PointArena.horizon}
    return _learned(place, lambda features, model: LivePointMaze(), **rest)


def _body(place: Place) -> Offer:
    folder = shipped().get(place.model, Path(place.model))
    repeat = json.loads((folder / CONFIG).read_text())["about"].get("repeat", 1)  # without loading the model
    return _learned(
        place,
        lambda features, model: LiveBody(place.name, model),
        horizon=-(-BodyArena.horizon // repeat),
        kind="stage",
        usual={"noise": 0.0, "wait": False, "silence": "zero"},
        length=Limits.longest,
        hold=10,  # a fifth of the time for a step; the cheetah learns as fast
        pace=25.0,
        needs=("mujoco", "dm_control"),
    )


KINDS: dict[Kind, Callable[[Place], Offer]] = {"grid": _grid, "point": _point, "body": _body}


def offered() -> list[str]:
    """The worlds that the page offers: grids, and places with a model."""
    return [name for name, place in PLACES.items() if place.kind == "grid" or place.models]


def offer_of(name: str) -> Offer:
    """What the page offers in a world."""
    return _offer(PLACES[known_name(name, offered(), "world")])


@cache
def _offer(place: Place) -> Offer:
    return KINDS[place.kind](place)


@cache
def live_world(name: str, features: str, model: str) -> LiveWorld:
    """A world by name, made once in each process."""
    with torch.inference_mode(False):  # weights loaded in inference mode would be converted again at each step
        return offer_of(name).make(features, model)
