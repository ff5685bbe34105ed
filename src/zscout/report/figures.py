"""Thin drawing: any table to a figure, and a figure to SVG and PNG."""

import io
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from zscout.files import write_bytes
from zscout.lab.report_model import CurveFigure, FigureTable, PanelFigure
from zscout.report.draw_curves import draw_curves
from zscout.report.draw_framework import draw_framework
from zscout.report.draw_intervals import draw_intervals
from zscout.report.draw_maps import draw_panels
from zscout.report.ink import DPI, Palette, style

__all__ = [
    "draw",
    "draw_curves",
    "draw_framework",
    "draw_intervals",
    "draw_panels",
    "palettes",
    "save_figure",
]


def draw(table: FigureTable, palette: Palette = "safe") -> Figure:
    """The table as a picture over its caption."""
    if isinstance(table, PanelFigure):
        return draw_panels(table, palette)
    if isinstance(table, CurveFigure):
        return draw_curves(table)
    return draw_intervals(table)


def palettes(table: FigureTable) -> tuple[Palette, ...]:
    """Those in which the table looks different; the first is for every eye."""
    rewards = isinstance(table, PanelFigure) and any(
        strip.kind == "reward" for strips in table.sections.values() for strip in strips
    )
    return ("safe", "paper") if rewards else ("safe",)


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """The figure as ``name.svg`` and ``name.png``; the same figure gives the same bytes."""
    written = []
    FigureCanvasAgg(figure)
    for suffix, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        buffer = io.BytesIO()
        with style():
            figure.savefig(buffer, format=suffix, dpi=DPI, facecolor="white", metadata=metadata)
        written.append(write_bytes(folder / f"{name}.{suffix}", buffer.getvalue()))
    return written
