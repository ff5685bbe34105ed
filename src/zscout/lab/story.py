"""What the report tells, as words and plain numbers: sections in the paper's order, claims with their verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from zscout.lab.curves import CurveFigure, IntervalFigure
from zscout.lab.panels import PanelFigure

Verdict: TypeAlias = Literal["holds", "holds in part", "does not hold", "too few runs to tell"]
Kind: TypeAlias = Literal["claim", "check", "ours"]
FigureTable: TypeAlias = PanelFigure | CurveFigure | IntervalFigure


@dataclass(frozen=True)
class Claim:
    """One claim of the paper beside what was measured."""

    number: str  # of the section that it belongs to, and its place there: "3a"
    says: str  # the claim in our words
    where: str  # in the paper
    measured: str  # with intervals
    verdict: Verdict
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
