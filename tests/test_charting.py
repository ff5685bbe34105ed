"""Charts that are stopped go on only where nothing has changed, and replace nothing without a word."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.wrappers import TransformObservation
from safetensors.torch import load_file, save_file
from torch import Generator, Tensor

import zscout
from test_atlas import DriftWorld
from toys import Drift, Drifter
from zscout import Behaviours, chart
from zscout.cli import main
from zscout.transfer.atlas.charting import CHUNK, PARTIAL, Charting
from zscout.worlds import GridEnv, GridWorld, PointMazeEnv, point_maze

FILE = "atlas.safetensors"
CORRIDOR = "....................\n.##################.\n...................."


def stopped(folder: Path, bfm: Any, env: Any, **options: Any) -> None:
    """Chart until the first chunks are saved, not all."""
    given: Any = {"given" if name == "z" else name: value for name, value in options.items()}
    run = Charting(bfm, env, folder=folder, **{"starts": 2, "steps": 40} | given)
    steps = iter(run)
    while not (folder / PARTIAL).is_file():
        next(steps)
    for _ in range(3):
        next(steps)


def finished(folder: Path, bfm: Any, env: Any, **options: Any) -> bytes:
    """Chart to the end, or go on to it."""
    settings: dict[str, Any] = {"starts": 2, "steps": 40} | options
    chart(bfm, env, folder=folder, progress=False, **settings)
    assert not (folder / PARTIAL).exists()
    return (folder / FILE).read_bytes()


class Gain(Drifter):
    """A model whose actor, features or draws can be another; it may act at random."""

    def __init__(self, gain: float = 1.0, scale: float = 1.0, turn: float = 0.0, noise: float = 0.0) -> None:
        super().__init__()
        self.gain, self.scale, self.turn, self.noise = gain, scale, turn, noise

    def phi(self, obs: Any) -> Tensor:
        return self.scale * super().phi(obs)

    def sample_z(self, n: int, rng: Generator | int) -> Tensor:
        return self.project_z(super().sample_z(n, rng) + self.turn)

    def act(self, obs: Any, z: Any, rng: Generator | None = None) -> Any:
        action = self.gain * torch.as_tensor(super().act(obs, z, rng)).double()
        action = action + self.noise * torch.randn(action.shape, generator=rng)
        return action.float() if isinstance(obs, Tensor) else action.float().numpy()


class Heavy(DriftWorld):
    """Another physics."""

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        return super().advance(state, 0.9 * action)


Heavy.__qualname__ = DriftWorld.__qualname__


class Restless(Drift):
    """Not deterministic: it does not use its seed."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset()


def compass(**others: tuple[float, float]) -> Behaviours:
    """Ten places; one action for each."""
    angles = {f"place {k}": (float(np.cos(k)), float(np.sin(k))) for k in range(10)}
    places = angles | {name.replace("_", " "): place for name, place in others.items()}
    return Behaviours({name: partial(goes, place) for name, place in places.items()})


def goes(place: tuple[float, float], obs: Any) -> np.ndarray:
    return np.array(place, np.float32)


def vector(make: Callable[[], Any] = Drift, count: int = 5) -> Any:
    return gymnasium.vector.SyncVectorEnv([make] * count)


WORLDS: dict[str, Callable[[], Any]] = {
    "batch": DriftWorld,
    "env": Drift,
    "vector": vector,
    "not deterministic": Restless,
}
MANY = {"batch": CHUNK + 20, "env": 11, "vector": 11, "not deterministic": 11}


@pytest.mark.parametrize("world", ["batch", "env", "vector"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_what_was_stopped_ends_byte_for_byte_as_what_was_not(world: str, noise: float, tmp_path: Path) -> None:
    """Also if the model acts at random."""
    options = {"behaviours": MANY[world]}
    stopped(tmp_path / "again", Gain(noise=noise), WORLDS[world](), **options)
    again = finished(tmp_path / "again", Gain(noise=noise), WORLDS[world](), **options)
    assert again == finished(tmp_path / "whole", Gain(noise=noise), WORLDS[world](), **options)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("other", "why"),
    [
        (Gain(gain=1.01), r"row 0 acts otherwise.*weights"),
        (Gain(scale=1.5), r"row 0 has other features"),
        (Gain(turn=0.2), "draws other z"),
        (Drifter(), "model"),
    ],
    ids=["actor", "features", "draws", "class"],
)
def test_another_model_is_refused(world: str, other: Drifter, why: str, tmp_path: Path) -> None:
    options = {"behaviours": MANY[world]}
    stopped(tmp_path, Gain(), WORLDS[world](), **options)
    before = (tmp_path / PARTIAL).read_bytes()
    with pytest.raises(ValueError, match=rf"cannot go on with .*{why}.*overwrite=True"):
        finished(tmp_path, other, WORLDS[world](), **options)
    assert (tmp_path / PARTIAL).read_bytes() == before


@pytest.mark.parametrize(
    ("world", "other", "why"),
    [
        (DriftWorld(), Heavy(), "other states: the world's physics"),
        (Drift(), Drift(noise=0.2), "other states: the world's physics"),
        (vector(), vector(lambda: Drift(noise=0.2)), "other states: the world's physics"),
        (vector(), vector(count=4), "number of environments"),
        (Drift(), DriftWorld(), "environment"),
    ],
)
def test_another_physics_is_refused(world: Any, other: Any, why: str, tmp_path: Path) -> None:
    options = {"behaviours": CHUNK + 20 if isinstance(world, DriftWorld) else 11}
    stopped(tmp_path, Gain(), world, **options)
    with pytest.raises(ValueError, match=f"{why}.*overwrite=True"):
        finished(tmp_path, Gain(), other, **options)
    fresh = finished(tmp_path / "fresh", Gain(), other, **options)
    assert finished(tmp_path, Gain(), other, overwrite=True, **options) == fresh


@pytest.mark.parametrize("options", [{"seed": 1}, {"starts": 3}, {"steps": 50}, {"behaviours": 12}])
def test_other_settings_are_named(options: dict[str, int], tmp_path: Path) -> None:
    stopped(tmp_path, Gain(), Drift(), behaviours=11)
    with pytest.raises(ValueError, match=f"other settings: {next(iter(options))} .*overwrite=True"):
        finished(tmp_path, Gain(), Drift(), **{"behaviours": 11} | options)


def still(space: Any) -> Behaviours:
    """Ten behaviours that go nowhere."""
    action = np.zeros(space.shape, np.float32) if space.shape else 3
    return Behaviours({str(k): lambda obs: action for k in range(10)})


@pytest.mark.parametrize("kind", ["point maze", "environment", "vector", "grid"])
def test_another_map_is_refused_also_where_nobody_came(kind: str, tmp_path: Path) -> None:
    def make(text: str, **options: Any) -> Any:
        if kind == "grid":
            grid = GridEnv(GridWorld.from_map(text))
            return TransformObservation(grid, lambda obs: np.eye(42)[obs], Box(0, 1, (42,)))
        maze = point_maze(text, **options)
        if kind == "vector":
            return vector(lambda: PointMazeEnv(maze))
        return maze if kind == "point maze" else PointMazeEnv(maze)

    other = CORRIDOR.replace("#", ".", 1)[:-1] + "#"  # as many cells
    env = make(CORRIDOR)
    space = getattr(env, "single_action_space", env.action_space)
    many = {"z": torch.eye(10).repeat(CHUNK // 5, 1)} if kind == "point maze" else {}
    stopped(tmp_path, still(space), env, **many)
    with pytest.raises(ValueError, match="other settings: map; .*overwrite=True"):
        finished(tmp_path, still(space), make(other), **many)
    if kind != "grid":
        with pytest.raises(ValueError, match=r"repeat \(3, now 4\).*overwrite=True"):
            finished(tmp_path, still(space), make(CORRIDOR, repeat=4), **many)
    finished(tmp_path, still(space), make(CORRIDOR), **many)


@pytest.mark.parametrize("env", [Drift, Restless])
def test_another_function_behind_a_name_is_refused(env: type[Drift], tmp_path: Path) -> None:
    stopped(tmp_path, compass(), env())
    for name in ("place_0", "place_3", "place_7"):
        with pytest.raises(
            ValueError, match=f"'{name.replace('_', ' ')}' acts otherwise: its function.*overwrite=True"
        ):
            finished(tmp_path, compass(**{name: (0.5, 0.5)}), env())
    finished(tmp_path, compass(place_9=(0.5, 0.5)), env())  # it was not followed yet


def test_a_world_that_is_not_deterministic_goes_on_if_nothing_else_has_changed(tmp_path: Path) -> None:
    stopped(tmp_path, Gain(), Restless(), behaviours=11)
    finished(tmp_path, Gain(), Restless(), behaviours=11)
    stopped(tmp_path / "other", Gain(), Restless(), behaviours=11)
    with pytest.raises(ValueError, match="spaces"):
        finished(tmp_path / "other", Gain(), wide(Restless()), behaviours=11)


def wide(env: Any) -> Any:
    env.action_space = Box(-2.0, 2.0, (2,), np.float32)
    return env


class Chaotic(DriftWorld):
    """Differences of states grow tenfold at each step."""

    def random_states(self, n: int, rng: Generator) -> Tensor:
        return torch.rand(n, 4, generator=rng).double()

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        at = (10 * state[:, :2] + 3 + action) % 1.0
        return torch.cat([at, state[:, :2]], 1), torch.zeros(len(state), dtype=torch.bool)


def test_last_digits_are_no_other_model(tmp_path: Path) -> None:
    """Another processor rounds otherwise."""
    options = {"behaviours": CHUNK + 20}
    stopped(tmp_path, Gain(), Chaotic(), **options)
    finished(tmp_path, Gain(gain=1 + 2e-7), Chaotic(), **options)
    stopped(tmp_path / "other", Gain(), Chaotic(), **options)
    with pytest.raises(ValueError, match="physics"):
        finished(tmp_path / "other", Gain(), Mirrored(), **options)


class Mirrored(Chaotic):
    """Another physics."""

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        return super().advance(1 - state, action)


Mirrored.__qualname__ = Chaotic.__qualname__


@pytest.mark.parametrize("header", [{}, {"chart": '["an older list", 3]'}, {"chart": "{"}])
def test_chunks_of_another_version_are_refused(header: dict[str, str], tmp_path: Path) -> None:
    stopped(tmp_path, Gain(), Drift(), behaviours=11)
    save_file(load_file(tmp_path / PARTIAL), tmp_path / PARTIAL, header)
    with pytest.raises(ValueError, match="cannot go on with .*overwrite=True"):
        finished(tmp_path, Gain(), Drift(), behaviours=11)
    finished(tmp_path, Gain(), Drift(), behaviours=11, overwrite=True)


def test_a_finished_atlas_is_replaced_only_if_that_is_asked(tmp_path: Path) -> None:
    options = {"behaviours": 11}
    before = finished(tmp_path, Gain(), Drift(), **options)
    with pytest.raises(ValueError, match=r"finished atlas: overwrite=True"):
        finished(tmp_path, Gain(), Drift(), seed=1, **options)
    assert (tmp_path / FILE).read_bytes() == before
    stopped(tmp_path, Gain(), Drift(), seed=1, overwrite=True, **options)
    after = finished(tmp_path, Gain(), Drift(), seed=1, **options)  # goes on
    assert after != before
    assert after == finished(tmp_path / "fresh", Gain(), Drift(), seed=1, **options)


@pytest.mark.parametrize("words", [["--quick"], [], ["--data", "nowhere", "--model", "walker-fb"]], ids=str)
def test_the_command_replaces_no_finished_atlas(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FILE).write_bytes(b"hours of work")
    monkeypatch.setattr(zscout, "load", None)  # refused before anything is loaded
    with pytest.raises(SystemExit) as stop:
        main(["chart", "--out", str(tmp_path), *words])
    said = capsys.readouterr().err
    assert (stop.value.code, said.count("\n")) == (2, 1)
    assert "--overwrite" in said
    assert (tmp_path / FILE).read_bytes() == b"hours of work"


def test_the_command_replaces_it_if_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"hours of work")
    main(["chart", "--world", "point-maze", "--quick", "--overwrite", "--out", str(tmp_path)])
    found = zscout.Atlas.load(tmp_path, zscout.load("pointmaze-fb"))
    assert len(found.z) == 8
