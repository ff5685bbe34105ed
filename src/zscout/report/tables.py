"""Tables for the terminal and for files."""

import csv
import io
import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zscout.lab.bench import words
from zscout.lab.bench.measurement import Growth, Line, Row
from zscout.lab.bench.telling import CAPTION
from zscout.lab.compare import Row as CompareRow
from zscout.lab.story import TextTable


def bench_table(lines: Sequence[Line]) -> Group:
    """All measurements, group by group and place by place; below the numbers stands, dim, what they are."""
    parts: list[RenderableType] = [_bench_part()]
    for (group, where), rows in groupby(lines, key=lambda line: (line.group, getattr(line, "where", ""))):
        parts.append(Text.from_markup(f"[bold]{group}[/]" + (f" [dim]{where}[/]" if where else "")))
        parts.append(_bench_part(*rows))
    return Group(*parts, Text.from_markup(f"[dim]{CAPTION}[/]"))


def _bench_part(*rows: Line) -> Table:
    """Some rows, in columns that are as wide in every part; without any, the head of them all."""
    table = Table(box=box.SIMPLE_HEAD if not rows else None, expand=True, show_header=not rows, show_edge=False)
    for heading, ratio in {"what": 26, "time": 24, "times faster": 17, "as good": 16, "÷ floor": 17}.items():
        table.add_column(heading, overflow="fold", ratio=ratio)
    for row in rows:
        cells = _bench_cells(row) if isinstance(row, Row) else _growth_cells(row)
        marked = (f"{cell}\n[dim]{below}[/]" if below else cell for cell, below in cells)
        table.add_row(*map(Text.from_markup, marked))
    return table


Cells = list[tuple[str, str]]  # what is read first, and below it what that is


def _bench_cells(row: Row) -> Cells:
    good, ratio = words.objective(row) or words.difference(row), words.faster(row)
    true = f"true ψ: {words.truly(row)}" if row.true_share is not None else row.difference
    if not row.counts:
        good, ratio = f"[red]{good}[/]", f"[red]{ratio}[/]"
    if not row.agrees:
        good = f"[bold red]{good}, more than {row.limit:.2g}[/]"
    held = "" if row.peak_bytes is None else f"{words.memory(row.peak_bytes)} held"
    over = "" if row.over_floor is None else words.times(row.over_floor)
    than = "" if row.reference == row.what else row.reference
    return [
        (row.what, ""),
        (words.seconds(row.seconds), words.speed(row) or words.slowest(row)),
        (ratio, than),
        (good, held or true),
        (over, row.floor),
    ]


def _growth_cells(row: Growth) -> Cells:
    held = f"{words.memory(row.peak_bytes[-1])} held" if row.peak_bytes else ""
    return [
        (row.what, words.sizes(row)),
        (f"… {words.seconds(row.seconds[-1])}", held),
        (words.power(row.exponent), ""),
        (words.power(row.memory_exponent), "of memory" if row.memory_exponent is not None else ""),
        ("", ""),
    ]


def terminal_table(text: TextTable) -> Table:
    """For a terminal of 80 columns: an interval stands under its number, and no name is broken."""
    table = Table(box=box.SIMPLE_HEAD, title=text.caption, title_justify="left", padding=(0, 0, 0, 0), pad_edge=False)
    for i, heading in enumerate(text.head):
        words = [word for line in text.rows for word in line[i].split()]
        named = heading == "method" and words
        table.add_column(heading, overflow="fold", min_width=min(24, max(map(len, words))) if named else None)
    for line in text.rows:
        cells = zip(text.head, line, strict=True)
        # The interval of the IQM is in the files: with it there is no room for the names.
        table.add_row(*(c.split(" (")[0] if heading == "IQM" else c.replace(" (", "\n(") for heading, c in cells))
    return table


def compare_csv(rows: Sequence[CompareRow]) -> str:
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
