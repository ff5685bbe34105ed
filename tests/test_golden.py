"""The golden record agrees: a part in every run, the whole in the long one; and the record is as it should be."""

from pathlib import Path

import numpy as np
import pytest

from golden import record
from golden.cases import ARENAS, CASES, EXTRAS, Case
from golden.play import close
from golden.record import FOLDER, compare, entries, known
from zscout import OnlineTransfer

STAY = ("usf-ucb", "usf-ucb-norm", "opti", "thompson", "lola")
QUICK = ("exact-laplacian", "point-mass", "behaviours-6", "behaviours-40")


def in_part(case: Case) -> bool:
    """Whether it is compared in every run: those that cost little and decide much."""
    return case.arena in QUICK and (case.method in STAY if not case.extra else case.method == "usf-ucb")


PART = [case for case in CASES if in_part(case)] + [Case("grid9-laplacian", "opti"), Case("pointmaze-fb", "usf-ucb")]


@pytest.mark.parametrize("case", PART, ids=str)
def test_a_part_is_as_recorded(case: Case) -> None:
    assert compare(case).differs == []


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in CASES if case not in PART], ids=str)
def test_the_rest_is_as_recorded(case: Case) -> None:
    assert compare(case).differs == []


def test_every_case_is_recorded_and_few_answers_are_open() -> None:
    for arena in ARENAS:
        recorded = {name: entry for name, entry in entries(arena).items() if not name.startswith("feed-")}
        assert recorded.keys() == {str(case) for case in CASES if case.arena == arena}
        assert all(("refused" in entry) != ("z_hat" in entry) for entry in recorded.values())
        assert max(map(record.opened, recorded.values())) <= record.MOST_OPEN


def test_the_record_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 3e6


def test_every_extra_is_recorded_of_the_default_and_of_opti() -> None:
    """None is refused: a refusal would hold nothing."""
    for extra, arenas in EXTRAS.items():
        for arena in arenas:
            for method in ("usf-ucb", "opti"):
                assert "z_hat" in (known(Case(arena, method, extra)) or {}), (arena, method, extra)


def test_numbers_are_close_by_the_largest() -> None:
    one = np.array([[1000.0, 1e-7], [3.0, np.nan]])
    for more, same in ((1e-7, True), (1e-5, False)):
        assert close(np.array([[1000 + more, 1e-7], [3.0, np.nan]]), one, 1e-9).tolist() == [same, True]
    assert not close(one, np.zeros((2, 2)), 1e-9).any()


@pytest.mark.parametrize("case", [Case("point-mass", "usf-ucb"), Case("point-mass", "opti")], ids=str)
def test_one_difference_does_not_change_the_steps_after_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = OnlineTransfer.ask
    monkeypatch.setattr(OnlineTransfer, "ask", lambda agent, obs: asked(agent, obs).roll(int(agent.t == 7), 0))
    assert compare(case).differs == [f"step 7, run {run}: another z" for run in range(4)]


def test_near_ties_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """With rewards changed by a tenth, some choices of a list change; they are open, the others not."""
    case = Case("point-mass", "usf-ucb", "bank")
    monkeypatch.setitem(record.NUDGE, "exact", 0.1)
    monkeypatch.setattr(record, "JUMP", 0.01)
    assert 0 < record._near_ties(case, record.feed_of(case, 0), known(case) or {})["psi"].mean() < 0.5


def test_what_the_core_renames_is_in_one_short_file() -> None:
    folder = Path(__file__).parent / "golden"
    assert len((folder / "names.py").read_text().splitlines()) <= 40
    for path in folder.glob("*.py"):
        text = path.read_text()
        assert "import zscout." not in text
        assert "from zscout." not in text
        assert path.name == "names.py" or ".follow(" not in text
