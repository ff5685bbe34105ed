"""Draws any figure table, and saves a figure as SVG and PNG."""

import io
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reproduction.report.figures.curves import draw_curves
from reproduction.report.figures.intervals import draw_intervals
from reproduction.report.figures.maps import draw_panels
from reproduction.report.model import CurveFigure, FigureTable, PanelFigure
from zscout.base.files import write_bytes
from zscout.watch.ink import Palette, style


def draw(table: FigureTable, palette: Palette = "safe") -> Figure:
    """The table as a picture over its caption."""
    if isinstance(table, PanelFigure):
        return draw_panels(table, palette)
    return draw_curves(table) if isinstance(table, CurveFigure) else draw_intervals(table)


def palettes(table: FigureTable) -> tuple[Palette, ...]:
    """The palettes in which the table looks different; the first is colour-blind safe."""
    strips = [s for strips in table.sections.values() for s in strips] if isinstance(table, PanelFigure) else []
    return ("safe", "paper") if any(strip.kind == "reward" for strip in strips) else ("safe",)


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``name.svg`` and ``name.png``; the same figure gives the same bytes."""
    written = []
    FigureCanvasAgg(figure)
    for suffix, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        buffer = io.BytesIO()
        with style():
            figure.savefig(buffer, format=suffix, dpi=144, facecolor="white", metadata=metadata)
        written.append(write_bytes(folder / f"{name}.{suffix}", buffer.getvalue()))
    return written
