"""The league's record: choices, ratios, verdicts and frontier by hand; the suite's score by both rules."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.league import CELLS, OWN, REPORTED_ON, TUNED_ON, measured
from benchmarks.league_table import RECORD, League, Result
from benchmarks.suite import MARGIN, Score, Standing, main
from benchmarks.variants import switched_off
from reproduction.stored_results import LEAGUE_FILE, POINT_MAZE_FILE, stored_cells
from zscout.lab.arenas.arena import Tasks
from zscout.lab.compare.tuning import beyond_of, choose, stored_settings
from zscout.lab.runs.spec import settings_json
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.belief.sums import TaskPriors
from zscout.transfer.score.confidence import ScaleFree


def row(method: str, lost: float, settled: float, choice: str = "settling") -> dict[str, Any]:
    """20 tasks × 2 seeds that lose about the same."""
    tasks = np.linspace(-1, 1, 20)[:, None] * np.ones((1, 2))
    hits = np.arange(40).reshape(20, 2) < round(40 * settled)
    settings = {} if choice in ("default", "published") else {"ridge": 1.0}
    runs = {"lost": (lost + tasks).tolist(), "settled": hits.astype(int).tolist()}
    return {"method": method, "settings": settings, "choice": choice, **runs}


OURS = row("usf-ucb", 20.0, 0.95, "default")


def league(tmp_path: Path, **cells: list[dict[str, Any]]) -> League:
    path = tmp_path / "league.json"
    path.write_text(json.dumps({"cells": {name: {"rows": rows} for name, rows in cells.items()}}))
    return League(path)


def test_a_rival_is_the_best_of_published_fewest_and_settling(tmp_path: Path) -> None:
    rows = [
        OURS,
        row("usf-ucb-norm", 1.0, 1.0, "default"),  # knows ‖z_r‖
        row(f"{OWN}no_prior", 1.0, 1.0, "default"),
        row("oracle", 0.0, 1.0, "default"),
        row("greedy", 5.0, 0.5, "published"),
        row("opti", 16.0, 0.95),
        row("opti", 10.0, 0.95 - MARGIN - 0.03, "fewest"),
        row("thompson", 18.0, 1.0),
    ]
    (where,) = Score.of(league(tmp_path, here=rows)).standings
    assert where.settling is not None
    assert (where.fewest.method, where.ratio(where.fewest)) == ("greedy", 4.0)
    assert (where.settling.method, where.ratio(where.settling)) == ("opti", 1.25)


def test_the_score_has_both_rules_and_the_worst_arena(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = league(tmp_path, a=[OURS, row("opti", 10.0, 0.5)], b=[OURS, row("opti", 40.0, 1.0)])
    score = Score.of(found)
    assert (score.settling, score.fewest, score.worst.name) == (0.75, 1.25, "a")
    main(tmp_path / "league.json")
    assert str(score) in " ".join(capsys.readouterr().out.split())
    with pytest.raises(ValueError, match="no arena"):
        Score.of(league(tmp_path))


def test_a_verdict_needs_an_interval_without_1(tmp_path: Path) -> None:
    wide = row("thompson", 20.0, 0.9)
    wide["lost"] = np.where(np.arange(20) % 2, 40.0, 0.5)[:, None].repeat(2, 1).tolist()
    near = row("lola", 20.2, 0.9)
    near["lost"].reverse()  # not the same on every task
    found = league(tmp_path, here=[OURS, row("opti", 10.0, 0.9), row("greedy", 30.0, 0.9), near, wide])
    verdicts = {other.method: found.versus("here", other).verdict for other in found.rivals("here")}
    assert verdicts == {"opti": "behind", "greedy": "ahead", "lola": "level", "thompson": "not decided"}
    (opti,) = [other for other in found.rivals("here") if other.method == "opti"]
    assert found.versus("here", opti, rows=1).ratio.high < found.versus("here", opti, rows=50).ratio.high


def test_without_one_leaves_out_the_task_that_moves_the_ratio_most(tmp_path: Path) -> None:
    rival = row("opti", 20.0, 0.9)
    rival["lost"][3] = [2_000.0, 2_000.0]
    found = league(tmp_path, here=[OURS, rival])
    it = found.versus("here", found.rivals("here")[0])
    assert it.ratio.value < 0.25
    assert it.without_one == pytest.approx(1.0, abs=0.01)


def test_the_frontier_has_no_row_that_another_beats_in_both(tmp_path: Path) -> None:
    rows = [OURS, row("opti", 10.0, 0.5), row("greedy", 15.0, 0.4), row("thompson", 30.0, 1.0), row("lola", 40.0, 0.9)]
    assert [each.method for each in league(tmp_path, here=rows).frontier("here")] == ["opti", "usf-ucb", "thompson"]


# The stored record


def test_every_tuned_row_has_the_settings_that_tuning_chose() -> None:
    record = League().record
    assert TUNED_ON.kind != REPORTED_ON.kind
    for cell in CELLS:
        if cell.name not in record["cells"]:
            continue
        kept = record["cells"][cell.name]
        assert Tasks(**kept["tasks"]) == cell.report
        assert all(tried["runs"] >= 50 for rows in kept["tried"].values() for tried in rows)
        chosen = choose(kept["tried"]) | {name: stored_settings(cell.arena.key).get(name, {}) for name in cell.stored}
        for each in kept["rows"]:
            for choice in each["choice"].split(" and "):
                wanted = chosen.get(each["method"], {}).get(choice)
                assert wanted == each["settings"] or (each["method"], each["settings"]) in cell.fixed


def test_stored_tables_of_the_report_are_of_the_record() -> None:
    league, cells = League(), [*stored_cells(LEAGUE_FILE), *stored_cells(POINT_MAZE_FILE)]
    assert len(cells) == 12
    for cell in cells:
        lost = {(row.method, settings_json(row.settings)): row.lost.value for row in cell.rows}
        kept = {(row.method, settings_json(dict(row.settings))): row.mean for row in league.rows(cell.name)}
        assert lost == {one: pytest.approx(kept[one], rel=1e-3, abs=1e-3) for one in lost}


def test_what_was_tried_last_is_inside_what_was_tried() -> None:
    rows = [
        {"settings": {"radius": radius}, "lost": lost, "settled": 60, "runs": 64}
        for radius, lost in ((1.0, 9), (3.0, 5))
    ]
    assert beyond_of({"opti": rows}) == [("opti", {"radius": 9.0})]
    rows.append({"settings": {"radius": 9.0}, "lost": 7, "settled": 60, "runs": 64})
    assert beyond_of({"opti": rows}) == []


def test_variants_run_and_leave_nothing_switched_off() -> None:
    cell = next(cell for cell in CELLS if cell.name == "open-grid-clusters-exact")
    few, nine = Tasks(2, 1, "tuning", 39), ScaleFree()
    posterior = TaskPosterior.prior(dim=36, ridge=1.0)
    before = float(nine(0, posterior))
    with switched_off(f"{OWN}radius_of_nine"):
        assert float(nine(0, posterior)) == before / 2  # √(36/9)
    assert float(nine(0, posterior)) == before
    with switched_off(f"{OWN}no_evidence"):
        assert len(TaskPriors.of(torch.eye(2).double(), 1.0).ridges) == 2
    assert len(TaskPriors.of(torch.eye(2).double(), 1.0).ridges) == 8
    assert len(measured(cell.entrant(f"{OWN}thompson", {}, few), "cpu")["runs"]["lost"]) == 2
    assert "failed" in measured(cell.entrant("opti", {"radius": -1.0}, few), "cpu")


def test_titles_say_where_settings_are_from() -> None:
    nothing = np.zeros((1, 1))
    assert Result("opti", {}, "published", nothing, nothing).title == "OpTI, as published"
    assert Result("thompson", {"scale": 0.01}, "published", nothing, nothing).title == "Thompson, untuned, scale .01"
    assert Result("opti", {"radius": 1.0}, "fewest and settling", nothing, nothing).title == "OpTI, tuned"
    assert Result("opti", {"radius": 1.0}, "fewest", nothing, nothing).title == "OpTI, tuned (fewest)"
    assert RECORD.is_file()
    assert Standing("a", Result("usf-ucb", {}, "default", nothing, nothing), []).settling is None
