"""A run of a body to watch: its numbers against those of compare, its pictures, and the command."""

import io
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from zscout.cli import main
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.body import BodyArena
from zscout.lab.compare.comparison import Entrant
from zscout.lab.runs.chunks import run_batch
from zscout.models.files.pretrained import observations_of
from zscout.watch.body import BodyFrame, BodyScene, default_steps, run_named, watch_run
from zscout.watch.body_animation import write_body_gif
from zscout.watch.terminal import View, pays_line

MODEL = "cheetah-fb"


@cache
def watched(task: str, method: str = "greedy", steps: int = 6, seed: int = 0) -> tuple[BodyScene, list[BodyFrame]]:
    scene, frames = watch_run(run_named("cheetah", MODEL, method, task, noise=0.3, seed=seed, steps=steps))
    return scene, list(frames)


def test_frames_are_the_run_that_compare_has() -> None:
    scene, frames = watched("walk", steps=12, seed=1)
    spec = Entrant(BodyArena(MODEL, body="cheetah"), "greedy", tasks=Tasks(100, 3), steps=12).specs[1 * 3 + 1]
    assert scene.spec == spec
    assert run_named("cheetah", MODEL, "greedy", "1", noise=0.3, seed=1, steps=12) == spec
    (record,) = run_batch([spec])
    assert np.allclose([frame.reward for frame in frames], record.steps["reward"], atol=1e-5)
    assert default_steps("cheetah", MODEL) == 1000  # two episodes of 1,000 control steps, two for each action


def test_capsules_are_those_of_the_state_and_the_oracle_starts_there_too() -> None:
    _, frames = watched("walk")
    world = BodyArena(MODEL, body="cheetah").world
    for frame in frames:
        ends, _ = world.segments(torch.tensor(frame.numbers["state"], dtype=torch.float64))
        np.testing.assert_allclose(frame.ends, ends.numpy(), atol=1e-12)  # a batch rounds differently
    apart = [np.abs(frame.ends - frame.beside).max() for frame in frames]
    assert apart[0] < 0.2
    assert max(apart) > 0


def test_an_episode_ends_at_its_last_state_not_at_the_next_start() -> None:
    spec = run_named("cheetah", MODEL, "random-z", "walk", noise=0.0, seed=0, steps=6)
    assert isinstance(spec.arena, BodyArena)
    short = BodyArena(MODEL, horizon=6, body="cheetah")  # three actions
    object.__setattr__(spec, "arena", short)
    _, frames = watch_run(spec)
    seen = list(frames)
    assert [frame.numbers["episode"] for frame in seen] == [1, 1, 1, 2, 2, 2]
    for before, after in ((0, 1), (1, 2), (3, 4)):
        state = torch.tensor([seen[before].numbers["state"]], dtype=torch.float64)
        entered, _ = short.world.advance(state, torch.tensor([seen[after].numbers["action"]]))
        assert np.allclose(entered[0], seen[after].numbers["state"])


def test_what_pays_is_the_correlation_with_goal_features() -> None:
    scene, frames = watched("walk", "usf-ucb", 40)
    world, obs = BodyArena(MODEL, body="cheetah").world, observations_of(MODEL)[:2_000]
    speed = world.goal_features(obs)[:, 3].numpy()
    reward = np.clip(speed / 2, 0, 1)
    assert scene.correlations["speed"] == pytest.approx(np.corrcoef(speed, reward)[0, 1], abs=1e-3)
    assert list(scene.correlations) == list(frames[-1].correlations)
    assert frames[0].correlations != frames[-1].correlations
    assert all(abs(value) <= 1 for value in frames[-1].correlations.values())
    assert pays_line({"height": -0.52, "speed": 0.8, "upright": 0.05}) == "it seems to pay: speed +0.8, height −0.5"
    assert pays_line(dict.fromkeys(("height", "speed"), 0.0)) == "it does not know yet what pays"


def test_a_gif_has_a_picture_every_80_ms_and_the_last_one(tmp_path: Path) -> None:
    scene, frames = watched("walk", steps=6)
    path = write_body_gif(tmp_path / "a.gif", scene, frames)
    with Image.open(path) as gif:
        assert getattr(gif, "n_frames", 1) == 3  # steps 1, 5 and 6, of 20 ms
        assert gif.info["duration"] == 80
    assert write_body_gif(tmp_path / "b.gif", scene, frames).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("coloured", [True, False])
def test_a_terminal_shows_the_body(coloured: bool) -> None:
    scene, frames = watched("walk")
    out = io.StringIO()
    Console(
        file=out, width=60, force_terminal=coloured, color_system="truecolor" if coloured else None, height=40
    ).print(View(scene, frames, 6))
    text = out.getvalue()
    assert "episode 1  return" in text
    assert ("38;2;" in text) is coloured
    if not coloured:
        assert max(map(len, text.splitlines())) <= 60
        assert text.count("█") > 10


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--gif", str(tmp_path / "a.gif"), "--json", str(tmp_path / "a.json")]
    main(["transfer", "--world", "cheetah", "--task", "trot", "--method", "greedy", "--quick", *files])
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["run"]["task"] == "trot"
    assert content["run"]["rewards"] == "held-out"
    assert len(content["steps"]) == 20
    assert "step 20 of 20" in capsys.readouterr().out


MISTAKES = {  # options, and the name of what is wrong with them
    "--world cheetah --task fly": "run, walk",
    "--world cheetah --task 100": "got 100",
    f"--world cheetah --task={','.join(['0'] * 50)}": "nothing to find",
    "--world cheetah --features clusters": "--features",
    "--world cheetah --model pointmaze-fb": "pointmaze-fb",
    "--world chetah": "cheetah",
    "--world cheetah --steps 0": "steps",
}


def test_a_mistake_is_a_line_that_names_it_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    for options, name in MISTAKES.items():
        with pytest.raises(SystemExit) as stopped:
            main(["transfer", *options.split()])
        error = capsys.readouterr().err
        assert stopped.value.code == 2
        assert name in error, options
        assert error.count("\n") <= 2, options
