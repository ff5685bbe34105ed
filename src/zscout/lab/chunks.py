"""Runs missing specs in chunks of a few seconds; each chunk is stored when it is done."""

import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

import zscout
from zscout.bfm.exact import ExactModel
from zscout.edge import as_size
from zscout.lab.arena import Batch
from zscout.lab.comparison import Entrant
from zscout.lab.plugins import is_plugin
from zscout.lab.spec import Spec, code_digest, walk
from zscout.lab.store import Failure, Record, Store
from zscout.processes import begin_worker
from zscout.transfer.saving import method_to_json
from zscout.transfer.search import Ellipsoid, Shooting

SECONDS = 5.0  # that a chunk should take: as much as a stop can cost
FIRST, LEAST, MOST = 48, 12, 300  # runs of a group's first chunk, and of any: a dozen cost hardly more than one
SOLVES = 5_000  # that dynamic programming does in a second, about: for a first guess
MEASURED = 2_000  # that are solved to know it better


@dataclass(frozen=True)
class Chunk:
    """What came of some runs of one group."""

    answers: Sequence[Record | Failure]
    seconds: float


def run_all(specs: Sequence[Spec], store: Store, workers: int = 1) -> Iterator[Chunk]:
    """Run what the store lacks and keep it, chunk by chunk; with several workers each is a process of one thread."""
    plan = _Plan(store.missing(specs))
    for chunk in _in_turn(plan) if as_size(workers, "jobs", 1) == 1 else _side_by_side(plan, workers):
        store.add(chunk.answers)
        yield chunk


def run_batch(specs: Sequence[Spec]) -> list[Record]:
    """Records of specs of one group, simulated in one tensor and evaluated by their arena."""
    began, group = time.perf_counter(), specs[0].group
    tasks, seeds = [spec.task for spec in specs], [spec.seed for spec in specs]
    batch = Batch(tasks, seeds, group.noise, group.outside, group.offset)
    agent, steps = walk(group, batch, group.steps)
    numbers, columns = group.arena.evaluate(batch, agent, steps)
    provenance = {
        "version": zscout.__version__,
        "code": code_digest()[:12],
        "method": method_to_json(group.build(group.arena.vectors(tasks[:1]))),
        "batch": len(specs),
        "seconds": (time.perf_counter() - began) / len(specs),
    }
    return [
        Record(
            spec,
            # Without the last digits, which depend on the number of runs in the batch.
            {name: float(f"{round(float(column[i]), 9):.9g}") for name, column in numbers.items()},
            {name: column[:, i] for name, column in columns.items()},
            provenance,
        )
        for i, spec in enumerate(specs)
    ]


def run_chunk(specs: Sequence[Spec]) -> Chunk:
    """One batch; if it fails, its runs one by one, so that a run's mistake costs only itself."""
    began = time.perf_counter()
    answers: list[Record | Failure]
    try:
        answers = list(run_batch(specs))
    except (Exception, SystemExit) as error:  # a method or a model of someone else's may raise anything
        if len(specs) == 1:
            answers = [Failure(specs[0], f"{type(error).__name__}: {error} ({_where(error)})")]
        else:
            answers = [answer for spec in specs for answer in run_chunk([spec]).answers]
    return Chunk(answers, time.perf_counter() - began)


def _where(error: BaseException) -> str:
    """The line that raised: a stranger's method cannot be mended without it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


class _Plan:
    """Which runs come next: groups one after the other, in chunks whose size follows what the last one took."""

    def __init__(self, specs: Sequence[Spec]) -> None:
        self._left: dict[Spec, list[Spec]] = {}
        for spec in specs:
            self._left.setdefault(spec.group, []).append(spec)
        self._sizes = {group: _first_size(group) for group in self._left}
        self._least = {group: min(LEAST, size) for group, size in self._sizes.items()}

    def take(self) -> list[Spec]:
        """The next chunk, of the group with most runs left, so that workers end together; none when all is taken."""
        if not any(self._left.values()):
            return []
        group = max(self._left, key=lambda group: len(self._left[group]) * group.steps)
        size, left = self._sizes[group], self._left[group]
        self._left[group] = left[size:]
        return left[:size]

    def took(self, chunk: Chunk) -> None:
        """Larger chunks after a quick one, smaller ones after a slow one; most runs of a batch cost next to nothing."""
        group, runs = chunk.answers[0].spec.group, len(chunk.answers)
        share = SECONDS / max(chunk.seconds, 1e-3)
        size = runs * min(4.0, max(2.0, share)) if share > 1 else runs * share
        self._sizes[group] = max(self._least[group], min(MOST, int(size)))


def _first_size(group: Spec) -> int:
    """Fewer runs where each step solves many fresh z by dynamic programming."""
    return max(1, min(FIRST, int(SECONDS * SOLVES / (group.steps * _solves(group)))))


def _solves(group: Spec) -> int:
    """How many fresh z a step of one run solves by dynamic programming."""
    if not isinstance(group.arena.bfm, ExactModel) or is_plugin(group.method):
        return 1
    search = group.build(torch.ones(1, group.arena.bfm.dim)).search
    return search.n if isinstance(search, Ellipsoid | Shooting) else 1


def expected_seconds(entrants: Sequence[Entrant]) -> dict[Entrant, tuple[int, float]]:
    """Of those that solve many z a step: how many, and about how many seconds of one core all their runs take."""
    found: dict[Entrant, tuple[int, float]] = {}
    rate: float | None = None
    for entrant in entrants:
        solves = _solves(entrant.specs[0].group)
        if solves > 1:
            assert isinstance(entrant.arena.bfm, ExactModel)
            rate = _solved_in_a_second(entrant.arena.bfm) if rate is None else rate
            runs = entrant.tasks.count * entrant.tasks.seeds
            found[entrant] = (solves, runs * entrant.steps * solves / rate)
    return found


def _solved_in_a_second(exact: ExactModel) -> float:
    exact.policy(exact.sample_z(64, 1))
    began = time.perf_counter()
    exact.policy(exact.sample_z(MEASURED, 2))
    seconds = time.perf_counter() - began
    exact.forget()
    return MEASURED / seconds


def _in_turn(plan: _Plan) -> Iterator[Chunk]:
    while specs := plan.take():
        chunk = run_chunk(specs)
        plan.took(chunk)
        yield chunk


def _side_by_side(plan: _Plan, workers: int) -> Iterator[Chunk]:
    pool = _Pool(workers)
    running: dict[Future[Chunk], list[Spec]] = {}
    try:
        while True:
            while len(running) < workers and (specs := plan.take()):
                running[pool.submit(specs)] = specs
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
                # Whichever worker died, the pool is gone, and every chunk that had not ended with it.
                wait(running)
                pool.renew()
                lost, running = running, {}
                for future, specs in lost.items():
                    yield from [future.result()] if future.exception() is None else _again(pool, specs)
                continue
            for future in done:
                del running[future]
                chunk = future.result()
                plan.took(chunk)
                yield chunk
    except BaseException:
        pool.terminate()
        raise
    finally:
        pool.close()


class _Pool:
    """Worker processes, and new ones where one has died."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._start()

    def _start(self) -> None:
        self._pool = ProcessPoolExecutor(self._workers, mp_context=get_context("spawn"), initializer=begin_worker)

    def submit(self, specs: list[Spec]) -> Future[Chunk]:
        """To the next free worker."""
        try:
            return self._pool.submit(run_chunk, specs)
        except BrokenProcessPool:  # one was killed while nothing ran
            self.renew()
            return self._pool.submit(run_chunk, specs)

    def renew(self) -> None:
        """Other processes."""
        self.close()
        self._start()

    def terminate(self) -> None:
        """At once."""
        for process in list((self._pool._processes or {}).values()):  # what they had begun is run again another time
            process.terminate()

    def close(self) -> None:
        """When what runs has ended."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _again(pool: _Pool, specs: list[Spec]) -> Iterator[Chunk]:
    """A chunk whose worker died, perhaps by another's fault: again as a whole, then run by run."""
    try:
        yield pool.submit(specs).result()
    except BrokenProcessPool:
        pool.renew()
        if len(specs) > 1:
            for spec in specs:
                yield from _again(pool, [spec])
        else:
            why = "the process that ran it died: killed, out of memory, or a crash in native code"
            yield Chunk([Failure(specs[0], why)], 0.0)
