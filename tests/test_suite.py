"""The suite's score: what counts as a rival, ratios and ranks by hand, and the command."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import suite
from benchmarks.suite import ARENAS, MARGIN, Score, cells_of, main, standing
from zscout.base.files import parse_json
from zscout.lab.compare.comparison import Row
from zscout.lab.compare.statistics import Estimate
from zscout.lab.compare.stored_results import StoredCell
from zscout.transfer.methods import METHODS


def row(
    method: str, lost: float, settled: float, *, settings: dict[str, Any] | None = None, note: str = "settling"
) -> Row:
    """A row of a method, with tuned settings if not told otherwise."""
    zero = Estimate(0.0, 0.0, 0.0)
    return Row(
        method,
        {"ridge": 1.0} if settings is None else settings,
        (1, 1),
        Estimate(lost, 0.0, 0.0),
        zero,
        zero,
        Estimate(settled, 0.0, 1.0),
        zero,
        zero,
        100,
        note=note,
    )


def cell(*rows: Row, name: str = "here") -> StoredCell:
    return StoredCell(name, name, "", list(rows))


STORED = Path(__file__).parents[1] / "results" / "2026-11-suite.json"
OURS = row("usf-ucb", 20.0, 0.95, settings={}, note="default")


def test_the_best_rival_is_the_one_with_fewest_lost_steps_that_settles_as_often() -> None:
    where = standing(
        cell(
            OURS,
            row("usf-ucb", 1.0, 1.0),  # tuned: not the default, and no rival
            row("usf-ucb-norm", 1.0, 1.0),  # knows ‖z_r‖
            row("oracle", 0.0, 1.0),
            row("greedy", 5.0, 0.95 - MARGIN - 0.01),  # settles less often
            row("opti", 16.0, 0.95 - MARGIN),
            row("opti", 3.0, 0.99, note="fewest"),  # the other choice of settings
            row("thompson", 18.0, 1.0),
            row("log-det", 25.0, 1.0),
        )
    )
    assert where is not None
    assert where.best is not None
    assert (where.best.method, where.ratio, where.rank, where.rivals) == ("opti", 20 / 16, 3, 4)


def test_a_default_that_settles_most_often_has_ratio_and_rank_1() -> None:
    where = standing(cell(OURS, row("opti", 2.0, 0.5)))
    assert where is not None
    assert (where.best, where.ratio, where.rank) == (None, 1.0, 1)
    assert "none settles as often" in where.cells


def test_published_settings_count_only_without_tuned_ones_and_negative_steps_as_one() -> None:
    published = row("opti", 2.0, 1.0, settings={}, note="published, untuned")
    for rows in ((published, row("opti", 10.0, 1.0)), (row("opti", 10.0, 1.0), published)):
        where = standing(cell(OURS, *rows))
        assert where is not None
        assert (where.ratio, where.tuned) == (2.0, True)
    alone = standing(cell(replace(OURS, lost=Estimate(-3, 0, 0)), published))
    assert alone is not None
    assert (alone.ratio, alone.rank, alone.tuned) == (0.5, 1, False)
    assert "opti (untuned)" in alone.cells


def test_the_score_is_the_mean_and_the_worst() -> None:
    cells = [cell(OURS, row("opti", lost, 1.0), name=name) for name, lost in (("a", 10.0), ("b", 40.0), ("c", 16.0))]
    score = Score.of([*cells, cell(OURS), cell(row("opti", 1.0, 1.0))])  # without rivals, without the default
    assert (score.rank, score.worst.name) == (5 / 3, "a")
    assert score.ratio == pytest.approx((2 + 0.5 + 1.25) / 3)
    assert str(score) == "3 arenas: mean rank 1.67, mean ratio 1.25; worst arena a, 2.00"
    with pytest.raises(ValueError, match="no comparison has the default and a rival"):
        Score.of([])


def test_the_stored_rows_have_a_score(capsys: pytest.CaptureFixture[str]) -> None:
    cells = cells_of(STORED)
    assert [found.name for found in cells] == [place.name for place in ARENAS]
    main(score=STORED)
    assert str(Score.of(cells)) in " ".join(capsys.readouterr().out.split())
    assert parse_json(STORED.read_bytes())["score"] == Score.of(cells).to_json()


def test_every_arena_has_entrants_that_differ_in_their_method_only() -> None:
    assert len({place.name for place in ARENAS}) == len(ARENAS) == 13
    for place in ARENAS:
        entrants = place.entrants(quick=True)
        assert entrants[0].method == "usf-ucb"
        assert entrants[0].settings == "{}"
        assert {one.method for one in entrants} <= set(METHODS)
        assert len({(one.tasks, one.steps, one.noise) for one in entrants}) == 1
    tuned = {one.method: one.settings for one in ARENAS[0].entrants()}
    assert tuned["opti"] != "{}"


def test_the_command_runs_resumes_and_writes_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two small arenas in place of the thirteen; the same command again runs nothing."""
    small = [replace(place, quick_steps=30) for place in ARENAS if place.name in ("open-grid-clusters-exact", "decoy")]
    monkeypatch.setattr(suite, "ARENAS", small)
    out, found = tmp_path / "runs", tmp_path / "suite.json"
    main(out, quick=True, json=found)
    assert "8 of 64" in capsys.readouterr().out  # progress: 2 arenas, 4 methods, 8 tasks
    main(out, quick=True, json=found)
    assert "of 64" not in capsys.readouterr().out  # everything is stored
    score = Score.of(cells_of(found))
    assert parse_json(found.read_bytes())["score"] == score.to_json()
    assert [where.name for where in score.standings] == ["open-grid-clusters-exact", "decoy"]
