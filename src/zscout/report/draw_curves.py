"""Draws curve figures: rows of panels with lines, one colour for each label."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from zscout.lab.report_model import Curve, CurveFigure, CurvePanel
from zscout.report.ink import INK, LINES, place, say, sheet, style

Look = tuple[str, Any]  # colour and line style
LEFT, BOTTOM, RIGHT = 0.68, 0.52, 0.2  # inches around the axes of a panel
HEAD, TITLE, LEGEND, EDGE = 0.3, 0.24, 0.21, 0.12  # inches: a row's title, a panel's, a line of the legend, above all
PATTERNS: tuple[Any, ...] = ("-", (0, (6, 1.2, 1.2, 1.2)), (0, (1, 1)))  # after four labels, and after eight


@dataclass(frozen=True)
class Layout:
    """Sizes in inches."""

    width: float  # of the axes of one panel
    height: float
    rights: Sequence[float]  # room beside each column, for the names of levels

    @classmethod
    def of(cls, table: CurveFigure) -> "Layout":
        """As wide as a page, where that is neither too narrow nor too wide for the panels."""
        columns = list(zip_longest(*table.rows.values()))
        rights = [RIGHT + 0.066 * max(_letters(panel) for panel in column) for column in columns]
        width = (9.6 - sum(rights)) / len(columns) - LEFT
        return cls(float(np.clip(width, 1.7, 4.6)), 1.85, rights)

    def left(self, column: int) -> float:
        """Where the axes begin; beyond the last column, where another would."""
        return LEFT + sum(LEFT + self.width + right for right in self.rights[:column])

    @property
    def whole(self) -> float:
        """Width of the figure."""
        return self.left(len(self.rights)) - LEFT


def draw_curves(table: CurveFigure) -> Figure:
    """One row of panels a row of the table, under one legend."""
    layout = Layout.of(table)
    looks = _looks([curve for panels in table.rows.values() for panel in panels for curve in panel.curves])
    entries = _legend_columns(looks, layout.whole)
    lines = math.ceil(len(looks) / entries) if len(looks) > 1 else 0
    heights = [_row_height(title, panels, layout) for title, panels in table.rows.items()]
    with style():
        figure = sheet(layout.whole, EDGE + lines * LEGEND + sum(heights), table.caption)
        top = EDGE + lines * LEGEND
        if lines:
            _legend(figure, looks, entries)
        for (title, panels), height in zip(table.rows.items(), heights, strict=True):
            if title:
                say(figure, EDGE, top + 0.06, title, fontweight="bold", fontsize=10, va="top")
            top += height
            for column, panel in enumerate(panels):
                axes = place(figure, layout.left(column), top - BOTTOM - layout.height, layout.width, layout.height)
                _draw_panel(axes, panel, looks)
    return figure


def _letters(panel: CurvePanel | None) -> int:
    return max((len(line) for name in panel.levels for line in _folded(name)), default=0) if panel else 0


def _row_height(title: str, panels: Sequence[CurvePanel], layout: Layout) -> float:
    titled = any(panel.title for panel in panels)
    return (HEAD if title else 0.05) + (TITLE if titled else 0.04) + layout.height + BOTTOM


def _looks(curves: Sequence[Curve]) -> dict[str, Look]:
    """Colour and pattern of every label, in the order of their first lines."""
    looks: dict[str, Look] = {}
    for curve in curves:
        if curve.label not in looks:
            count = len(looks)
            dashed = all(other.dashed for other in curves if other.label == curve.label)
            pattern = "--" if dashed else PATTERNS[min(count // 4, len(PATTERNS) - 1)]
            looks[curve.label] = (LINES[count % len(LINES)], pattern)
    return looks


def _legend_columns(looks: Mapping[str, Look], width: float) -> int:
    longest = max(len(label) for label in looks) if looks else 1
    return max(1, min(len(looks), int((width - 2 * EDGE) / (0.08 * longest + 0.5))))


def _legend(figure: Figure, looks: Mapping[str, Look], columns: int) -> None:
    handles = [
        Line2D([], [], color=colour, linestyle=pattern, linewidth=1.6, label=label)
        for label, (colour, pattern) in looks.items()
    ]
    by_column = [handle for column in range(columns) for handle in handles[column::columns]]  # read by rows
    wide, high = figure.get_size_inches()
    figure.legend(
        handles=by_column,
        ncols=columns,
        loc="upper left",
        bbox_to_anchor=(EDGE / wide, 1 - 0.06 / high),
        fontsize=8.5,
        borderpad=0,
        borderaxespad=0,
        handlelength=2.4,
        columnspacing=1.6,
    )


def _draw_panel(axes: Axes, panel: CurvePanel, looks: Mapping[str, Look]) -> None:
    if panel.logarithmic:
        axes.set_yscale("log")
    if panel.logarithmic_x:
        axes.set_xscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())  # numbers between the powers would stand on each other
    for curve in panel.curves:
        _draw_curve(axes, curve, looks[curve.label], panel.logarithmic)
    axes.set_xlabel(panel.x_label, fontsize=8.5)
    axes.set_ylabel(panel.label, fontsize=8.5)
    if panel.title:
        title = textwrap.shorten(panel.title, 60, placeholder="…")
        axes.set_title(title, fontsize=9, loc="left", pad=5, parse_math=False)
    axes.margins(x=0.02)
    if not panel.logarithmic_x:
        axes.locator_params(axis="x", nbins=6)
    axes.grid(True)
    axes.set_axisbelow(True)
    _draw_levels(axes, panel.levels)


def _draw_curve(axes: Axes, curve: Curve, look: Look, logarithmic: bool) -> None:
    colour, pattern = look
    x, y = np.asarray(curve.x, float), np.asarray(curve.y, float)
    if len(x) != len(y):
        raise ValueError(f"curve {curve.label!r} has {len(x)} x and {len(y)} y")
    shown = y > 0 if logarithmic else np.full(len(y), True)
    if len(curve.low):
        low, high = np.asarray(curve.low, float)[shown], np.asarray(curve.high, float)[shown]
        if logarithmic:  # a band that reaches 0 ends a decade below its line
            low = np.where(low > 0, low, y[shown] / 10)
        axes.fill_between(x[shown], low, high, color=colour, alpha=0.16, linewidth=0)
    pattern = "--" if curve.dashed else pattern
    marker = "o" if shown.sum() == 1 else ""  # a line of one point would not be seen
    axes.plot(x[shown], y[shown], color=colour, linestyle=pattern, linewidth=1.3, marker=marker, markersize=3.5)


def _folded(name: str) -> list[str]:
    return textwrap.wrap(name, 10) or [""]


def _draw_levels(axes: Axes, levels: Mapping[str, float]) -> None:
    """Thin lines across, named beside their right end; names of close ones move apart."""
    for value in levels.values():
        axes.axhline(value, color=INK, alpha=0.55, linewidth=0.8, linestyle=(0, (2, 2)))
    to_share = (axes.transScale + axes.transLimits).transform
    free = -1.0
    for name, value in sorted(levels.items(), key=lambda level: level[1]):
        half = 0.04 * len(_folded(name))
        middle = max(float(to_share((1, value))[1]), free + half)
        free = middle + half
        text = "\n".join(_folded(name))
        axes.text(1.015, middle, text, transform=axes.transAxes, va="center", fontsize=7.5, parse_math=False)
