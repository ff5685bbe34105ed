"""Where runs are computed changes no digit, and a worker or a node that is lost costs nothing that was finished."""

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import zscout.lab.runs.chunks
from waiting import PATIENCE, until
from zscout.base.randomness import Rng
from zscout.cli import main
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.comparison import Entrant
from zscout.lab.runs.chunks import FAST_CHUNK, SMALL_CHUNK, _least_runs, _Plan, run_all
from zscout.lab.runs.executor import Executor, InProcess, LocalProcesses, Result, executor_named
from zscout.lab.runs.spec import Spec
from zscout.lab.runs.store import Store
from zscout.transfer.methods import Method
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import AtEstimate

TESTS = Path(__file__).parent
HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="Ray is not part of the checks: make cluster installs it")
ray_warns = pytest.mark.filterwarnings("ignore")  # Ray's own


def entrants(tasks: int = 6) -> list[Entrant]:
    arena = GridArena(features="clusters")
    return [Entrant.of(arena, method, {}, Tasks(tasks, 1), steps=8) for method in ("greedy", "thompson")]


def specs_of(entrants: Sequence[Entrant]) -> list[Spec]:
    return [spec for entrant in entrants for spec in entrant.specs]


def stored(specs: Sequence[Spec], folder: Path, executor: Executor | None = None) -> list[Any]:
    """The numbers and the steps of each run."""
    with Store(folder) as store:
        list(run_all(specs, store, executor))
        records = [store.record(spec) for spec in specs]
    return [(record.numbers, {name: column.tolist() for name, column in record.steps.items()}) for record in records]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zscout.lab.runs.chunks, "FAST_CHUNK", 2)
    monkeypatch.setattr(zscout.lab.runs.chunks, "LARGEST_CHUNK", 2)


def test_the_size_of_chunks_follows_the_model() -> None:
    def least(model: str, steps: int) -> int:
        return _least_runs(Spec(GridArena(model=model), "usf-ucb", (), steps=steps))

    assert least("network", 200) == FAST_CHUNK
    assert least("network", 100_000) == SMALL_CHUNK  # in batches of one a network takes twice as long
    assert least("exact", 100_000) == 1
    plan = _Plan(specs_of(entrants(tasks=6)), slots=4)  # 12 runs
    assert [len(plan.take()) for _ in range(5)] == [3, 3, 3, 3, 0]


# The seam, with executors that lose chunks


class GoneError(Exception):
    """A worker is gone."""


class Pending(Future[Any]):
    """A chunk of ``Losing``."""

    def __init__(self, executor: "Losing") -> None:
        super().__init__()
        self.executor = executor


@pytest.fixture(autouse=True)
def chunks_end_when_they_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of ``Losing``: before, as many have begun as there are slots."""

    def ended(futures: Iterable[Future[Any]], **rest: Any) -> Any:
        for executor in {future.executor for future in futures if isinstance(future, Pending)}:
            executor.end()
        return wait(futures, **rest)

    monkeypatch.setattr(zscout.lab.runs.chunks, "wait", ended)


class Losing(InProcess):
    """Several chunks at once; loses those that it is told to. If not isolated, all that run are lost together."""

    lost: tuple[type[BaseException], ...] = (GoneError,)

    def __init__(self, loses: Callable[[Sequence[Spec]], bool], *, slots: int = 3, isolated: bool = True) -> None:
        self._loses, self.slots, self.isolated = loses, slots, isolated
        self.begun: list[list[Spec]] = []
        self.most, self.closed = 0, 0
        self._pending: dict[Future[Any], tuple[Callable[[Sequence[Spec]], Any], list[Spec]]] = {}

    def submit(self, work: Callable[[Sequence[Spec]], Result], specs: Sequence[Spec]) -> Future[Result]:
        future: Future[Result] = Pending(self)
        self.begun.append(list(specs))
        self._pending[future] = (work, list(specs))
        self.most = max(self.most, len(self._pending))
        return future

    def end(self) -> None:
        pending, self._pending = self._pending, {}
        dead = {future for future, (_, specs) in pending.items() if self._loses(specs)}
        for future, (work, specs) in pending.items():
            if future in dead or (dead and not self.isolated):
                future.set_exception(GoneError())
            else:
                future.set_result(work(specs))

    def close(self) -> None:
        self.closed += 1


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("isolated", [True, False])
def test_lost_chunks_are_run_again_and_give_the_same_numbers(isolated: bool, tmp_path: Path) -> None:
    specs = specs_of(entrants())
    lost: list[Spec] = []

    def every_chunk_once(chunk: Sequence[Spec]) -> bool:
        fresh = chunk[0] not in lost
        lost.append(chunk[0])
        return fresh

    executor = Losing(every_chunk_once, isolated=isolated)
    assert stored(specs, tmp_path / "losing", executor) == stored(specs, tmp_path / "whole")
    assert executor.most == 3  # or nothing would run beside a lost chunk
    assert sorted(len(chunk) for chunk in executor.begun) == [2] * len(executor.begun)  # none had to be split
    assert executor.closed == 0  # it belongs to the caller, who may run more


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("isolated", [True, False])
def test_a_run_that_kills_its_worker_fails_alone(isolated: bool, tmp_path: Path) -> None:
    specs = specs_of(entrants())
    executor = Losing(lambda chunk: specs[3] in chunk, isolated=isolated)
    with Store(tmp_path) as store:
        list(run_all(specs, store, executor))
        assert store.missing(specs) == [specs[3]]
        assert "the process that ran it died" in str(store.failure(specs[3]))
    tries = [len(chunk) for chunk in executor.begun if specs[3] in chunk]
    assert tries == [2, 2, 1]  # the chunk, the chunk again, the run alone


def test_what_was_finished_before_an_error_is_kept_and_the_executor_is_closed(tmp_path: Path) -> None:
    class Broken(Losing):
        def submit(self, work: Callable[[Sequence[Spec]], Result], specs: Sequence[Spec]) -> Future[Result]:
            if len(self.begun) == 1:
                raise KeyboardInterrupt
            return super().submit(work, specs)

    specs, executor = specs_of(entrants(2)), Broken(lambda chunk: False, slots=1)
    with Store(tmp_path) as store:
        with pytest.raises(KeyboardInterrupt):
            list(run_all(specs, store, executor))
        assert len(store) == 2
    assert executor.closed == 1


def test_runner_jobs_and_address_choose_the_executor() -> None:
    assert isinstance(executor_named(), InProcess)
    assert isinstance(executor_named(jobs=1), InProcess)
    two = executor_named(jobs=2)
    assert isinstance(two, LocalProcesses)
    assert two.slots == 2
    with pytest.raises(ValueError, match="there is no runner 'slurm': there are local, ray"):
        executor_named("slurm")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


UNUSABLE = {  # options, and the name of what is wrong with them
    "--runner ray --address 127.0.0.1:{port}": "--address 127.0.0.1:",
    "--runner ray --address ray://127.0.0.1:10001": "host:port",
    "--runner ray --address 127.0.0.1:99999": "127.0.0.1:99999",
    "--address 127.0.0.1:6379": "--runner ray",
    "--runner ray --jobs 0": "jobs",
    "--runner rays": "did you mean ray?",
}


def test_a_cluster_that_cannot_be_used_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())  # as if Ray were installed
    for options, name in UNUSABLE.items():
        with pytest.raises(SystemExit) as stop:
            main(["compare", *options.format(port=free_port()).split()])
        errors = capsys.readouterr().err
        assert (stop.value.code, errors.count("\n")) == (2, 1), options
        assert name in errors, options


@pytest.mark.parametrize("reply", [b"HTTP/1.0 400 Bad request\r\n", b""])
def test_a_server_that_is_no_cluster_is_told_from_one(reply: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as visitor:
                visitor.recv(100)
                visitor.sendall(reply)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(OSError, match="what listens at --address .* is not a Ray cluster"):
            executor_named("ray", address=f"127.0.0.1:{server.getsockname()[1]}")


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--runner", "ray"])
    assert stop.value.code == 2
    assert ".[ray]" in capsys.readouterr().err


# The processes of this machine

HALF = """
import os, signal, sys, time
from multiprocessing.connection import Connection
from pathlib import Path
from zscout.base.processes import WorkerPool

def half_sent(mark):
    def send(self, data):
        os.write(self.fileno(), bytes(data)[: len(data) // 2])
        Path(mark).touch()
        signal.pause()
    Connection._send = send

if __name__ == "__main__":
    pool = WorkerPool(1)
    pool.submit(half_sent, sys.argv[1])
    while not Path(sys.argv[1]).exists():
        time.sleep(0.02)
    pool.terminate()
    pool.shutdown(cancel_futures=True)
"""


def test_workers_that_are_stopped_while_they_send_a_result_are_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(HALF)
    done = subprocess.run([sys.executable, "half.py", "mark"], cwd=tmp_path, timeout=PATIENCE, check=False)
    assert done.returncode == 0


# A Ray cluster of two nodes on this machine


@dataclass(frozen=True)
class Fragile:
    """Where ``mark`` is no file yet: makes it and dies; with ``head``, waits on any other node to be killed."""

    mark: str
    head: str = ""

    def __call__(self, problem: Problem, rng: Rng) -> torch.Tensor:
        if not Path(self.mark).exists():
            if not self.head:
                Path(self.mark).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            import ray

            if (node := ray.get_runtime_context().get_node_id()) != self.head:
                Path(self.mark).write_text(node)
                signal.pause()
        return AtEstimate()(problem, rng)


class TwoNodes:
    """A head and one more node, with one core each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(initialize_head=True, head_node_args=self._node)
        self.address = str(self.cluster.address)
        self.second: Any = None
        self.grow()

    _node = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}  # noqa: RUF012

    def grow(self) -> None:
        self.second = self.cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)

    def kill_second(self) -> None:
        self.cluster.remove_node(self.second, allow_graceful=False)

    @property
    def head(self) -> str:
        return str(self.cluster.head_node.node_id)


@pytest.fixture(scope="module")
def nodes() -> Iterator[TwoNodes]:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *([before] if before else [])])  # of the workers
    two = TwoNodes()
    yield two
    two.cluster.shutdown()
    os.environ.pop("PYTHONPATH")
    if before:
        os.environ["PYTHONPATH"] = before


@contextlib.contextmanager
def joined(nodes: TwoNodes) -> Iterator[Executor]:
    with contextlib.closing(executor_named("ray", address=nodes.address)) as executor:
        yield executor


@needs_ray
@ray_warns
@pytest.mark.usefixtures("small_chunks")
def test_a_cluster_gives_what_this_process_gives_also_when_a_worker_and_a_node_are_killed(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena, worker, node = GridArena(features="clusters"), tmp_path / "worker", tmp_path / "node"
    methods = [Method(search=it) for it in (Fragile(str(worker)), Fragile(str(node), nodes.head))]
    fallible = [Entrant.of(arena, method, {}, Tasks(4, 1), steps=8) for method in methods]
    specs = specs_of([*entrants(), *fallible])

    def kill_the_second_node() -> None:
        until(node.exists, "no run waits to be killed")
        nodes.kill_second()

    killer = threading.Thread(target=kill_the_second_node, daemon=True)
    killer.start()
    with joined(nodes) as executor:
        assert executor.slots == 2
        there = stored(specs, tmp_path / "there", executor)
    killer.join(PATIENCE)
    assert worker.exists()
    assert node.exists()
    assert there == stored(specs, tmp_path / "here")

    # Code of another digest is refused by the node that would run it
    monkeypatch.setattr("zscout.lab.runs.ray_executor.code_digest", lambda: "0" * 64)
    with Store(tmp_path / "other") as store, joined(nodes) as executor:
        with pytest.raises(OSError, match=r"the node .* has other zscout code \(.*\) than this one \(000000000000\)"):
            list(run_all(specs, store, executor))
        assert len(store) == 0


@needs_ray
@ray_warns
def test_after_ctrl_c_the_same_command_resumes(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", "--methods", "usf-ucb-paper,greedy", "--steps", "20", "--features", "clusters"]
    words += ["--tasks", "150", "--seeds", "1", "--out", "out", "--json", "rows.json"]
    command = [sys.executable, "-m", "zscout", *words, "--runner", "ray", "--address", nodes.address]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert " of 300: " in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert "runs; run the same command again to resume" in errors
    (tmp_path / "whole").mkdir()
    for folder in (tmp_path, tmp_path / "whole"):
        monkeypatch.chdir(folder)
        main(words)
        assert ("of 300 runs are already stored" in capsys.readouterr().out) == (folder == tmp_path)
    resumed, whole = (json.loads((tmp_path / name).read_text())["rows"] for name in ("rows.json", "whole/rows.json"))
    assert resumed == whole
