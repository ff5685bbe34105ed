"""Draws map figures; all maps of a figure are one image, all paths one collection of lines."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from zscout.lab.report_model import Panel, PanelFigure, Strip
from zscout.report.ink import FEATURE, INK, REWARD, Palette, say, sheet, style, whole

FINE = 72  # pixels an inch: few, so that it is fast; in whole steps of a PNG's, so that all cells are alike
WALL = "#8a8a94"
PATH, HALO = "#000000", "#ffffff"  # on the map in any light, so not the ink of the page
LABEL, GAP, EDGE = 0.6, 0.08, 0.12  # inches: strip labels, between maps, around all
KEY, HEAD, LINE = 0.36, 0.34, 0.15  # inches: the key above all, a section's title, a line of a map's title


@dataclass(frozen=True, eq=False)
class Spot:
    """A panel and where it is: the square that its map has to fit in, inches from the left and the top."""

    panel: Panel
    kind: str
    left: float
    top: float
    side: float

    @property
    def zoom(self) -> float:
        """Inches a cell: whole pixels where the map is small enough for that, so that all cells are alike."""
        pixels = self.side * FINE / max(self.panel.background.shape)
        return (int(pixels) if pixels >= 1 else pixels) / FINE

    @property
    def corner(self) -> tuple[float, float]:
        """Left and top of the map itself, centred and on whole pixels."""
        rows, columns = self.panel.background.shape
        left = self.left + (self.side - self.zoom * columns) / 2
        top = self.top + (self.side - self.zoom * rows) / 2
        return round(left * FINE) / FINE, round(top * FINE) / FINE

    @property
    def frame(self) -> np.ndarray:
        """The outline of the map."""
        rows, columns = self.panel.background.shape
        around = np.array([[0, 0], [rows, 0], [rows, columns], [0, columns], [0, 0]])
        return self.to_inches(around - 0.5)

    def to_inches(self, path: np.ndarray) -> np.ndarray:
        """The middles of cells (rows and columns) as points on the sheet."""
        return np.asarray(self.corner) + (path[:, ::-1] + 0.5) * self.zoom


def draw_panels(table: PanelFigure, palette: Palette = "safe") -> Figure:
    """One block of rows a section, one row a strip, one small map a panel; a key above all."""
    columns = max(len(strip.panels) for strips in table.sections.values() for strip in strips)
    side = float(np.clip(9.5 / columns, 0.8, 1.5))
    width = max(LABEL + columns * (side + GAP) + EDGE, 6.7)  # the key needs some room
    height = KEY + sum(HEAD + sum(_height(s, side) for s in strips) for strips in table.sections.values()) + EDGE
    with style():
        figure = sheet(width, height, table.caption)
        spots: list[Spot] = []
        top = KEY
        for title, strips in table.sections.items():
            say(figure, EDGE, top + 0.08, title, fontweight="bold", fontsize=10, va="top")
            top += HEAD
            for strip in strips:
                top += _height(strip, side)
                spots += _spots(strip, top - GAP - side, side)
                label, middle = _folded(strip.label, 16 * side), top - GAP - side / 2
                say(figure, LABEL / 2 + 0.02, middle, label, fontsize=8.5, rotation=90, va="center", ha="center")
        axes = whole(figure)
        _maps(axes, spots, palette)
        end = _key(axes, {spot.kind for spot in spots}, palette)
        lines = [spot.to_inches(_until_it_repeats(spot.panel.path)) for spot in spots if len(spot.panel.path)]
        if lines:
            _swatch(axes, end, np.array([[[*to_rgb(WALL), 1.0]]]), "path: start to end")
            _paths(axes, [*lines, np.array([[end + 0.1, 0.195], [end + 0.46, 0.195]])])
        for spot in spots:
            at = (spot.left + spot.side / 2, spot.corner[1] - 0.04)
            axes.text(*at, _wrapped(spot.panel, side), fontsize=8, ha="center", va="bottom", parse_math=False)
    return figure


def _wrapped(panel: Panel, side: float) -> str:
    return _folded(panel.title, 16 * side)


def _folded(text: str, letters: float) -> str:
    return "\n".join(textwrap.fill(line, int(letters)) for line in text.split("\n"))


def _height(strip: Strip, side: float) -> float:
    lines = max((_wrapped(panel, side).count("\n") + 1 for panel in strip.panels if panel.title), default=0)
    return lines * LINE + 0.06 + side + GAP


def _spots(strip: Strip, top: float, side: float) -> Iterator[Spot]:
    for column, panel in enumerate(strip.panels):
        yield Spot(panel, strip.kind, LABEL + column * (side + GAP), top, side)


def _maps(axes: Axes, spots: list[Spot], palette: Palette) -> None:
    """Every background in one image over all of the sheet: a hundred images would take a hundred times as long."""
    wide, high = axes.get_xlim()[1], axes.get_ylim()[0]
    image = np.zeros((round(high * FINE), round(wide * FINE), 4), dtype=np.uint8)
    for spot in spots:
        rows, columns = (round(size * spot.zoom * FINE) for size in spot.panel.background.shape)
        left, top = (round(inches * FINE) for inches in spot.corner)
        cells = _colours(spot.panel.background, spot.kind, palette)
        row = np.arange(rows) * len(cells) // rows
        column = np.arange(columns) * len(cells[0]) // columns
        image[top : top + rows, left : left + columns] = cells[row[:, None], column]
    axes.imshow(
        image,
        extent=(0, image.shape[1] / FINE, image.shape[0] / FINE, 0),
        interpolation="none",
        aspect="auto",
        zorder=0,
    )
    axes.set(xlim=(0, wide), ylim=(high, 0))
    frames = [spot.frame for spot in spots]  # a map that is white at its edge ends somewhere, too
    axes.add_collection(LineCollection(frames, colors=INK, alpha=0.3, linewidths=0.5, zorder=1))


def _colours(background: np.ndarray, kind: str, palette: Palette) -> np.ndarray:
    """Red, green, blue and opacity of every cell; each map has its own scale."""
    low, high = float(np.nanmin(background)), float(np.nanmax(background))
    if kind == "feature":  # white is 0, whatever the sign
        low, high = -max(abs(low), abs(high)), max(abs(low), abs(high))
    if high - low < 1e-9:  # a flat map shows its middle colour, not its rounding
        low, high = low - 1, high + 1
    share = np.nan_to_num((background - low) / (high - low))
    cells = mpl.colormaps[FEATURE if kind == "feature" else REWARD[palette]](share, bytes=True)
    cells[np.isnan(background)] = [*(round(255 * part) for part in to_rgb(WALL)), 255]
    return np.asarray(cells)


def _until_it_repeats(path: np.ndarray) -> np.ndarray:
    """The path up to where it comes back and, from there to its end, does the same again at least once."""
    for step in range(1, len(path)):
        for period in range(1, min(step, len(path) - step) + 1):
            if (path[step:] == path[step - period : -period]).all():
                return path[:step]
    return path


def _paths(axes: Axes, lines: list[np.ndarray]) -> None:
    """Black in a white halo, from ○ to ●: seen on the darkest and on the brightest reward."""
    halo = [withStroke(linewidth=2.6, foreground=HALO, alpha=0.8)]
    axes.add_collection(LineCollection(lines, colors=PATH, linewidths=1.1, path_effects=halo, zorder=2))
    starts, ends = np.array([line[0] for line in lines]), np.array([line[-1] for line in lines])
    axes.scatter(starts[:, 0], starts[:, 1], s=13, facecolors=HALO, edgecolors=PATH, linewidths=0.9, zorder=3)
    axes.scatter(ends[:, 0], ends[:, 1], s=20, facecolors=PATH, edgecolors=HALO, linewidths=0.7, zorder=4)


def _key(axes: Axes, kinds: set[str], palette: Palette) -> float:
    """What colours say, in one line above all; gives where it ends."""
    left = EDGE
    for kind, name, room in (("feature", "feature: below 0, 0, above", 2.5), ("reward", "reward: least to most", 2.2)):
        if kind in kinds:
            _swatch(axes, left, _colours(np.linspace(-1, 1, 56)[None], kind, palette), name)
            left += room
    return left


def _swatch(axes: Axes, left: float, colours: np.ndarray, name: str) -> None:
    limits = {"xlim": axes.get_xlim(), "ylim": axes.get_ylim()}  # an image would move them
    axes.imshow(colours, extent=(left, left + 0.56, 0.27, 0.12), interpolation="none", aspect="auto")
    axes.text(left + 0.63, 0.195, name, fontsize=8, va="center")
    axes.set(**limits)
