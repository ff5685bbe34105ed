"""The worlds that have a name: Gymnasium, the command line, the laboratory and the live page read them here.

A place names what makes its world and imports it at first use, so this module imports neither torch nor MuJoCo.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import gymnasium

if TYPE_CHECKING:
    from torch import Tensor

Kind: TypeAlias = Literal["grid", "point", "body"]
Tasks: TypeAlias = Mapping[str, Mapping[str, Callable[..., Any]]]
FBName: TypeAlias = Literal["pointmaze-fb", "walker-fb", "cheetah-fb", "quadruped-fb"]  # models that are no USFA

ENVIRONMENTS: dict[Kind, str] = {
    "grid": "zscout.worlds.grids.env:make_env",
    "point": "zscout.worlds.points.env:make_point_maze",
    "body": "zscout.worlds.bodies.env:make_body",
}
BODY_RECIPE: dict[str, Any] = {"repeat": 2, "balance": 0.5, "steps": 80_000, "task_share": 0.6}
# Of bodies that must stand to run: the first goal feature, a height or how upright, gates the ramps
STANDING: dict[str, Any] = {"gates": (0,), "task_share": 0.8, "explorers": 0.2, "random": 0.05, "normalised": True}
LEARNED = "learned"  # the features of a network that learned its own


@dataclass(frozen=True)
class Goal:
    """A goal feature of a body in words: what it is called on the page, and what little and much of it are."""

    feature: str  # one of the body's ``goal_names``
    name: str
    title: str
    low: str
    high: str


@dataclass(frozen=True)
class Fall:
    """A body is on the ground while a goal feature is below a value; ``rare`` is a share of steps it can keep to."""

    feature: str
    below: float
    rare: float = 0.05

    def cost(self, goals: "Tensor", names: Sequence[str]) -> "Tensor":
        """1 on the ground, else 0, of goal features [*b g] with these names."""
        return (goals[..., names.index(self.feature)] < self.below).double()


@dataclass(frozen=True, eq=False)
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
    fall: Fall | None = None  # of a body

    def make(self, **options: Any) -> Any:
        """The world, such as ``make(slip=0.1)`` of a grid or ``make(repeat=2)`` of a body."""
        return _named(self.world)(**self.arguments, **options)

    @property
    def model(self) -> str:
        """The first model that ships; empty if none does."""
        return next(iter(self.models.values()), "")

    @property
    def task_sets(self) -> Tasks:
        """The rewards of a body, functions of its goal features: sets such as "suite", each by name."""
        found: Tasks = _named(self.tasks)
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


def _grid(name: str, title: str, **models: str) -> Place:
    return Place(name, "grid", title, f"zscout.worlds.grids.maps:{name.replace('-', '_')}", models=models)


def _body(
    name: str, world: str, arguments: dict[str, str], goals: tuple[Goal, ...], fall: Fall, **recipe: Any
) -> Place:
    """A body of the suite, with the keywords of its recipe."""
    models, tasks = {LEARNED: f"{name}-fb"}, f"zscout.worlds.bodies.tasks:{name.upper()}"
    where, recipe = f"zscout.worlds.bodies.{world}", {"goal_features": name, **BODY_RECIPE, **recipe}
    return Place(name, "body", name.capitalize(), where, arguments, models, recipe, tasks, goals, fall)


def _planar(name: str, pitch: tuple[str, str, str], lowest: float, **recipe: Any) -> Place:
    """A body in a plane, with words for its pitch; angular momentum is not shown, since it goes with the pitch rate."""
    goals = (
        Goal("speed", "speed", "Speed", "backward", "forward"),
        Goal("height", "height", "Height", "low", "high"),
        Goal("upright", "upright", "Upright", "upside down", "upright"),
        Goal("pitched down", "pitch", *pitch),
        Goal("pitch rate", "spin", "Spin", "rolling back", "rolling over"),
    )
    return _body(name, "planar:PlanarBody", {"name": name}, goals, Fall("height", lowest), ramps=(3,), **recipe)


LEAN, NOSE = ("Lean", "lean back", "lean forward"), ("Nose", "nose up", "nose down")
QUADRUPED_GOALS = (
    Goal("forward", "speed", "Speed", "backward", "forward"),
    Goal("leftward", "sideways", "Sideways", "to the right", "to the left"),
    Goal("turn rate", "turn", "Turn", "turning right", "turning left"),
    Goal("upright", "upright", "Upright", "upside down", "upright"),
    Goal("stretch", "stretch", "Stretch", "low", "tall"),
    Goal("roll rate", "roll", "Roll", "rolling left", "rolling right"),
)
# Scales of goal features: upright, three speeds, rates of roll, pitch and turn, stretch; of planar bodies height, cos
# and sin of the pitch, speed, pitch rate, angular momentum.
QUADRUPED_SCALE = (1.0, 1.5, 1.0, 1.0, 3.0, 3.0, 3.0, 0.3)
TILTED = Fall("upright", 0.5, rare=0.3)  # by more than 60°

for _place in (
    _grid("open-grid", "Open 9×9", clusters="grid9-clusters", laplacian="grid9-laplacian"),
    _grid("four-rooms", "Four rooms", laplacian="fourrooms-laplacian"),
    _grid("maze", "Maze", laplacian="maze-laplacian"),
    Place("point-maze", "point", "Point maze", "zscout.worlds.points.maze:point_maze", {}, {LEARNED: "pointmaze-fb"}),
    _planar("walker", LEAN, 0.5, goal_scale=(0.6, 1.0, 1.0, 2.5, 5.0, 5.0), **STANDING),
    _planar("cheetah", NOSE, 0.35, goal_scale=(0.4, 1.0, 1.0, 4.0, 5.0, 5.0), angles=(1,)),
    _body(
        "quadruped",
        "quadruped:Quadruped",
        {},
        QUADRUPED_GOALS,
        TILTED,
        goal_scale=QUADRUPED_SCALE,
        ramps=(1,),  # forward
        **STANDING,
    ),
):
    register(_place)
