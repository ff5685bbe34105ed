"""Tables for the terminal and for files."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from zscout.lab.comparison import Row
from zscout.lab.report_model import TextTable


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
