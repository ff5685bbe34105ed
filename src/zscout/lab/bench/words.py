"""Numbers of a row as they are read."""

from zscout.lab.bench.measurement import Growth, Row

ENOUGH = 40  # calls for a 99th percentile to mean something


def slowest(row: Row) -> str:
    """What one call in a hundred takes, where there were enough of them."""
    return f"p99 {seconds(row.p99)}" if row.calls >= ENOUGH else ""


def speed(row: Row) -> str:
    """Units a second, where there is more than one."""
    return "" if row.amount == 1 else f"{amount(row.rate)} {row.unit}/s"


def sizes(row: Growth) -> str:
    """From the smallest to the largest."""
    return f"{row.axis.split(',')[0]} = {row.sizes[0]:,} … {row.sizes[-1]:,}"


def faster(row: Row) -> str:
    """How many times, in brackets if it does not count."""
    if row.speedup is None:
        return ""
    return times(row.speedup) if row.counts else f"({times(row.speedup)})"


def objective(row: Row) -> str:
    """Share of the reference's."""
    return "" if row.share is None else f"{row.share:.4f}"


def truly(row: Row) -> str:
    """The same by the true ψ."""
    return "" if row.true_share is None else f"{row.true_share:.3f}"


def difference(row: Row) -> str:
    """How far apart the answers are."""
    return "" if row.largest is None else f"{row.largest:.2g}"


def floor(row: Row) -> str:
    """How many times what."""
    return "" if row.over_floor is None else f"{times(row.over_floor)} {row.floor}"


def times(number: float) -> str:
    """So many times."""
    return f"{number:,.0f} ×" if number >= 10 else f"{number:.2g} ×"


def power(exponent: float | None) -> str:
    """Size to the power."""
    return "" if exponent is None else f"size^{exponent:.2g}"


def seconds(number: float) -> str:
    """In a unit that suits."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if number * factor >= 1:
            return f"{number * factor:.3g} {unit}"
    return f"{number * 1e9:.3g} ns"


def amount(number: float) -> str:
    """Large numbers by thousands of thousands."""
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def memory(number: int) -> str:
    """In MB."""
    return f"{number / 1e6:,.3g} MB" if number < 1e9 else f"{number / 1e9:.3g} GB"
