"""What a report consists of: sections, claims, tables and the data of figures, all of it writable as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np


@dataclass(frozen=True, eq=False)
class Panel:
    """One map: a value for each cell (NaN on walls) and the cells walked through, in order."""

    title: str
    background: np.ndarray  # [rows columns]
    path: np.ndarray  # [steps + 1, 2] rows and columns; [0, 2] for none

    def to_json(self) -> dict[str, Any]:
        """The same as plain numbers, null on walls."""
        cells = [[None if np.isnan(v) else round(float(v), 6) for v in row] for row in self.background]
        return {"title": self.title, "background": cells, "path": self.path.tolist()}


@dataclass(frozen=True, eq=False)
class Strip:
    """A row of panels under one label; ``kind`` says what the background is."""

    label: str
    kind: str  # "feature" or "reward"
    panels: Sequence[Panel]


@dataclass(frozen=True, eq=False)
class PanelFigure:
    """Strips in named sections, and a caption that says what to see."""

    name: str
    caption: str
    sections: Mapping[str, Sequence[Strip]]
    alt: str = ""

    def to_json(self) -> dict[str, Any]:
        """The figure as plain numbers."""
        sections = {
            title: [
                {"label": strip.label, "kind": strip.kind, "panels": [p.to_json() for p in strip.panels]}
                for strip in strips
            ]
            for title, strips in self.sections.items()
        }
        return {"name": self.name, "caption": self.caption, "alt": self.alt, "sections": sections}


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


ClaimVerdict: TypeAlias = Literal["holds", "holds in part", "does not hold", "too few runs to tell"]
Kind: TypeAlias = Literal["claim", "check", "ours"]
FigureTable: TypeAlias = PanelFigure | CurveFigure | IntervalFigure


@dataclass(frozen=True)
class Claim:
    """One claim of the paper beside what was measured."""

    number: str  # of the section that it belongs to, and its place there: "3a"
    says: str  # the claim in our words
    where: str  # in the paper
    measured: str  # with intervals
    verdict: ClaimVerdict
    rule: str  # what decides the verdict
    kind: Kind = "claim"  # of the paper; a check that must hold if the code is right; or an addition of ours
    stored: bool = False  # decided by stored results: as sure with --quick as without


@dataclass(frozen=True)
class TextTable:
    """A table as it is printed."""

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    timed: bool = False  # it holds times, which no two runs have alike


@dataclass(frozen=True)
class Section:
    """One part of the story."""

    key: str  # for links: lower case, dashes
    title: str
    text: Sequence[str]  # paragraphs
    figures: Sequence[FigureTable] = ()
    tables: Sequence[TextTable] = ()
    claims: Sequence[Claim] = ()
    command: str = ""  # how to run this part again, or how what is stored was made

    def to_json(self) -> dict[str, Any]:
        """Everything that is printed or drawn, but times."""
        return {
            "title": self.title,
            "text": list(self.text),
            "figures": [figure.to_json() for figure in self.figures],
            "tables": [asdict(table) for table in self.tables if not table.timed],
            "claims": [asdict(claim) for claim in self.claims],
            "command": self.command,
        }


@dataclass(frozen=True)
class Story:
    """The whole report."""

    title: str
    summary: Sequence[str]  # paragraphs
    sections: Sequence[Section]
    deviations: Sequence[str]  # ours from the paper, numbered in this order
    slips: Sequence[str]  # the paper's own, as we read them
    about: Mapping[str, str]  # version, seed and the like
    opening: Sequence[str] = ()  # figures that are shown before everything else, by name

    @property
    def claims(self) -> list[Claim]:
        """All of them, in order."""
        return [claim for section in self.sections for claim in section.claims]

    def to_json(self) -> dict[str, Any]:
        """Every number on the page but timings."""
        return {
            "title": self.title,
            "summary": list(self.summary),
            "about": dict(self.about),
            "sections": {section.key: section.to_json() for section in self.sections},
            "deviations": list(self.deviations),
            "slips": list(self.slips),
        }
