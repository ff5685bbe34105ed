"""Tables for the terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from zscout.lab.measurement import Measurement


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
