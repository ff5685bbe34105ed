"""One run to watch: its numbers against runs and yardstick, its view, its GIF, and the command."""

import contextlib
import io
import json
import os
import pty
import signal
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageSequence
from rich.console import Console

from commands import run_zscout
from simulating import simulate
from toys import Regression
from waiting import PATIENCE
from zscout import METHODS
from zscout.cli import main
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.comparison import Entrant
from zscout.watch.animation import AT_THE_END, write_gif
from zscout.watch.grid import run_named, watch_run
from zscout.watch.terminal import View, plain_line, signed, sparkline
from zscout.watch.viewer import Frame, Scene, share

NETWORK = GridArena(model="network")


@cache
def watched(
    arena: GridArena, method: str = "usf-ucb", task: str = "7", steps: int = 25, seed: int = 2
) -> tuple[Scene, list[Frame]]:
    scene, frames = watch_run(run_named(arena, method, task, noise=0.3, seed=seed, steps=steps))
    return scene, list(frames)


@pytest.mark.parametrize("method", ["usf-ucb", "usf-ucb-paper", "random", "lola"])
def test_frames_are_the_run_that_compare_has(method: str) -> None:
    scene, frames = watched(NETWORK, method, "7", 60)
    ground = NETWORK.ground
    tasks, seeds = ground.draw(Tasks(100, 3))
    task, seed = tasks[7 * 3 + 2], seeds[7 * 3 + 2]
    built = METHODS[method](dim=9, noise=0.3, task=task)
    reward = task[None] @ ground.exact.features.T
    trace = simulate(
        ground.model, ground.world, task[None], built, seeds=seed[None], steps=60, noise=0.3, reward=reward
    )
    assert scene.spec in Entrant(NETWORK, method, tasks=Tasks(100, 3), steps=60).specs
    assert [frame.numbers["state"] for frame in frames] == trace.state[:, 0].tolist()
    assert [frame.numbers["action"] for frame in frames] == trace.action[:, 0].tolist()
    assert [frame.numbers["entered"] for frame in frames] == trace.entered[:, 0].tolist()
    assert [frame.reward for frame in frames] == trace.reward[:, 0].tolist()
    assert np.array_equal([frame.numbers["z"] for frame in frames], trace.z[:, 0])
    after = torch.cat([trace.z_hat[1:, 0], trace.final_z_hat])  # a frame tells what is known after its reward
    assert np.array_equal([frame.numbers["z_hat"] for frame in frames], after)
    yardstick = ground.yardstick
    regret = yardstick.regret(trace)[:, 0]
    assert np.allclose([frame.numbers["regret"] for frame in frames], regret)
    assert np.allclose([frame.numbers["lost"] for frame in frames], regret.cumsum(0) / ground.gap)
    settled = torch.cat([trace.best_z[1:, 0], trace.final_z])
    assert np.allclose([frame.numbers["value"] for frame in frames], yardstick.value(settled, task.expand(60, -1)))
    learnable = yardstick.without_constant(task) if built.intercept else task
    assert np.allclose([frame.numbers["error"] for frame in frames], (after - learnable).norm(dim=-1))
    assert [frame.mode == "wanders" for frame in frames] == trace.exploring.tolist()


def test_maps_are_of_what_is_known_after_the_step() -> None:
    scene, frames = watched(NETWORK)
    world, features = NETWORK.ground.world, NETWORK.ground.exact.features
    seen = features[[frame.numbers["entered"] for frame in frames]]
    fit = Regression(seen, torch.tensor([frame.reward for frame in frames], dtype=torch.float64))
    maps = {
        "doubt at last": (frames[-1].doubt, fit.reward_width(features)),
        "doubt at first": (scene.doubt, (features.norm(dim=1) ** 2 / 0.1 + 1).sqrt()),  # λ = .1
        "estimate": (frames[-1].estimate, fit.reward(features)),
        "truth": (scene.truth, features @ torch.tensor(scene.spec.task).double()),
    }
    for name, (shown, expected) in maps.items():
        assert np.allclose(shown, world.to_map(expected), atol=1e-5), name  # the network's φ is float32
    ((row, column),) = scene.best
    assert scene.truth[int(row), int(column)] == scene.truth.max()


def test_modes_say_whether_it_does_what_it_would_settle_for() -> None:
    scene, frames = watched(GridArena(), "oracle", steps=30)
    assert [frame.mode for frame in frames[-3:]] == ["stays"] * 3
    assert {frame.heading for frame in frames} == scene.best == {frames[-1].place}
    assert frames[-1].numbers["lost"] == pytest.approx(0, abs=1e-9)
    assert {frame.mode for frame in watched(GridArena(), "random")[1]} == {"wanders"}
    assert {frame.mode for frame in watched(GridArena(), "greedy")[1][1:]} <= {"goes", "stays"}
    assert "tries" in {frame.mode for frame in watched(GridArena(), "random-z")[1]}


def test_a_task_of_ones_own_and_a_region_of_best_cells() -> None:
    scene, _ = watched(GridArena(features="clusters"), task="0,0,0,0,1,0,0,0,-2.5", steps=1)
    assert scene.spec.task == (0, 0, 0, 0, 1, 0, 0, 0, -2.5)
    assert scene.best == {(row, column) for row in (3, 4, 5) for column in (3, 4, 5)}
    with pytest.raises(ValueError, match="there is nothing to find"):
        watched(GridArena(features="clusters"), task="1,1,1,1,1,1,1,1,1")


def test_lost_steps_do_not_depend_on_the_scale_of_a_task() -> None:
    lost = []
    for scale in (1, 7):
        task = ",".join(str(scale * number) for number in (2, -1, 0, 1, 0, 3, 0, 0, -1))
        spec = run_named(GridArena(), "usf-ucb", task, noise=0.3 * scale, seed=0, steps=15)
        lost.append([frame.numbers["lost"] for frame in watch_run(spec)[1]])
    assert np.allclose(lost[0], lost[1])
    assert lost[0][-1] > 0.1


@pytest.mark.parametrize("world", ["open-grid", "four-rooms", "maze"])
@pytest.mark.parametrize("colours", [None, "truecolor"])
def test_the_view_fits(world: str, colours: str | None) -> None:
    scene, frames = watched(GridArena(world))
    columns = scene.truth.shape[1]
    for width, beside in ((80, True), (40, False)):
        file = io.StringIO()
        system = {"color_system": colours, "force_terminal": True} if colours else {}
        console = Console(width=width, height=24, file=file, **system)  # type: ignore[arg-type]
        lines = console.render_lines(View(scene, frames, 1000), pad=False)
        texts = ["".join(segment.text for segment in line) for line in lines]
        assert max(map(len, texts)) <= width
        assert ("φ·z_r" in texts[0]) == beside
        if beside:
            assert len(texts) <= 24
        if colours is None:
            assert sum(text.count("#") for text in texts) == 3 * int(np.isnan(scene.truth).sum())  # two and one a wall
        row, column = map(int, frames[-1].place)
        assert texts[row + 1][2 * column : 2 * column + 2] == "()"
    too_narrow = Console(width=columns, file=io.StringIO()).render_lines(View(scene, frames, 1000))
    assert "".join(segment.text for segment in too_narrow[row + 1])[column] == "("


def test_colours_follow_the_estimate() -> None:
    scene, frames = watched(GridArena("four-rooms"), steps=40)
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    lines = console.render_lines(View(scene, frames, 40))
    brightness = {}
    for row in range(11):
        cells = [(c, s.style) for s in lines[row + 1] for c in s.text][:22:2]
        for column, (text, style) in enumerate(cells):
            assert style is not None
            assert style.bgcolor is not None
            if text == " " and not np.isnan(frames[-1].estimate[row, column]):
                red, green, blue = style.bgcolor.get_truecolor()
                brightness[row, column] = 0.2126 * red + 0.7152 * green + 0.0722 * blue
            elif np.isnan(frames[-1].estimate[row, column]):
                assert style.bgcolor.name == "#8a8a94"
    order = sorted(brightness, key=lambda cell: float(frames[-1].estimate[cell]))
    assert (np.diff([brightness[cell] for cell in order]) > -1).all()  # light goes up with the estimate, to rounding
    assert np.ptp(list(brightness.values())) > 60


def test_small_pieces() -> None:
    assert sparkline([0.0, 3.5, 7.0]) == "▁▅█"
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert (signed(-0.5), signed(2.0), share(-0.001), share(-1.5)) == ("−0.50", "+2.00", "0.00", "−1.50")
    frame = watched(NETWORK, steps=1)[1][0]
    assert plain_line(frame, 60).startswith("step  1 of 60  reward ")


def test_a_gif_is_the_same_again_and_light(tmp_path: Path) -> None:
    scene, frames = watched(NETWORK, steps=25)
    first, again = (write_gif(tmp_path / name, scene, frames) for name in ("a.gif", "b/b.gif"))
    assert first.read_bytes() == again.read_bytes()
    assert first.stat().st_size < 1_500_000
    with Image.open(first) as picture:
        assert picture.info["loop"] == 0
        shown = [(page.info["duration"], page.convert("RGB")) for page in ImageSequence.Iterator(picture)]
    assert len(shown) == 25
    assert shown[-1][0] == AT_THE_END > shown[0][0]
    assert np.asarray(shown[0][1])[0, 0].tolist() == [255, 255, 255]
    for (_, one), (_, other) in pairwise(shown):
        assert one.tobytes() != other.tobytes()


# The command


def test_the_command_writes_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["transfer", "--quick", "--task", "28", "--method", "greedy"]  # needs no table
    done = run_zscout([*words, "--gif", "new/run.gif", "--json", "new/run.json"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [
        "step 10 of 20",
        "step 20 of 20",
        "wrote new/run.json",
        "wrote new/run.gif",
    ]
    written = json.loads((tmp_path / "new/run.json").read_text())
    assert {"world", "features", "model", "method", "noise", "seed", "task", "steps"} <= set(written["run"])
    assert len(written["steps"]) == 20
    numbers = {"step", "state", "action", "entered", "mode", "reward", "regret", "lost", "value", "error", "z", "z_hat"}
    assert all(set(step) == numbers for step in written["steps"])
    with Image.open(tmp_path / "new/run.gif") as picture:
        assert getattr(picture, "n_frames", 1) == 20
    monkeypatch.chdir(tmp_path)
    main([*words, "--gif", "again.gif", "--json", "again.json"])
    for name in ("run.gif", "run.json"):
        assert Path(f"again{Path(name).suffix}").read_bytes() == Path("new", name).read_bytes()
    main([*words, "--seed", "1", "--json", "other.json"])
    assert json.loads(Path("other.json").read_text())["steps"] != written["steps"]


MISTAKES = {  # options, and the name of what is wrong with them
    "--world mars": "'mars'",
    "--features waves": "'waves'",
    "--model mine": "mine",
    "--world maze --features clusters": "clusters in maze",
    "--method nope": "'nope'",
    "--task 100": "got 100",
    "--task=-1": "got -1",
    "--task 1,2,3": "3 entries",
    "--task 1,0,0,0,nan,0,0,0,0": "NaN",
    "--task 0,0,0,0,0,0,0,0,0": "nothing to find",
    "--task north": "'north'",
    "--steps 0": "steps",
    "--noise nan": "noise",
    "--speed -2": "speed",
    "--gif run.png": "run.png",
    "--gif a-file/run.gif": "a-file",
    "--gif folder.gif": "folder.gif",
    "--gf run.gif": "--gf",
}


def test_a_mistake_is_one_line_that_names_it_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a-file").write_text("mine")
    (tmp_path / "folder.gif").mkdir()
    monkeypatch.chdir(tmp_path)
    for options, name in MISTAKES.items():
        with pytest.raises(SystemExit) as stop:
            main(["transfer", *options.split()])
        told = capsys.readouterr()
        assert (stop.value.code, told.err.count("\n"), told.out) == (2, 1, ""), options
        assert name in told.err, options
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-file", "folder.gif"]


def test_ctrl_c_in_a_live_terminal_keeps_what_was_seen(tmp_path: Path) -> None:
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "zscout",
            "transfer",
            "--method",
            "greedy",
            "--speed",
            "20",
            "--gif",
            "run.gif",
            "--json",
            "run.json",
        ],
        cwd=tmp_path,
        stdout=inner,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in background shells
    )
    os.close(inner)
    shown, stopped = b"", False
    with contextlib.suppress(OSError):  # at its end
        while more := os.read(outer, 65536):
            shown += more
            if b"step   5 of 100" in shown and not stopped:
                os.kill(process.pid, signal.SIGINT)
                stopped = True
    os.close(outer)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    steps = json.loads((tmp_path / "run.json").read_text())["steps"]
    assert 5 <= len(steps) < 100
    assert f"{len(steps)} of 100 steps" in errors
    with Image.open(tmp_path / "run.gif") as picture:
        assert getattr(picture, "n_frames", 1) == len(steps)
    assert b"wrote run.gif" in shown
