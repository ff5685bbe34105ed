"""Tables of the report as files for other programs: CSV, and Markdown."""

import csv
import io
import re
from collections.abc import Sequence

from zscout.lab.report_model import Story, TextTable
from zscout.report.markup import plain

_PIPE = re.compile(r"(\\*)\|")


def claims_table(story: Story) -> TextTable:
    """All claims as a table like any other."""
    rows = [(c.number, c.says, c.where, c.measured, c.verdict, c.rule) for c in story.claims]
    return TextTable(
        "claims", "Every claim, measured.", ("number", "claim", "where", "measured", "verdict", "rule"), rows
    )


def to_csv(table: TextTable) -> str:
    """A header and the rows, without markup."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([plain(cell) for cell in row] for row in (table.head, *table.rows))
    return text.getvalue()


def to_markdown(table: TextTable) -> str:
    """The caption and a table of one line a row."""
    rule = "|" + "---|" * len(table.head)
    return "\n".join([table.caption, "", _line(table.head), rule, *map(_line, table.rows)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    """A pipe would end the cell, and so would one after a backslash that escapes only itself."""
    return _PIPE.sub(r"\1\1\|", text).replace("\n", "<br>")
