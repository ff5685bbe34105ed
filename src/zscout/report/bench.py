"""A benchmark as files: its numbers, its tables and its figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zscout.files import write_bytes, write_json
from zscout.lab.bench.measurement import Line
from zscout.lab.bench.pictures import growth_figure, speed_figure
from zscout.lab.bench.telling import growth_table, speed_table
from zscout.lab.story import FigureTable
from zscout.report.export import to_markdown
from zscout.report.figures import draw, save_figure


def write_bench(lines: Sequence[Line], content: Mapping[str, Any], folder: Path) -> list[Path]:
    """``bench.json``, ``bench.md`` and the figures as SVG and PNG."""
    tables = [table for table in (speed_table(lines), growth_table(lines)) if table.rows]
    written = [
        write_json(folder / "bench.json", content),
        write_bytes(folder / "bench.md", "\n".join([_about(content), *map(to_markdown, tables)]).encode()),
    ]
    figures: list[FigureTable | None] = [speed_figure(lines), growth_figure(lines)]
    for figure in figures:
        written += [] if figure is None else save_figure(draw(figure), folder, figure.name)
    return written


def _about(content: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in content["about"].items()) + "\n"
