"""The worlds that have a name: Gymnasium, the command line, the laboratory and the live page read them here.

A place names what makes its world and imports it at first use, so this module imports neither torch nor MuJoCo.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, TypeAlias

import gymnasium

Kind: TypeAlias = Literal["grid", "point", "body"]
FBName: TypeAlias = Literal["pointmaze-fb", "walker-fb", "cheetah-fb", "quadruped-fb"]  # models that are no USFA

ENVIRONMENTS: dict[Kind, str] = {
    "grid": "zscout.worlds.grids.env:make_env",
    "point": "zscout.worlds.points.env:make_point_maze",
    "body": "zscout.worlds.bodies.env:make_body",
}
LEARNED = "learned"  # the features of a network that learned its own


@dataclass(frozen=True)
class Goal:
    """A goal feature of a body in words: what it is called on the page, and what little and much of it are."""

    feature: str  # one of the body's ``goal_names``
    name: str
    title: str
    low: str
    high: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Place:
    """A world with its name, its shipped models, and what training and the page need to know of it."""

    name: str
    kind: Kind
    title: str  # on the page
    world: str  # module:name of what makes it
    arguments: Mapping[str, Any] = field(default_factory=dict)  # for that
    models: Mapping[str, str] = field(default_factory=dict)  # that ship, by features
    recipe: Mapping[str, Any] = field(default_factory=dict)  # of an FB model: what is not as in the kind's recipe
    tasks: str = ""  # of a body: module:name of its rewards, by set and name
    goals: tuple[Goal, ...] = ()  # of a body: what the page shows

    def make(self, **options: Any) -> Any:
        """The world, such as ``make(slip=0.1)`` of a grid or ``make(repeat=2)`` of a body."""
        return _named(self.world)(**self.arguments, **options)

    @property
    def model(self) -> str:
        """The first model that ships; empty if none does."""
        return next(iter(self.models.values()), "")

    @property
    def task_sets(self) -> Mapping[str, Mapping[str, Callable[..., Any]]]:
        """The rewards of a body, functions of its goal features: sets such as "suite", each by name."""
        found: Mapping[str, Mapping[str, Callable[..., Any]]] = _named(self.tasks)
        return found

    @property
    def environment(self) -> str:
        """The name of its Gymnasium environment."""
        return f"zscout/{self.name.title().replace('-', '')}-v0"


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


PLACES: dict[str, Place] = {}
"""All places by name; ``register`` adds one."""


def register(place: Place) -> None:
    """Add a place, and its environment to Gymnasium's."""
    if place.name in PLACES:
        raise ValueError(f"there is a place {place.name!r} already")
    PLACES[place.name] = place
    gymnasium.register(place.environment, ENVIRONMENTS[place.kind], kwargs={"place": place.name})


def of_kind(*kinds: Kind) -> dict[str, Place]:
    """The places of some kinds, by name."""
    return {name: place for name, place in PLACES.items() if place.kind in kinds}


def _planar_goals(title: str, low: str, high: str) -> tuple[Goal, ...]:
    """With words for the pitch; without angular momentum, which goes with the pitch rate."""
    return (
        Goal("speed", "speed", "Speed", "backward", "forward"),
        Goal("height", "height", "Height", "low", "high"),
        Goal("upright", "upright", "Upright", "upside down", "upright"),
        Goal("pitched down", "pitch", title, low, high),
        Goal("pitch rate", "spin", "Spin", "rolling back", "rolling over"),
    )


_LEAN = _planar_goals("Lean", "lean back", "lean forward")
_MAPS, _PLANAR, _TASKS = (
    "zscout.worlds.grids.maps",
    "zscout.worlds.bodies.planar:PlanarBody",
    "zscout.worlds.bodies.tasks",
)

for _place in (
    Place(
        name="open-grid",
        kind="grid",
        title="Open 9×9",
        world=f"{_MAPS}:open_grid",
        models={"clusters": "grid9-clusters", "laplacian": "grid9-laplacian"},
    ),
    Place(
        name="four-rooms",
        kind="grid",
        title="Four rooms",
        world=f"{_MAPS}:four_rooms",
        models={"laplacian": "fourrooms-laplacian"},
    ),
    Place(name="maze", kind="grid", title="Maze", world=f"{_MAPS}:maze", models={"laplacian": "maze-laplacian"}),
    Place(
        name="point-maze",
        kind="point",
        title="Point maze",
        world="zscout.worlds.points.maze:point_maze",
        models={LEARNED: "pointmaze-fb"},
    ),
    # Goal scales of planar bodies: height, cos and sin of the pitch, speed, pitch rate, angular momentum, extension.
    Place(
        name="walker",
        kind="body",
        title="Walker",
        world=_PLANAR,
        arguments={"name": "walker"},
        models={LEARNED: "walker-fb"},
        recipe={
            "goal_features": "walker",
            "goal_scale": (0.6, 1.0, 1.0, 2.5, 5.0, 5.0),
            "hidden": 448,
            "layers": 3,
            "balance": 0.5,
            "task_share": 0.4,
            "steps": 200_000,
        },
        tasks=f"{_TASKS}:WALKER",
        goals=_LEAN,
    ),
    Place(
        name="cheetah",
        kind="body",
        title="Cheetah",
        world=_PLANAR,
        arguments={"name": "cheetah"},
        models={LEARNED: "cheetah-fb"},
        recipe={"goal_features": "cheetah", "goal_scale": (0.4, 1.0, 1.0, 4.0, 5.0, 5.0), "repeat": 2},
        tasks=f"{_TASKS}:CHEETAH",
        goals=_planar_goals("Nose", "nose up", "nose down"),
    ),
    Place(
        name="hopper",
        kind="body",
        title="Hopper",
        world=_PLANAR,
        arguments={"name": "hopper"},
        recipe={
            "goal_features": "hopper",
            "goal_scale": (0.6, 1.0, 1.0, 1.5, 5.0, 5.0, 0.5),
            "hidden": 256,
            "layers": 3,
            "balance": 0.5,
            "task_share": 0.4,
        },
        tasks=f"{_TASKS}:HOPPER",
        goals=(*_LEAN, Goal("extension", "stretch", "Stretch", "bent", "stretched")),
    ),
    Place(
        name="quadruped",
        kind="body",
        title="Quadruped",
        world="zscout.worlds.bodies.quadruped:Quadruped",
        models={LEARNED: "quadruped-fb"},
        recipe={
            "goal_features": "quadruped",
            # upright, speed forward, to the left and upward, rates of roll, pitch and turn, stretch
            "goal_scale": (1.0, 1.5, 1.0, 1.0, 3.0, 3.0, 3.0, 0.3),
            "balance": 0.5,
            "task_share": 0.4,
            "steps": 140_000,
        },
        tasks=f"{_TASKS}:QUADRUPED",
        goals=(
            Goal("forward", "speed", "Speed", "backward", "forward"),
            Goal("leftward", "sideways", "Sideways", "to the right", "to the left"),
            Goal("turn rate", "turn", "Turn", "turning right", "turning left"),
            Goal("upright", "upright", "Upright", "upside down", "upright"),
            Goal("stretch", "stretch", "Stretch", "low", "tall"),
            Goal("roll rate", "roll", "Roll", "rolling left", "rolling right"),
        ),
    ),
):
    register(_place)
