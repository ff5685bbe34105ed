"""A run in the point maze to watch: its numbers against those of compare, its maps, its GIF, and the command."""

import io
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from commands import run_zscout
from toys import Regression
from zscout.cli import main
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.point import PointArena, task_named
from zscout.lab.compare.comparison import Entrant
from zscout.lab.runs.chunks import run_batch
from zscout.watch.animation import write_gif
from zscout.watch.point import run_named, watch_run
from zscout.watch.terminal import View, plain_line
from zscout.watch.viewer import Frame, Scene

MODEL = "pointmaze-fb"
DIRECTION = ",".join(["1", *["0"] * 31])


@cache
def watched(task: str, method: str = "usf-ucb", steps: int = 6, seed: int = 0) -> tuple[Scene, list[Frame]]:
    scene, frames = watch_run(run_named(MODEL, method, task, noise=0.3, seed=seed, steps=steps))
    return scene, list(frames)


@pytest.mark.long
def test_frames_are_the_run_that_compare_has() -> None:
    scene, frames = watched("7", "greedy", 75, 2)
    spec = Entrant(PointArena(), "greedy", tasks=Tasks(100, 3), steps=75).specs[7 * 3 + 2]
    assert scene.spec == spec
    (record,) = run_batch([spec])
    assert np.allclose([frame.reward for frame in frames], record.steps["reward"], atol=1e-5)
    assert np.allclose([frame.numbers["error"] for frame in frames], record.steps["error"], atol=1e-3)
    end = frames[69].numbers
    assert (end["return"], end["oracle"]) == pytest.approx(
        (record.numbers["return_1"], record.numbers["oracle_1"]), abs=1e-3
    )
    assert [frame.numbers["episode"] for frame in frames] == [1] * 70 + [2] * 5
    assert (frames[70].path[0] != frames[69].path[-1]).any()  # the second episode starts elsewhere


def test_a_path_follows_the_physics_from_the_state_to_the_next() -> None:
    _, frames = watched("7")
    for frame in frames:
        left, entered = (np.array(frame.numbers[name]) for name in ("state", "entered"))
        assert np.allclose(frame.path[[0, -1]] + 0.5, [left[[1, 0]], entered[[1, 0]]], atol=1e-6)
        assert len(frame.path) == 1 + PointArena().world.repeat
        assert np.allclose(frame.velocity, 3 * entered[[3, 2]], atol=1e-6)


def test_maps_show_the_reward_and_the_posterior_on_free_squares() -> None:
    scene, frames = watched("goal 12")
    world = PointArena().world
    walls = np.kron([[mark == "#" for mark in line] for line in str(world).splitlines()], np.ones((3, 3))).astype(bool)
    for values in (scene.truth, scene.doubt, frames[-1].estimate, frames[-1].doubt):
        assert np.array_equal(np.isnan(values), walls)
    rows, columns = np.nonzero(~walls)
    obs = torch.tensor(np.stack([columns + 0.5, rows + 0.5, 0 * rows, 0 * rows], -1) / [3, 3, 1, 1]).float()
    assert np.array_equal(scene.truth[~walls], task_named("goal 12")(obs))
    assert scene.limits == (0, 1)
    ((row, column),) = scene.best
    assert float(task_named("goal 12")(torch.tensor([column + 0.5, row + 0.5, 0, 0]))) == 1
    phi = PointArena().bfm.phi
    entered = phi([frame.numbers["entered"] for frame in frames]).double()
    rewards, prior = (
        torch.tensor([frame.reward for frame in frames], dtype=torch.float64),
        PointArena().bfm.task_covariance(),
    )
    fit = Regression(entered, rewards, covariance=prior)
    assert np.allclose(frames[-1].estimate[~walls], fit.reward(phi(obs).double()), atol=1e-4)
    assert np.allclose(frames[-1].doubt[~walls], fit.reward_width(phi(obs).double()), atol=1e-4)


def test_a_reward_of_velocities_is_shown_at_the_best_of_them() -> None:
    scene, _ = watched("velocity 3", steps=1)
    assert scene.reward == "r at its best velocity"
    assert scene.limits[0] == 0 < scene.limits[1] <= 1
    assert scene.best == frozenset()


def test_a_task_of_ones_own_is_linear() -> None:
    scene, frames = watched(DIRECTION, "oracle", 40)
    assert scene.spec.arena == PointArena(rewards="linear")
    assert scene.reward == "φ·z_r at rest"
    assert all(frame.numbers["return"] == pytest.approx(frame.numbers["oracle"]) for frame in frames)
    assert frames[-1].mode == "stays"
    assert all(frame.heading is None for frame in watched(DIRECTION, "random")[1])


@pytest.mark.parametrize("task", ["goal 12", "velocity 3"])
def test_the_view_and_the_gif_show_every_step(task: str, tmp_path: Path) -> None:
    scene, frames = watched(task)
    console = Console(width=80, height=24, file=io.StringIO())
    texts = ["".join(part.text for part in line) for line in console.render_lines(View(scene, frames, 210), pad=False)]
    x, y, *_ = frames[-1].numbers["entered"]
    assert texts[int(y) + 1][2 * int(x) : 2 * int(x) + 2] == "()"
    assert max(map(len, texts)) <= 80
    assert len(texts) <= 24
    assert texts[-1].startswith("step   6 of 210  reward ")
    assert "episode 1  return " in plain_line(frames[-1], 210)
    with Image.open(write_gif(tmp_path / "run.gif", scene, frames)) as picture:
        assert getattr(picture, "n_frames", 1) == len(frames)
        assert picture.info["duration"] == scene.pace


def test_the_command_writes_what_it_shows(tmp_path: Path) -> None:
    words = ["transfer", "--world", "point-maze", "--task", "goal 12", "--steps", "12", "--speed", "0"]
    done = run_zscout([*words, "--gif", "new/run.gif", "--json", "new/run.json"], tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "step 10 of 12",
        "step 12 of 12",
        "wrote new/run.json",
        "wrote new/run.gif",
    ]
    assert lines[0] == f"goal 12: {task_named('goal 12').name}"
    written = json.loads((tmp_path / "new/run.json").read_text())
    assert written["run"]["arena"] == "point-maze"
    assert (written["run"]["task"], written["run"]["model"]) == ("goal 12", MODEL)
    of_a_step = ("step", "episode", "state", "action", "entered", "mode", "reward", "return", "oracle", "error")
    assert [tuple(step) for step in written["steps"]] == [(*of_a_step, "z", "z_hat")] * 12
    with Image.open(tmp_path / "new/run.gif") as picture:
        assert getattr(picture, "n_frames", 1) == 12


MISTAKES: list[tuple[list[str], str]] = [  # options, and the name of what is wrong with them
    (["--features", "laplacian"], "--features"),
    (["--model", "exact"], "exact"),
    (["--model", "grid9-laplacian"], "grid9-laplacian"),
    (["--task", "100"], "got 100"),
    (["--task", "goal"], "'goal'"),
    (["--task", "goal -1"], "'goal -1'"),
    (["--task", f"goal {2**64}"], "goal"),
    (["--task", f"goal {'9' * 5000}"], "digits"),
    (["--task", "gaol 12"], "goal, region"),
    (["--task", "goal 12\n\x1b[31m{z_r}"], "goal 12"),
    (["--task", "1,2,3"], "3 entries"),
    (["--task", ",".join(["0"] * 32)], "nothing to find"),
    (["--task", ",".join(["1e308"] * 32)], "overflow"),
    (["--world", "point-maz"], "did you mean point-maze?"),
    (["--world", "open-grid", "--model", MODEL], "point-maze"),
]


def test_a_mistake_is_one_line_that_names_it_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words, name in MISTAKES:
        with pytest.raises(SystemExit) as stop:
            main(["transfer", "--world", "point-maze", *words])
        told = capsys.readouterr()
        assert (stop.value.code, told.err.count("\n"), told.out) == (2, 1, ""), words
        assert name in told.err, words
        assert "\x1b" not in told.err
