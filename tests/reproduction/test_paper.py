"""The paper claim by claim: pieces in closed form, and the whole command on a small scale."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from reproduction import paper
from reproduction.__main__ import main
from reproduction.experiment import posteriors
from reproduction.experiments import model_errors
from reproduction.experiments.continuous import CONTINUOUS
from reproduction.experiments.feature_maps import FEATURES_AND_POLICIES
from reproduction.experiments.league import entrants
from reproduction.experiments.model_errors import SWITCHING, WRONG_PSI, _gains
from reproduction.experiments.online_transfer import settling_times
from reproduction.experiments.pure_exploration import _coverage, _steps_to_cover
from reproduction.experiments.regret_bounds import _identity, _variance
from reproduction.experiments.searches import GRADIENT, SEARCH_COMPARISON, _climb
from reproduction.paper import EXPERIMENTS, Scale, specs
from reproduction.report.model import Section
from reproduction.report.page import render
from reproduction.summaries import all_met, any_met, banded, below, mean, median, verdict, verdict_over
from reproduction.variants import exhaustive
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.statistics import Estimate
from zscout.lab.runs.chunks import run_all, run_batch
from zscout.lab.runs.spec import Spec, named
from zscout.lab.runs.store import Record, Store
from zscout.transfer.methods import Method


def reproduce(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "reproduction", "--quick", *words]
    places = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": places}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=False)


def lose_every_third_run(store: Path, folder: Path) -> None:
    """A copy of a store in another folder, as a kill could have left it: other batches then run what is missing."""
    folder.mkdir()
    with sqlite3.connect(store) as before, sqlite3.connect(folder / store.name) as after:
        before.backup(after)
        after.execute("DELETE FROM runs WHERE rowid % 3 = 0")
    before.close()
    after.close()


class Few(Scale):
    """Three runs of 25 steps."""

    def runs(self, full: int) -> int:
        return 3

    def steps(self, full: int) -> int:
        return min(full, 25)


STEADY, NOTHING, RARE = np.ones(24), np.zeros(24), 4.0 * (np.arange(24) == 0)  # gains of 24 tasks
LEFT_OUT = {1, 8, 15}
NOT_QUICK = {10, 11, 14, 15}
ASKED = {1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}  # 6 and 7 are drawings


def numbers_of(claims: list[dict[str, str]]) -> set[int]:
    return {int(re.match(r"\d+", claim["number"])[0]) for claim in claims}  # type: ignore[index]


def in_order(number: str) -> tuple[int, str]:
    return int(number[:-1]), number[-1]


def test_claims_are_told_from_three_short_runs_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the sections whose searches take long."""
    costly = (FEATURES_AND_POLICIES, GRADIENT, SEARCH_COMPARISON, WRONG_PSI, CONTINUOUS)
    monkeypatch.setattr(paper, "EXPERIMENTS", tuple(each for each in EXPERIMENTS if each not in costly))
    scale = Few()
    with Store(tmp_path) as store:
        list(run_all(specs(scale), store))
        assert not [why for spec in specs(scale) if (why := store.failure(spec))]
        whole = paper.story(scale, list(paper.sections(scale, paper.Runs(store))))
    numbers, claims = [claim.number for claim in whole.claims], whole.to_json()["sections"].values()
    assert numbers_of([claim for section in claims for claim in section["claims"]]) == ASKED - LEFT_OUT
    assert [*numbers] == sorted(numbers, key=in_order)
    figures = [figure.name for section in whole.sections for figure in section.figures]
    page = render(whole, {name: {"safe": "<svg></svg>"} for name in figures})
    links, ids = (set(re.findall(rf' {name}="{mark}([^"]+)"', page)) for name, mark in (("href", "#"), ("id", "")))
    assert "horizon" in links <= ids
    assert "searches" not in links  # left out above


def test_a_report_refers_only_to_its_own_sections() -> None:
    keys = ("league", "horizon", "searches")
    linked = [paper.story(Scale(), [Section(key, "Title", [])]).deviations for key in keys]
    for key, deviations in zip(keys, linked, strict=True):
        assert re.findall(r"\(#(.+?)\)", " ".join(deviations)) == [key]
    alone = " ".join(paper.story(Scale(quick=True), []).deviations)
    assert not re.search(r"[cC]laims? \d|league|searches", alone)


def test_a_folder_of_something_else_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    for content in ({"mine": 1}, {"seed": 1, "quick": True, "about": {"code": "x"}}):
        Path("out/results.json").write_text(json.dumps(content))
        with pytest.raises(SystemExit) as stop:
            main(["--quick"])
        assert stop.value.code == 2
        assert "name another --out" in capsys.readouterr().err
        assert json.loads(Path("out/results.json").read_text()) == content


@pytest.mark.long
def test_the_whole_paper_on_a_small_scale(tmp_path: Path) -> None:
    """Every claim has a verdict; again, in another number of processes, and after a part was lost: the same numbers."""
    done = reproduce(tmp_path, "--json", "numbers.json")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "out/results.json").read_text())
    assert (tmp_path / "numbers.json").read_text() == (tmp_path / "out/results.json").read_text()
    claims = [claim for section in results["sections"].values() for claim in section["claims"]]
    assert numbers_of(claims) == ASKED - NOT_QUICK
    told = {claim["number"]: claim["verdict"] for claim in claims}
    assert (told["1a"], told["5c"], told["17a"]) == ("holds", "holds in part", "does not hold")  # as in the full report
    assert {claim["number"]: claim["kind"] for claim in claims if claim["kind"] != "claim"} == {
        **dict.fromkeys(("9a", "13b"), "check"),
        **dict.fromkeys(("8c", "18b"), "ours"),
    }
    for claim in claims:
        assert f"{claim['number']} {claim['verdict']}" in done.stdout
    assert claims == sorted(claims, key=lambda claim: in_order(claim["number"]))
    page = (tmp_path / "out/report.html").read_text()
    assert all(f'id="claim-{claim["number"]}"' in page for claim in claims)
    for name in (
        "features-open-grid",
        "exploration",
        "log-det",
        "transfer",
        "errors-and-rewards",
        "gradient",
        "framework",
    ):
        for suffix in ("svg", "png"):
            assert (tmp_path / f"out/figures/{name}.{suffix}").stat().st_size > 1000
        assert f"drew out/figures/{name}.svg\n" in done.stdout  # so that it is not silent for minutes
    assert (tmp_path / "out/tables/claims.csv").read_text().count("\n") >= len(claims)

    lose_every_third_run(tmp_path / "out/runs.sqlite", tmp_path / "again")
    again = reproduce(tmp_path, "--out", "again", "--jobs", "1")
    assert again.returncode == 0, again.stderr
    assert "runs in" in again.stdout
    assert (tmp_path / "again/results.json").read_bytes() == (tmp_path / "out/results.json").read_bytes()
    assert (tmp_path / "again/report.html").read_text().count("<section") == page.count("<section")


def test_specs_are_decided_by_the_seed_and_shared_by_sections() -> None:
    first, again, other = specs(Scale(0, True)), specs(Scale(0, True)), specs(Scale(1, True))
    assert first == again
    assert len(set(first)) == len(first)
    random = {spec for spec in first if any(spec.task) and spec.seed > 10}  # others have hand-picked tasks
    assert not random & set(other)
    named = sum(len(list(experiment.specs(Scale(0, True)))) for experiment in paper.experiments(Scale(0, True)))
    assert named > len(first)  # several sections look at the same runs
    assert len(specs(Scale(0))) > 5 * len(first)
    assert {entrant.method for entrant in entrants(Scale(0), "clusters")} >= {"usf-ucb", "log-det", "mbie", "oracle"}


def test_settling_times_by_hand() -> None:
    value = np.array([[0.5, 0.99, 0.9, 0.96, 1.0], [1.0] * 5, [1.0, 1.0, 1.0, 1.0, 0.9], [0.0, 0.0, 0.0, 0.0, 0.95]])
    assert settling_times(value).tolist() == [4, 1, np.inf, 5]


def test_means_medians_and_bands() -> None:
    values = np.arange(101.0)
    assert mean(values).value == 50
    assert median(values).value == 50
    assert median(np.array([5.0] * 5 + [np.inf] * 5)).value == 5
    assert median(np.array([5.0] * 5 + [np.inf] * 5)).high == np.inf
    assert mean(values).low < 46 < 54 < mean(values).high
    curve = banded("x", np.stack([values, values + 2]))
    assert curve.y[:2] == [1, 2]
    assert curve.low[0] == 0
    assert curve.high[0] == 2
    assert curve.x[:2] == [1, 2]


def a_run(method: str | Method = "usf-ucb-paper", steps: int = 30) -> Record:
    task = tuple(np.linspace(-1, 1, 9))
    name, value = named(method)
    return run_batch([Spec(GridArena(features="clusters"), name, task, seed=3, steps=steps, value=value)])[0]


def test_posteriors_are_those_of_the_run() -> None:
    record = a_run()
    features = GridArena(features="clusters").ground.exact.features.numpy()
    V, z_hat = posteriors(record, features)
    assert V.shape == (31, 9, 9)
    assert np.allclose(V[0], 0.09 * np.eye(9))
    assert not z_hat[0].any()
    assert np.allclose(-np.linalg.slogdet(V[1:])[1], record.steps["log_det"], atol=1e-4)
    assert np.allclose(np.linalg.norm(z_hat[1:] - np.array(record.spec.task), axis=1), record.steps["error"], atol=1e-5)


def test_visits_by_hand() -> None:
    record = a_run(exhaustive(), 300)
    covered = _steps_to_cover(record)
    states = np.concatenate([record.steps["state"][:1], record.steps["entered"]])
    assert len(set(states[: int(covered) + 1].tolist())) == 81
    assert len(set(states[: int(covered)].tolist())) == 80
    features = GridArena(features="clusters").ground.exact.features.numpy()
    regions, seen, _ = _coverage(record, 20, features)
    assert seen == len(set(states[:21].tolist()))
    assert regions == len(set(features[states[:21]].argmax(1).tolist()))


def test_eq_5_and_eq_8_are_one_objective_with_exact_psi() -> None:
    same, reached = _identity(Few(), "laplacian")
    assert same.high <= 1 + 1e-9  # no z can promise more than the ellipsoid holds
    assert same.value > 0.99  # and 5,000 z come close
    for k, (surface, random, gap) in reached.items():
        assert surface.value < random.value <= 1 + 1e-9
        assert gap.value == pytest.approx(surface.value - random.value)
        assert surface.value < 0.99 or k > 1000  # draws from the surface need many
    assert [random.value for _, random, _ in reached.values()] == sorted(r.value for _, r, _ in reached.values())


def test_the_variance_of_a_value_is_below_the_papers_and_equal_to_the_exact_one() -> None:
    paper, exactly = _variance(Scale(0), "clusters")
    assert exactly.low < 1 < exactly.high
    assert 0.9 < exactly.value < 1.1
    assert paper.high < 1


def test_changing_z_never_hurts_and_gains_nothing_from_an_exact_model() -> None:
    gains, lacks = _gains(Few(), "clusters", "exact")
    assert abs(gains).max() < 1e-9
    assert abs(lacks).max() < 1e-9
    gains, lacks = _gains(Few(), "clusters", "network")
    assert (gains > -1e-12).all()
    assert (lacks - gains > -1e-9).all()  # no more than there is
    assert gains.max() > 0


@pytest.mark.parametrize(
    ("clusters", "laplacian", "quick", "full"),
    [
        (STEADY, STEADY, "holds", "holds"),
        (NOTHING, NOTHING, "does not hold", "does not hold"),
        (STEADY, NOTHING, "holds in part", "holds in part"),
        (STEADY, RARE, "too few runs to tell", "holds in part"),  # open: in part or whole
        (NOTHING, RARE, "does not hold", "does not hold"),  # one is enough to refute it
        (RARE, RARE, "too few runs to tell", "too few runs to tell"),
    ],
)
def test_a_quick_test_decides_by_the_rule(
    monkeypatch: pytest.MonkeyPatch, clusters: np.ndarray, laplacian: np.ndarray, quick: str, full: str
) -> None:
    """16a asks whether switching wins back more than a tenth, for the networks of both feature sets."""
    won = {"clusters": clusters, "laplacian": laplacian}

    def gains(scale: Scale, features: str, model: str) -> tuple[np.ndarray, np.ndarray]:
        return (won[features] if model == "network" else NOTHING), np.ones(24)

    monkeypatch.setattr(model_errors, "_gains", gains)
    monkeypatch.setattr(paper, "EXPERIMENTS", (SWITCHING,))
    for scale, verdict_told in ((Scale(quick=True), quick), (Scale(), full)):
        (section,) = paper.sections(scale, cast(paper.Runs, None))
        assert [claim.verdict for claim in section.claims] == [verdict_told]


def test_rules_know_what_an_interval_cannot_tell() -> None:
    low, wide, high = Estimate(1, 0, 2), Estimate(3, 1, 5), Estimate(6, 5, 7)
    assert [below(e, 4.0) for e in (low, wide, high)] == [True, None, False]
    assert [below(4.0, e) for e in (low, wide, high)] == [False, None, True]
    assert (below(low, high), below(high, low), below(low, wide), below(wide, high)) == (True, False, None, None)
    assert below(Estimate(1, 1, 1), 1.0) is False  # equal is not below
    assert below(Estimate(1, np.nan, np.nan), 4.0) is None  # one task has no interval
    assert [all_met(met) for met in ([True, True], [True, None], [None, False], [])] == [True, None, False, True]
    assert [any_met(met) for met in ([False, True], [False, None], [None, True], [])] == [True, None, True, False]


@pytest.mark.parametrize("quick", [False, True])
def test_verdicts_follow_the_rules(quick: bool) -> None:
    told = [[verdict(Scale(quick=quick), whole, part) for part in (True, None, False)] for whole in (True, None, False)]
    open_, part, no = "too few runs to tell", "holds in part", "does not hold"
    assert told == [["holds"] * 3, [open_ if quick else part, open_, open_], [part, no, no]]
    assert verdict_over(Scale(quick=quick), [True, False]) == part
    assert verdict_over(Scale(quick=quick), [None, None]) == open_


def test_free_ascent_leaves_the_sphere_and_projected_ascent_stays() -> None:
    free, projected = (_climb(Few(), "laplacian", project) for project in (False, True))
    assert free[0, :, 0] == pytest.approx(np.ones(3))  # ‖z‖/√d
    assert (free[0, :, -1] > 2).all()
    assert projected[0] == pytest.approx(np.ones_like(projected[0]))
    assert (free[1, :, -1] > 1.2 * free[2, :, -1]).all()  # by the network, and exactly
    assert abs(projected[1, :, -1] / projected[2, :, -1] - 1).max() < 0.3
