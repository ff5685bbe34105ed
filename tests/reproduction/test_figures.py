"""Tables first: what the figures show is checked as numbers; then that the drawing shows all of it."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgba

from benchmarks.collect import SETUP, collect
from reproduction.experiments.feature_maps import feature_figure
from reproduction.experiments.network_training import training_figure
from reproduction.report.figures.curves import draw_curves
from reproduction.report.figures.figures import draw, palettes, save_figure
from reproduction.report.figures.framework import draw_framework
from reproduction.report.figures.maps import PIXELS_AN_INCH, draw_panels
from reproduction.report.model import (
    Curve,
    CurveFigure,
    CurvePanel,
    Interval,
    IntervalFigure,
    Panel,
    PanelFigure,
    Strip,
    to_json,
)
from reproduction.stored_results import stored_trainings
from zscout.base.files import write_bytes, write_json
from zscout.watch.ink import WALL, Palette


@pytest.fixture(scope="module")
def figure() -> PanelFigure:
    return feature_figure("open-grid", seed=0)


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
    (axes,) = drawn.axes
    titles = [text.get_text() for text in axes.texts if text.get_text()[-1].isdigit()]
    assert titles[:18] == [f"φ{i}" for i in range(1, 10)] + [f"e{i}" for i in range(1, 10)]
    assert len(titles) == 90
    lines = {len(c.get_segments()) for c in axes.collections if isinstance(c, LineCollection)}
    assert lines == {90, 72 + 1}  # frames; paths, and their key
    marks = [c for c in axes.collections if isinstance(c, PathCollection)]
    assert [len(np.asarray(c.get_offsets())) for c in marks] == [72 + 1, 72 + 1]  # starts and ends
    assert figure.caption[:20] in "".join(text.get_text() for text in drawn.texts)
    assert next(iter(figure.sections)) in [text.get_text() for text in drawn.texts]
    svg, png = save_figure(drawn, tmp_path, "figure")
    assert svg.read_bytes().startswith(b"<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("palette", "worst", "best"), [("safe", "#00224e", "#fee838"), ("paper", "#a50026", "#006837")]
)
def test_cells_have_the_colours_of_their_values_and_paths_run_through_their_middles(
    palette: Palette, worst: str, best: str
) -> None:
    background = np.array([[0.0, 1.0, 2.0], [np.nan, 3.0, 4.0]])
    path = np.array([[0, 0], [0, 1], [1, 1], [1, 2], [1, 1], [1, 2]])  # comes back to where it was
    table = PanelFigure("f", "c", {"s": [Strip("a", "reward", [Panel("t", background, path)])]})
    (axes,) = draw(table, palette).axes
    image = np.asarray(axes.images[0].get_array())
    (walked,) = [c for c in axes.collections if isinstance(c, LineCollection) and c.get_path_effects()]
    line, _ = walked.get_segments()  # the other one is the key
    assert len(line) == 4
    seen = [image[int(y * PIXELS_AN_INCH), int(x * PIXELS_AN_INCH)] for x, y in line]
    expected = [to_rgba(worst), None, None, to_rgba(best)]
    for colour, want in zip(seen, expected, strict=True):
        if want is not None:
            np.testing.assert_allclose(colour / 255, want, atol=0.01)
    step = line[1][0] - line[0][0]
    below = (line[0][0], line[0][1] + step)  # the wall under the first cell
    np.testing.assert_allclose(
        image[int(below[1] * PIXELS_AN_INCH), int(below[0] * PIXELS_AN_INCH)] / 255, to_rgba(WALL), atol=0.01
    )
    assert image[0, 0, 3] == 0  # between the maps there is nothing


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ([0, 1, 2, 2, 2, 2], 3),  # stays
        ([0, 1, 2, 1, 2, 1], 3),  # to and fro
        ([0, 1, 2, 1, 0, 3, 4], 7),  # has been there, and goes on
        ([0, 1, 2, 1], 4),  # has been there, and may go on
        ([0], 1),
    ],
)
def test_paths_end_where_they_begin_to_repeat(columns: list[int], shown: int) -> None:
    path = np.array([[0, column] for column in columns])
    table = PanelFigure("f", "c", {"s": [Strip("a", "reward", [Panel("t", np.arange(5.0)[None], path)])]})
    (walked,) = [c for c in draw_panels(table).axes[0].collections if isinstance(c, LineCollection)][1:]
    assert len(walked.get_segments()[0]) == shown


def test_features_look_the_same_in_both_palettes() -> None:
    table = PanelFigure("f", "c", {"s": [Strip("a", "feature", [Panel("t", np.eye(3), np.empty((0, 2), int))])]})
    assert palettes(table) == ("safe",)
    safe, paper = (np.asarray(draw_panels(table, p).axes[0].images[0].get_array()) for p in ("safe", "paper"))
    np.testing.assert_array_equal(safe, paper)


def _curve(label: str, dashed: bool = False) -> Curve:
    return Curve(label, [0, 1, 2], [0.0, 1.0, 3.0], [-0.5, 0.5, 2.5], [0.5, 1.5, 3.5], dashed)


def test_eight_labels_are_told_apart_and_keep_their_looks_in_all_panels() -> None:
    labels = [f"method {i}" for i in range(8)]
    first = CurvePanel("lost", [_curve(label) for label in labels], title="all")
    second = CurvePanel("lost", [_curve(labels[6])], x_label="episode", levels={"best": 2.0, "worst": 2.1})
    drawn = draw(CurveFigure("f", "c", {"one": [first, second], "": [second]}))
    assert len(drawn.axes) == 3  # the second row has one
    looks = {(line.get_color(), line.get_linestyle()) for line in drawn.axes[0].lines}
    assert len(looks) == 8
    assert len({line.get_color() for line in drawn.axes[0].lines}) == 8
    line, *levels = drawn.axes[1].lines
    assert line.get_color() == drawn.axes[0].lines[6].get_color()
    assert [float(np.asarray(level.get_ydata())[0]) for level in levels] == [2.0, 2.1]
    names = {text.get_text(): text.get_position()[1] for text in drawn.axes[1].texts}
    assert names["worst"] - names["best"] > 0.05  # of the height: they are not on each other
    assert drawn.axes[1].get_xlabel() == "episode"
    (legend,) = drawn.legends
    assert sorted(text.get_text() for text in legend.get_texts()) == labels


def test_bands_dashes_and_zeros_on_a_logarithmic_axis() -> None:
    panel = CurvePanel("error", [_curve("a"), _curve("b", dashed=True)], logarithmic=True)
    (axes,) = draw_curves(CurveFigure("f", "c", {"": [panel]})).axes
    solid, dashed = axes.lines
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    assert np.asarray(solid.get_xdata()).tolist() == [1, 2]  # 0 has no place there
    assert axes.get_ylim()[0] > 0
    band = axes.collections[0].get_paths()[0].vertices
    assert np.asarray(band)[:, 1].min() == 0.5
    with pytest.raises(ValueError, match="curve 'c' has 2 x and 1 y"):
        draw_curves(CurveFigure("f", "c", {"": [CurvePanel("y", [Curve("c", [1, 2], [1])])]}))


def test_intervals_share_the_order_of_labels() -> None:
    ours, other, third = (
        Interval("ours", 1.0, 0.5, 1.5, ours=True),
        Interval("b", 2.0, 0.0, 3.0),
        Interval("c", 3.0, 2.0, 4.0),
    )
    table = IntervalFigure("f", "caption", "lost", {"left": [ours, other], "right": [third, ours]}, logarithmic=True)
    drawn = draw(table)
    left, right = drawn.axes

    def dots(axes: Axes) -> dict[float, tuple[float, str]]:
        marked = [line for line in axes.lines if line.get_marker() in ("o", "D")]
        points = [np.asarray(line.get_xydata(), float)[0] for line in marked]
        return {y: (x, str(line.get_marker())) for (x, y), line in zip(points, marked, strict=True)}

    assert dots(left) == {0: (1.0, "D"), 1: (2.0, "o")}
    assert dots(right) == {0: (1.0, "D"), 2: (3.0, "o")}
    assert [axes.get_title() for axes in drawn.axes] == ["left", "right"]
    weights = {text.get_text(): text.get_fontweight() for text in drawn.texts}
    assert (weights["ours"], weights["b"]) == ("bold", "normal")
    assert left.get_xlim()[0] > 0  # a whisker to 0 does not stretch a logarithmic axis


def test_the_framework_names_its_parts() -> None:
    (axes,) = draw_framework().axes
    said = [text.get_text() for text in axes.texts]
    for part in ("Offline transfer", "Online transfer", "dataset", "algorithm", "$z_r$", "recommends $Z_t$"):
        assert part in said
    assert (said.count("BFM"), said.count("environment")) == (2, 2)


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
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == ["paper", "robust"]


def test_logs_are_collected_thinned_and_rounded(tmp_path: Path) -> None:
    what = dict.fromkeys(SETUP) | {"world": "maze"}
    verdict = {"value": 0.1234567, "value_p5": 0.5, "psi_error": 0.25}
    log = [{"step": step, "loss": 1 / step, "verdict": verdict} for step in range(1, 102)]
    (tmp_path / "maze-laplacian").mkdir()
    run = {"what": what, "seconds": 12.34, "verdict": verdict, "log": log}
    (tmp_path / "maze-laplacian" / "training.json").write_text(json.dumps(run))
    [entry] = collect(tmp_path)
    assert (entry["name"], entry["world"], entry["seconds"]) == ("maze-laplacian", "maze", 12.3)
    assert entry["verdict"]["value"] == 0.12346
    assert entry["curves"]["step"] == [*range(1, 102, 2)]
    assert set(entry["curves"]) == set(stored_trainings()[0].curves)


def test_short_strips_leave_room_and_walls_survive_json() -> None:
    wall = Panel("wall", np.array([[1.0, np.nan]]), np.empty((0, 2), dtype=int))
    table = PanelFigure("f", "c", {"s": [Strip("a", "feature", [wall, wall]), Strip("b", "reward", [wall])]})
    frames = draw_panels(table).axes[0].collections[0]
    assert isinstance(frames, LineCollection)
    assert len(frames.get_segments()) == 3
    back = json.loads(json.dumps(to_json(table), allow_nan=False))
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
