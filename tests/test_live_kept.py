"""Behaviours that visitors keep: what later runs have of them, and that no folder and no name does harm."""

import asyncio
import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from starlette.applications import Starlette

from live_frames import close, messages, side, steps
from test_live_fuzz import Here, Visitor
from zscout import Memory
from zscout.live.places import kept
from zscout.live.places.body import LiveBody
from zscout.live.server import server
from zscout.live.server.limits import Limits
from zscout.live.session.run import LiveRun
from zscout.live.session.setup import Setup
from zscout.transfer.agent import OnlineTransfer
from zscout.worlds.bodies.tasks import body_task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tasks"


def begun(folder: Path | None, **setup: Any) -> LiveRun:
    return LiveRun(Setup.from_json({"world": "cheetah", **setup}), 600, folder)


def agent_of(run: LiveRun) -> OnlineTransfer:
    return run._sides[0].agent


def taught(folder: Path | None, task: str = "walk", **setup: Any) -> LiveRun:
    """A run whose agent knows a task."""
    run = begun(folder, **setup)
    atlas, world = agent_of(run).atlas, cast(LiveBody, run.setup.live_world)
    assert atlas is not None
    agent_of(run).learn(atlas.sample[:300], body_task(world.arena.world, task)(atlas.sample[:300]))
    return run


def listed(run: LiveRun, resumed: bool = False) -> list[str]:
    head = messages(run.begun("key", resumed=resumed))[0]
    return [one["name"] for one in head["kept"]["behaviours"]]


def test_a_later_run_begins_from_what_was_kept_and_says_what_it_resembles(folder: Path) -> None:
    first = taught(folder)
    best = agent_of(first).best_z
    [told] = messages(first.keep(" My walk ", False))
    assert (told["is"], told["name"], told["kept"]["keeps"]) == ("kept", "My walk", True)
    [one] = told["kept"]["behaviours"]
    assert close(one["z"], best, 5)
    assert "forward" in one["likes"]
    later = begun(folder, seed=5)
    assert listed(later) == ["My walk"]
    frame = steps(later, 1)[0]
    assert side(frame)["resembles"] is None  # nothing is known yet
    assert torch.allclose(later._sides[0].steps[0].z, best)  # tried first
    assert not torch.allclose(steps_z(begun(None, seed=5)), best)
    name, share = side(steps(taught(folder), 5)[-1])["resembles"]
    assert name == "My walk"
    assert share > 0.95
    assert side(steps(taught(folder, "crouch"), 5)[-1])["resembles"] is None
    later.show(one["z"])
    assert side(steps(later, 1)[0])["mode"] == "shows"


def steps_z(run: LiveRun) -> torch.Tensor:
    run.step()
    return run._sides[0].steps[0].z


def test_without_a_folder_nothing_is_kept_or_said() -> None:
    run = taught(None)
    assert "kept" not in messages(run.begun("key"))[0]
    assert "resembles" not in side(steps(run, 1)[0])
    assert agent_of(run).past is None
    with pytest.raises(ValueError, match="--memory"):
        run.keep("walk", False)


def test_only_a_method_with_an_atlas_keeps_and_maps_have_none(folder: Path) -> None:
    taught(folder).keep("walk", False)
    both = begun(folder, methods=["opti", "usf-ucb"])
    assert [side.agent.past is None for side in both._sides] == [True, False]
    assert messages(both.begun("key"))[0]["kept"]["keeps"]
    other = begun(folder, methods=["opti"])
    assert listed(other) == ["walk"]
    assert not messages(other.begun("key"))[0]["kept"]["keeps"]
    steps(other, 5)
    grid = LiveRun(Setup(), 10, folder)
    assert "kept" not in messages(grid.begun("key"))[0]
    for run in (other, grid):
        with pytest.raises(ValueError, match="usf-ucb"):
            run.keep("again", False)
    assert listed(LiveRun(Setup.from_json({"world": "walker"}), 10, folder)) == []  # of another model


def test_what_cannot_be_kept_is_refused_and_nothing_is_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = taught(folder)
    run.keep("walk", False)
    [file] = folder.iterdir()
    before = file.read_bytes()
    names: list[Any] = ["", "  ", "x" * 41, "a\nb", "\u202eklaw", "\x00", "\ud800", 5, None, ["walk"], {"a": 1}]
    for name, replace in [*((name, False) for name in names), ("other", None), ("other", 1)]:
        with pytest.raises(ValueError, match=r"name|replace"):
            run.keep(name, replace)
    with pytest.raises(ValueError, match="already"):
        run.keep("walk", False)
    with pytest.raises(ValueError, match="nothing to remember"):
        begun(folder).keep("other", False)
    monkeypatch.setattr(kept, "MOST", 1)
    with pytest.raises(ValueError, match="replace one"):
        run.keep("other", False)
    other = taught(folder, "crouch")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(ValueError, match=f"not kept: {os.strerror(errno.ENOSPC)}$"):
            other.keep("walk", True)
    assert [*folder.iterdir()] == [file]
    assert file.read_bytes() == before
    other.keep("walk", True)
    assert file.read_bytes() != before
    steps(run, 1)


@pytest.mark.parametrize("name", ["../../etc/passwd", "<b>é</b>", "🎉" * 40, "%s; DROP", ".", "CON"])
def test_a_name_is_only_text(name: str, folder: Path) -> None:
    taught(folder).keep(name, False)
    [file] = folder.parent.rglob("*.*")
    assert file.parent == folder
    assert listed(begun(folder)) == [name]


def test_visitors_share_the_folder_and_it_may_go_and_come(folder: Path) -> None:
    one, other = taught(folder), taught(folder, "crouch")
    one.keep("walk", False)
    with pytest.raises(ValueError, match="already"):
        other.keep("walk", False)
    other.keep("crouch", False)
    assert listed(one) == ["walk"]
    assert listed(one, resumed=True) == ["crouch", "walk"]
    shutil.rmtree(folder)
    assert listed(one, resumed=True) == []
    steps(one, 1)
    assert listed(begun(folder)) == []
    one.keep("walk", False)
    assert listed(begun(folder)) == ["walk"]


@pytest.mark.parametrize("damage", ["file", "folder"])
def test_a_run_goes_on_without_what_cannot_be_read_and_says_so(damage: str, folder: Path) -> None:
    run = taught(folder)
    run.keep("walk", False)
    [file] = folder.iterdir()
    if damage == "file":
        file.write_bytes(b"odd")
    else:
        shutil.rmtree(folder)
        folder.write_text("odd")
    for begins in (begun(folder), run):
        first, *_, last = messages(begins.begun("key", resumed=begins is run))
        assert first["kept"]["behaviours"] == []
        assert last["is"] == "notice"
        assert str(folder) not in last["about"]
        assert file.name in last["about"] or damage == "folder"
        steps(begins, 1)
    with pytest.raises(ValueError, match="not kept") as refused:
        run.keep("again", False)
    assert str(folder) not in str(refused.value)


def test_the_server_begins_and_resets_runs_with_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "Worker", Here)
    taught(folder).keep("walk", False)

    async def scene() -> None:
        live = server.LiveServer("token", ["127.0.0.1"], 1, Limits(), memory=folder)
        visitor = Visitor()

        async def said(**message: Any) -> dict[str, Any]:
            return (await visitor.say(json.dumps(message)))[0]

        async with live._lifespan(Starlette()), visitor.visiting(live):
            for message in ({"do": "begin", "setup": {"world": "cheetah", "reward": {"task": 3}}}, {"do": "reset"}):
                head = await said(**message)
                assert [one["name"] for one in head["kept"]["behaviours"]] == ["walk"]
            for _ in range(3):
                await said(do="step")
            assert (await said(do="keep", name="walk", replace=False))["is"] == "error"
            told = await said(do="keep", name="other", replace=False)
            assert [one["name"] for one in told["kept"]["behaviours"]] == ["other", "walk"]

    asyncio.run(scene())
    atlas = agent_of(begun(None)).atlas
    assert atlas is not None
    assert Memory(folder).past(atlas).names == ("other", "walk")
