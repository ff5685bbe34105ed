"""Faults that were found by attack, each as the attack was: killed workers, full disks, hostile files."""

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import zscout
from zscout.cli import main
from zscout.files import write_bytes
from zscout.lab.arena import Arena, Tasks
from zscout.lab.chunks import run_all
from zscout.lab.compare import Entrant
from zscout.lab.store import Store
from zscout.transfer.method import Method
from zscout.transfer.methods import METHODS


def greedy_but_deadly(*, deadly: float = 0.0) -> Method:
    """Kills its process where it is told to."""
    if deadly:
        os.kill(os.getpid(), 9)
    return METHODS["greedy"](dim=9)


def test_a_worker_that_dies_costs_the_run_that_kills_it(tmp_path: Path) -> None:
    arena, tasks = Arena(features="clusters"), Tasks(3, 1)
    entrants = [
        Entrant.of(arena, "greedy", {}, tasks, steps=5),
        Entrant.of(arena, "test_attacks:greedy_but_deadly", {"deadly": 1.0}, tasks, steps=5),
        Entrant.of(arena, "thompson", {}, tasks, steps=5),
    ]
    specs = [spec for entrant in entrants for spec in entrant.specs]
    for _ in range(2):  # the second time too: it must not refuse for ever
        with Store(tmp_path) as store:
            list(run_all(specs, store, workers=2))
            failed = [spec for spec in specs if store.failure(spec)]
            assert failed == entrants[1].specs
            assert len(store) == 6
            assert "the process that ran it died" in str(store.failure(failed[0]))


class Stop(BaseException):
    """A kill, as far as the file system sees it."""


@pytest.mark.parametrize("what", ["killed", "disk full"])
def test_reproduce_goes_on_after_a_stop_at_any_rename(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import zscout.lab.paper as paper

    monkeypatch.setattr(paper, "EXPERIMENTS", (paper.FRAMEWORK,))  # one that runs nothing: what is tested is the writing
    monkeypatch.setattr(paper, "story", _without_opening(paper.story))
    real, count, stops = Path.replace, 0, 0

    def replace(self: Path, target: Any) -> Path:
        nonlocal count
        count += 1
        if count == stops:
            raise Stop if what == "killed" else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    command = ["reproduce", "--quick", "--jobs", "1"]
    main([*command, "--out", str(tmp_path / "whole")])
    renames = count
    assert renames >= 4  # figures, tables, report, results, timings
    for stops in range(1, renames + 1):
        count, out = 0, tmp_path / str(stops)
        with pytest.raises(Stop if what == "killed" else SystemExit):
            main([*command, "--out", str(out)])
        if what == "disk full":
            assert "No space left on device" in capsys.readouterr().err
        assert not [path for path in out.rglob(".zscout-*")]
        count = -1_000
        main([*command, "--out", str(out)])  # the same command goes on
        assert json.loads((out / "results.json").read_text())["quick"]


def _without_opening(story: Callable[..., Any]) -> Callable[..., Any]:
    from dataclasses import replace

    return lambda *arguments: replace(story(*arguments), opening=())


def test_files_are_written_with_the_users_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = write_bytes(tmp_path / "a" / "b.txt", b"hello")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_bytes_are_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real_sync, real_replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.append("sync"), real_sync(handle))[1])
    monkeypatch.setattr(Path, "replace", lambda path, to: (seen.append("rename"), real_replace(path, to))[1])
    write_bytes(tmp_path / "c", b"c")
    assert seen == ["sync", "rename"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = zscout.load("grid9-clusters")
    zscout.save(model, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("change", [{"layers": 10**9}, {"hidden": 10**6}, {"heads": 10**6}, {"n_actions": 10**6}])
def test_a_config_is_checked_against_the_file_before_anything_is_built(
    change: dict[str, int], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zscout.bfm.pretrained.USFA", None)  # building it now would be a TypeError
    config = json.loads((folder / "config.json").read_text())
    config["model"] |= change
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"its config\.json wants"):
        zscout.load(folder)


def test_deeply_nested_json_is_a_value_error(folder: Path, tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    (folder / "config.json").write_text(deep)
    with pytest.raises(ValueError, match="nested too deeply"):
        zscout.load(folder)
    from safetensors.torch import save

    (tmp_path / "agent.safetensors").write_bytes(save({"a": torch.zeros(1)}, {"agent": deep}))
    with pytest.raises(ValueError, match="nested too deeply"):
        zscout.OnlineTransfer.load(tmp_path, zscout.load("grid9-clusters"))
    (tmp_path / "settings.json").write_text(deep)
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--quick", "--settings", str(tmp_path / "settings.json"), "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
