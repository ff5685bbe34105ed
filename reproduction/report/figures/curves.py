"""Draws curve figures: rows of panels with lines, one colour for each label."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import accumulate, zip_longest
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from reproduction.report.model import Curve, CurveFigure, CurvePanel
from zscout.watch.ink import EDGE, INK, LINES, place, say, sheet, style

Look = dict[str, Any]  # colour, line style and the like, as matplotlib names them
HEIGHT = 1.85  # inches: the axes of a panel
LEFT, BOTTOM, RIGHT = 0.68, 0.52, 0.2  # inches around them
HEAD, TITLE, LEGEND = 0.3, 0.24, 0.21  # inches: a row's title, a panel's, a line of the legend
PATTERNS: tuple[Any, ...] = ("-", (0, (6, 1.2, 1.2, 1.2)), (0, (1, 1)))  # after four labels, and after eight


def draw_curves(table: CurveFigure) -> Figure:
    """One row of panels for each row of the table, under one legend."""
    columns = list(zip_longest(*table.rows.values()))
    rights = [RIGHT + 0.066 * max(map(_letters, column)) for column in columns]  # room for the names of levels
    width = float(np.clip((9.6 - sum(rights)) / len(columns) - LEFT, 1.7, 4.6))
    lefts = list(accumulate((LEFT + width + right for right in rights), initial=LEFT))
    page = lefts[-1] - LEFT
    looks = _looks([curve for panels in table.rows.values() for panel in panels for curve in panel.curves])
    longest = max(map(len, looks), default=1)
    entries = max(1, min(len(looks), int((page - 2 * EDGE) / (0.08 * longest + 0.5))))  # in a line of the legend
    lines = math.ceil(len(looks) / entries) if len(looks) > 1 else 0
    heights = [
        (HEAD if title else 0.05) + (TITLE if any(p.title for p in panels) else 0.04) + HEIGHT + BOTTOM
        for title, panels in table.rows.items()
    ]
    with style():
        top = EDGE + lines * LEGEND
        figure = sheet(page, top + sum(heights), table.caption)
        if lines:
            _legend(figure, looks, entries)
        for (title, panels), height in zip(table.rows.items(), heights, strict=True):
            say(figure, EDGE, top + 0.06, title, fontweight="bold", fontsize=10, va="top")
            top += height
            for left, panel in zip(lefts, panels, strict=False):
                _draw_panel(place(figure, left, top - BOTTOM - HEIGHT, width, HEIGHT), panel, looks)
    return figure


def _letters(panel: CurvePanel | None) -> int:
    return max((len(line) for name in panel.levels for line in _folded(name)), default=0) if panel else 0


def _folded(name: str) -> list[str]:
    return textwrap.wrap(name, 10) or [""]


def _looks(curves: Sequence[Curve]) -> dict[str, Look]:
    """Colour and pattern of every label, in the order of their first lines."""
    looks: dict[str, Look] = {}
    for count, label in enumerate(dict.fromkeys(curve.label for curve in curves)):
        dashed = all(curve.dashed for curve in curves if curve.label == label)
        pattern = "--" if dashed else PATTERNS[min(count // 4, len(PATTERNS) - 1)]
        looks[label] = {"color": LINES[count % len(LINES)], "linestyle": pattern}
    return looks


def _legend(figure: Figure, looks: Mapping[str, Look], columns: int) -> None:
    handles = [Line2D([], [], linewidth=1.6, label=label, **look) for label, look in looks.items()]
    by_column = [handle for column in range(columns) for handle in handles[column::columns]]  # read by rows
    wide, high = figure.get_size_inches()
    look: Look = {"fontsize": 8.5, "borderpad": 0, "borderaxespad": 0, "handlelength": 2.4, "columnspacing": 1.6}
    corner = (EDGE / wide, 1 - 0.06 / high)
    figure.legend(handles=by_column, loc="upper left", bbox_to_anchor=corner, ncols=columns, **look)


def _draw_panel(axes: Axes, panel: CurvePanel, looks: Mapping[str, Look]) -> None:
    if panel.logarithmic:
        axes.set_yscale("log")
    if panel.logarithmic_x:
        axes.set_xscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())  # numbers between the powers would overlap
    for curve in panel.curves:
        _draw_curve(axes, curve, looks[curve.label], panel.logarithmic)
    axes.set_xlabel(panel.x_label, fontsize=8.5)
    axes.set_ylabel(panel.label, fontsize=8.5)
    title = textwrap.shorten(panel.title, 60, placeholder="…")
    axes.set_title(title, fontsize=9, loc="left", pad=5, parse_math=False)
    axes.margins(x=0.02)
    if not panel.logarithmic_x:
        axes.locator_params(axis="x", nbins=6)
    axes.grid(True)
    axes.set_axisbelow(True)
    _draw_levels(axes, panel.levels)


def _draw_curve(axes: Axes, curve: Curve, look: Look, logarithmic: bool) -> None:
    x, y = np.asarray(curve.x, float), np.asarray(curve.y, float)
    if len(x) != len(y):
        raise ValueError(f"curve {curve.label!r} has {len(x)} x and {len(y)} y")
    shown = y > 0 if logarithmic else np.full(len(y), True)
    if len(curve.low):
        low, high = np.asarray(curve.low, float)[shown], np.asarray(curve.high, float)[shown]
        if logarithmic:  # a band that reaches 0 ends a decade below its line
            low = np.where(low > 0, low, y[shown] / 10)
        axes.fill_between(x[shown], low, high, color=look["color"], alpha=0.16, linewidth=0)
    look = look | {"linestyle": "--"} if curve.dashed else look
    marker = "o" if shown.sum() == 1 else ""  # a line of one point is invisible
    axes.plot(x[shown], y[shown], linewidth=1.3, marker=marker, markersize=3.5, **look)


def _draw_levels(axes: Axes, levels: Mapping[str, float]) -> None:
    """Thin horizontal lines with names at their right end; names that would overlap move apart."""
    for value in levels.values():
        axes.axhline(value, color=INK, alpha=0.55, linewidth=0.8, linestyle=(0, (2, 2)))
    to_share = (axes.transScale + axes.transLimits).transform
    free = -1.0
    for name, value in sorted(levels.items(), key=lambda level: level[1]):
        lines = _folded(name)
        middle = max(float(to_share((1, value))[1]), free + 0.04 * len(lines))
        free = middle + 0.04 * len(lines)
        look: Look = {"transform": axes.transAxes, "va": "center", "fontsize": 7.5, "parse_math": False}
        axes.text(1.015, middle, "\n".join(lines), **look)
