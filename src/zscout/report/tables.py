"""Tables for the terminal, and as CSV and Markdown files."""

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from zscout.base.markup import plain
from zscout.lab.compare.comparison import Row
from zscout.lab.compare.report_model import Story, TextTable


def terminal_table(text: TextTable) -> Table:
    """For a terminal of 80 columns: an interval is below its number, and names are not broken."""
    table = Table(box=box.SIMPLE_HEAD, title=text.caption, title_justify="left", padding=(0, 0, 0, 0), pad_edge=False)
    table.caption, table.caption_justify = text.note, "left"
    for i, heading in enumerate(text.head):
        words = [word for line in text.rows for word in line[i].split()]
        named = heading == "method" and words
        table.add_column(heading, overflow="fold", min_width=min(24, max(map(len, words))) if named else None)
    for line in text.rows:
        cells = zip(text.head, line, strict=True)
        # Only files have the interval of the IQM: with it there is no room for the names.
        table.add_row(*(c.split(" (")[0] if heading == "IQM" else c.replace(" (", "\n(") for heading, c in cells))
    return table


def claims_table(story: Story) -> TextTable:
    """All claims as a table."""
    rows = [(c.number, c.says, c.where, c.measured, c.verdict, c.rule) for c in story.claims]
    head = ("number", "claim", "where", "measured", "verdict", "rule")
    return TextTable("claims", "Every claim, measured.", head, rows)


def to_csv(table: TextTable) -> str:
    """A header and the rows, without markup."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([plain(cell) for cell in row] for row in (table.head, *table.rows))
    return text.getvalue()


def to_markdown(table: TextTable) -> str:
    """The caption, a table with one line per row, and the note."""
    lines = ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in (table.head, *table.rows)]
    note = ["", table.note] if table.note else []
    return "\n".join([table.caption, "", lines[0], "|" + "---|" * len(table.head), *lines[1:], *note]) + "\n"


def _markdown_cell(text: str) -> str:
    """Pipes escaped, which would end the cell, and the backslashes before them, which would undo the escape."""
    return re.sub(r"(\\*)\|", r"\1\1\|", text).replace("\n", "<br>")


def compare_csv(rows: Sequence[Row]) -> str:
    """Every number of a comparison, one column each."""
    flat = []
    for row in rows:
        cells: dict[str, Any] = {}
        for name, value in row.to_json().items():
            if isinstance(value, dict) and name != "settings":
                cells |= {name if part == "value" else f"{name}_{part}": number for part, number in value.items()}
            elif name == "episodes":
                for k, share in enumerate(value, 1):
                    cells |= {f"episode_{k}_{part}": number for part, number in share.items()}
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
