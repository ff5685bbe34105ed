"""Draws interval figures: a dot and whisker for each label, in the same order in all panels."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zscout.lab.report_model import Interval, IntervalFigure
from zscout.report.ink import INK, OTHERS, OURS, place, say, sheet, style

ACROSS = 4  # panels in a row, at most
LINE, HEAD, FOOT, EDGE, BETWEEN = 0.25, 0.34, 0.5, 0.12, 0.22  # inches


def draw_intervals(table: IntervalFigure) -> Figure:
    """Panels side by side; labels at the left; ours is a diamond of its own colour under a bold name."""
    names = list(dict.fromkeys(interval.label for panel in table.panels.values() for interval in panel))
    ours = {interval.label for panel in table.panels.values() for interval in panel if interval.ours}
    left = EDGE + 0.1 + 0.073 * max(map(len, names))
    columns = min(ACROSS, len(table.panels))
    rows = -(-len(table.panels) // columns)
    width = float(np.clip((9.6 - left) / columns - BETWEEN, 1.4, 4.2))
    height = LINE * len(names) + 0.1
    with style():
        size = (left + columns * (width + BETWEEN), rows * (HEAD + height + FOOT))
        figure = sheet(*size, table.caption)
        for index, (title, panel) in enumerate(table.panels.items()):
            row, column = divmod(index, columns)
            top = row * (HEAD + height + FOOT) + HEAD
            axes = place(figure, left + column * (width + BETWEEN), top, width, height)
            _draw_panel(axes, panel, names, table.logarithmic)
            axes.set_title(textwrap.shorten(title, int(14 * width), placeholder="…"), fontsize=9, fontweight="bold")
            axes.set_xlabel(table.x_label, fontsize=8.5)
            if column == 0:
                _name(figure, names, ours, left - 0.08, top, height)
    return figure


def _name(figure: Figure, names: Sequence[str], ours: set[str], right: float, top: float, height: float) -> None:
    for line, name in enumerate(names):
        at = top + (line + 0.5) * height / len(names)
        weight = "bold" if name in ours else "normal"
        say(figure, right, at, name, fontsize=8.5, ha="right", va="center", fontweight=weight)


def _draw_panel(axes: Axes, panel: Sequence[Interval], names: Sequence[str], logarithmic: bool) -> None:
    if logarithmic:
        axes.set_xscale("log")
    for interval in panel:
        line = names.index(interval.label)
        colour, mark, size = (OURS, "D", 5.5) if interval.ours else (OTHERS, "o", 5.0)
        low = interval.value if logarithmic and interval.low <= 0 else interval.low  # 0 is nowhere on this axis
        axes.plot([low, interval.high], [line, line], color=colour, linewidth=1.6, solid_capstyle="butt")
        for end in (low, interval.high):
            axes.plot([end], [line], "|", color=colour, markersize=6, markeredgewidth=1.2)
        face = "none" if interval.hollow else colour
        axes.plot([interval.value], [line], mark, color=colour, markersize=size, markerfacecolor=face)
    axes.hlines(range(len(names)), 0, 1, transform=axes.get_yaxis_transform(), color=INK, alpha=0.1, linewidth=0.6)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    axes.margins(x=0.06)
    axes.set_axisbelow(True)
