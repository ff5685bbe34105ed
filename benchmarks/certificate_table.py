"""A file of ``benchmarks.certificates`` in tables and words: python -m benchmarks.certificate_table FILE."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zscout.lab.compare.report_model import TextTable
from zscout.report.tables import to_markdown

SHARE = 0.05  # at which runs stop
GOOD = 0.9  # of the oracle's return: nearly everything
HEAD = [
    *("reward", "features", "model", "κ", "runs", "certified", "rewards: median", "9 of 10"),
    *("broken", "missing more than half", "`gain` broken at t = 10"),
]
BODY_HEAD = ["task", "return ÷ the oracle's, episode 3", "`share` after it"]
DENSE, REGION, DECOY = "dense", "one region", "a decoy"


@dataclass(frozen=True)
class Cell:
    """What is run: a kind of reward, features, a model and κ."""

    reward: str = DENSE
    features: str = "clusters"
    model: str = "exact"
    kappa: float = 1.6  # the default's


@dataclass(frozen=True)
class Certificates:
    """Where runs stopped, and what was true there."""

    cell: Cell
    rewards: Sequence[float | None]  # until certified; None: not within the run
    share: Sequence[float | None]  # the true share there: (best − kept) ÷ (best − average)
    promised: Sequence[float]  # ``gain`` after ten rewards
    gain: Sequence[float]  # the true gain there: best − kept

    def row(self) -> list[str]:
        """For the table."""
        counts = np.sort([np.inf if count is None else count for count in self.rewards])
        middle, most = (f"{counts[int(q * (len(counts) - 1))]:.0f}".replace("inf", "–") for q in (0.5, 0.9))
        cell = [self.cell.reward, self.cell.features, self.cell.model, f"{self.cell.kappa:g}"]
        return [*cell, str(len(counts)), self.certified, middle, most, self.broken, str(self.far), self.early]

    @property
    def certified(self) -> str:
        """The share of runs that are."""
        return f"{len(self._missing) / len(self.share):.0%}"

    @property
    def broken(self) -> str:
        """Promises with a larger true share."""
        return f"{(self._missing > SHARE).sum()} of {len(self._missing)}"

    @property
    def far(self) -> int:
        """Promises where more than half is missing."""
        return int((self._missing > 0.5).sum())

    @property
    def early(self) -> str:
        """The share of runs with a larger gain after ten rewards than promised."""
        return f"{(np.array(self.gain) > np.array(self.promised) + 1e-9).mean():.0%}"

    @property
    def _missing(self) -> np.ndarray:
        return np.array([share for share in self.share if share is not None])


def cells(content: dict[str, Any]) -> dict[Cell, Certificates]:
    """The stored runs of each cell."""
    found = [
        Certificates(Cell(**one["cell"]), **{key: one[key] for key in one if key != "cell"}) for one in content["cells"]
    ]
    return {one.cell: one for one in found}


def shown(content: dict[str, Any]) -> str:
    """The tables of a stored result."""
    body = content["body"]
    rows = zip(body["tasks"], body["reached"], body["share"], strict=True)
    lines = [[f"{body['body']}, {task}", f"{reached:.2f}", f"{share:.2f}"] for task, reached, share in rows]
    grid = TextTable("grid", "", HEAD, [one.row() for one in cells(content).values()])
    return "\n".join(to_markdown(table) for table in (grid, TextTable("body", "", BODY_HEAD, lines)))


def in_words(content: dict[str, Any]) -> str:
    """What the page about certificates says."""
    found, body = cells(content), content["body"]
    clusters, laplacian = (found[Cell(features=name)] for name in ("clusters", "laplacian"))
    networks = [found[Cell(features=name, model="network")].broken for name in ("clusters", "laplacian")]
    wide = [found[Cell(features=name, kappa=3.0)].certified for name in ("clusters", "laplacian")]
    region, decoy = (found[Cell(reward)] for reward in (REGION, DECOY))
    pairs = list(zip(body["reached"], body["share"], strict=True))
    good, poor = ([share for reached, share in pairs if (reached >= GOOD) == kind] for kind in (True, False))
    lines = [
        f"- *Random z_r, 9×9 grid, clusters / Laplacian*: {clusters.broken} / {laplacian.broken} broken where 5 % are",
        f"  allowed, with networks {' / '.join(networks)}. Certified within 400 steps: {clusters.certified} /",
        f"  {laplacian.certified}; {' / '.join(wide)} with `kappa=3`.",
        f"- *Reward in one region / half of it in another, too*: {region.broken} / {decoy.broken} broken,",
        f"  {region.far} / {decoy.far} by more than half; `gain` after ten rewards in {region.early} / {decoy.early}",
        "  of the runs.",
        f"- *An earlier {body['body']}, episode 3*: `share` is {_span(good)} on {len(good)} tasks with",
        f"  {_short(GOOD)} of the oracle's return, {_span(poor)} on {len(poor)} others.",
    ]
    return "\n".join(lines)


def _span(shares: Sequence[float]) -> str:
    return f"{_short(min(shares))} to {_short(max(shares))}"


def _short(number: float) -> str:
    return f"{number:.2g}".replace("0.", ".", 1)


if __name__ == "__main__":
    stored = json.loads(Path(sys.argv[1]).read_text())
    print(shown(stored), in_words(stored), sep="\n")
