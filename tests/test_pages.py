"""Tables of README and docs are of the code and the stored results; ``python -m benchmarks.pages`` writes them."""

from benchmarks.pages import (
    BEGIN,
    END,
    MARKED,
    METHOD_PAGE,
    METHOD_WORDS,
    README,
    SETTINGS,
    SLOW,
    league_table,
    marked_tables,
    tuned_opti,
)
from benchmarks.pages import method_page as written
from zscout.lab.compare.stored_results import stored_league
from zscout.transfer.methods import METHODS


def test_the_page_of_methods_is_of_the_code_and_the_stored_comparisons() -> None:
    assert list(METHOD_WORDS) == list(METHODS)
    assert METHOD_PAGE.read_text() == written(), "run python -m benchmarks.pages"


def test_every_word_about_a_setting_is_used() -> None:
    named = {setting for factory in METHODS.values() for setting in factory.settings}
    assert {words.split()[-1] for words in SETTINGS} == named


def test_tables_between_marks_are_of_the_stored_results() -> None:
    for page, found in marked_tables().items():
        assert MARKED.findall(page.read_text()) == [f"{BEGIN}\n{found}\n{END}"], f"{page.name}: run benchmarks.pages"


def test_every_other_method_loses_71_steps_or_more() -> None:
    league = stored_league()
    table = league_table(league)
    assert [name for name in METHODS if f"| `{name}`," not in table] == list(SLOW)
    exact = [cell for cell in league if cell.title.startswith("open-grid") and "exact" in cell.title]
    rows = [row for cell in exact for row in cell.rows if row.method in SLOW and row.method != "oracle"]
    assert min(row.lost.value for row in rows if "fewest" not in row.note or "settling" in row.note) >= 70.95


def test_the_page_of_the_point_maze_has_the_stored_number_of_tuned_opti() -> None:
    assert f"loses {tuned_opti()}" in (README.parent / "docs" / "point-maze.md").read_text()
