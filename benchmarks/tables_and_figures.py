"""Rows of a benchmark as a table for the terminal and for files, as a figure, and as JSON."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

import zscout
from benchmarks.measurement import Row, Setting
from reproduction.report.figures.figures import draw, save_figure
from reproduction.report.model import (
    Interval,
    IntervalFigure,
)
from zscout.base.files import write_bytes, write_json
from zscout.lab.compare.tables import TextTable, to_markdown

CAPTION = (
    "Torch on one thread; every ratio is within this run, of medians of calls that took turns. naive: 10,000 fresh z, "
    "a forward pass for each, V inverted from scratch, one run at a time; naive opti: the same with 128 points of the "
    "ellipsoid. Objective: what the answers are worth by eq. 5 ÷ what naive's are, by the model's own ψ (and by the "
    "true ψ of the policies chosen). Below .999 of naive's a ratio is in brackets: it does not count. ÷ floor: how "
    "many times what its products or bytes alone would take."
)
ENOUGH = 40  # calls for a 99th percentile
Cells = list[tuple[str, str]]  # a number, and below it what it is


# Files


def content_of(rows: Sequence[Row], setting: Setting) -> dict[str, Any]:
    """All rows and the machine as JSON."""
    about = {
        "version": zscout.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        **asdict(setting),
    }
    return {"about": about, "rows": [row.to_json() for row in rows]}


def write_bench(rows: Sequence[Row], content: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write ``bench.json``, ``bench.md`` and the figure as SVG and PNG."""
    about = ", ".join(f"{name} {value}" for name, value in content["about"].items())
    figure = speed_figure(rows)
    return [
        write_json(folder / "bench.json", content),
        write_bytes(folder / "bench.md", f"{about}\n\n{to_markdown(speed_table(rows))}".encode()),
        *([] if figure is None else save_figure(draw(figure), folder, figure.name)),
    ]


# Tables


def speed_table(rows: Sequence[Row]) -> TextTable:
    """One line for each row."""
    head = [
        "what",
        "model",
        "time",
        "p99",
        "speed",
        "times faster",
        "than",
        "objective",
        "by the true ψ",
        "difference",
        "÷ floor",
    ]
    lines = [
        [
            f"{row.group}: {row.what}",
            row.where,
            _duration(row.seconds),
            _p99(row),
            _rate(row),
            _speedup(row),
            row.reference,
            _objective(row),
            _true_objective(row),
            f"{_difference(row)} in {row.difference}" if row.difference else "",
            "" if row.over_floor is None else f"{_times(row.over_floor)} {row.floor}",
        ]
        for row in rows
    ]
    return TextTable("speed", CAPTION, head, lines, timed=True)


def bench_table(rows: Sequence[Row]) -> Group:
    """All rows for the terminal, by group and model, with the description of each number dim below it."""
    parts: list[RenderableType] = [_bench_part()]
    for (group, where), some in groupby(rows, key=lambda row: (row.group, row.where)):
        parts.append(Text.from_markup(f"[bold]{group}[/]" + (f" [dim]{where}[/]" if where else "")))
        parts.append(_bench_part(*some))
    return Group(*parts, Text.from_markup(f"[dim]{CAPTION}[/]"))


def _bench_part(*rows: Row) -> Table:
    """Rows in columns of fixed relative width, or the head alone."""
    table = Table(box=box.SIMPLE_HEAD if not rows else None, expand=True, show_header=not rows, show_edge=False)
    for heading, ratio in {"what": 26, "time": 24, "times faster": 17, "as good": 16, "÷ floor": 17}.items():
        table.add_column(heading, overflow="fold", ratio=ratio)
    for row in rows:
        marked = (f"{cell}\n[dim]{below}[/]" if below else cell for cell, below in _row_cells(row))
        table.add_row(*map(Text.from_markup, marked))
    return table


def _row_cells(row: Row) -> Cells:
    good, ratio = _objective(row) or _difference(row), _speedup(row)
    true = f"true ψ: {_true_objective(row)}" if row.true_share is not None else row.difference
    if not row.counts:
        good, ratio = f"[red]{good}[/]", f"[red]{ratio}[/]"
    if not row.agrees:
        good = f"[bold red]{good}, more than {row.limit:.2g}[/]"
    slowest = f"p99 {_p99(row)}" if _p99(row) else ""
    return [
        (row.what, ""),
        (_duration(row.seconds), _rate(row) or slowest),
        (ratio, "" if row.reference == row.what else row.reference),
        (good, true),
        ("" if row.over_floor is None else _times(row.over_floor), row.floor),
    ]


# Figures


def speed_figure(rows: Sequence[Row]) -> IntervalFigure | None:
    """The speedup of each way over naive, hollow where its answers are worth less."""
    panels: dict[str, list[Interval]] = {}
    for row in rows:
        if row.reference.startswith("naive") and row.where and row.what != row.reference:
            assert row.speedup is not None
            assert row.speedup_range is not None
            low, high = row.speedup_range
            name = f"end to end, {row.what.split(',')[0]}" if row.group == "end-to-end" else row.what
            interval = Interval(name, row.speedup, low, high, ours="default" in name, hollow=not row.counts)
            panels.setdefault(row.where, []).append(interval)
    if not panels:
        return None
    caption = (
        "How many times faster than the plain reference: 10,000 fresh z, a forward pass for each, V inverted (for "
        "opti 128 points of its ellipsoid, end to end 1,000 fresh z). "
        "Whiskers: nine of ten calls. Hollow: by the model's own ψ its answers are worth less than naive's, so that it "
        "is not counted."
    )
    alt = "; ".join(f"{name}: {len(panel)} ways" for name, panel in panels.items())
    x_label = "times faster than naive"
    return IntervalFigure("speed", caption, x_label, panels, f"Dots and whiskers. {alt}.", logarithmic=True)


# Numbers as text


def _p99(row: Row) -> str:
    return _duration(row.p99) if row.calls >= ENOUGH else ""


def _rate(row: Row) -> str:
    return "" if row.amount == 1 else f"{_amount(row.rate)} {row.unit}/s"


def _speedup(row: Row) -> str:
    """The ratio to the reference, in brackets where the answers are worth less."""
    if row.speedup is None:
        return ""
    return _times(row.speedup) if row.counts else f"({_times(row.speedup)})"


def _objective(row: Row) -> str:
    return "" if row.share is None else f"{row.share:.4f}"


def _true_objective(row: Row) -> str:
    return "" if row.true_share is None else f"{row.true_share:.3f}"


def _difference(row: Row) -> str:
    return "" if row.largest is None else f"{row.largest:.2g}"


def _times(number: float) -> str:
    return f"{number:,.0f} ×" if number >= 10 else f"{number:.2g} ×"


def _duration(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _amount(number: float) -> str:
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
