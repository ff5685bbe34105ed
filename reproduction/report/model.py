"""The parts of a report: sections, claims, tables and the data of figures."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from zscout.lab.compare.tables import TextTable


@dataclass(frozen=True, eq=False)
class Panel:
    """One map: a value for each cell (NaN on walls) and the cells of a path, in order."""

    title: str
    background: np.ndarray  # [rows columns]
    path: np.ndarray  # [steps + 1, 2] rows and columns; [0, 2] for none


@dataclass(frozen=True, eq=False)
class Strip:
    """A row of panels with one label."""

    label: str
    kind: str  # of the background: "feature" or "reward"
    panels: Sequence[Panel]


@dataclass(frozen=True, eq=False)
class PanelFigure:
    """Strips in named sections, and a caption that says what to see."""

    name: str
    caption: str
    sections: Mapping[str, Sequence[Strip]]
    alt: str = ""


@dataclass(frozen=True)
class Curve:
    """One line, with or without a band; lines with the same label have the same colour."""

    label: str
    x: Sequence[float | int]
    y: Sequence[float | int]
    low: Sequence[float | int] = ()  # the band: as long as y, or empty
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
    levels: Mapping[str, float] = field(default_factory=dict)  # horizontal lines by label
    logarithmic_x: bool = False


@dataclass(frozen=True)
class CurveFigure:
    """Rows of panels, a caption that says what to see, and a text alternative."""

    name: str
    caption: str
    rows: Mapping[str, Sequence[CurvePanel]]
    alt: str = ""


@dataclass(frozen=True)
class Interval:
    """A value with its interval."""

    label: str
    value: float
    low: float
    high: float
    ours: bool = False
    hollow: bool = False  # shown, but not counted


@dataclass(frozen=True)
class IntervalFigure:
    """Values with intervals, one dot and whisker on each line, in panels side by side."""

    name: str
    caption: str
    x_label: str
    panels: Mapping[str, Sequence[Interval]]
    alt: str = ""
    logarithmic: bool = False


ClaimVerdict: TypeAlias = Literal["holds", "holds in part", "does not hold", "too few runs to tell"]
Kind: TypeAlias = Literal["claim", "check", "ours"]
FigureTable: TypeAlias = PanelFigure | CurveFigure | IntervalFigure


@dataclass(frozen=True)
class Claim:
    """One claim of the paper and its measurement."""

    number: str  # of its section, and a letter: "3a"
    says: str  # the claim in our words
    where: str  # in the paper
    measured: str  # with intervals
    verdict: ClaimVerdict
    rule: str  # what decides the verdict
    kind: Kind = "claim"  # of the paper; a check that must hold if the code is right; or our addition


@dataclass(frozen=True)
class Section:
    """One section of the report."""

    key: str  # for links: lower case, dashes
    title: str
    text: Sequence[str]  # paragraphs
    figures: Sequence[FigureTable] = ()
    tables: Sequence[TextTable] = ()
    claims: Sequence[Claim] = ()
    command: str = ""  # the command that runs this section, or that made its stored results


@dataclass(frozen=True)
class Story:
    """The whole report."""

    title: str
    summary: Sequence[str]  # paragraphs
    sections: Sequence[Section]
    deviations: Sequence[str]  # of ours from the paper, numbered in this order
    slips: Sequence[str]  # errors in the paper, as we read it
    about: Mapping[str, str]  # version, seed …
    opening: Sequence[str] = ()  # names of figures that are shown first

    @property
    def claims(self) -> list[Claim]:
        """All claims, in order."""
        return [claim for section in self.sections for claim in section.claims]

    def to_json(self) -> dict[str, Any]:
        """Everything that is printed or drawn, without tables of times."""
        content = to_json(self)
        del content["opening"]
        for section in content["sections"]:
            section["tables"] = [table for table in section["tables"] if not table["timed"]]
        return content | {"sections": {section.pop("key"): section for section in content["sections"]}}


def to_json(part: Story | FigureTable) -> dict[str, Any]:
    """A part of a report as plain lists and numbers; null on walls."""
    return asdict(part, dict_factory=lambda pairs: {name: _plain(value) for name, value in pairs})


def _plain(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return [[None if math.isnan(number) else round(number, 6) for number in row] for row in value.tolist()]
