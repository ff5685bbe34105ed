"""A place is known everywhere once it is registered, and no other file lists the places."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import gymnasium
import pytest
import tyro
from rich.console import Console

import zscout
from zscout.cli import chart, pretrain, transfer
from zscout.cli.compare import Compare
from zscout.cli.parts.options import ArenaOptions
from zscout.lab.arenas.body import BodyArena
from zscout.lab.training.fb import FBPretraining, FBTraining
from zscout.live.server.choices import choices
from zscout.live.session.setup import Setup
from zscout.models.fb.body_training import BodyTrainer
from zscout.models.files.folder import save_observations
from zscout.models.files.pretrained import observations_of, shipped
from zscout.worlds import body, body_tasks
from zscout.worlds.bodies.planar import PlanarBody
from zscout.worlds.bodies.tasks import Field, tolerance
from zscout.worlds.registry import LEARNED, PLACES, FBName, Place, of_kind, register

SOURCE = Path(zscout.__file__).parent
LISTED = {"worlds/registry.py", "worlds/bodies/quadruped.py", "worlds/bodies/tasks.py"}


class Leopard(PlanarBody):
    """The cheetah's physics under another name."""

    def __init__(self, *, repeat: int = 1, threads: int | None = None) -> None:
        super().__init__("cheetah", repeat=repeat, threads=threads)
        self.name = "leopard"


TASKS: dict[str, dict[str, Field]] = {
    "suite": {"pounce": lambda g: tolerance(g[..., 3], 8.0, margin=8.0)},
    "held-out": {"lurk": lambda g: tolerance(g[..., 0], 0.0, 0.3, margin=0.2)},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of its model: the cheetah's."""
    found, folder = zscout.load("cheetah-fb"), tmp_path_factory.mktemp("models")
    found.about = {**found.about, "world": "leopard"}
    zscout.save(found, folder)
    save_observations(folder, observations_of("cheetah-fb")[:300])
    return str(folder)


@pytest.fixture
def leopard(model: str) -> Iterator[str]:
    """The name of the new body, registered in one call."""
    place = Place(
        name="leopard",
        kind="body",
        title="Leopard",
        world="test_registry:Leopard",
        models={LEARNED: model},
        recipe=PLACES["cheetah"].recipe,
        tasks="test_registry:TASKS",
        goals=PLACES["cheetah"].goals,
    )
    register(place)
    yield place.name
    del PLACES[place.name], gymnasium.registry[place.environment]


def test_a_new_body_has_an_environment_and_tasks(leopard: str) -> None:
    world = body(leopard, threads=1)
    assert isinstance(world, Leopard)
    assert [(task.kind, task.name) for task in body_tasks(world)] == [("suite", "pounce"), ("held-out", "lurk")]
    env = gymnasium.make("zscout/Leopard-v0", reward="lurk")
    assert env.reset(seed=0)[0].shape == world.observation_space.shape
    assert 0 <= float(env.step(env.action_space.sample())[1]) <= 1


def test_every_command_knows_a_new_body(leopard: str, model: str, tmp_path: Path) -> None:
    arena = ArenaOptions(world=f"{leopard}-held-out").build()
    assert arena == BodyArena(model, "held-out", body=leopard)
    spec, _ = transfer.Transfer(world=leopard, task="pounce")._spec()
    assert spec.arena == BodyArena(model, body=leopard)
    assert chart.Chart(tmp_path, world=leopard, quick=True)._charting().total
    run = pretrain.Pretrain(tmp_path, world=leopard, model="fb", quick=True)._training()
    assert isinstance(run, FBTraining)
    assert isinstance(run.trainer, BodyTrainer)
    assert isinstance(run.trainer.world, Leopard)
    assert run.trainer.recipe.repeat == 2


def test_every_command_names_a_new_body_when_it_refuses_another(leopard: str, tmp_path: Path) -> None:
    commands = (
        Compare(arena=ArenaOptions(world="leopart")),
        transfer.Transfer(world="leopart"),
        chart.Chart(tmp_path, world="leopart"),
        pretrain.Pretrain(tmp_path, world="leopart", model="fb"),
    )
    for command in commands:
        with pytest.raises(Exception, match="did you mean leopard"):
            command.run(Console(quiet=True))


def test_a_place_to_compare_is_a_world_or_an_arena() -> None:
    given = [tyro.cli(Compare, args=[option, "point-maze-linear"]) for option in ("--world", "--arena")]
    assert [command.arena.world for command in given] == ["point-maze-linear"] * 2
    assert ArenaOptions(world="grid").build() == ArenaOptions().build() == ArenaOptions(world="open-grid").build()


def test_the_page_offers_a_new_body(leopard: str) -> None:
    [offer] = [offer for offer in choices()["worlds"] if offer["name"] == leopard]
    assert (offer["title"], offer["kind"]) == ("Leopard", "stage")
    assert [task["name"] for task in offer["tasks"]] == ["pounce", "lurk"]
    assert isinstance(Setup.from_json({"world": leopard}).live_world.arena.world, Leopard)


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="there is a place 'maze' already"):
        register(PLACES["maze"])


def test_what_a_place_names_is_there() -> None:
    for place in PLACES.values():
        assert set(place.models.values()) <= set(shipped())
        assert place.environment in gymnasium.registry
    learned = of_kind("point", "body")
    assert {place.model for place in learned.values()} - {""} == set(get_args(FBName))
    for name, place in learned.items():
        recipe = FBPretraining(world=name).build_recipe()
        assert place.recipe.items() <= {field.name: getattr(recipe, field.name) for field in fields(recipe)}.items()
    for name, place in of_kind("body").items():
        assert {goal.feature for goal in place.goals} <= set(body(name, threads=1).goal_names)
        assert {"suite", "held-out"} <= place.task_sets.keys()


def test_no_other_file_lists_the_bodies() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for end in ("py", "js", "html")
        for path in SOURCE.rglob(f"*.{end}")
        if "quadruped" in path.read_text()
    }
    assert found <= LISTED
