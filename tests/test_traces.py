"""Runs in files, and methods beside them on the very same reward."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import zscout
from simulating import simulate
from zscout import METHODS, OnlineTransfer
from zscout.cli import main
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.ground import Ground
from zscout.lab.arenas.simulation import TaskRuns, Trace, simulated, trace_of
from zscout.lab.compare.trace_comparison import TraceComparison, rows_of
from zscout.lab.compare.trace_file import FINAL_VECTORS, MOST_BYTES, STATES, VECTORS, Painting, TracedRun, TraceFile
from zscout.lab.evaluation.exact_evaluation import evaluate_exactly, measured_on

SEED, STEPS, NOISE = 7, 60, 0.3
ARENA = GridArena()


def task_of(ground: Ground, number: int = 5) -> torch.Tensor:
    return ground.exact.sample_z(1, number).cpu()


@cache
def one_run(method: str = "usf-ucb", seed: int = SEED, arena: GridArena = ARENA, number: int = 5) -> Trace:
    ground = arena.ground
    built = METHODS[method](dim=ground.exact.dim, noise=NOISE)
    task = task_of(ground, number)
    return simulate(ground.model, ground.world, task, built, seeds=torch.tensor([seed]), steps=STEPS, noise=NOISE)


def traced(trace: Trace, method: str) -> TracedRun:
    columns = {name: getattr(trace, name)[:, 0].tolist() for name in (*STATES, *VECTORS, "reward", "radius")}
    final = {name: getattr(trace, name)[0].tolist() for name in FINAL_VECTORS}
    return TracedRun(method, exploring=trace.exploring.tolist(), intercept=trace.intercept, **columns, **final)


def file_of(*methods: str, seed: int = SEED, arena: GridArena = ARENA, number: int = 5, **changes: Any) -> TraceFile:
    table = (task_of(arena.ground, number) @ arena.ground.exact.features.cpu().T)[0].tolist()
    runs = [traced(one_run(method, seed, arena, number), method) for method in methods or ("usf-ucb",)]
    file = TraceFile(
        arena.world, arena.features, arena.model, "hidden", NOISE, None, seed, [Painting(0, table, NOISE)], runs
    )
    return replace(file, **changes)


def written(file: TraceFile, path: Path) -> str:
    path.write_text(json.dumps(file.to_json()))
    return str(path)


@cache
def repainted(forgetting: float = 1.0) -> tuple[Trace, torch.Tensor]:
    """A run whose reward turned round after 25 steps; and both tables."""
    ground = ARENA.ground
    first = task_of(ground) @ ground.exact.features.T
    tables = torch.cat([first, -first])
    agent = OnlineTransfer(ground.model, replace(METHODS["usf-ucb"](dim=9), forgetting=forgetting), seed=[SEED], runs=1)
    reward, rows = tables[:1].clone(), []
    for step in islice(simulated(agent, TaskRuns(ground.world, reward, NOISE, agent.seeds)), STEPS):
        rows.append(step)
        if step.t == 24:
            reward.copy_(tables[1:])
    return trace_of(agent, task_of(ground), rows), tables


# What runs are worth


@pytest.mark.parametrize("method", ["usf-ucb", "random", "lola"])
@pytest.mark.parametrize(
    "arena",
    [
        ARENA,
        pytest.param(GridArena("four-rooms", "laplacian", "network"), marks=pytest.mark.long),
        pytest.param(GridArena("open-grid", "laplacian-fine"), marks=pytest.mark.long),
    ],
    ids=["exact", "network", "fine"],
)
def test_a_trace_is_worth_what_compare_says_up_to_what_a_step_is_worth(method: str, arena: GridArena) -> None:
    ground, trace = arena.ground, one_run(method, arena=arena)
    file = file_of(method, arena=arena)
    (runs,) = TraceComparison({"run.json": file}).recorded()
    numbers, _ = evaluate_exactly(trace, ground)
    gap = ground.yardstick.gap(trace.task)
    for name in ("lost", "lost_own"):
        assert runs.numbers[name][0] * gap == pytest.approx(float(numbers[name]) * ground.gap, rel=1e-6, abs=1e-6)
    for name in ("settled", "final", "error"):
        assert runs.numbers[name][0] == pytest.approx(float(numbers[name]), rel=1e-6, abs=1e-6)
    assert runs.numbers["lost"][0] > 1


def test_a_repainted_reward_counts_from_its_step_on() -> None:
    ground, (trace, tables) = ARENA.ground, repainted()
    paintings = [
        Painting(0, tables[0].tolist(), NOISE),
        Painting(25, [1.0] * 81, NOISE),
        Painting(25, tables[1].tolist(), NOISE),
    ]
    file = file_of(rewards=[*paintings, Painting(STEPS, [0.0] * 81, NOISE)], runs=[traced(trace, "usf-ucb")])
    found, which = file.tables()
    assert torch.equal(found, tables)  # of one step the last counts, and what came after the last step does not
    assert which.tolist() == [0] * 25 + [1] * 35
    by_hand = 0.0
    exact, random = ground.exact, ground.exact.evaluate(ground.exact.random_policy)
    for t in range(STEPS):
        z_r = (1 if t < 25 else -1) * task_of(ground)[0]
        values = exact.value(z_r)
        state = int(trace.state[t])
        regret = values[state] - exact.successor_features(trace.z[t, 0])[state] @ z_r
        by_hand += float(regret / (values - random @ z_r).mean())
    numbers = measured_on(trace, ground, *file.tables())
    assert float(numbers["lost"]) == pytest.approx(by_hand)
    assert float(numbers["error"]) == pytest.approx(
        float((trace.final_z_hat + ground.yardstick.without_constant(task_of(ground))).norm())
    )
    worth = tables[1][trace.entered[-20:, 0]]
    best, mean = tables[1].max(), tables[1].mean()
    assert float(numbers["final"]) == pytest.approx(float(((worth - mean) / (best - mean)).mean()))


def test_a_flat_reward_costs_nothing() -> None:
    for level in (0.0, 3.0):
        numbers = measured_on(
            one_run(), ARENA.ground, torch.full((1, 81), level).double(), torch.zeros(STEPS, dtype=torch.long)
        )
        assert [float(numbers[name]) for name in ("lost", "lost_own", "final", "settled")] == [0, 0, 0, 1]


# Methods beside them


@pytest.mark.parametrize("method", ["usf-ucb", "greedy", "random", "lola", "usf-ucb-paper"])
def test_a_method_run_afresh_with_the_seed_of_the_file_is_the_run_in_the_file(method: str) -> None:
    traces = TraceComparison({"run.json": file_of(method)})
    (recorded,) = traces.recorded()
    afresh = traces.afresh(traces.spec(method, {}), 3)
    assert afresh.seeds == [SEED, SEED + 1, SEED + 2]
    for name, column in recorded.numbers.items():
        assert afresh.numbers[name][0] == pytest.approx(column[0], abs=1e-9)
    assert len(set(afresh.numbers["lost"])) == 3
    alone = TraceComparison({"run.json": file_of(method, seed=SEED + 2)}).recorded()[0]
    assert afresh.numbers["lost"][2] == pytest.approx(alone.numbers["lost"][0], abs=1e-9)


@pytest.mark.parametrize("memory", [None, 20])
def test_methods_meet_the_repainted_reward_when_it_was_repainted(memory: int | None) -> None:
    trace, tables = repainted(1.0 if memory is None else 0.95)
    paintings = [Painting(0, tables[0].tolist(), NOISE), Painting(25, tables[1].tolist(), NOISE)]
    file = file_of(rewards=paintings, runs=[traced(trace, "usf-ucb")], memory=memory)
    traces = TraceComparison({"run.json": file})
    afresh = traces.afresh(traces.spec("usf-ucb", {}), 2)
    for name, column in traces.recorded()[0].numbers.items():
        assert afresh.numbers[name][0] == pytest.approx(column[0], abs=1e-9)
    with pytest.raises(ValueError, match="repainted on the way"):
        traces.spec("oracle", {})
    stationary = TraceComparison({"run.json": file_of()})
    oracle = stationary.afresh(stationary.spec("oracle", {}), 2)
    assert np.abs(oracle.numbers["lost"]).max() < 1e-6


def test_many_seeds_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = TraceComparison({"run.json": file_of()})
    spec = traces.spec("greedy", {})
    whole = traces.afresh(spec, 5)
    monkeypatch.setattr("zscout.lab.compare.trace_comparison.AT_ONCE", 2 * STEPS * 81)
    parts = traces.afresh(spec, 5)
    for name, column in whole.numbers.items():
        assert parts.numbers[name] == pytest.approx(column)


def test_rows_are_in_order_and_say_what_the_data_allow() -> None:
    traces = TraceComparison({"run.json": file_of("usf-ucb", "random", "usf-ucb")})
    found = [*traces.recorded(), traces.afresh(traces.spec("greedy", {}), 4)]
    rows = rows_of(found)
    lost = [row.lost.value for row in rows]
    assert lost == sorted(lost)
    assert {row.method for row in rows} == {
        "usf-ucb (run.json, run 0)",
        "usf-ucb (run.json, run 2)",
        "random (run.json)",
        "greedy",
    }
    for row in rows:
        assert np.isnan(row.lost.low) == (row.runs == 1)
        assert row.rank == (1, 4)  # one reward ranks nothing
        assert len(row.alike) == 3


# Files


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    trace, tables = repainted()
    run = traced(trace, "usf-ucb")
    rewards = [Painting(0, tables[0].tolist(), NOISE), Painting(25, tables[1].tolist(), NOISE)]
    unheard = replace(run, reward=[None, *run.reward[1:]])
    for file in (
        file_of("usf-ucb", "random"),
        file_of(rewards=rewards, runs=[run], memory=50),
        file_of(who="person", rewards=[], runs=[unheard]),
        file_of("lola"),  # it begins rollouts at its start
    ):
        assert TraceFile.read(Path(written(file, tmp_path / "run.json"))) == file
    content = file_of().to_json()
    head = {"zscout": "trace", "format": 2, "version": zscout.__version__}
    assert {name: content[name] for name in head} == head
    assert len(unheard.told) == STEPS - 1
    for name in ("state", "action", "entered", "z", "z_hat", "best_z", "radius", "reward", "exploring", "final_z"):
        assert torch.equal(getattr(file_of().trace(0), name), getattr(one_run(), name))


Change = Callable[[dict[str, Any]], Any]
WRONG: list[tuple[Change, str]] = [  # a change to a file, and the name of what is then wrong
    (lambda c: c.pop("zscout"), "not a trace"),
    (lambda c: c.update(format=1), "format"),
    (lambda c: c.update(colour=1), "'colour'"),
    (lambda c: c.pop("noise"), "noise"),
    (lambda c: c.update(world="mase"), "did you mean maze"),
    (lambda c: c.update(world="/etc/passwd"), "'/etc/passwd'"),
    (lambda c: c.update(world="x" * 9999), "world"),
    (lambda c: c.update(features="waves"), "'waves'"),
    (lambda c: c.update(model="os:system"), "'os:system'"),
    (lambda c: c.update(world="maze", model="network", features="clusters"), "network"),
    (lambda c: c.update(who="cat"), "'cat'"),
    (lambda c: c["runs"][0].update(method="usf"), "run 0: .*did you mean usf-ucb"),
    (lambda c: c["runs"][0].update(method=3), "method"),
    (lambda c: c.update(noise=-1), "noise"),
    (lambda c: c.update(noise=1e999), "noise|Infinity"),
    (lambda c: c.update(noise=True), "noise"),
    (lambda c: c.update(memory=1), "memory"),
    (lambda c: c.update(memory="long"), "memory"),
    (lambda c: c.update(seed=-1), "seed"),
    (lambda c: c.update(seed=2**63), "seed"),
    (lambda c: c.update(runs=[]), "no step"),
    (lambda c: c.update(runs={}), "runs"),
    (lambda c: c.update(runs=[3]), "runs"),
    (lambda c: c["runs"][0].update(state=[]), "no step"),
    (lambda c: c["runs"][0]["entered"].pop(), r"entered .*\[59\]"),
    (lambda c: c["runs"][0]["z"].pop(), r"run 0: z .*\[59, 9\]"),
    (lambda c: c["runs"][0]["z"][3].pop(), "z must"),
    (lambda c: c["runs"][0].update(z=[0.0] * 60), "z must"),
    (lambda c: c["runs"][0]["final_z"].pop(), "final_z"),
    (lambda c: c["runs"][0]["z_hat"][2].__setitem__(0, float("nan")), "NaN"),
    (lambda c: c["runs"][0]["radius"].__setitem__(2, 1e300), "radius"),
    (lambda c: c["runs"][0]["radius"].__setitem__(2, 10**400), "too large"),
    (lambda c: c["runs"][0]["reward"].__setitem__(2, "good"), "reward"),
    (lambda c: c["runs"][0]["exploring"].__setitem__(2, 0), "exploring"),
    (lambda c: c["runs"][0]["state"].__setitem__(0, 81), "state 81"),
    (lambda c: c["runs"][0]["state"].__setitem__(0, 1.5), "state"),
    (lambda c: c["runs"][0]["state"].__setitem__(0, -1), "state -1"),
    (lambda c: c["runs"][0]["action"].__setitem__(0, 4), "action 4"),
    (lambda c: c["runs"][0]["entered"].__setitem__(9, _far(c, 9)), "step 9 goes from"),
    (lambda c: _break(c, 9), "step 9 begins in"),
    (lambda c: c.update(rewards=[]), "table"),
    (lambda c: c.update(who="person"), "person"),
    (lambda c: c["rewards"][0]["table"].pop(), r"table .*\[80\]"),
    (lambda c: c["rewards"][0]["table"].__setitem__(0, "1"), "table"),
    (lambda c: c["rewards"][0].update(since=1), "since"),
    (lambda c: c.update(rewards=[{**c["rewards"][0], "since": s} for s in (0, 9, 4)]), "since"),
    (lambda c: c.update(rewards=[{**c["rewards"][0], "since": s} for s in (0, 61)]), "within"),
]


def _far(content: dict[str, Any], t: int) -> int:
    return int((content["runs"][0]["entered"][t] + 40) % 81)


def _break(content: dict[str, Any], t: int) -> None:
    """Stay in a corner where nothing else led."""
    run = content["runs"][0]
    corner = next(s for s in (0, 80) if s not in (run["entered"][t - 1], run["state"][0]))
    run["state"][t] = run["entered"][t] = corner
    run["action"][t] = 0 if corner == 0 else 1


def test_what_is_wrong_is_named_in_one_line(tmp_path: Path) -> None:
    path, right = tmp_path / "run.json", json.dumps(file_of().to_json())
    for change, name in WRONG:
        content = json.loads(right)
        change(content)
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=name) as refused:
            TraceFile.read(path)
        said = str(refused.value)
        assert said.startswith(f"{path} cannot be used: ")
        assert "\n" not in said
        assert len(said) < 500


def test_what_is_no_file_of_traces_at_all(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for text in (b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b"run"):
        path.write_bytes(text)
        with pytest.raises(ValueError, match="run.json is no"):
            TraceFile.read(path)
    for text in (b"[]", b"3", b"null", b'{"zscout": "agent"}'):
        path.write_bytes(text)
        with pytest.raises(ValueError, match="it is not a trace of zscout"):
            TraceFile.read(path)
    path.write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(ValueError, match="it is larger than 64 MB"):
        TraceFile.read(path)
    for missing in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(ValueError, match="cannot be read"):
            TraceFile.read(missing)


def louder(file: TraceFile) -> TraceFile:
    return replace(file, rewards=[replace(painting, noise=2 * NOISE) for painting in file.rewards])


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda: louder(file_of()), "a.json and b.json differ in noise"),
        (lambda: file_of(memory=50), "differ in memory"),
        (lambda: file_of(arena=GridArena("open-grid", "clusters")), "differ in features"),
        (lambda: file_of(number=6), "differ in rewards"),
        (lambda: file_of(who="person", rewards=[]), "differ in who was the reward"),
        (lambda: file_of(arena=GridArena("maze", "laplacian", "network")), "differ in world, model"),
    ],
)
def test_only_runs_on_one_reward_stand_in_one_table(other: Callable[[], TraceFile], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TraceComparison({"a.json": file_of(), "b.json": other()})
    TraceComparison({"a.json": file_of(), "b.json": file_of("greedy", seed=9)})  # runs may differ


# The command


def test_the_command_puts_them_into_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "again").mkdir()
    written(file_of("usf-ucb", "random"), tmp_path / "[red].json")
    written(file_of("greedy", seed=9), tmp_path / "again" / "run.json")
    words = ["replay", "[red].json", "again/run.json", "--methods", "greedy,usf-ucb", "--seeds", "2"]
    main([*words, "--json", "t.json", "--csv", "t.csv", "--markdown", "t.md"])
    shown = capsys.readouterr().out
    assert "open-grid, laplacian, exact: 60 steps; noise 0.3" in shown
    assert "([red].json)" in shown
    assert "one task" not in shown
    content = json.loads(Path("t.json").read_text())
    order = [row["method"] for row in content["rows"]]
    lost = [row["lost"]["value"] for row in content["rows"]]
    assert lost == sorted(lost)
    assert set(order) == {"usf-ucb ([red].json)", "random ([red].json)", "greedy (run.json)", "greedy", "usf-ucb"}
    runs = {entry["method"]: entry for entry in content["runs"]}
    assert runs["usf-ucb"]["seeds"] == [SEED, SEED + 1]
    assert runs["usf-ucb"]["runs"]["lost"][0] == pytest.approx(runs["usf-ucb ([red].json)"]["runs"]["lost"][0])
    lines = Path("t.md").read_text().splitlines()
    shown_rows = [line.split(" | ")[0].removeprefix("| ") for line in lines[4:-2]]  # without the note
    assert [row.split(", ")[0] for row in shown_rows] == order  # tuned settings stand behind a comma
    assert Path("t.csv").read_text().count("\n") == 6
    main([*words, "--quick"])
    assert "IQM" not in capsys.readouterr().out
    main([*words[:-1], "4", "--methods", "greedy"])
    assert "IQM" in capsys.readouterr().out


def test_of_a_person_only_what_can_be_known_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = traced(one_run(), "usf-ucb")
    silent = replace(run, reward=[1.0, None, 0.5, *[None] * (STEPS - 3)])
    written(file_of(who="person", rewards=[], runs=[silent], memory=50), tmp_path / "me.json")
    main(["replay", "me.json", "--json", "t.json", "--csv", "t.csv", "--markdown", "t.md"])
    shown = capsys.readouterr().out
    assert "so the task is unknown: no regret" in shown
    assert "memory of about 50 steps" in " ".join(shown.split())
    content = json.loads(Path("t.json").read_text())
    assert content["rows"] == [{"method": "usf-ucb (me.json)", "steps": 60, "told": 2, "mean": 0.75}]
    assert Path("t.csv").read_text().splitlines()[1] == "usf-ucb (me.json),60,2,0.750"
    assert "| usf-ucb (me.json) | 60 | 2 | 0.750 |" in Path("t.md").read_text()
    mute = replace(run, reward=[None] * STEPS)
    written(file_of(who="person", rewards=[], runs=[mute]), tmp_path / "me.json")
    main(["replay", "me.json", "--json", "t.json"])
    assert json.loads(Path("t.json").read_text())["rows"][0]["mean"] is None


@pytest.mark.long
def test_all_methods_stand_beside_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(file_of(), tmp_path / "run.json")
    main(["replay", "run.json", "--quick", "--methods", "all", "--settings", "tuned"])
    shown = capsys.readouterr().out
    assert "usf-ucb-norm" in shown


REFUSED = {  # options, and what is named
    "--world maze": "zscout compare",  # the file decides
    "--seeds 0": "seeds",
    "--methods usf-ubc": "did you mean usf-ucb",
    "--json folder": "folder",
}


def test_wrong_options_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    written(file_of(), tmp_path / "run.json")
    for options, name in REFUSED.items():
        with pytest.raises(SystemExit) as stop:
            main(["replay", "run.json", *options.split()])
        told = capsys.readouterr()
        assert (stop.value.code, told.err.count("\n"), told.out) == (2, 1, ""), options
        assert name in told.err, options
