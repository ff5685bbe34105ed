"""The command line as a user meets it: in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zscout
from commands import run_zscout
from waiting import PATIENCE
from zscout.cli import main
from zscout.lab.arenas.grid import GridArena


def run(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return run_zscout(words, cwd)


def test_compare_and_tune_work_together_and_resume(tmp_path: Path) -> None:
    done = run("tune", "--quick", "--methods", "greedy", "--steps", "10", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "out/tune/settings.json").read_text())
    (chosen,) = written["settings"].values()
    assert set(chosen) == {"greedy"}
    words = ["--quick", "--steps", "10", "--settings", "out/tune/settings.json", "--against", "random"]
    for _ in range(2):
        done = run("compare", *words, "--methods", "random,greedy", "--json", "c.json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "c.json").read_text())
    assert {row["method"] for row in found["rows"]} == {"greedy", "random"}
    (greedy,) = [row for row in found["rows"] if row["method"] == "greedy"]
    assert greedy["settings"] == chosen["greedy"]["settling"]
    assert greedy["note"] == "from the file"
    assert len(found["outcomes"][0]["runs"]["lost"]) == len(found["outcomes"][0]["seeds"]) == 5
    assert "left out" not in done.stdout
    assert done.stdout.count("runs in") == 0  # all were there from the first time
    (record,) = written["record"].values()
    assert record["runs"] == 3
    assert [row["settings"] for row in record["tried"]["greedy"]] == [{"ridge": 0.003}, {"ridge": 0.005}]
    done = run("tune", "--quick", "--methods", "greedy", "--steps", "12", cwd=tmp_path)  # would not compare
    assert done.returncode == 2
    assert "with steps 10, not 12: name another --out" in done.stderr
    assert json.loads((tmp_path / "out/tune/settings.json").read_text()) == written


def test_features_in_a_file_are_compared_tuned_and_watched(tmp_path: Path) -> None:
    np.save(tmp_path / "places.npy", GridArena("four-rooms").ground.features[:, :4])
    words = ["--quick", "--steps", "8", "--world", "four-rooms", "--features", "places.npy"]
    done = run("tune", *words, "--methods", "greedy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "four-rooms, places.npy features, exact model" in " ".join(done.stdout.split())
    written = json.loads((tmp_path / "out/tune/settings.json").read_text())
    assert list(written["settings"]) == ["four-rooms/places.npy/exact"]
    done = run("compare", *words, "--methods", "opti", "--jobs", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "published" in done.stdout  # no record for these features
    done = run("transfer", *words, "--model", "exact", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_version() -> None:
    assert run("--version", cwd=Path.cwd()).stdout == f"zscout {zscout.__version__}\n"


MISTAKES = {  # a command, and the name of what is wrong with it
    "comapre": "comapre",
    "compare --dim 12": "--dim",
    "compare --metods=opti": "--metods",
    "compare --methods usf-ubc": "'usf-ubc': did you mean usf-ucb",
    "compare --methods greedy --against opti": "--against opti",
    "compare --methods math:pi": "math:pi",
    "compare --methods all --steps 0": "steps",
    "compare --methods greedy --settings bad.json": "greedy: ridge",
    "compare --settings none.json": "settings",
    "compare --settings empty.json": "no method",
    "compare --methods opti,random --settings other.json": "settings of greedy, expected opti or random",
    "compare --features waves": "'waves'",
    "compare --world mase": "did you mean maze?",
    "compare --world ofice.txt": "'ofice.txt'",
    "compare --outside 1": "outside",
    "compare --tasks 0": "tasks",
    "compare --noise -1": "noise",
    "compare --device cuda:77": "CUDA",
    "compare --quick --methods random --jobs 0": "jobs",
    "compare --quick --methods random --out a-file": "a-file",
    "compare --quick --methods random --json .": "folder",
    "compare --quick --methods random --csv a-file/x.csv": "a-file/x.csv",
    "tune --methods oracle": "'oracle'",
    "pretrain --out a-file": "--out",
    "pretrain --out x --device cuda:77": "CUDA",
    "pretrain --out x --world mars": "'mars'",
    "pretrain --out x --world mars --model fb": "'mars'",
    "pretrain --out x --world a-file": "row 1 holds 'e'",
    "pretrain --out x --features places.npy --dim 12": "--dim",
    "compare --features none.npy": "none.npy",
    "compare --features a-file.npy": "a-file.npy",
    "pretrain --out x --set tua=1": "'tua'",
    "pretrain --out x --dim 2": "dim=3",
    "live --no-no-browser": "--no-no-browser",
    "bench --seed -1": "--seed",
    "bench --only lives": "did you mean live?",
    "bench --only live --device cuda:77": "CUDA",
    "bench --out a-file": "a-file",
    "bench --json a-file/x.json": "a-file/x.json",
}


def test_a_users_mistake_is_one_line_that_names_it_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("mine")
    (tmp_path / "a-file.npy").write_text("mine")
    np.save("places.npy", np.eye(81))
    (tmp_path / "bad.json").write_text('{"greedy": {"ridge": "x"}}')
    (tmp_path / "other.json").write_text('{"greedy": {"ridge": 1}}')
    (tmp_path / "empty.json").write_text("{}")
    for command, name in MISTAKES.items():
        with pytest.raises(SystemExit) as stop:
            main(command.split())
        errors = capsys.readouterr().err
        assert (stop.value.code, errors.count("\n")) == (2, 1), command
        assert name in errors, command
    assert (tmp_path / "a-file").read_text() == "mine"


def test_a_mistake_in_a_process_of_its_own(tmp_path: Path) -> None:
    named = {"compare --methods usf-ubc": "'usf-ubc'", "compare --tasks x": "--tasks", "pretrain": "--out"}
    for command, name in named.items():
        done = run(*command.split(), cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), command
        assert done.stderr.startswith("zscout: ")
        assert name in done.stderr


def test_help_for_a_reader_that_leaves_ends_silently(tmp_path: Path) -> None:
    for words in (["--help"], ["--version"]):  # more and less than a buffer
        command = [sys.executable, "-m", "zscout", *words]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, errors = process.communicate(timeout=PATIENCE)
        assert errors == ""
        assert process.returncode == 1
