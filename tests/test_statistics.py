"""Intervals that cover, and comparisons that say when they cannot tell."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reproduction.variants import ALTERNATIVES
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.point import PointArena
from zscout.lab.compare.comparison import Entrant, Outcome, Row, compare_csv, comparison, paired_cells, ranking_table
from zscout.lab.compare.statistics import Bootstrap, Estimate, interquartile_mean, ranks
from zscout.lab.compare.tuning import (
    BUDGET,
    GRIDS,
    VECTOR_GRIDS,
    about_settings,
    beyond,
    candidates,
    choose,
    settings_named,
    settings_of_file,
    settles,
    stored_records,
    stored_settings,
)
from zscout.transfer.methods import METHODS


def test_interquartile_means_by_hand() -> None:
    rows = np.array([[100.0, 1, 2, 3, 4, 5, 6, -90]])
    assert interquartile_mean(rows) == pytest.approx([(2 + 3 + 4 + 5) / 4])
    assert interquartile_mean(np.array([[0.0, 1, 5]])) == pytest.approx([(0.25 * 0 + 1 + 0.25 * 5) / 1.5])
    assert interquartile_mean(np.full((2, 7), 3.0)) == pytest.approx([3, 3])


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """Tasks differ, and seeds within them: 95 % intervals hold the mean of all tasks about 95 % of the time."""
    rng, held = np.random.default_rng(0), []
    bootstrap = Bootstrap(30, 3, draws=400)
    for _ in range(300):
        table = rng.normal(size=(30, 1)) + 0.5 * rng.normal(size=(30, 3))
        found = bootstrap.mean(table)
        held.append(found.low <= 0 <= found.high)
    assert 0.92 < np.mean(held) < 0.99


@pytest.mark.parametrize("tasks", [2, 3, 5, 10])
def test_few_tasks_do_not_make_it_sure(tasks: int) -> None:
    """Methods that are the same are told apart no more often than 95 % intervals allow."""
    rng, told = np.random.default_rng(0), []
    bootstrap = Bootstrap(tasks, 2, draws=300)
    for _ in range(300):
        ours, theirs = rng.normal(size=(2, tasks, 2))
        gap = bootstrap.difference(ours, theirs)
        told.append(gap.low > 0 or gap.high < 0)
    assert np.mean(told) < 0.1


def test_a_ratio_to_nothing_has_no_interval() -> None:
    """With few tasks, a draw may have only those in which the oracle gets nothing."""
    bootstrap, ours, theirs = Bootstrap(3, 1), np.array([[1.0], [2.0], [3.0]]), np.array([[0.0], [0.0], [4.0]])
    assert f"{bootstrap.ratio(ours, theirs):.1f}" == "1.5 (too few tasks)"
    assert np.isnan(bootstrap.ratio(ours, 0 * theirs).value)
    assert bootstrap.ratio(ours, theirs + 1).low > 0


def test_one_task_says_nothing_of_others() -> None:
    bootstrap, ours = Bootstrap(1, 3), np.array([[1.0, 2.0, 3.0]])
    assert f"{bootstrap.mean(ours):.1f}" == "2.0 (too few tasks)"
    assert bootstrap.mean(ours).to_json() == {"value": 2.0, "low": None, "high": None}
    assert ranks({"a": ours, "b": ours + 9}, bootstrap) == {"a": (1, 2, ["b"]), "b": (1, 2, ["a"])}
    rows = comparison([outcome("random", ours + 9), outcome("greedy", ours)], against="random")
    assert [row.alike for row in rows] == [["random"], ["greedy"]]
    assert json.dumps([row.to_json() for row in rows], allow_nan=False)


def test_pairing_sees_what_spread_hides() -> None:
    rng = np.random.default_rng(1)
    theirs = 10 + 5 * rng.normal(size=(40, 1))
    ours = theirs - 0.3 + 0.1 * rng.normal(size=(40, 1))
    bootstrap = Bootstrap(40, 1)
    assert bootstrap.mean(ours).high > bootstrap.mean(theirs).low  # apart they cannot be told from each other
    assert bootstrap.difference(ours, theirs).high < 0
    assert bootstrap.ratio(ours, theirs).high < 1
    assert bootstrap.improvement(ours, theirs).low > 0.9
    assert bootstrap.improvement(theirs, theirs) == Estimate(0.5, 0.5, 0.5)
    seeds = rng.normal(size=(2, 4, 50))
    assert Bootstrap(4, 50).improvement(*seeds).high > Bootstrap(4, 50).improvement(*seeds).low  # seeds are drawn too


def test_intervals_stay_where_numbers_can_be() -> None:
    bootstrap = Bootstrap(3, 1)
    shares, lengths, differences = (
        np.array([[0.9], [1.0], [1.0]]),
        np.array([[0.1], [9.0], [0.2]]),
        np.array([[-9.0], [1], [2]]),
    )
    assert bootstrap.mean(shares).high == 1
    assert bootstrap.mean(lengths).low == 0
    assert bootstrap.ratio(lengths, lengths[::-1]).low == 0
    assert bootstrap.mean(differences).low < -9


def test_improvement_compares_all_seeds_of_a_task() -> None:
    ours, theirs = np.array([[1.0, 3.0], [5.0, 5.0]]), np.array([[2.0, 2.0], [5.0, 6.0]])
    assert Bootstrap(2, 2).improvement(ours, theirs).value == pytest.approx((0.5 + 0.75) / 2)


def test_ranks_say_where_the_data_cannot_tell() -> None:
    rng = np.random.default_rng(2)
    base = rng.normal(size=(50, 1))
    tables = {"best": base, "close": base + 0.01 * rng.normal(size=(50, 1)), "far": base + 3}
    assert ranks(tables, Bootstrap(50, 1)) == {
        "best": (1, 2, ["close"]),
        "close": (1, 2, ["best"]),
        "far": (3, 3, []),
    }


def test_estimates_read_well() -> None:
    assert f"{Estimate(15.64, 14.9, 16.31):.1f}" == "15.6 (14.9–16.3)"
    assert f"{Estimate(-0.01, -1.2, 0.8):.1f}" == "0.0 (-1.2…0.8)"
    assert f"{Estimate(0.5, 0.25, 0.75):.0%}" == "50% (25%–75%)"


def outcome(method: str, lost: np.ndarray, settings: str = "{}", settled: float = 1.0) -> Outcome:
    entrant = Entrant(GridArena(), method, settings, Tasks(len(lost), lost.shape[1]))
    tables = {"lost": lost, "lost_own": lost, "settled": np.full(lost.shape, settled), "final": lost, "error": lost}
    return Outcome(entrant, tables)


def test_a_comparison_from_end_to_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    theirs = 20 + rng.normal(size=(30, 2))
    found = [
        outcome("random", theirs * 3),
        outcome("greedy", theirs),
        outcome("usf-ucb", theirs + 0.01 * rng.normal(size=(30, 2))),
        Outcome(Entrant(GridArena(), "opti", tasks=Tasks(30, 2)), {}, ["RuntimeError: no"]),
    ]
    rows = comparison(found, against="greedy")
    assert {row.method for row in rows[:2]} == {"greedy", "usf-ucb"}
    assert [row.rank for row in rows] == [(1, 2), (1, 2), (3, 3)]
    assert {row.method: row.alike for row in rows} == {"greedy": ["usf-ucb"], "usf-ucb": ["greedy"], "random": []}
    assert rows[2].ratio is not None
    assert rows[2].ratio.value == pytest.approx(3)
    assert rows[2].improvement == Estimate(0.0, 0.0, 0.0)
    ranked = ranking_table("ranking", "caption", rows)
    assert all(len(line) == len(ranked.head) for line in ranked.rows)
    assert ranked.rows[2][:2] == ["3", "random"]
    assert "below 0" not in ranked.note
    better = [replace(rows[0], lost=Estimate(-1.0, -2.0, 0.5)), *rows[1:]]
    assert "below 0" in ranking_table("ranking", "caption", better).note
    _, paired = paired_cells(rows, "greedy")
    assert {line[0] for line in paired} == {"usf-ucb", "random"}
    table = compare_csv(rows).splitlines()
    assert len(table) == 4
    assert table[0].startswith("method,settings,rank,rank_worst,lost,lost_low,lost_high,lost_iqm")
    assert [Row.from_json(json.loads(json.dumps(row.to_json()))) for row in rows] == rows
    assert comparison([found[3]]) == []


# Tuning


def test_tuning_and_report_share_no_task_and_no_seed() -> None:
    draw = GridArena().ground.draw
    (z1, s1), (z2, s2) = (draw(Tasks(50, 2, kind)) for kind in ("tuning", "report"))
    assert not set(s1.tolist()) & set(s2.tolist())
    assert (z1[:, None] - z2[None]).norm(dim=-1).min() > 1e-3
    assert draw(Tasks(50, 2, "tuning"))[0].equal(z1)
    assert len(s1.unique()) == 100
    for few, many in ((20, 50), (50, 100), (100, 230)):  # more tasks begin with the same ones
        assert draw(Tasks(few, 1))[0].equal(draw(Tasks(many, 1))[0][:few])


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.long)])
def test_every_method_is_tuned_with_the_same_budget(every: int) -> None:
    for grids in (GRIDS, VECTOR_GRIDS):
        assert {len(grid) for grid in grids.values()} == {BUDGET}
        assert all(len({json.dumps(s, sort_keys=True) for s in grid}) == BUDGET for grid in grids.values())
    for entrant in candidates(PointArena(), list(VECTOR_GRIDS), Tasks(2, 1, "tuning"))[::every]:
        entrant.check()
    assert {"ridge": 0.09, "radius": 0.5} in GRIDS["opti"]
    tried = candidates(GridArena(features="clusters"), list(GRIDS), Tasks(2, 1, "tuning"))
    assert {entrant.method for entrant in tried} == set(GRIDS)
    for entrant in tried[::every]:
        entrant.check()
    with pytest.raises(ValueError, match="there is no method to tune, 'oracle'"):
        candidates(GridArena(), ["oracle"], Tasks(2, 1, "tuning"))


def test_the_stored_records_are_whole() -> None:
    records = stored_records()
    assert {"open-grid/clusters/network", "open-grid/laplacian/network", "open-grid/laplacian/exact"} <= set(records)
    for key, record in records.items():
        assert record["runs"] >= (48 if key.startswith("point-maze") else 250)
        for method, rows in record["tried"].items():
            tried = {json.dumps(row["settings"], sort_keys=True) for row in rows}
            assert len(tried) == len(rows) >= BUDGET, (key, method)
            for row in rows:
                (ALTERNATIVES.get(method) or METHODS[method]).check(**row["settings"])


def test_two_choices_fewest_lost_and_fewest_that_settle() -> None:
    def row(ridge: float, lost: float, settled: int) -> dict[str, Any]:
        return {"settings": {"ridge": ridge}, "lost": lost, "settled": settled, "runs": 250}

    rows = [row(0.1, 9.0, 150), row(0.2, 12.0, 250), row(0.3, 11.0, 232), row(0.4, 10.0, 231)]
    assert choose({"greedy": rows}) == {"greedy": {"fewest": {"ridge": 0.1}, "settling": {"ridge": 0.3}}}
    assert settles(rows[2])  # P(at most 232 of 250 settle) at 95 % is .084 …
    assert not settles(rows[3])  # … and of at most 231 it is .046
    assert choose({"greedy": rows[:1] + rows[3:]})["greedy"]["settling"] == {"ridge": 0.4}  # the most, where none does
    assert choose({}) == {}


def test_a_choice_at_an_end_is_followed_further_out() -> None:
    def tried(ridge: float, lost: float) -> Outcome:
        return outcome("greedy", np.full((2, 1), lost), json.dumps({"ridge": ridge}), 1.0)

    inside = [tried(ridge, lost) for ridge, lost in ((0.1, 9.0), (0.2, 8.0), (0.3, 9.0))]
    assert beyond(inside) == []
    at_the_end = [tried(ridge, lost) for ridge, lost in ((0.1, 9.0), (0.2, 8.0), (0.4, 7.0))]
    assert [json.loads(entrant.settings) for entrant in beyond(at_the_end)] == [{"ridge": 0.8}]
    assert beyond([*at_the_end, tried(0.8, 7.5)]) == []


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    few = Tasks(2, 1)
    for entrant, says in (
        (Entrant(GridArena(), "usf", tasks=few), "no method"),
        (Entrant(GridArena(), "greedy", '{"colour": 1}', few), "no setting"),
        (Entrant(GridArena(features="waves"), "greedy", tasks=few), "no feature set"),
        (Entrant(GridArena("moon"), "greedy", tasks=few), "no world"),
        (Entrant(GridArena("maze", "clusters", "network"), "greedy", tasks=few), "no network ships"),
        (Entrant(GridArena("maze", "laplacian", "grid9-laplacian"), "greedy", tasks=few), "was not trained on"),
        (Entrant(GridArena(), "greedy", tasks=few, noise=-1.0), "noise"),
        (Entrant(GridArena(), "greedy", tasks=few, steps=0), "steps"),
        (Entrant(GridArena(), "greedy", tasks=few, outside=1.0), "outside"),
    ):
        with pytest.raises(ValueError, match=says):
            entrant.check()
    with pytest.raises(ValueError, match="settings are auto, default, settling, fewest or a file"):
        settings_named(str(tmp_path / "none.json"), GridArena())
    for text, says in {
        '{"usf-ucv": {}, "usf-ucb": {}}': "other.json, usf-ucv: there is no method 'usf-ucv': did you mean usf-ucb",
        '{"usf-ucb": {"kapa": 1}}': "other.json, usf-ucb: there is no setting 'kapa': did you mean kappa",
        '{"usf-ucb": 3}': "the settings of usf-ucb must be an object, got 3",
        '{"settings": {"maze/laplacian/exact": {}}}': "holds no settings for open-grid/laplacian/exact",
        "[]": "must be an object like",
        "{}": "other.json has settings of no method, expected",
        '{"settings": {"open-grid/laplacian/exact": {}}}': "other.json has settings of no method, expected",
        '{"settings": 3}': "must be an object like",
    }.items():
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(ValueError, match=says):
            settings_named(str(tmp_path / "other.json"), GridArena())


def test_settings_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"greedy": {"ridge": 2}}')
    auto = settings_named("auto", GridArena())  # what the file does not name
    assert settings_named(str(path), GridArena()) == auto | {"greedy": {"ridge": 2}}
    choices = {"fewest": {"ridge": 1}, "settling": {"ridge": 2}}
    path.write_text(json.dumps({"settings": {"open-grid/laplacian/exact": {"greedy": choices}}, "record": {}}))
    assert settings_named(str(path), GridArena()) == auto | {"greedy": {"ridge": 2}}
    assert about_settings("greedy", {"ridge": 2}, settings_of_file(str(path), GridArena())) == "from the file"
    assert about_settings("opti", auto["opti"], settings_of_file(str(path), GridArena())) == "tuned"


def test_settings_by_name() -> None:
    assert settings_named("default", GridArena()) == {}
    assert settings_named("auto", GridArena(features="laplacian-fine")) == {}  # no record
    stored = stored_settings("open-grid/laplacian/exact")
    assert settings_named("fewest", GridArena()) == {name: both["fewest"] for name, both in stored.items()}
    settling = settings_named("settling", GridArena())
    assert settling == settings_named("tuned", GridArena())
    ours = {"usf-ucb", "usf-ucb-norm"}
    assert settings_named("auto", GridArena()) == {name: s for name, s in settling.items() if name not in ours}
    words = [
        about_settings(name, s) for name, s in (("opti", {"ridge": 1}), ("opti", {}), ("usf-ucb", {}), ("oracle", {}))
    ]
    assert words == ["tuned", "published, untuned", "default", ""]
