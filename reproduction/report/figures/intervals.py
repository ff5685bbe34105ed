"""Draws interval figures: a dot and whisker for each label, in the same order in all panels."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reproduction.report.model import Interval, IntervalFigure
from zscout.watch.ink import EDGE, INK, OTHERS, OURS, place, say, sheet, style

ACROSS = 4  # panels in a row, at most
LINE, HEAD, FOOT, BETWEEN = 0.25, 0.34, 0.5, 0.22  # inches


def draw_intervals(table: IntervalFigure) -> Figure:
    """Panels side by side; labels at the left; ours are diamonds of another colour with bold names."""
    intervals = [interval for panel in table.panels.values() for interval in panel]
    weights = {i.label: "normal" for i in intervals} | {i.label: "bold" for i in intervals if i.ours}
    left = EDGE + 0.1 + 0.073 * max(map(len, weights))
    columns = min(ACROSS, len(table.panels))
    rows = -(-len(table.panels) // columns)
    width = float(np.clip((9.6 - left) / columns - BETWEEN, 1.4, 4.2))
    height = LINE * len(weights) + 0.1
    with style():
        figure = sheet(left + columns * (width + BETWEEN), rows * (HEAD + height + FOOT), table.caption)
        for index, (title, panel) in enumerate(table.panels.items()):
            row, column = divmod(index, columns)
            top = row * (HEAD + height + FOOT) + HEAD
            axes = place(figure, left + column * (width + BETWEEN), top, width, height)
            _draw_panel(axes, panel, list(weights), table.logarithmic)
            axes.set_title(textwrap.shorten(title, int(14 * width), placeholder="…"), fontsize=9, fontweight="bold")
            axes.set_xlabel(table.x_label, fontsize=8.5)
            for line, (name, weight) in enumerate(weights.items() if column == 0 else ()):
                at = (left - 0.08, top + (line + 0.5) * height / len(weights))
                say(figure, *at, name, fontsize=8.5, ha="right", va="center", fontweight=weight)
    return figure


def _draw_panel(axes: Axes, panel: Sequence[Interval], names: Sequence[str], logarithmic: bool) -> None:
    if logarithmic:
        axes.set_xscale("log")
    for interval in panel:
        line = names.index(interval.label)
        colour, mark, size = (OURS, "D", 5.5) if interval.ours else (OTHERS, "o", 5.0)
        low = interval.value if logarithmic and interval.low <= 0 else interval.low  # a log axis has no 0
        ends: dict[str, Any] = {"marker": "|", "markersize": 6, "markeredgewidth": 1.2}
        axes.plot([low, interval.high], [line, line], color=colour, linewidth=1.6, solid_capstyle="butt", **ends)
        face = "none" if interval.hollow else colour
        axes.plot([interval.value], [line], mark, color=colour, markersize=size, markerfacecolor=face)
    axes.hlines(range(len(names)), 0, 1, transform=axes.get_yaxis_transform(), color=INK, alpha=0.1, linewidth=0.6)
    axes.set(ylim=(len(names) - 0.5, -0.5), yticks=[], axisbelow=True)
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    axes.margins(x=0.06)
