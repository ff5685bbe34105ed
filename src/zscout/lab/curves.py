"""Tables behind pictures of curves: lines in panels in rows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Curve:
    """One line; lines of the same label share their colour."""

    label: str
    x: Sequence[float | int]
    y: Sequence[float | int]


@dataclass(frozen=True)
class CurvePanel:
    """Lines on the same axes."""

    label: str  # of the y axis
    curves: Sequence[Curve]
    logarithmic: bool = False


@dataclass(frozen=True)
class CurveFigure:
    """Rows of panels, and a caption that says what to see."""

    name: str
    caption: str
    rows: Mapping[str, Sequence[CurvePanel]]

    def to_json(self) -> dict[str, Any]:
        """The figure as plain numbers."""
        return asdict(self)
