"""Tables for the terminal and for files."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from zscout.lab.compare import Row
from zscout.lab.measurement import Measurement
from zscout.lab.story import TextTable


def bench_table(rows: Sequence[Measurement]) -> Table:
    """One line a measurement: how fast, how many times the reference, how far from its answer."""
    table = Table(
        box=box.SIMPLE_HEAD, title="torch on one thread; every ratio is within this run", title_justify="left"
    )
    for heading in ("what", "speed", "times the reference", "largest difference"):
        table.add_column(heading)
    for row in rows:
        verdict = "≤" if row.agrees else "[bold red]is more than[/]"
        table.add_row(
            f"{row.what}\n[dim]{row.amount:,} {row.unit} in {row.seconds:.3g} s[/dim]",
            f"{row.rate:,.0f}\n[dim]{row.unit}/s[/dim]",
            f"{row.speedup:,.1f} ×\n[dim]{row.reference}[/dim]",
            "" if row.largest is None else f"{row.largest:.2g} {verdict} {row.limit:.2g}\n[dim]{row.difference}[/dim]",
        )
    return table


def terminal_table(text: TextTable) -> Table:
    """For a terminal of 80 columns: an interval stands under its number."""
    table = Table(box=box.SIMPLE_HEAD, title=text.caption, title_justify="left", padding=(0, 1, 0, 0))
    for heading in text.head:
        table.add_column(heading, overflow="fold", min_width=11 if heading == "method" else None)
    for line in text.rows:
        table.add_row(*(cell.replace(" (", "\n(") for cell in line))
    return table


def compare_csv(rows: Sequence[Row]) -> str:
    """Every number of a comparison, a column each."""
    flat = []
    for row in rows:
        cells: dict[str, Any] = {}
        for name, value in row.to_json().items():
            if isinstance(value, dict) and name != "settings":
                cells |= {name if part == "value" else f"{name}_{part}": number for part, number in value.items()}
            elif name == "rank":
                cells |= {"rank": value[0], "rank_worst": value[1]}
            elif value is not None:
                cells[name] = json.dumps(value) if name == "settings" else value
        flat.append(cells)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(dict.fromkeys(name for cells in flat for name in cells)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return file.getvalue()


def search_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """One line a search: the share of the best known objective and the time."""
    title = "search over z: share of the best known ‖ψ‖ in V⁻¹, one recommendation"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for heading in ("model", "search", "by the model's ψ", "by the true ψ", "ms"):
        table.add_column(heading)
    for row in rows:
        numbers = (f"{row['share']:.3f}", f"{row['true_share']:.3f}", f"{row['milliseconds']:.2f}")
        table.add_row(row["model"], row["search"], *numbers)
    return table
