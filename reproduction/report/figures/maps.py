"""Draws map figures; all maps of a figure are one image, all paths one collection of lines."""

import textwrap
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from reproduction.report.model import Panel, PanelFigure, Strip
from zscout.watch.ink import EDGE, FEATURE, INK, REWARD, WALL, Palette, say, sheet, style, whole

PIXELS_AN_INCH = 72  # few, for speed; a PNG has a whole multiple, so that all cells have one size
PATH, HALO = "#000000", "#ffffff"  # visible on any map, so not the ink of the page
LABEL, GAP = 0.6, 0.08  # inches: strip labels, between maps
KEY, HEAD, LINE = 0.36, 0.34, 0.15  # inches: the key above all, a section's title, a line of a map's title


@dataclass(frozen=True, eq=False)
class Spot:
    """A panel and its place: the square for its map, in inches from the left and the top."""

    panel: Panel
    kind: str
    left: float
    top: float
    side: float

    @property
    def zoom(self) -> float:
        """Inches a cell: whole pixels if the map is small enough, so that all cells have one size."""
        pixels = self.side * PIXELS_AN_INCH / max(self.panel.background.shape)
        return (int(pixels) if pixels >= 1 else pixels) / PIXELS_AN_INCH

    @property
    def corner(self) -> np.ndarray:
        """Left and top of the map itself, centred and on whole pixels."""
        size = self.zoom * np.array(self.panel.background.shape[::-1])
        return np.round((np.array([self.left, self.top]) + (self.side - size) / 2) * PIXELS_AN_INCH) / PIXELS_AN_INCH

    def to_inches(self, cells: np.ndarray) -> np.ndarray:
        """The middles of cells (rows and columns) as points on the sheet."""
        return self.corner + (cells[:, ::-1] + 0.5) * self.zoom


def draw_panels(table: PanelFigure, palette: Palette = "safe") -> Figure:
    """One block of rows for each section, one row for each strip, one small map for each panel; a key above all."""
    columns = max(len(strip.panels) for strips in table.sections.values() for strip in strips)
    side = float(np.clip(9.5 / columns, 0.8, 1.5))
    width = max(LABEL + columns * (side + GAP) + EDGE, 6.7)  # room for the key
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
                for column, panel in enumerate(strip.panels):
                    spots.append(Spot(panel, strip.kind, LABEL + column * (side + GAP), top - GAP - side, side))
                label, at = _folded(strip.label, side), (LABEL / 2 + 0.02, top - GAP - side / 2)
                say(figure, *at, label, fontsize=8.5, rotation=90, va="center", ha="center")
        axes = whole(figure)
        _draw_maps(axes, spots, palette)
        left = EDGE
        for kind, name, room in (
            ("feature", "feature: below 0, 0, above", 2.5),
            ("reward", "reward: least to most", 2.2),
        ):
            if any(spot.kind == kind for spot in spots):
                _swatch(axes, left, _colours(np.linspace(-1, 1, 56)[None], kind, palette), name)
                left += room
        lines = [spot.to_inches(_until_it_repeats(spot.panel.path)) for spot in spots if len(spot.panel.path)]
        if lines:
            _swatch(axes, left, np.array([[[*to_rgb(WALL), 1.0]]]), "path: start to end")
            _draw_paths(axes, [*lines, np.array([[left + 0.1, 0.195], [left + 0.46, 0.195]])])
        for spot in spots:
            at = (spot.left + side / 2, spot.corner[1] - 0.04)
            title = _folded(spot.panel.title, side)
            axes.text(*at, title, fontsize=8, ha="center", va="bottom", parse_math=False)
    return figure


def _folded(text: str, side: float) -> str:
    return "\n".join(textwrap.fill(line, int(16 * side)) for line in text.split("\n"))


def _height(strip: Strip, side: float) -> float:
    lines = max((_folded(panel.title, side).count("\n") + 1 for panel in strip.panels if panel.title), default=0)
    return lines * LINE + 0.06 + side + GAP


def _draw_maps(axes: Axes, spots: list[Spot], palette: Palette) -> None:
    """All backgrounds in one image over the whole sheet: a hundred images take a hundred times as long."""
    wide, high = axes.get_xlim()[1], axes.get_ylim()[0]
    image = np.zeros((round(high * PIXELS_AN_INCH), round(wide * PIXELS_AN_INCH), 4), dtype=np.uint8)
    frames = []
    for spot in spots:
        rows, columns = shape = spot.panel.background.shape
        tall, broad = (round(size * spot.zoom * PIXELS_AN_INCH) for size in shape)
        left, top = np.round(spot.corner * PIXELS_AN_INCH).astype(int)
        row, column = np.arange(tall) * rows // tall, np.arange(broad) * columns // broad
        cells = _colours(spot.panel.background, spot.kind, palette)
        image[top : top + tall, left : left + broad] = cells[row[:, None], column]
        around = np.array([[0, 0], [rows, 0], [rows, columns], [0, columns], [0, 0]])
        frames.append(spot.to_inches(around - 0.5))  # a map that is white at its edge needs an outline
    extent = (0, image.shape[1] / PIXELS_AN_INCH, image.shape[0] / PIXELS_AN_INCH, 0)
    axes.imshow(image, extent=extent, interpolation="none", aspect="auto", zorder=0)
    axes.set(xlim=(0, wide), ylim=(high, 0))
    axes.add_collection(LineCollection(frames, colors=INK, alpha=0.3, linewidths=0.5, zorder=1))


def _colours(background: np.ndarray, kind: str, palette: Palette) -> np.ndarray:
    """Red, green, blue and opacity of every cell; each map has its own scale."""
    low, high = float(np.nanmin(background)), float(np.nanmax(background))
    if kind == "feature":  # white is 0
        high = max(abs(low), abs(high))
        low = -high
    if high - low < 1e-9:  # a flat map shows its middle colour, not its rounding
        low, high = low - 1, high + 1
    share = np.nan_to_num((background - low) / (high - low))
    cells = mpl.colormaps[FEATURE if kind == "feature" else REWARD[palette]](share, bytes=True)
    cells[np.isnan(background)] = [*(round(255 * part) for part in to_rgb(WALL)), 255]
    return np.asarray(cells)


def _until_it_repeats(path: np.ndarray) -> np.ndarray:
    """The path up to where it returns to a cycle that lasts to its end, at least once around."""
    for step in range(1, len(path)):
        for period in range(1, min(step, len(path) - step) + 1):
            if (path[step:] == path[step - period : -period]).all():
                return path[:step]
    return path


def _draw_paths(axes: Axes, lines: list[np.ndarray]) -> None:
    """Black in a white halo, from ○ to ●: visible on dark and on bright rewards."""
    halo = [withStroke(linewidth=2.6, foreground=HALO, alpha=0.8)]
    axes.add_collection(LineCollection(lines, colors=PATH, linewidths=1.1, path_effects=halo, zorder=2))
    (x, y), (end_x, end_y) = (np.array([line[end] for line in lines]).T for end in (0, -1))
    axes.scatter(x, y, s=13, facecolors=HALO, edgecolors=PATH, linewidths=0.9, zorder=3)
    axes.scatter(end_x, end_y, s=20, facecolors=PATH, edgecolors=HALO, linewidths=0.7, zorder=4)


def _swatch(axes: Axes, left: float, colours: np.ndarray, name: str) -> None:
    limits = {"xlim": axes.get_xlim(), "ylim": axes.get_ylim()}  # imshow would change them
    axes.imshow(colours, extent=(left, left + 0.56, 0.27, 0.12), interpolation="none", aspect="auto")
    axes.text(left + 0.63, 0.195, name, fontsize=8, va="center")
    axes.set(**limits)
