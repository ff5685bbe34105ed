"""Rows as tables: all that was measured, a line each."""

from collections.abc import Sequence

from zscout.lab.bench.measurement import Growth, Line, Row
from zscout.lab.bench.words import (
    difference,
    faster,
    floor,
    memory,
    objective,
    power,
    seconds,
    sizes,
    slowest,
    speed,
    truly,
)
from zscout.lab.story import TextTable

CAPTION = (
    "Torch on one thread; every ratio is within this run, of medians of calls that took turns. naive: 10,000 fresh z, "
    "a forward pass for each, V inverted from scratch, one run at a time; naive opti: the same with 128 points of the "
    "ellipsoid. Objective: what the answers are worth by eq. 5 ÷ what naive's are, by the model's own ψ (and by the "
    "true ψ of the policies chosen). Below .999 of naive's a ratio is in brackets: it does not count. ÷ floor: how "
    "many times what its products or bytes alone would take."
)


def speed_table(lines: Sequence[Line]) -> TextTable:
    """One line a measurement."""
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
        "memory",
    ]
    rows = [
        [
            f"{row.group}: {row.what}",
            row.where,
            seconds(row.seconds),
            slowest(row).removeprefix("p99 "),
            speed(row),
            faster(row),
            row.reference,
            objective(row),
            truly(row),
            f"{difference(row)} in {row.difference}" if row.difference else "",
            floor(row),
            "" if row.peak_bytes is None else memory(row.peak_bytes),
        ]
        for row in lines
        if isinstance(row, Row)
    ]
    return TextTable("speed", CAPTION, head, rows, timed=True)


def growth_table(lines: Sequence[Line]) -> TextTable:
    """One line a piece of work that was done at several sizes."""
    head = ["what", "over", "time", "grows as", "memory", "grows as"]
    rows = [
        [
            row.what,
            sizes(row),
            f"{seconds(row.seconds[0])} … {seconds(row.seconds[-1])}",
            power(row.exponent),
            f"{memory(row.peak_bytes[0])} … {memory(row.peak_bytes[-1])}" if row.peak_bytes else "",
            power(row.memory_exponent),
        ]
        for row in lines
        if isinstance(row, Growth)
    ]
    return TextTable("growth", "Exponents are fitted to the upper half of the sizes.", head, rows, timed=True)
