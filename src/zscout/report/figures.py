"""Thin drawing: a table of panels to SVG and PNG."""

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.patheffects import withStroke

from zscout.files import write_bytes
from zscout.lab.curves import CurveFigure, CurvePanel
from zscout.lab.panels import Panel, PanelFigure, Strip

COLOURS = {"feature": "PuOr_r", "reward": "RdYlGn"}  # the paper shows rewards from red to green
WALL = "#8a8a94"
LINES = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")  # told apart by any eye
STYLE: dict[Any, Any] = {"font.size": 9, "font.family": "sans-serif", "svg.hashsalt": "zscout", "svg.fonttype": "path"}


def draw_panels(table: PanelFigure) -> Figure:
    """One block of rows a section, one row a strip, one small map a panel."""
    columns = max(len(strip.panels) for strips in table.sections.values() for strip in strips)
    rows = sum(len(strips) for strips in table.sections.values())
    with mpl.rc_context(STYLE):
        caption = textwrap.fill(table.caption, width=17 * columns)
        foot = 0.2 * (caption.count("\n") + 1) + 0.1
        figure = Figure(figsize=(1.06 * columns + 0.5, 1.2 * rows + 0.45 * len(table.sections) + foot))
        figure.text(0.02, 0.05 / figure.get_figheight(), caption, fontsize=8, va="bottom")
        heights = [len(strips) for strips in table.sections.values()]
        blocks = figure.subfigures(len(heights) + 1, 1, height_ratios=[*heights, foot / 1.35], squeeze=False)
        for block, (title, strips) in zip(blocks[:-1, 0], table.sections.items(), strict=True):
            _draw_section(block, title, strips, columns)
    return figure


def draw_curves(table: CurveFigure) -> Figure:
    """One row of panels a row of the table; the first panel has the legend."""
    columns = max(len(panels) for panels in table.rows.values())
    with mpl.rc_context(STYLE):
        caption = textwrap.fill(table.caption, width=46 * columns)
        foot = 0.2 * (caption.count("\n") + 1) + 0.15
        figure = Figure(figsize=(3.1 * columns, 2.5 * len(table.rows) + foot))
        axes = figure.subplots(len(table.rows), columns, squeeze=False)
        figure.subplots_adjust(0.07, (foot + 0.5) / figure.get_figheight(), 0.99, 0.94, wspace=0.28, hspace=0.42)
        figure.text(0.02, 0.05 / figure.get_figheight(), caption, fontsize=8, va="bottom")
        for (title, panels), row in zip(table.rows.items(), axes, strict=True):
            row[0].set_title(title, loc="left", fontweight="bold", fontsize=10)
            for panel, axis in zip(panels, row, strict=True):
                _draw_curves(axis, panel)
        axes[0][0].legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """The figure as ``name.svg`` and ``name.png``; the same figure gives the same bytes."""
    written = []
    FigureCanvasAgg(figure)
    for suffix, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        buffer = io.BytesIO()
        with mpl.rc_context(STYLE):
            figure.savefig(buffer, format=suffix, dpi=140, facecolor="white", metadata=metadata)
        written.append(write_bytes(folder / f"{name}.{suffix}", buffer.getvalue()))
    return written


def _draw_section(block: SubFigure, title: str, strips: Sequence[Strip], columns: int) -> None:
    block.suptitle(title, x=0.02, ha="left", fontweight="bold", fontsize=10)
    axes = block.subplots(len(strips), columns, squeeze=False)
    inches = 1.2 * len(strips) + 0.45
    block.subplots_adjust(left=0.05, right=0.99, bottom=0.02, top=1 - 0.55 / inches, wspace=0.08, hspace=0.24)
    for strip, row in zip(strips, axes, strict=True):
        row[0].set_ylabel(strip.label, fontsize=8)
        for panel, axis in zip(strip.panels, row, strict=False):
            _draw_panel(axis, panel, strip.kind)
        for axis in row[len(strip.panels) :]:
            axis.set_axis_off()


def _draw_curves(axis: Axes, panel: CurvePanel) -> None:
    colours = dict(zip(dict.fromkeys(curve.label for curve in panel.curves), LINES, strict=False))
    named: set[str] = set()
    for curve in panel.curves:
        shown = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if y > 0 or not panel.logarithmic]
        label = None if curve.label in named else curve.label
        axis.plot(*zip(*shown, strict=True), color=colours[curve.label], linewidth=1.2, alpha=0.85, label=label)
        named.add(curve.label)
    if panel.logarithmic:
        axis.set_yscale("log")
    axis.set_xlabel("step", fontsize=8)
    axis.set_ylabel(panel.label, fontsize=8)
    axis.tick_params(labelsize=7)
    axis.grid(alpha=0.25)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _until_it_repeats(path: np.ndarray) -> np.ndarray:
    """The path up to the first cell that it comes to twice: what follows is the same again."""
    seen: set[tuple[int, ...]] = set()
    for step, cell in enumerate(map(tuple, path.tolist())):
        if cell in seen:
            return path[:step]
        seen.add(cell)
    return path


def _draw_panel(axis: Axes, panel: Panel, kind: str) -> None:
    low, high = float(np.nanmin(panel.background)), float(np.nanmax(panel.background))
    if kind == "feature":  # white is 0, whatever the sign
        low, high = -max(abs(low), abs(high)), max(abs(low), abs(high))
    if high - low < 1e-9:  # a flat map shows its middle colour, not its rounding
        low, high = low - 1, high + 1
    axis.set_facecolor(WALL)
    axis.imshow(panel.background, cmap=COLOURS[kind], vmin=low, vmax=high, interpolation="nearest")
    if len(panel.path):
        row, column = _until_it_repeats(panel.path).T
        halo = [withStroke(linewidth=2.2, foreground="white", alpha=0.7)]  # a black line on dark green
        axis.plot(column, row, color="black", linewidth=1.1, path_effects=halo)
        axis.plot(column[0], row[0], "o", color="black", markersize=3.5, markerfacecolor="white")
        axis.plot(column[-1], row[-1], "o", color="black", markersize=4, path_effects=halo)
    axis.set_title(panel.title, fontsize=7, pad=2)
    axis.set_xticks([])
    axis.set_yticks([])
