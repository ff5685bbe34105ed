"""Tables first: what the figures show is checked as numbers; then that the drawing shows all of it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zscout.bfm.pretrained import shipped
from zscout.files import write_bytes, write_json
from zscout.lab.panels import Panel, PanelFigure, Strip
from zscout.lab.paper import FIGURES, training_figure
from zscout.lab.stored import stored_trainings
from zscout.report.figures import draw_curves, draw_panels, save_figure


@pytest.fixture(scope="module")
def figure() -> PanelFigure:
    return FIGURES[0].compute(seed=0)


def test_every_path_moves_a_cell_at_a_time_and_ends_better_than_it_began(figure: PanelFigure) -> None:
    walks = [panel for strips in figure.sections.values() for strip in strips[1:] for panel in strip.panels]
    assert len(walks) == 72  # one-hot and random z, network and exact, two feature sets
    for panel in walks:
        assert len(panel.path) == 25
        assert np.abs(np.diff(panel.path, axis=0)).sum(1).max() <= 1
        along = panel.background[panel.path[:, 0], panel.path[:, 1]]
        # Where it settles it is worth at least what it was where it started (both steps of a to-and-fro).
        assert along[-2:].mean() >= along[0] - 1e-9


def test_one_hot_paths_end_where_the_feature_is_largest(figure: PanelFigure) -> None:
    for strips in figure.sections.values():
        assert [strip.label for strip in strips[1:3]] == ["one-hot z\nnetwork", "one-hot z\nexact"]
        for panel in (*strips[1].panels, *strips[2].panels):
            row, column = panel.path[-1]
            # Within 24 steps of anywhere: a place worth most of the best, the nearer of several equal ones.
            assert panel.background[row, column] >= 0.8 * panel.background.max()


def test_the_drawing_shows_every_panel(figure: PanelFigure, tmp_path: Path) -> None:
    drawn = draw_panels(figure)
    axes = [axis for block in drawn.subfigs for axis in block.axes]
    assert [axis.get_title() for axis in axes[:18]] == [f"φ{i}" for i in range(1, 10)] + [f"e{i}" for i in range(1, 10)]
    assert len(axes) == 90
    assert len([axis for axis in axes if len(axis.lines) == 3]) == 72  # path, start, end
    assert figure.caption[:20] in drawn.texts[0].get_text()
    svg, png = save_figure(drawn, tmp_path, "figure")
    assert svg.read_bytes().startswith(b"<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_training_figure_shows_three_seeds_of_each_recipe() -> None:
    table = training_figure(stored_trainings())
    for panels in table.rows.values():
        assert [panel.label for panel in panels] == ["normalised value", "error of ψ", "loss"]
        value, _, loss = panels
        assert [curve.label for curve in value.curves] == ["paper"] * 3 + ["robust"] * 3
        for curve, losses in zip(value.curves, loss.curves, strict=True):
            if curve.label == "paper":  # the loss rises while the value rises, and goes on when it falls
                best = list(curve.y).index(max(curve.y))
                assert curve.y[-1] < 0.95 * curve.y[best]
                assert losses.y[1] < losses.y[best] < losses.y[-1]
            else:
                assert curve.y[-1] >= 0.99 * max(curve.y)
    drawn = draw_curves(table)
    assert [len(axis.lines) for axis in drawn.axes] == [6] * 6
    legend = drawn.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["paper", "robust"]


def test_logs_are_collected_into_what_is_stored(tmp_path: Path) -> None:
    for name, folder in shipped().items():
        (tmp_path / name).mkdir()
        shutil.copy(folder / "training.json", tmp_path / name)
    command = [sys.executable, "-m", "zscout.lab.stored", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    collected = {entry["name"]: entry for entry in json.loads(done.stdout)}
    assert set(collected) == set(shipped())
    assert collected["maze-laplacian"]["world"] == "maze"
    stored = {training.name: training for training in stored_trainings()}
    for name, entry in (("robust-laplacian-0", "grid9-laplacian"), ("maze-laplacian", "maze-laplacian")):
        assert stored[name].curves == collected[entry]["curves"]
        assert stored[name].verdict == collected[entry]["verdict"]


def test_short_strips_leave_room_and_walls_survive_json() -> None:
    wall = Panel("wall", np.array([[1.0, np.nan]]), np.empty((0, 2), dtype=int))
    table = PanelFigure("f", "c", {"s": [Strip("a", "feature", [wall, wall]), Strip("b", "reward", [wall])]})
    assert len(draw_panels(table).subfigs) == 2
    back = json.loads(json.dumps(table.to_json(), allow_nan=False))
    assert back["sections"]["s"][1]["panels"][0]["background"] == [[1.0, None]]


def test_files_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_bytes(tmp_path / "deep" / "file", b"one")
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"x": float("nan")})

    def full_disk(self: Path, target: Path) -> Path:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_bytes(path, b"two")
    assert path.read_bytes() == b"one"
    assert [p.name for p in path.parent.iterdir()] == ["file"]
