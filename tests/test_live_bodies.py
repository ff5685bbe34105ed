"""A body with an untrained model on the live page, offered by one line."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import zscout
from live_frames import frames, messages, side, steps
from test_body_training import TINY
from zscout.live.server import choices
from zscout.live.session.run import LiveRun
from zscout.live.session.setup import Setup
from zscout.models.fb.body_training import BodyTrainer
from zscout.models.files.folder import save_observations
from zscout.models.files.pretrained import shipped
from zscout.worlds.bodies.physics import body
from zscout.worlds.registry import LEARNED, PLACES, of_kind


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A body, and the folder of an untrained model of it with 300 observations."""
    name = "quadruped"
    trainer = BodyTrainer(body(name, repeat=2, threads=1), replace(TINY, goal_features=name), seed=0)
    trainer._warm_up()
    model = trainer.model
    model.about = {"name": f"{name}-fb", "world": name, "repeat": 2}
    folder = tmp_path_factory.mktemp("models") / f"{name}-fb"
    zscout.save(model, folder)
    save_observations(folder, trainer.observations[:300])
    return name, str(folder)


@pytest.fixture
def offered(untrained: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A body that is offered because it has a model."""
    name, folder = untrained
    monkeypatch.setitem(PLACES, name, replace(PLACES[name], models={LEARNED: folder}))
    return name


def begun(world: str, **setup: Any) -> LiveRun:
    return LiveRun(Setup.from_json({"world": world, **setup}), 600)


def test_every_body_with_a_shipped_model_is_offered() -> None:
    bodies = {offer["name"] for offer in choices.choices()["worlds"] if offer["kind"] == "stage"}
    assert bodies == {name for name in of_kind("body") if f"{name}-fb" in shipped()}


def test_it_has_presets_goals_and_a_stage_as_high_as_it_needs(offered: str) -> None:
    [offer] = [offer for offer in choices.choices()["worlds"] if offer["name"] == offered]
    presets = {task["name"] for task in offer["tasks"] if task["preset"]}
    assert {"stand", "walk", "run", "walk-backward", "crouch"} <= presets < {task["name"] for task in offer["tasks"]}
    words = {word for goal in offer["goals"] for word in (goal["low"], goal["high"])}
    assert {"backward", "upside down", "turning left"} <= words
    assert offer["horizon"] == 500  # actions, of two control steps each
    [begin, *_] = messages(begun(offered).begun("key"))
    world = body(offered, repeat=2, threads=1)
    assert begin["constants"]["seconds"] == world.seconds
    assert not begin["constants"]["planar"]
    assert len(begin["constants"]["far"]) == len(begin["constants"]["radii"])
    assert sum(begin["constants"]["far"]) == 6  # two legs of three bones
    assert begin["constants"]["above"] > 1.2 * float(world.segments(world.rest)[0][..., 1].max())


def test_a_hidden_task_thumbs_and_clips_work(offered: str) -> None:
    [offer] = [offer for offer in choices.choices()["worlds"] if offer["name"] == offered]
    table = [0.0] * offer["entries"]
    table[[task["name"] for task in offer["tasks"]].index("stand")] = 1.0
    hidden = begun(offered, reward={"table": table})
    for frame in steps(hidden, 5):
        one = side(frame)
        assert len(one["now"]) == len(one["pays"]) == len(offer["goals"])
        assert np.isfinite([*one["ends"], *one["pays"], *one["now"], one["reward"]]).all()
    [truth] = [content["truth"] for content in messages(hidden.begun("key")) if content["is"] == "reward"]
    stands = [goal["name"] for goal in offer["goals"]].index("upright")
    assert truth[stands] == max(truth) > 0.3
    person = begun(offered, who="person", silence="nothing")
    steps(person, 20)
    credit, newest = messages(person.thumb(20, 1, 20))
    assert side(newest)["told"] == len(credit["steps"]) == 16
    [clips] = messages(person.clips())
    assert [len(clip) for clip in clips["clips"]] == [50, 50]
    told, _ = messages(person.prefer(1, 0))
    assert told["answers"] == 1
    [saved] = messages(person.behaviour())
    person.show(saved["z"])
    assert side(frames(person.step())[0])["mode"] == "shows"
