"""Tables for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

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


def compare_table(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    """One line a method: mean ± standard error over tasks; against its own π(·,z_r) where that is not the best."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", padding=(0, 1, 0, 0))
    own = any(abs(row["lost"] - row["lost_own"]) > 1e-6 for row in rows)
    paired = any("ratio" in row for row in rows)
    table.add_column("method", overflow="fold", min_width=20)
    headings = [
        "lost steps",
        *(["own π"] if own else []),
        "settled",
        "final",
        "‖ẑ−z_r‖",
        *(["ratio"] if paired else []),
    ]
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for row in rows:
        settings = " ".join(f"{name}={value}" for name, value in row["settings"].items())
        ratio = f"{row['ratio']:.2f} ({row['ratio_low']:.2f}…{row['ratio_high']:.2f})" if "ratio" in row else ""
        table.add_row(
            f"{row['method']}\n[dim]{settings}[/dim]" if settings else row["method"],
            f"{round(row['lost'], 1) + 0:.1f} {_plus_minus(row['lost_se'])}",  # + 0: no minus sign on a zero
            *([f"{round(row['lost_own'], 1) + 0:.1f}"] if own else []),
            f"{row['settled']:.0%}",
            f"{row['final']:.3f}",
            f"{row['error']:.2f}",
            *([ratio] if paired else []),
        )
    return table


def _plus_minus(error: float | None) -> str:
    return "" if error is None else f"± {error:.1f}"


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
