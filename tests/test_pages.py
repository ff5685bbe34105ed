"""Tables of README and docs are of the code and the stored results; ``python -m benchmarks.pages`` writes them."""

from benchmarks.pages import (
    BEGIN,
    END,
    MARKED,
    METHOD_PAGE,
    METHOD_WORDS,
    SETTINGS,
    marked_tables,
)
from benchmarks.pages import method_page as written
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
