"""Every method has a page, and what a page says in numbers is what the code and the stored comparisons say.

    python tests/test_method_pages.py --write

writes the stored results into the pages anew; what stands outside their marks stays.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from zscout.lab.compare.comparison import Row
from zscout.lab.compare.statistics import Estimate
from zscout.lab.compare.stored_results import StoredCell, stored_league
from zscout.lab.compare.tuning import GRIDS
from zscout.transfer.methods import METHODS

FOLDER = Path(__file__).parents[1] / "docs" / "methods"
INDEX = FOLDER / "README.md"
BEGIN = "<!-- results: python tests/test_method_pages.py --write -->"
END = "<!-- end of results -->"
MARKED = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
NOT_YET = "No comparison is stored."
SETTING = re.compile(r"^\| `(\w+)` \| (.+?) \| .+? \| (.+?) \|$", re.MULTILINE)


def page_of(name: str) -> Path:
    return FOLDER / f"{name}.md"


# What stands between the marks


def results_of(name: str, league: Sequence[StoredCell]) -> str:
    """All stored rows of a method, and the commands that made them."""
    found = [(cell, row) for cell in league for row in cell.rows if row.method == name]
    if not found:
        return NOT_YET
    head = ["arena", "settings", "rank", "lost steps (95 %)", "IQM (95 %)", "settled", "final"]
    lines = [[cell.title, told(row), ranked(row, cell), *numbers(row)] for cell, row in found]
    commands = dict.fromkeys(f"- {cell.title}: `{command_of(cell, name)}`" for cell, _ in found)
    return "\n".join([table(head, lines), "", MADE_BY, "", *commands])


MADE_BY = "Commands (rows *fewest*: `--settings fewest`; rows *default* and *published*: `--settings default`):"
CHOICES = {"default": "default", "published, untuned": "published", "settling": "settling", "fewest": "fewest", "": ""}


def overview(league: Sequence[StoredCell]) -> str:
    """Lost steps and the share of runs that settle, of every method and choice of settings in every arena."""
    if not league:
        return NOT_YET
    there = {(row.method, choice) for cell in league for row in cell.rows for choice in choices_of(row)}
    order = sorted(there, key=lambda key: (list(METHODS).index(key[0]), list(CHOICES).index(key[1])))
    lines = [
        [
            f"[`{name}`]({name}.md)" + (f", {CHOICES[choice]}" if choice else ""),
            *(cell_of(cell, name, choice) for cell in league),
        ]
        for name, choice in order
    ]
    commands = [f"- {cell.title}: `{cell.command}`" for cell in league]
    return "\n".join(
        [table(["lost steps, settled", *(short(cell) for cell in league)], lines), "", MADE_BY, "", *commands]
    )


def choices_of(row: Row) -> list[str]:
    return row.note.split(" and ")


def cell_of(cell: StoredCell, name: str, choice: str) -> str:
    found = [row for row in cell.rows if row.method == name and choice in choices_of(row)]
    return "; ".join(f"{rounded(row.lost.value):.1f}, {row.settled.value:.0%}" for row in found) or "–"


def short(cell: StoredCell) -> str:
    """The title without the number of runs."""
    return cell.title.rpartition(", ")[0] or cell.title


def told(row: Row) -> str:
    settings = ", ".join(f"`{name}={value}`" for name, value in row.settings.items())
    return f"{settings} ({row.note})" if settings else row.note or "no settings"


def ranked(row: Row, cell: StoredCell) -> str:
    first, last = row.rank
    return f"{first if first == last else f'{first}–{last}'} of {len(cell.rows)}"


def numbers(row: Row) -> list[str]:
    lost, iqm = (Estimate(*map(rounded, (e.value, e.low, e.high))) for e in (row.lost, row.lost_iqm))
    return [f"{lost:.1f}", f"{iqm:.1f}", f"{row.settled.value:.0%}", f"{row.final.value:.3f}"]


def rounded(number: float) -> float:
    """To one digit, and no minus sign on a zero."""
    return round(number, 1) + 0.0


def command_of(cell: StoredCell, name: str) -> str:
    """The cell's command for this method alone: the same tasks, seeds and numbers; a rank needs the others."""
    return re.sub(r"--methods \S+", f"--methods {name}", cell.command)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def with_results(text: str, results: str) -> str:
    return MARKED.sub(lambda _: f"{BEGIN}\n{results}\n{END}", text)


README = Path(__file__).parents[1] / "README.md"
IN_README = {
    "`usf-ucb`, default": ("usf-ucb", "default"),
    "`usf-ucb-norm`, default (knows ‖z_r‖)": ("usf-ucb-norm", "default"),
    "paper's schedule, tuned": ("usf-ucb-paper", "settling"),
    "paper's schedule, as published": ("usf-ucb-paper", "published, untuned"),
    "OpTI-BFM, tuned": ("opti", "settling"),
    "OpTI-BFM, as published": ("opti", "published, untuned"),
    "Thompson sampling, tuned": ("thompson", "settling"),
    "`greedy` (no exploration), tuned": ("greedy", "settling"),
}


def in_short(league: Sequence[StoredCell]) -> str:
    """The README's table: lost steps with their interval and the settled share, of the columns that it has."""
    (marked,) = MARKED.findall(README.read_text())
    columns = [cell.strip() for cell in marked.splitlines()[1].split("|")]
    cells = [cell for cell in league if short(cell).removeprefix("open-grid, ") in columns]
    lines = [
        [
            label,
            *(
                next((_in_short(row) for row in cell.rows if row.method == m and c in choices_of(row)), "not run")
                for cell in cells
            ),
        ]
        for label, (m, c) in IN_README.items()
    ]
    return table(["lost steps, settled", *(short(cell).removeprefix("open-grid, ") for cell in cells)], lines)


def _in_short(row: Row) -> str:
    return f"{Estimate(*map(rounded, (row.lost.value, row.lost.low, row.lost.high))):.1f}, {row.settled.value:.0%}"


def pages(league: Sequence[StoredCell]) -> Iterator[tuple[Path, str]]:
    """Each page, and what must stand between its marks."""
    yield README, in_short(league)
    yield INDEX, overview(league)
    for name in METHODS:
        yield page_of(name), results_of(name, league)


# What a page says of a method's settings


def settings_of(name: str) -> dict[str, tuple[str, str]]:
    """By name the default and what was tried, as pages write them."""
    tried: dict[str, list[Any]] = {}
    for choice in GRIDS.get(name, []):
        for setting, value in choice.items():
            tried.setdefault(setting, []).append(value)
    if "exhaustive" in tried:  # stands for the world's own look-ahead
        tried["look_ahead"] = ["the world's own"]
    return {
        setting: (f"{default}", ", ".join(dict.fromkeys(map(str, tried.get(setting, ["–"])))))
        for setting, default in METHODS[name].settings.items()
    }


# The tests


def test_every_method_has_a_page_and_every_page_a_method() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} == {*METHODS, "README"}
    links = re.findall(r"^\| \[`([\w-]+)`\]\(([\w-]+)\.md\) \| (.+?) \|", INDEX.read_text(), re.MULTILINE)
    assert [name for name, target, _ in links if name == target][: len(METHODS)] == list(METHODS)
    sentences = {name: sentence for name, _, sentence in reversed(links)}
    assert {name: METHODS[name].about.splitlines()[0] for name in METHODS} == sentences


def test_results_are_the_stored_ones() -> None:
    for page, results in pages(stored_league()):
        assert MARKED.findall(page.read_text()) == [f"{BEGIN}\n{results}\n{END}"], f"{page.name}: run with --write"


def test_settings_and_defaults_are_the_methods_own() -> None:
    for name in METHODS:
        text = page_of(name).read_text()
        assert text.startswith(f"# `{name}`\n")
        section = text.partition("\n## Settings\n")[2].partition("\n## ")[0]
        assert section, name
        found = {setting: (default, tried) for setting, default, tried in SETTING.findall(section)}
        assert found == settings_of(name), name


def test_a_row_is_written_with_its_settings_rank_and_command() -> None:
    estimate = {"value": 15.62, "low": 14.9, "high": 16.31}
    names = ("lost", "lost_iqm", "lost_own", "settled", "final", "error")
    shared: dict[str, Any] = {"runs": 300, **dict.fromkeys(names, estimate)}
    both = "fewest and settling"
    rows = [
        Row.from_json({"method": "opti", "settings": {"radius": 0.3}, "rank": [1, 2], "note": both, **shared}),
        Row.from_json({"method": "opti", "settings": {}, "rank": [2, 2], "note": "published, untuned", **shared}),
    ]
    cell = StoredCell("here", "here, exact model, 300 runs", "zscout compare --methods opti,greedy --tasks 9", rows)
    written = results_of("opti", [cell]).splitlines()
    numbers = "15.6 (14.9–16.3) | 15.6 (14.9–16.3) | 1562% | 15.620 |"
    assert written[2] == f"| here, exact model, 300 runs | `radius=0.3` (fewest and settling) | 1–2 of 2 | {numbers}"
    assert written[3] == f"| here, exact model, 300 runs | published, untuned | 2 of 2 | {numbers}"
    assert written[-1] == "- here, exact model, 300 runs: `zscout compare --methods opti --tasks 9`"
    assert results_of("greedy", [cell]) == NOT_YET
    table = overview([cell])
    for choice in ("published", "settling", "fewest"):
        assert f"| [`opti`](opti.md), {choice} | 15.6, 1562% |" in table


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("python tests/test_method_pages.py --write")
    for path, found in pages(stored_league()):
        path.write_text(with_results(path.read_text(), found))
