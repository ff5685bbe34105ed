"""The suite: the default against the best rival in every arena of the league, and one score.

    python -m benchmarks.suite [results/league.json]

A rival is any row of the league that is neither ours nor a reference: as published, tuned for fewest lost steps, tuned
to settle, and with our regression. There are two rules. *Settling*: of the rows whose share of settled runs is at most
``MARGIN`` below the default's, the one with the fewest lost steps; if there is none, the ratio is 1. *Fewest*: of all
rows, the one with the fewest lost steps. The ratio is the default's lost steps ÷ the rival's; lost steps below 1 count
as 1. The score is the mean ratio by each rule, and the arena with the largest ratio.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from benchmarks.league_table import RECORD, League, Result, best
from zscout.lab.compare.tables import TextTable, terminal_table

MARGIN = 0.02  # of the share of settled runs
HEAD = ("arena", "default", "settled", "fewest lost steps", "", "settled", "ratio", "settles as often", "", "ratio")


@dataclass(frozen=True)
class Standing:
    """The default in one arena."""

    name: str
    ours: Result
    rivals: Sequence[Result]

    @property
    def fewest(self) -> Result:
        """The rival with the fewest lost steps."""
        return best(self.rivals)

    @property
    def settling(self) -> Result | None:
        """The one with the fewest lost steps of those that settle as often."""
        level = [row for row in self.rivals if row.share >= self.ours.share - MARGIN - 1e-9]
        return best(level) if level else None

    def ratio(self, rival: Result | None) -> float:
        """The default's lost steps ÷ the rival's."""
        return 1.0 if rival is None else max(1.0, self.ours.mean) / max(1.0, rival.mean)

    @property
    def cells(self) -> list[str]:
        """A row of the table."""
        few, often = self.fewest, self.settling
        words = ["none", ""] if often is None else [often.title, f"{often.mean:.1f}"]
        first = [self.name, f"{self.ours.mean:.1f}", f"{self.ours.share:.0%}"]
        first += [few.title, f"{few.mean:.1f}", f"{few.share:.0%}", f"{self.ratio(few):.2f}"]
        return [*first, *words, f"{self.ratio(often):.2f}"]


@dataclass(frozen=True)
class Score:
    """The default in all arenas."""

    standings: Sequence[Standing]

    @classmethod
    def of(cls, league: League) -> "Score":
        """Of a league; raises if it is empty."""
        cells = league.record["cells"]
        found = [Standing(name, league.default(name), league.rivals(name)) for name in cells]
        if not found:
            raise ValueError("the record holds no arena")
        return cls(found)

    @property
    def fewest(self) -> float:
        """Mean ratio to the rival with the fewest lost steps."""
        return sum(where.ratio(where.fewest) for where in self.standings) / len(self.standings)

    @property
    def settling(self) -> float:
        """Mean ratio to the best rival that settles as often."""
        return sum(where.ratio(where.settling) for where in self.standings) / len(self.standings)

    @property
    def worst(self) -> Standing:
        """The arena with the largest ratio to the rival with the fewest lost steps."""
        return max(self.standings, key=lambda where: where.ratio(where.fewest))

    @property
    def table(self) -> TextTable:
        """One row for each arena."""
        return TextTable("suite", str(self), HEAD, [where.cells for where in self.standings])

    def __str__(self) -> str:
        """One line."""
        ratios = f"{self.settling:.2f} of the best rival that settles as often, {self.fewest:.2f} of the one that loses"
        worst = f"worst arena {self.worst.name}, {self.worst.ratio(self.worst.fewest):.2f}"
        return f"{len(self.standings)} arenas: lost steps {ratios} fewest (mean ratios); {worst}"


def main(record: tyro.conf.Positional[Path] = RECORD) -> None:
    """Print one row for each arena, and the score.

    Args:
        record: A file that benchmarks.league_table keeps.
    """
    Console(width=200).print(terminal_table(Score.of(League(record)).table))


if __name__ == "__main__":
    tyro.cli(main)
