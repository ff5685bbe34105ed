"""The tables behind the figures: how many times faster, and what grows how."""

from collections.abc import Sequence

from zscout.lab.bench.measurement import Growth, Line, Row
from zscout.lab.bench.words import power
from zscout.lab.curves import Curve, CurveFigure, CurvePanel, Interval, IntervalFigure


def speed_figure(lines: Sequence[Line]) -> IntervalFigure | None:
    """How many times faster than naive, one dot a way; hollow where the answers are worth less."""
    panels: dict[str, list[Interval]] = {}
    for row in lines:
        if isinstance(row, Row) and row.reference.startswith("naive") and row.where and row.what != row.reference:
            assert row.speedup is not None
            assert row.speedup_range is not None
            low, high = row.speedup_range
            name = f"end to end, {row.what.split(',')[0]}" if row.group == "end-to-end" else row.what
            interval = Interval(name, row.speedup, low, high, ours="default" in name, hollow=not row.counts)
            panels.setdefault(row.where, []).append(interval)
    if not panels:
        return None
    caption = (
        "How many times faster than the plain reference: 10,000 fresh z, a forward pass for each, V inverted (for "
        "opti 128 points of its ellipsoid, end to end 1,000 fresh z). "
        "Whiskers: nine of ten calls. Hollow: by the model's own ψ its answers are worth less than naive's, so that it "
        "is not counted."
    )
    alt = "; ".join(f"{name}: {len(panel)} ways" for name, panel in panels.items())
    return IntervalFigure(
        "speed", caption, "times faster than naive", panels, f"Dots and whiskers. {alt}.", logarithmic=True, timed=True
    )


def growth_figure(lines: Sequence[Line]) -> CurveFigure | None:
    """Time over each size, on logarithmic axes."""
    rows = [row for row in lines if isinstance(row, Growth)]
    if not rows:
        return None
    panels = [
        CurvePanel(
            "seconds",
            [Curve(f"{row.what}: {power(row.exponent)}", row.sizes, row.seconds) for row in rows if row.axis == axis],
            logarithmic=True,
            x_label=axis,
            logarithmic_x=True,
        )
        for axis in dict.fromkeys(row.axis for row in rows)
    ]
    caption = "What the same work costs as one size grows; the exponents are fitted to the upper half of the sizes."
    shown = {" " * number: panels[first : first + 3] for number, first in enumerate(range(0, len(panels), 3))}
    return CurveFigure("growth", caption, shown, "Lines on logarithmic axes.", timed=True)
