"""A wrong path is one line, with exit code 2, and leaves nothing behind, in every command."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import benchmarks
from zscout.cli import COMMANDS, main

WRONG = [
    "compare --model nowhere --out new/out --json new/files/x.json",
    "compare --features nowhere:table --out new/out",
    "compare --settings nowhere.json --out new/out",
    "compare --world nowhere.txt --out new/out",
    "compare --methods nowhere:method --out new/out",
    "compare --methods random --csv a-file/x.csv --out new/out",
    "tune --model nowhere --out new/out --json new/files/x.json",
    "tune --features nowhere:table --out new/out",
    "tune --world nowhere.txt --out new/out",
    "tune --methods nowhere:method --out new/out",
    "pretrain --data nowhere --out new/out --json new/files/x.json",
    "pretrain --data a-file --out new/out",
    "pretrain --data data.npz --world nowhere.txt --out new/out",
    "pretrain --data data.npz --world open-grid --features nowhere:table --out new/out",
    "pretrain --world nowhere.txt --out new/out",
    "pretrain --features nowhere:table --out new/out",
    "pretrain --base nowhere --out new/out",
    "pretrain --json a-file/x.json --out new/out",
    "chart --model nowhere --out new/out",
    "chart --data nowhere --model walker-fb --out new/out",
    "chart --data data.npz --model nowhere --out new/out",
    "chart --data data.npz --model walker-fb --out new/out",  # of other observations
    "export nowhere --out new/out",
    "transfer --model nowhere --gif new/out/x.gif --json new/files/x.json",
    "transfer --features nowhere:table --gif new/out/x.gif",
    "transfer --world nowhere.txt --gif new/out/x.gif",
    "transfer --method nowhere:method --gif new/out/x.gif",
    "bench --only live --json a-file/x.json --out new/out",
]
OF_BENCHMARKS = [
    "atlas --body-name walker --atlas nowhere --out new/out.json",
    "body_measures --body walker --model nowhere --out new/out.json",
    "league --have nowhere --out new/out.json",
    "league_table new/out.json --keep nowhere",
    "point_measures --model nowhere --out new/out.json",
    "transitions --model nowhere --out new/out",
    "suite nowhere",
    "atlas_table nowhere",
    "certificate_table nowhere",
    "collect nowhere open-grid",
    "rivals_table nowhere",
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A file and data in the present folder, and no others."""
    monkeypatch.chdir(tmp_path)
    Path("a-file").write_text("mine")
    obs, action = np.zeros((4, 3)), np.zeros((4, 2))
    np.savez("data.npz", obs=obs, action=action, next_obs=obs, terminated=np.zeros(4, bool))
    return sorted(tmp_path.rglob("*"))


@pytest.mark.parametrize("command", WRONG)
def test_a_wrong_path_leaves_nothing(command: str, files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(command.split())
    said = capsys.readouterr().err
    assert (stop.value.code, said.count("\n")) == (2, 1), said
    assert sorted(Path.cwd().rglob("*")) == files


def test_every_command_is_there() -> None:
    assert {command.split()[0] for command in WRONG} == set(COMMANDS) - {"live"}  # which takes no path


def run_benchmark(name: str) -> None:
    """What ``python -m`` does."""
    try:
        with torch.enable_grad():  # some switch it off
            runpy.run_path(str(Path(benchmarks.__path__[0], f"{name}.py")), run_name="__main__")
    except (OSError, ValueError) as error:
        benchmarks.end(type(error), error, error.__traceback__)


@pytest.mark.parametrize("command", OF_BENCHMARKS)
def test_a_wrong_path_of_a_benchmark_leaves_nothing(
    command: str, files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *words = command.split()
    monkeypatch.setattr(sys, "argv", [name, *words])
    with pytest.raises(SystemExit) as stop:
        run_benchmark(name)
    said = capsys.readouterr().err
    assert (stop.value.code, said.count("\n")) == (2, 1), said
    assert sorted(Path.cwd().rglob("*")) == files


def test_a_folder_that_was_there_stays(files: list[Path]) -> None:
    Path("new").mkdir()
    for command in ("compare --model nowhere --out new", "pretrain --data a-file --out new"):
        with pytest.raises(SystemExit):
            main(command.split())
        assert list(Path("new").iterdir()) == []


def test_a_file_in_a_folder_that_cannot_be_made_is_refused(
    files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("gone").symlink_to("nowhere")
    for folder in ("a-file", "a-file/deep", "gone"):
        with pytest.raises(SystemExit) as stop:
            main(["compare", "--methods", "random", "--json", f"{folder}/x.json"])
        said = capsys.readouterr().err
        assert (stop.value.code, f"{folder}/x.json cannot be written" in said) == (2, True), said
