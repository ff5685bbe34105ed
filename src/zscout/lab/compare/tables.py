"""Tables of printed cells: in the terminal, and as CSV and Markdown files."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from zscout.base.markup import plain


@dataclass(frozen=True)
class TextTable:
    """A table of printed cells."""

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    timed: bool = False  # it holds times, which differ between runs
    note: str = ""  # below the table: what its columns mean


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
