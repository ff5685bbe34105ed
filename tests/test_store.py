"""One file that keeps what was finished, whatever happens."""

import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from waiting import until
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.comparison import Entrant, Outcome, comparison
from zscout.lab.runs.chunks import run_all, run_batch, run_chunk
from zscout.lab.runs.executor import executor_named
from zscout.lab.runs.spec import Spec
from zscout.lab.runs.store import FILE, Failure, Record, Store, StoreError, unpack

KILLS = int(os.environ.get("KILLS", "4"))  # KILLS=20 pytest -s -k killed tells of each of twenty
PROGRAM = """
import sys
from pathlib import Path

def main():
    import torch
    import zscout.lab.runs.chunks as chunks
    from test_store import entrants
    from zscout.lab.runs.executor import executor_named
    from zscout.lab.runs.store import Store

    torch.set_num_threads(1)
    chunks.FIRST = chunks.FAST_CHUNK = chunks.LARGEST_CHUNK = 2  # many small chunks: many moments to be killed at
    executor = executor_named(jobs=int(sys.argv[2]))
    with Store(Path(sys.argv[1])) as store:
        for chunk in chunks.run_all([s for e in entrants() for s in e.specs], store, executor):
            print(*(answer.spec.digest for answer in chunk.answers), flush=True)
    print("done", flush=True)

if __name__ == "__main__":
    main()
"""


def entrants() -> list[Entrant]:
    methods = ("greedy", "random", "usf-ucb-paper", "thompson")
    return [
        Entrant(GridArena(features="clusters"), method, tasks=Tasks(max(15, 2 * KILLS), 2), steps=12)
        for method in methods
    ]


def one(method: str = "greedy", **rest: Any) -> Spec:
    return Spec(GridArena(), method, tuple(np.arange(9.0) - 4), steps=6, **rest)


def start(folder: Path, workers: int = 1) -> "subprocess.Popen[str]":
    program = folder.parent / "program.py"
    program.write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, str(program), str(folder), str(workers)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def table(folder: Path) -> list[str]:
    """As it is printed: nine digits, since batches of another size round otherwise in the sixteenth."""
    with Store(folder) as store:
        rows = comparison([Outcome.of(entrant, store) for entrant in entrants()])
    return [re.sub(r"\d+\.\d{9,}", lambda number: f"{float(number[0]):.9g}", json.dumps(row.to_json())) for row in rows]


def written(folder: Path) -> list[tuple[str, int, int]]:
    """What a write changes: the size and the time of each file."""
    found = []
    for path in sorted(folder.glob("*")):
        with suppress(FileNotFoundError):
            found.append((path.name, path.stat().st_size, path.stat().st_mtime_ns))
    return found


def goes_on(process: "subprocess.Popen[str]", folder: Path, before: Any) -> bool:
    """Whether another write has begun, or nothing more is written."""
    return written(folder) != before or process.poll() is not None


@pytest.mark.long
def test_killed_at_any_moment_nothing_finished_is_lost(tmp_path: Path) -> None:
    """``kill -9`` at random moments: what was reported done is there, and in the end the tables are the same."""
    rng = np.random.default_rng(0)
    finished: set[str] = set()
    specs = {spec.digest: spec for entrant in entrants() for spec in entrant.specs}
    for kill in range(KILLS):
        process = start(tmp_path / "killed")
        assert process.stdout is not None
        left = (len(specs) - len(finished)) // 2  # chunks
        chunks = 0 if kill == 0 else rng.integers(1, max(2, 2 * left // (KILLS - kill + 1)))
        for _ in range(chunks):
            finished |= set(process.stdout.readline().split()) & set(specs)
        writes = rng.integers(0, 6)  # until the kill: of the chunks that follow, or while all is set up
        for _ in range(writes):
            before = written(tmp_path / "killed")
            until(partial(goes_on, process, tmp_path / "killed", before), "nothing is written", pause=lambda: None)
        process.send_signal(signal.SIGKILL)
        told = process.communicate()[0].split()
        finished |= {word for word in told if word in specs}  # the last line may be torn
        with Store(tmp_path / "killed") as store:
            there = {digest for digest, spec in specs.items() if store.numbers(spec) is not None}
            assert all(len(store.record(specs[digest]).steps["state"]) == 12 for digest in there)
        lost = len(finished - there)
        print(f"kill {kill + 1}: {writes} writes after {len(finished)} runs; {len(there)} in the store, {lost} lost")
        assert lost == 0
        assert len(there) <= len(finished) + 2  # a chunk is kept before it is told of
        assert len(there) % 2 == 0  # whole chunks only
    for name in ("killed", "whole"):
        assert start(tmp_path / name).communicate()[0].endswith("done\n")
    assert table(tmp_path / "killed") == table(tmp_path / "whole")


@pytest.mark.long
def test_two_processes_share_one_store(tmp_path: Path) -> None:
    both = [start(tmp_path / "shared") for _ in range(2)]
    assert all(process.communicate()[0].endswith("done\n") for process in both)
    with Store(tmp_path / "shared") as store:
        assert len(store) == 4 * len(entrants()[0].specs)
    assert start(tmp_path / "alone").communicate()[0].endswith("done\n")
    assert table(tmp_path / "shared") == table(tmp_path / "alone")


@pytest.mark.long
def test_many_processes_may_make_one_store(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from zscout.lab.runs.store import Store\n" + (
        "print('ready', flush=True); sys.stdin.read()\nfor i in range(30): Store(Path(sys.argv[1]) / str(i)).close()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    several = [subprocess.Popen(command, text=True, **pipes) for _ in range(3)]
    for process in several:  # all have imported what they need, and begin together
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.stdout.close()
    for process in several:
        assert process.stdin is not None
        process.stdin.close()
    for process in several:
        assert process.stderr is not None
        assert process.stderr.read() == ""
        process.stderr.close()
        assert process.wait() == 0


def test_workers_give_what_one_process_gives(tmp_path: Path) -> None:
    specs = [spec for entrant in entrants()[:2] for spec in entrant.specs[:6]]
    for name, workers in (("one", 1), ("two", 2)):
        with Store(tmp_path / name) as store, closing(executor_named(jobs=workers)) as executor:
            assert sum(len(chunk.answers) for chunk in run_all(specs, store, executor)) == 12
    with Store(tmp_path / "one") as one, Store(tmp_path / "two") as two:
        assert [one.numbers(spec) for spec in specs] == [two.numbers(spec) for spec in specs]


@pytest.mark.long
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    process = start(tmp_path / "store", workers=2)
    assert process.stdout is not None
    process.stdout.readline()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        process.communicate()
        pytest.skip("this system does not list a process's children")
    workers = [int(word) for word in children.read_text().split()]
    assert len(workers) >= 2
    process.kill()
    process.communicate()
    until(lambda: not any(_runs(worker) for worker in workers), "workers are left")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    (record,) = run_batch([one("usf-ucb-paper")])
    with Store(tmp_path) as store:
        store.add([record])
        back = store.record(record.spec)
        assert len(store) == 1
    assert back.numbers == record.numbers
    assert set(back.steps) >= {"state", "action", "z", "reward", "error", "regret", "bound", "naive", "log_det"}
    assert set(back.steps) >= {"log_det_states", "normalised", "value"}
    for name, column in record.steps.items():
        assert np.array_equal(back.steps[name], column)
        assert back.steps[name].dtype == column.dtype
    assert back.provenance["method"]["is"] == "Method"
    assert back.provenance["seconds"] > 0


def test_columns_mean_what_they_say() -> None:
    record = run_batch([one("usf-ucb-paper", seed=4)])[0]
    exact = GridArena().ground.exact
    steps, task = record.steps, torch.tensor(record.spec.task, dtype=torch.float64)
    phi = exact.features[steps["entered"]]
    V = 0.09 * torch.eye(9).double() + phi.T @ phi
    assert steps["log_det"][-1] == pytest.approx(-float(torch.linalg.slogdet(V)[1]), rel=1e-5)
    z_hat = torch.linalg.solve(V, phi.T @ torch.from_numpy(steps["reward"]))
    assert steps["error"][-1] == pytest.approx(float((z_hat - task).norm()), rel=1e-5)
    counts = torch.bincount(torch.from_numpy(steps["entered"]).long(), minlength=81)
    assert steps["log_det_states"][-1] == pytest.approx(-float(torch.log(0.09 + counts).sum()), rel=1e-5)
    worth = exact.features @ task
    wanted = (worth[steps["entered"]] - worth.mean()) / (worth.max() - worth.mean())
    assert np.allclose(steps["normalised"], wanted, atol=1e-5)
    z = torch.from_numpy(steps["z"]).double()
    psi = torch.stack([exact.psi(int(s), z[t : t + 1])[0] for t, s in enumerate(steps["state"])])
    regret = exact.value(task)[steps["state"]] - psi @ task
    assert np.allclose(steps["regret"] * GridArena().ground.gap, regret, atol=1e-3)
    width = torch.linalg.solve(V - phi[-1:].T @ phi[-1:], psi[-1]) @ psi[-1]
    assert steps["width"][-1] == pytest.approx(float(width.sqrt()), rel=1e-4)


def test_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="cannot be made"):
        Store(tmp_path / "file" / "below")
    (tmp_path / "out" / FILE).mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path / "out")


def test_files_that_are_no_store(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / FILE).write_text("hello " * 1000)
    with pytest.raises(StoreError, match="not a database"):
        Store(tmp_path / "text")
    (tmp_path / "other").mkdir()
    with sqlite3.connect(tmp_path / "other" / FILE) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(StoreError, match="not a store of zscout"):
        Store(tmp_path / "other")


@pytest.mark.parametrize(("schema", "age"), [(0, "an older"), (99, "a newer")])
def test_another_schema_is_said_and_left_alone(schema: int, age: str, tmp_path: Path) -> None:
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as file:
        file.execute(f"PRAGMA user_version = {schema}")
    file.close()
    with pytest.raises(StoreError, match=f"{age} version"):
        Store(tmp_path)
    with sqlite3.connect(tmp_path / FILE) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (schema,)
    file.close()


def test_a_full_disk_loses_nothing_that_was_there(tmp_path: Path) -> None:
    records = run_batch([one(seed=seed) for seed in range(40)])
    with Store(tmp_path) as store:
        store.add(records[:2])
        pages = store._file.execute("PRAGMA page_count").fetchone()[0]
        store._file.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match="the disk is full; nothing that was finished is lost"):
            store.add(records[2:])
        assert len(store) == 2
    with Store(tmp_path) as store:
        assert store.record(records[1].spec).numbers == records[1].numbers
        store.add(records[2:])
        assert len(store) == 40


def test_a_write_that_the_system_refuses(tmp_path: Path) -> None:
    """The same through the operating system: files may not grow past a limit."""
    records = run_batch([one(seed=seed) for seed in range(40)])
    with Store(tmp_path) as store:
        store.add(records[:2])
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, limits[1]))
        try:
            with pytest.raises(StoreError, match="nothing that was finished is lost"):
                store.add(records[2:])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, before)
    with Store(tmp_path) as store:
        assert len(store) == 2


def test_damaged_steps_are_said() -> None:
    for content in (b"", b"x" * 40):
        with pytest.raises(ValueError, match="cannot be read"):
            unpack(content)


def test_a_run_that_fails_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [one("thompson", seed=seed) for seed in range(4)]

    def batch(chunk: list[Spec]) -> list[Record]:
        if any(spec.seed == 2 for spec in chunk):
            raise RuntimeError("not this one")
        return run_batch(chunk)

    monkeypatch.setattr("zscout.lab.runs.chunks.run_batch", batch)
    answers = run_chunk(specs).answers
    assert [type(answer) for answer in answers] == [Record, Record, Failure, Record]
    with Store(tmp_path) as store:
        store.add(answers)
        assert (store.failure(specs[2]) or "").startswith("RuntimeError: not this one (test_store.py:")
        assert store.missing(specs) == [specs[2]]  # it is tried again
        with pytest.raises(KeyError):
            store.record(specs[2])
        monkeypatch.undo()
        list(run_all(specs, store))
        assert store.failure(specs[2]) is None
        assert len(store) == 4
