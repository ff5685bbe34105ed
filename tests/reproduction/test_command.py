"""``python -m reproduction`` as a user meets it: mistakes, stops, and going on after them."""

import contextlib
import dataclasses
import errno
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reproduction import paper
from reproduction.__main__ import main
from waiting import PATIENCE, until

PLACES = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
MISTAKES = {  # words, and the name of what is wrong with them
    "--sed 1": "--sed",
    "--seed x": "--seed must be a whole number",
    "--seed 5000000": "seed",
    f"--seed {'9' * 30}": "--seed",
    "--quick --out a-file": "a-file",
    "--quick --out a-file/out": "a-file",
    "--json a-file/x.json --out new/out": "a-file/x.json",
    "--jobs 0": "jobs",
    "--runner cloud": "cloud",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line_that_names_it_and_exit_code_2(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a-file").write_text("mine")
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    said = capsys.readouterr().err
    assert (stop.value.code, said.count("\n")) == (2, 1), said
    assert MISTAKES[words] in said
    assert [path.name for path in tmp_path.rglob("*")] == ["a-file"]


def test_help_names_the_flags_and_loads_no_torch() -> None:
    code = "import runpy, sys\ntry: runpy.run_module('reproduction', run_name='__main__')\nfinally: print(*sys.modules)"
    command = [sys.executable, "-c", f"import sys; sys.argv[1:] = ['--help']\n{code}"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": PLACES}, capture_output=True, text=True, check=True)
    told, loaded = done.stdout.splitlines()[:-1], done.stdout.splitlines()[-1].split()
    assert "usage: python -m reproduction" in told[0]
    for flag in ("--out", "--seed", "--jobs", "--runner", "--address", "--quick", "--json"):
        assert flag in "".join(told)
    assert "zscout.cli" in loaded
    assert not {"torch", "scipy", "matplotlib"} & set(loaded)


def test_ctrl_c_is_one_line_and_leaves_no_half_file(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "reproduction", "--quick"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": PLACES},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in background shells
    )
    first = tmp_path / "out/runs.sqlite"

    def holds_a_run() -> bool:
        assert process.poll() is None
        if first.exists():
            with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(first)) as file:
                return bool(file.execute("SELECT count(*) FROM runs").fetchone()[0])
        return False

    until(holds_a_run, "no run is stored")
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert re.fullmatch(r"zscout: .*\d+ of \d+ runs.*\n", errors)
    assert not list(first.parent.glob(".*"))


class Stop(BaseException):
    """A kill, as far as the file system sees it."""


@pytest.mark.parametrize("what", ["killed", pytest.param("disk full", marks=pytest.mark.long)])
def test_it_goes_on_after_a_stop_at_any_rename(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paper, "EXPERIMENTS", (paper.FRAMEWORK,))  # it runs nothing: this is about writing
    monkeypatch.setattr(paper, "story", _without_opening(paper.story))
    real, count, stops = Path.replace, 0, 0

    def replace(self: Path, target: Any) -> Path:
        nonlocal count
        count += 1
        if count == stops:
            raise Stop if what == "killed" else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    command = ["--quick", "--jobs", "1"]
    main([*command, "--out", str(tmp_path / "whole")])
    renames = count
    assert renames >= 4  # figures, tables, report, results, timings
    for stops in range(1, renames + 1):
        count, out = 0, tmp_path / str(stops)
        with pytest.raises(Stop if what == "killed" else SystemExit):
            main([*command, "--out", str(out)])
        if what == "disk full":
            assert "No space left on device" in capsys.readouterr().err
        assert not list(out.rglob(".zscout-*"))
        count = -1_000
        main([*command, "--out", str(out)])  # the same command goes on
        assert json.loads((out / "results.json").read_text())["quick"]


def _without_opening(story: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: dataclasses.replace(story(*arguments), opening=())
