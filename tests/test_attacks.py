"""Faults that were found by attack, each as the attack was: killed workers, full disks, hostile files."""

import contextlib
import copy
import io
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import zscout
from waiting import PATIENCE
from zscout.base.files import read_headed, write_bytes, write_headed
from zscout.base.randomness import Rng
from zscout.cli import main
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.comparison import Entrant
from zscout.lab.compare.tables import TextTable
from zscout.lab.runs.chunks import run_all
from zscout.lab.runs.executor import LocalProcesses
from zscout.lab.runs.store import FILE, Store, StoreError
from zscout.transfer import saving
from zscout.transfer.methods import METHODS, Method
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import AtEstimate


@dataclass(frozen=True)
class Deadly:
    """A search that kills its process."""

    def __call__(self, problem: Problem, rng: Rng) -> torch.Tensor:
        os.kill(os.getpid(), 9)
        return AtEstimate()(problem, rng)


@pytest.mark.long
def test_a_worker_that_dies_costs_the_run_that_kills_it(tmp_path: Path) -> None:
    arena, tasks = GridArena(features="clusters"), Tasks(3, 1)
    entrants = [
        Entrant.of(arena, "greedy", {}, tasks, steps=5),
        Entrant.of(arena, Method(search=Deadly()), {}, tasks, name="deadly", steps=5),
        Entrant.of(arena, "thompson", {}, tasks, steps=5),
    ]
    specs = [spec for entrant in entrants for spec in entrant.specs]
    for _ in range(2):  # the second time too: it must not refuse for ever
        with Store(tmp_path) as store, contextlib.closing(LocalProcesses(2)) as executor:
            list(run_all(specs, store, executor))
            failed = [spec for spec in specs if store.failure(spec)]
            assert failed == entrants[1].specs
            assert len(store) == 6
            assert "the process that ran it died" in str(store.failure(failed[0]))


def test_files_are_written_with_the_users_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = write_bytes(tmp_path / "a" / "b.txt", b"hello")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_bytes_are_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real_sync, real_replace = os.fsync, Path.replace

    def sync(handle: int) -> None:
        seen.append("sync")
        real_sync(handle)

    def replace(path: Path, to: Any) -> Path:
        seen.append("rename")
        return real_replace(path, to)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    write_bytes(tmp_path / "c", b"c")
    assert seen == ["sync", "rename"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = zscout.load("grid9-clusters")
    zscout.save(model, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("change", [{"layers": 10**9}, {"hidden": 10**6}, {"heads": 10**6}, {"n_actions": 10**6}])
def test_a_config_is_checked_against_the_file_before_anything_is_built(
    change: dict[str, int], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zscout.models.files.pretrained.USFA", None)  # building it now would be a TypeError
    config = json.loads((folder / "config.json").read_text())
    config["model"] |= change
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"its config\.json expects"):
        zscout.load(folder)


def test_deeply_nested_json_is_a_value_error(folder: Path, tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    (folder / "config.json").write_text(deep)
    with pytest.raises(ValueError, match="nested too deeply"):
        zscout.load(folder)
    from safetensors.torch import save

    (tmp_path / "agent.safetensors").write_bytes(save({"a": torch.zeros(1)}, {"agent": deep}))
    with pytest.raises(ValueError, match="nested too deeply"):
        zscout.OnlineTransfer.load(tmp_path, zscout.load("grid9-clusters"))
    (tmp_path / "settings.json").write_text(deep)
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--quick", "--settings", str(tmp_path / "settings.json"), "--out", str(tmp_path / "out")])
    assert stop.value.code == 2


def tampered(change: Callable[[dict[str, Any]], Any], path: Path) -> None:
    """A saved agent with another method in its header."""
    description, tensors = read_headed(path, "agent", saving.FORMAT)
    change(description["method"])
    write_headed(path, "agent", description, tensors)


def test_agents_saved_with_what_is_gone_are_refused_and_others_load(
    clusters_model: zscout.ExactModel, tmp_path: Path
) -> None:
    agent = zscout.OnlineTransfer(clusters_model)
    agent.learn([3, 50, 70], [1.0, 0.5, -1.0])
    agent.save(tmp_path)
    path = tmp_path / "agent.safetensors"
    description, tensors = read_headed(path, "agent", saving.FORMAT)
    for share, past, says in ((1.0, None, ""), (0.99, None, "it forgets old rewards"), (1.0, ["walk"], "a memory")):
        method = description["method"] | {"forgetting": share}
        write_headed(path, "agent", description | {"method": method, "forgetting": share, "past": past}, tensors)
        if not says:
            assert torch.equal(zscout.OnlineTransfer.load(tmp_path, clusters_model).z_hat, agent.z_hat)
            continue
        for own in (None, agent.method):
            with pytest.raises(ValueError, match=says):
                zscout.OnlineTransfer.load(tmp_path, clusters_model, own)


@pytest.mark.parametrize(
    "change",
    [
        {"confidence": {"is": "UCB", "bonus_gamma": None, "bonus_scale": 1.0}},  # a piece in another's place
        {"acquisition": {"is": "ScaleFree", "kappa": 1.0, "caution": 8.0}},
        {"search": {"is": "Problem"}},
        {"search": {"is": "Automatic", "table": {"is": "Shooting", "n": 10}}},
        {"search": {"is": "Ellipsoid", "n": 8, "scale": 2.0, "surface": "yes", "shipped": False}},
        {"search": {"is": "Shooting", "n": 10**12}},
        {"search": {"is": "Shooting", "n": 5, "more": 1}},
        {"acquisition": {"is": "OverHeads", "score": None}},
        {"search": {"is": "Exploring", "explorer": {"is": "UCB"}, "steps": 3, "then": {"is": "AtEstimate"}}},
        {"search": {"is": "Exploring", "explorer": {"is": "RandomWalk"}, "steps": 3, "then": {"is": "UCB"}}},
        {"search": {"is": "Known", "task": [1.0] * 9}},
        {"search": {"is": "Known", "task": {"is": "tensor", "values": [[1.0], [2.0, 3.0]]}}},
        {"hold": {"is": "UCB"}},
        {"search": "AtEstimate"},
        {"confidence": {"is": "ScaleFree", "kappa": True, "caution": 8.0}},
        {"confidence": {"is": "KnownNorm", "kappa": 2.2, "norm_bound": 2**63, "floor": 0.3}},
        {"hold": 10**400},
    ],
)
def test_a_tampered_method_is_refused_when_it_is_loaded(
    change: dict[str, Any], clusters_network: zscout.USFA, tmp_path: Path
) -> None:
    agent = zscout.OnlineTransfer(clusters_network)
    agent.tell(agent.act(3), 1.0)
    agent.save(tmp_path)
    zscout.OnlineTransfer.load(tmp_path, clusters_network)
    tampered(lambda method: method.update(change), tmp_path / "agent.safetensors")
    with pytest.raises(ValueError, match="cannot restore the agent"):
        zscout.OnlineTransfer.load(tmp_path, clusters_network)


def test_every_method_of_ours_is_saved_and_loaded(clusters_network: zscout.USFA, tmp_path: Path) -> None:
    for name in set(METHODS) - {"oracle"}:
        agent = zscout.OnlineTransfer(clusters_network, name)
        agent.save(tmp_path)
        assert zscout.OnlineTransfer.load(tmp_path, clusters_network).method == agent.method


# The agent


def test_what_is_handed_out_may_be_written_to(clusters_model: zscout.ExactModel) -> None:
    agent, same = zscout.OnlineTransfer(clusters_model), zscout.OnlineTransfer(clusters_model)
    for each in (agent, same):
        each.ask(3)
        each.tell(4, 1.0)
    agent.z_hat.fill_(7.0)
    agent.best_z.fill_(7.0)
    agent.posterior.V.zero_()
    agent.posterior.z_hat.fill_(torch.nan)
    agent.posterior.factor.zero_()
    z = agent.present_z
    assert z is not None
    z.zero_()
    assert torch.equal(agent.ask(4), same.ask(4))
    assert torch.equal(agent.posterior.V, same.posterior.V)


def test_a_second_thread_is_refused_in_a_sentence() -> None:
    model = zscout.load("grid9-clusters")
    inside, go_on = threading.Event(), threading.Event()
    real = model.phi

    def slow_phi(obs: Any) -> torch.Tensor:
        inside.set()
        go_on.wait(PATIENCE)
        return real(obs)

    agent = zscout.OnlineTransfer(model)
    agent.ask(3)
    model.phi = slow_phi  # type: ignore[method-assign]
    thread = threading.Thread(target=lambda: agent.tell(4, 1.0))
    thread.start()
    assert inside.wait(PATIENCE)
    with pytest.raises(RuntimeError, match="another thread is using this agent"):
        agent.ask(5)
    go_on.set()
    thread.join(PATIENCE)
    assert agent.t == 1
    agent.ask(5)
    assert copy.deepcopy(agent.posterior).z_hat.isfinite().all()


sizes = st.floats(-170, 110).map(lambda exponent: 10.0**exponent)


@given(rewards=st.lists(st.tuples(sizes, st.sampled_from([-1.0, 1.0])), min_size=1, max_size=4), kind=st.integers(0, 2))
def test_after_any_accepted_tell_ask_succeeds(
    laplacian_network: zscout.USFA, rewards: list[tuple[float, float]], kind: int
) -> None:
    name = ("usf-ucb", "usf-ucb-paper", "opti")[kind]
    agent = zscout.OnlineTransfer(laplacian_network, name)
    for state, (size, sign) in enumerate(rewards):
        agent.ask(state)
        before = agent.z_hat
        try:
            agent.tell(state + 1, sign * size)
        except ValueError:
            assert torch.equal(agent.z_hat, before)
        assert agent.ask(state + 1).isfinite().all()
        assert agent.best_z.isfinite().all()


def test_a_model_in_half_precision_learns(laplacian_network: zscout.USFA) -> None:
    class Half:
        """The network, answering in float16."""

        def __getattr__(self, name: str) -> Any:
            found = getattr(laplacian_network, name)
            if name not in ("phi", "psi", "sample_z", "project_z"):
                return found
            return lambda *arguments: found(*arguments).half()

    agent = zscout.OnlineTransfer(Half(), "usf-ucb-paper")
    for state in range(5):
        agent.ask(state)
        agent.tell(state + 1, 3.0 * state)
    assert agent.z_hat.abs().max() > 0.5


def test_a_reward_that_the_model_cannot_hold_is_refused(laplacian_network: zscout.USFA) -> None:
    agent = zscout.OnlineTransfer(laplacian_network)
    agent.ask(0)
    agent.tell(1, 0.0)
    agent.ask(1)
    with pytest.raises(ValueError, match="scale the reward"):
        agent.tell(60, 1e60)
    assert agent.t == 1
    agent.tell(2, 1.0)


# The store


def test_a_changed_digit_is_found_and_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "--quick", "--steps", "5", "--methods", "greedy,random", "--jobs", "1", "--out", str(tmp_path)]
    words += ["--settings", "default"]
    main([*words, "--json", str(tmp_path / "a.json")])
    capsys.readouterr()
    with sqlite3.connect(tmp_path / FILE) as file:
        (numbers,) = file.execute("SELECT numbers FROM runs ORDER BY digest LIMIT 1").fetchone()
        changed = json.loads(numbers) | {"lost": 0.001}
        file.execute("UPDATE runs SET numbers = ? WHERE numbers = ?", (json.dumps(changed, sort_keys=True), numbers))
    file.close()
    entrants = [Entrant.of(GridArena(), method, {}, Tasks(5, 1), steps=5) for method in ("greedy", "random")]
    specs = [spec for entrant in entrants for spec in entrant.specs]
    with Store(tmp_path) as store, pytest.raises(StoreError, match="was changed since it was written"):
        list(map(store.numbers, specs))
    main([*words, "--json", str(tmp_path / "b.json")])
    assert "1 stored runs are damaged" in capsys.readouterr().out
    before, after = (json.loads((tmp_path / f"{name}.json").read_text())["rows"] for name in "ab")
    assert before == after


def test_a_byte_that_is_no_text_is_found_too(tmp_path: Path) -> None:
    specs = Entrant.of(GridArena(), "greedy", {}, Tasks(3, 1), steps=5).specs
    with Store(tmp_path) as store:
        list(run_all(specs, store))
    with sqlite3.connect(tmp_path / FILE) as file:
        file.execute("UPDATE runs SET numbers = CAST(x'7BF47D' AS TEXT) WHERE digest = ?", (specs[1].digest,))
    file.close()
    with Store(tmp_path) as store:
        assert store.drop_damaged(specs) == 1
        assert store.missing(specs) == [specs[1]]


# The command line


@pytest.fixture
def heard() -> Iterator[None]:
    """Programs that a test starts hear Ctrl-C, also where the tests themselves run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize(
    ("first", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)]
)
def test_signals_end_in_one_line(first: signal.Signals, code: int, tmp_path: Path) -> None:
    words = ["compare", "--methods", "greedy", "--steps", "200", "--tasks", "3000", "--jobs", "1"]
    command = [sys.executable, "-m", "zscout", *words, "--out", str(tmp_path)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert "runs in" in run.stdout.readline()  # the first chunk is kept
    run.send_signal(first)
    _, said = run.communicate(timeout=PATIENCE)
    assert run.returncode == code
    assert said.count("\n") == 1
    assert "run the same command again to resume" in said


@pytest.mark.usefixtures("heard")
def test_a_second_ctrl_c_ends_at_once_in_one_line() -> None:
    program = """
import signal
from zscout.cli.parts.progress import signals_stop_it
with signals_stop_it():
    try:
        print("ready", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        print("cleaning up", flush=True)
        signal.pause()
"""
    run = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None
    for expected in ("ready", "cleaning up"):
        assert run.stdout.readline().strip() == expected
        run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130
    assert (said.count("\n"), "stopped" in said) == (1, True)


def test_signals_are_as_before_when_a_command_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(SystemExit):
        main(["compare", "--methods", "none"])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_folder_whose_name_looks_like_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = tmp_path / "a[/b]" / "map.txt"
    world.parent.mkdir(parents=True)
    world.write_text(".......\n..##...\n.......\n.#.....\n")
    words = ["compare", "--quick", "--steps", "5", "--methods", "greedy", "--world", str(world), "--jobs", "1"]
    main([*words, "--out", str(tmp_path / "[/i]")])
    assert "a[/b]" in capsys.readouterr().out.replace("\n", "")


def test_an_80_column_table_breaks_no_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rich.console import Console

    from zscout.lab.compare.tables import terminal_table

    head = ["rank", "method", "lost steps", "IQM", "own π", "settled", "final", "‖ẑ−z_r‖"]
    name = "a-method-of-ours, exhaustive=True steps=100 (tuned)"
    row = ["10–12", name, "108.9 (106.8–111.9)", "108.3 (106.7–113.3)", "108.9", "100%", "-0.015", "2.30"]
    console = Console(width=80, record=True, file=io.StringIO(), markup=False)
    console.print(terminal_table(TextTable("t", "a title", head, [row])))
    shown = console.export_text()
    for word in [*name.replace("(", " (").split(), "108.9", "(106.8–111.9)", *head[2:]]:
        assert word in shown
    assert max(map(len, shown.splitlines())) <= 80
