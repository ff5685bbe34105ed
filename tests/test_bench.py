"""The benchmark: its references are right, its bookkeeping is, and the command says what was measured."""

import inspect
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Generator, Tensor

import zscout
from benchmarks import bodies, deadlines, naive, speed
from benchmarks.kernels import updates_in_a_row
from benchmarks.lower_bounds import actor_flops, bytes_of_distinct_rows, diameter, flops_of, psi_flops
from benchmarks.measurement import Row, Setting, Timing, interleaved
from benchmarks.naive import Situation
from benchmarks.problems import (
    METHOD,
    Recommender,
    batch_problem,
    by_reference,
    by_search,
    by_the_model,
    live_problems,
    shares,
    situations,
)
from benchmarks.recommendations import searches_for
from benchmarks.speed import GROUPS, Group, chosen
from benchmarks.tables_and_figures import bench_table, speed_figure, speed_table
from reproduction.report.figures.figures import draw
from zscout import ExactModel, TaskPosterior
from zscout.base.types import BehaviorModel
from zscout.cli import main
from zscout.cli.bench import Bench
from zscout.lab.arenas.grid import GridArena
from zscout.models.usfa.model import USFA
from zscout.transfer.score.acquisition import UCB, OverHeads
from zscout.transfer.score.forecast import Forecast
from zscout.transfer.score.search import Shooting
from zscout.worlds import open_grid

NETWORK = GridArena(model="network")


def situation(model: BehaviorModel, steps: int = 12, radius: float = 0.7) -> tuple[Situation, TaskPosterior]:
    rng = Generator().manual_seed(3)
    phi = torch.randn(steps, model.dim, generator=rng, dtype=torch.float64)
    posterior = TaskPosterior.prior(dim=model.dim, ridge=0.3).learn(phi, phi.sum(-1))
    return Situation(model, 40, posterior.V, posterior.b, radius), posterior


# The references


@pytest.mark.parametrize("arena", [NETWORK, GridArena()], ids=["network", "exact"])
@pytest.mark.long
def test_naive_is_the_argmax_of_its_own_objective_which_is_eq_5(arena: GridArena) -> None:
    model = arena.ground.model
    now, posterior = situation(model)
    z = model.sample_z(500, Generator().manual_seed(1)).double()
    scores = naive.objective(now, model.psi(40, z))
    library = UCB()(Forecast(model, 40, z), posterior, torch.tensor(0.7, dtype=torch.float64), Generator())
    torch.testing.assert_close(scores, library)
    chosen_z = naive.recommend(now, Generator().manual_seed(1), 500)
    torch.testing.assert_close(by_the_model(now, chosen_z[None])[0], scores.max())


@pytest.mark.long
def test_naive_opti_is_the_argmax_within_the_ellipsoid_of_twice_the_radius() -> None:
    model = NETWORK.ground.model
    now, posterior = situation(model)
    answers = torch.stack([naive.recommend_opti(now, Generator().manual_seed(seed)) for seed in range(30)])
    assert float(posterior.distance(answers).max()) <= 2 * 0.7 + 1e-9
    assert float(posterior.distance(answers).max()) > 1.8 * 0.7  # most of a ball is near its surface
    pessimistic = OverHeads(UCB())
    radius = torch.tensor(0.7, dtype=torch.float64)
    library = pessimistic(Forecast(model, 40, answers), posterior, radius, Generator())
    torch.testing.assert_close(naive.opti_objective(now, answers), library)
    one = naive.recommend_opti(now, Generator().manual_seed(0), n=1)
    best = naive.recommend_opti(now, Generator().manual_seed(0), n=500)
    assert naive.opti_objective(now, best[None]) > naive.opti_objective(now, one[None])


@pytest.mark.long
def test_learning_anew_is_the_posteriors_update() -> None:
    _, posterior = situation(GridArena().ground.model)
    phi = torch.linspace(-1, 1, 9, dtype=torch.float64)
    V, b, z_hat = naive.learn(posterior.V, posterior.b, phi, 2.0)
    updated = posterior.update(phi, 2.0)
    for ours, theirs in ((updated.V, V), (updated.b, b), (updated.z_hat, z_hat)):
        torch.testing.assert_close(ours, theirs)
    several = torch.randn(5, 9, generator=Generator().manual_seed(0), dtype=torch.float64)
    told = updates_in_a_row(posterior, several, several[:, 0])
    torch.testing.assert_close(told.z_hat, naive.in_a_row(posterior.V, posterior.b, several, several[:, 0]))


@pytest.mark.parametrize("arena", [NETWORK, GridArena()], ids=["network", "exact"])
@pytest.mark.long
def test_the_naive_run_regrets_and_learns(arena: GridArena) -> None:
    ground = arena.ground
    task = ground.exact.sample_z(1, 7)[0]
    run = naive.run(ground, task, 200, 0.1, Generator().manual_seed(0))
    regret = np.array([next(run) for _ in range(60)])
    most = float((ground.exact.value(task[None]) + ground.exact.value(-task[None])).max())
    assert regret.min() >= -1e-9
    assert regret.max() <= most
    assert regret[10:].mean() < 0.6 * ground.yardstick.gap(task[None])  # a random walk's


# What is asked, and what answers are worth


@pytest.mark.long
def test_problems_are_what_an_agent_asks_its_search() -> None:
    asked = live_problems(GridArena().ground, METHOD, runs=2, times=(1, 5), seed=0)
    assert [int(problem.posterior.weight) for problem in asked] == [1, 1, 5, 5]
    for problem in asked:
        (now,) = situations(problem)
        assert now.obs == problem.obs
        torch.testing.assert_close(torch.linalg.solve(now.V, now.b), problem.posterior.z_hat)
        assert problem.last is not None
    together = situations(batch_problem(GridArena().ground, METHOD, runs=3, steps=4, seed=0))
    assert len(together) == 3
    assert len({now.obs for now in together}) > 1


@pytest.mark.long
def test_a_share_is_of_what_the_reference_reaches() -> None:
    asked = live_problems(GridArena().ground, METHOD, runs=1, times=(1, 5), seed=0)
    alone = [situations(problem)[0] for problem in asked]
    many, few = Recommender(asked, by_search(Shooting(2_000))), Recommender(asked, by_search(Shooting(1)))
    plain = Recommender(alone, by_reference(lambda now, rng: naive.recommend(now, rng, 50)))
    for way in (many, few, plain):
        for _ in range(4):
            way()
    assert [number for number, _ in many.answers] == [0, 1, 0, 1]
    answers = {"many": many.answers, "few": few.answers, "plain": plain.answers}
    found = shares(alone, answers, "plain", by_the_model)
    assert found["plain"] == pytest.approx(1)
    assert found["many"] >= 1 > found["few"]


@pytest.mark.long
def test_more_is_better_even_below_zero() -> None:
    now = Situation(
        GridArena().ground.model, 0, torch.eye(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64), 1.0
    )
    answers = {"ours": [(0, torch.tensor([-1.0]))], "theirs": [(0, torch.tensor([-2.0]))]}

    def value(now: Situation, z: Tensor) -> Tensor:
        return z[:, 0]

    assert shares([now], answers, "theirs", value) == {"ours": 1.5, "theirs": 1.0}


@pytest.mark.long
def test_every_search_of_the_lab_is_measured_where_it_can_be() -> None:
    whole, quick = Setting(), Setting(quick=True)
    network, exact = searches_for(NETWORK, whole), searches_for(GridArena(), whole)
    assert {"the default search", "table of 128", "gradient, projected", "random 1,000"} <= set(network)
    assert "gradient, free" not in network
    assert not any("random" in name or "gradient" in name for name in exact)
    assert set(searches_for(NETWORK, quick)) < set(network)


# The clock


@pytest.mark.long
def test_all_ways_take_turns_and_each_call_is_timed_once() -> None:
    order: list[str] = []
    ways = {name: lambda name=name: order.append(name) for name in "abc"}
    timings = interleaved(ways, 3, {"a": 1, "b": 2, "c": 1})
    assert "".join(order) == "abc" + "abbc" * 3  # the first of each is not timed
    assert {name: timing.calls for name, timing in timings.items()} == {"a": 3, "b": 6, "c": 3}
    order.clear()
    assert interleaved(ways, 2, warm=False)["b"].calls == 2
    assert "".join(order) == "abcabc"
    assert torch.get_num_threads() == 1


@pytest.mark.long
def test_threads_are_given_back_when_work_fails() -> None:
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError):
            interleaved({"a": lambda: 1 / 0}, 1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.long
def test_medians_and_percentiles() -> None:
    timing = Timing(tuple(float(n) for n in range(1, 102)))
    assert (timing.median, timing.p99, timing.calls) == (51.0, 100.0, 101)


# The rows


def a_row(**changes: Any) -> Row:
    return Row.of(Timing((1.0, 2.0, 3.0)), **{"group": "live", "what": "this", "unit": "z", "amount": 10, **changes})


@pytest.mark.long
def test_ratios_are_for_the_same_amount() -> None:
    row = a_row().against("that", Timing((4.0, 8.0, 9.0)), amount=2)
    assert row.rate == 5
    assert row.speedup == pytest.approx(20)  # .2 s a piece against 4
    assert row.speedup_range is not None
    low, high = row.speedup_range
    assert low < 20 < high
    assert a_row().speedup is None
    assert a_row(floor="f", floor_seconds=0.5).over_floor == 4
    json.dumps(row.to_json(), allow_nan=False)
    assert row.to_json()["speedup"] == row.speedup


@pytest.mark.long
def test_what_reaches_less_does_not_count_and_what_differs_does_not_agree() -> None:
    assert a_row().counts
    assert a_row(share=1.01).counts
    assert not a_row(share=0.998).counts
    assert a_row().agrees
    assert a_row(largest=1e-7, limit=1e-6).agrees
    assert not a_row(largest=1e-5, limit=1e-6).agrees
    assert not a_row(largest=None, limit=1e-6).agrees
    assert not a_row(largest=float("nan"), limit=1e-6).agrees


# The floors


@pytest.mark.long
def test_the_floor_of_a_network_is_what_its_products_take() -> None:
    model = NETWORK.ground.model
    assert isinstance(model, USFA)
    z = model.sample_z(2_000, 0)
    done = flops_of(lambda: model.psi(40, z))
    least = 2_000 * (psi_flops(model.config) + actor_flops(model.config))
    assert least <= done <= 1.2 * least  # all actions of the last layer, and the states' part of the first


@pytest.mark.long
def test_the_floor_of_a_bank_is_the_rows_that_differ(laplacian_model: ExactModel) -> None:
    once, again = (bytes_of_distinct_rows(laplacian_model, 20, 0, torch.tensor(here)) for here in ([0, 2], [0, 2, 2]))
    assert once == again  # read once
    shared = bytes_of_distinct_rows(laplacian_model, 300, 0, torch.tensor([40]))
    assert 0 < shared < 300 * 9 * 8  # many z share a policy
    assert diameter(open_grid()) == 16


# Tables and figures


LINES: list[Row] = [
    a_row(share=1.002, true_share=0.99, where="network").against("naive", Timing((9.0,))),
    a_row(what="less", share=0.9, where="network").against("naive", Timing((9.0,))),
    a_row(group="floors", what="kernel", floor="its products", floor_seconds=1.0),
    a_row(group="solving", what="wrong", difference="|v|", largest=2.0, limit=1.0),
]


@pytest.mark.long
def test_tables_say_what_counts_and_what_does_not() -> None:
    head, cells = speed_table(LINES).head, speed_table(LINES).rows
    first, less, kernel, wrong = (dict(zip(head, row, strict=True)) for row in cells)
    assert (first["times faster"], first["objective"], first["by the true ψ"]) == ("45 ×", "1.0020", "0.990")
    assert less["times faster"] == "(45 ×)"
    assert kernel["÷ floor"] == "2 × its products"
    assert wrong["difference"] == "2 in |v|"
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(bench_table(LINES))
    said = console.export_text()
    for part in ("live network", "(45 ×)", "true ψ: 0.990", "more than 1", "V inverted"):
        assert part in said


@pytest.mark.long
def test_figures_show_what_counts() -> None:
    figure = speed_figure(LINES)
    assert figure is not None
    assert {i.label: i.hollow for i in figure.panels["network"]} == {"this": False, "less": True}
    (axes,) = draw(figure).axes
    faces = [line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "o"]
    assert faces[0] != "none"
    assert faces[1] == "none"
    assert speed_figure([]) is None


# The command


def test_groups_are_named_in_the_help_and_kept_in_order() -> None:
    for command in (speed.Speed, Bench):
        assert f"or all: {','.join(GROUPS)}." in inspect.getsource(command)
    assert list(chosen(["solving", "live"])) == ["live", "solving"]
    assert list(chosen([])) == list(GROUPS)
    assert all(group.about for group in GROUPS.values())
    with pytest.raises(ValueError, match="there is no group 'lives': did you mean live"):
        chosen(["lives"])


def test_a_group_whose_extra_is_missing_is_left_out_or_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without = replace(fake(*LINES), extra="not_installed")
    monkeypatch.setattr(speed, "GROUPS", {"live": fake(*LINES[:1]), "bodies": without})
    assert list(chosen([])) == ["live"]
    speed.main([])
    assert ".[not_installed]" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        speed.main(["--only", "live,bodies"])
    assert ".[not_installed]" in capsys.readouterr().err


@pytest.mark.long
def test_bodies_are_measured_beside_dm_controls_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BATCH", 4)
    rows = list(bodies.bodies(Setting(quick=True)))
    assert [row.what for row in rows[:3]] == ["4 walkers, 1 thread", "4 walkers, 2 threads", "4 cheetahs, 1 thread"]
    for row in rows:
        assert row.agrees
        assert row.largest == 0  # bit for bit
        assert row.speedup is not None
        assert row.over_floor is not None


@pytest.mark.long
def test_deadlines_are_measured_for_the_agent_alone_and_beside_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WIDTH", 16), ("TICK", 1e-4), ("STRETCH", 8)):
        monkeypatch.setattr(deadlines, name, value)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    rows = list(deadlines.deadlines(Setting(quick=True)))
    assert [row.what for row in rows] == [
        f"tick to action, {who}, hold {hold}" for hold in (1, 25) for who in ("agent alone", "beside a worker")
    ]
    assert [row.reference for row in rows] == ["", "agent alone", "", "agent alone"]
    assert all(row.calls == 4 and row.low > 0 for row in rows)  # from the tick on, not from the call
    assert cores is None or os.sched_getaffinity(0) == cores


def test_without_a_checkout_the_command_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zscout, "__file__", str(tmp_path / "lib" / "zscout" / "__init__.py"))
    monkeypatch.setitem(sys.modules, "benchmarks.speed", None)  # its import fails
    with pytest.raises(SystemExit) as ended:
        main(["bench"])
    assert ended.value.code == 2
    assert "checkout" in capsys.readouterr().err


@pytest.mark.long
def test_the_command_finds_the_benchmarks_of_its_checkout(tmp_path: Path) -> None:
    words = ["bench", "--quick", "--only", "floors", "--json", "rows.json"]
    done = subprocess.run([sys.executable, "-m", "zscout", *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert {row["group"] for row in rows} == {"floors"}


def fake(*lines: Row, stop: bool = False) -> Group:
    def measure(setting: Setting) -> Iterator[Row]:
        yield from lines
        if stop:
            raise KeyboardInterrupt

    return Group(measure, (1.0, 1.0))


def test_a_stop_keeps_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = fake(*LINES[:1]), fake(*LINES[1:3], stop=True)
    monkeypatch.setattr(speed, "GROUPS", {"live": first, "many": second, "solving": first})
    with pytest.raises(SystemExit) as stopped:
        speed.main(["--json", str(tmp_path / "rows.json"), "--out", str(tmp_path)])
    assert stopped.value.code == 130
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["what"] for row in rows] == ["this", "less", "kernel"]
    assert json.loads((tmp_path / "bench.json").read_text())["rows"] == rows
    assert "| live: less |" in (tmp_path / "bench.md").read_text()
    assert (tmp_path / "speed.svg").exists()
    said = capsys.readouterr()
    assert "kernel" in said.out
    assert "3 rows" in said.err


def test_answers_that_differ_end_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "GROUPS", {"live": fake(*LINES)})
    with pytest.raises(SystemExit) as ended:
        speed.main([])
    assert ended.value.code == 1
    assert "wrong" in capsys.readouterr().err
