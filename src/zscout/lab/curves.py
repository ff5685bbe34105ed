"""Tables behind pictures of numbers: lines in panels in rows, and values with their intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Curve:
    """One line, perhaps in a band; lines of the same label share their colour."""

    label: str
    x: Sequence[float | int]
    y: Sequence[float | int]
    low: Sequence[float | int] = ()  # the band, as long as y or empty
    high: Sequence[float | int] = ()
    dashed: bool = False


@dataclass(frozen=True)
class CurvePanel:
    """Lines on the same axes."""

    label: str  # of the y axis
    curves: Sequence[Curve]
    logarithmic: bool = False
    x_label: str = "step"
    title: str = ""
    levels: Mapping[str, float] = field(default_factory=dict)  # horizontal lines, by what they are
    logarithmic_x: bool = False


@dataclass(frozen=True)
class CurveFigure:
    """Rows of panels, a caption that says what to see, and the same for those who cannot."""

    name: str
    caption: str
    rows: Mapping[str, Sequence[CurvePanel]]
    alt: str = ""

    def to_json(self) -> dict[str, Any]:
        """The figure as plain numbers."""
        return asdict(self)


@dataclass(frozen=True)
class Interval:
    """One value and how sure it is."""

    label: str
    value: float
    low: float
    high: float
    ours: bool = False
    hollow: bool = False  # shown, but not to be counted


@dataclass(frozen=True)
class IntervalFigure:
    """Values with intervals, one dot and whisker a line, in panels side by side."""

    name: str
    caption: str
    x_label: str
    panels: Mapping[str, Sequence[Interval]]
    alt: str = ""
    logarithmic: bool = False

    def to_json(self) -> dict[str, Any]:
        """The figure as plain numbers."""
        return asdict(self)
