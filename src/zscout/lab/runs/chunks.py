"""Runs missing specs in chunks of a few seconds; each chunk is stored when it is done."""

import sysconfig
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import extract_tb

import torch

import zscout
from zscout.lab.arenas.arena import Batch
from zscout.lab.evaluation.evaluate import evaluate
from zscout.lab.runs.executor import Executor, InProcess
from zscout.lab.runs.spec import Spec, code_digest, walk
from zscout.lab.runs.store import Answer, Failure, Record, Sealed, Store
from zscout.models.exact.model import ExactModel
from zscout.transfer.method_json import method_to_json
from zscout.transfer.score.search import Ellipsoid, Shooting

CHUNK_SECONDS = 5.0  # the aim for one chunk: a stop loses no more, unless the fewest runs of a network take longer
SMALL_CHUNK, FAST_CHUNK, LARGEST_CHUNK = 8, 48, 300  # runs: with a small network, 48 take as long as 12
INSTALLED = (str(Path(zscout.__file__).parent), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), "<frozen")
SOLVES_A_SECOND = 5_000  # z that dynamic programming solves in a second, for a first guess


@dataclass(frozen=True)
class Chunk:
    """Results of some runs of one group."""

    answers: Sequence[Answer]
    seconds: float


def run_all(specs: Sequence[Spec], store: Store, executor: Executor | None = None) -> Iterator[Chunk]:
    """Run what the store lacks and store it, chunk by chunk; without an executor, in this process."""
    executor = InProcess() if executor is None else executor
    if unknown := sorted({spec.method for spec in specs if not spec.is_stored}):
        warnings.warn(f"runs of {', '.join(unknown)} are not stored: part of it is not in a file", stacklevel=2)
    plan = _Plan(store.missing(specs), executor.slots)
    try:
        for chunk in _computed(plan, executor):
            plan.took(chunk)
            store.add(chunk.answers)
            yield chunk
    except BaseException:
        executor.close()  # unfinished chunks are run another time
        raise


def run_batch(specs: Sequence[Spec]) -> list[Record]:
    """Records of specs of one group, simulated in one tensor and evaluated."""
    began, group = time.perf_counter(), specs[0].group
    tasks, seeds = [spec.task for spec in specs], [spec.seed for spec in specs]
    batch = Batch(tasks, seeds, group.noise, group.outside, group.offset)
    agent, steps = walk(group, batch, group.steps)
    numbers, columns = evaluate(group.arena, batch, agent, steps)
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
    """One batch; if it fails, its runs one by one, so that an error costs only its run."""
    began = time.perf_counter()
    answers: list[Answer]
    try:
        answers = list(run_batch(specs))
    except (Exception, SystemExit) as error:  # user code may raise anything
        if len(specs) == 1:
            answers = [Failure(specs[0], f"{type(error).__name__}: {error} ({_place(error, specs[0])})")]
        else:
            answers = [answer for spec in specs for answer in run_chunk([spec]).answers]
    return Chunk(answers, time.perf_counter() - began)


def _place(error: BaseException, spec: Spec) -> str:
    """The last line of the user's code that ran; without one, where the method is, else the last line of all."""
    lines = [(line.filename, f"{Path(line.filename).name}:{line.lineno}") for line in extract_tb(error.__traceback__)]
    theirs = [place for file, place in lines if not file.startswith(INSTALLED)]
    return theirs[-1] if theirs else ", ".join(spec.value.places if spec.value else ()) or lines[-1][1]


def run_and_seal(specs: Sequence[Spec]) -> Chunk:
    """What workers do: a chunk, its records ready to be written."""
    chunk = run_chunk(specs)
    return replace(chunk, answers=[Sealed.of(it) if isinstance(it, Record) else it for it in chunk.answers])


@dataclass(frozen=True)
class _Attempt:
    """A chunk that is run, and how often its worker was lost before."""

    specs: Sequence[Spec]
    losses: int = 0

    def again(self) -> "list[_Attempt]":
        """What follows a loss: the whole chunk once more, then run by run, to find one that kills its worker."""
        if self.losses == 0:
            return [replace(self, losses=1)]
        return [replace(self, specs=[spec]) for spec in self.specs]

    @property
    def fatal(self) -> bool:
        """Whether one more loss ends it."""
        return self.losses > 0 and len(self.specs) == 1


def _computed(plan: "_Plan", executor: Executor) -> Iterator[Chunk]:
    """Chunks as they end; one whose worker is lost is run again.

    Where a dying worker takes all others with it, suspects run alone, so that no chunk pays for another.
    """
    lost: deque[_Attempt] = deque()
    running: dict[Future[Chunk], _Attempt] = {}
    while True:
        suspects = len(lost) + sum(attempt.losses for attempt in running.values())
        most = 1 if suspects and not executor.isolated else executor.slots
        while len(running) < most:
            attempt = lost.popleft() if lost else _Attempt(plan.take())
            if not attempt.specs:
                break
            running[executor.submit(run_and_seal, attempt.specs)] = attempt
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            attempt = running.pop(future)
            if not isinstance(future.exception(), executor.lost):
                yield future.result()
            elif attempt.fatal:
                why = "the process that ran it died: killed, out of memory, or a crash in native code"
                if text := str(future.exception()).strip():
                    why += f" ({text.splitlines()[0]})"
                yield Chunk([Failure(attempt.specs[0], why)], 0.0)
            else:
                lost.extend(attempt.again())


class _Plan:
    """The order of runs: chunks of one group, whose size follows the time of the last one."""

    def __init__(self, specs: Sequence[Spec], slots: int) -> None:
        share = -(-len(specs) // max(slots, 1))  # no worker has all runs while others have none
        self._left: dict[Spec, list[Spec]] = {}
        for spec in specs:
            self._left.setdefault(spec.group, []).append(spec)
        self._least = {group: min(_least_runs(group), share) for group in self._left}
        self._sizes = dict(self._least)

    def take(self) -> list[Spec]:
        """The next chunk, of the group with most runs left, so that workers end together; empty at the end."""
        if not any(self._left.values()):
            return []
        group = max(self._left, key=lambda group: len(self._left[group]) * group.steps)
        size, left = self._sizes[group], self._left[group]
        size = len(left) if len(left) - size < size // 2 else size  # a few runs take as long as half a chunk
        self._left[group] = left[size:]
        return left[:size]

    def took(self, chunk: Chunk) -> None:
        """Make chunks larger after a quick one, smaller after a slow one; further runs of a batch cost little."""
        group, runs = chunk.answers[0].spec.group, len(chunk.answers)
        share = CHUNK_SECONDS / max(chunk.seconds, 1e-3)
        size = runs * min(4.0, max(2.0, share)) if share > 1 else runs * share
        self._sizes[group] = max(self._least[group], min(LARGEST_CHUNK, int(size)))


def _least_runs(group: Spec) -> int:
    """The smallest chunk: fewer runs if each step solves many z by dynamic programming, or if there are many steps."""
    guess = min(FAST_CHUNK, int(CHUNK_SECONDS * SOLVES_A_SECOND / (group.steps * _solves(group))))
    if isinstance(group.arena.bfm, ExactModel):
        return max(1, guess)
    # On a GPU further runs cost nothing; on a CPU single runs take twice the time that they take in a batch of eight.
    return max(SMALL_CHUNK, guess) if group.arena.device == "cpu" else LARGEST_CHUNK


def _solves(group: Spec) -> int:
    """The number of new z that each step of a run solves by dynamic programming."""
    if not isinstance(group.arena.bfm, ExactModel):
        return 1
    search = group.build(torch.ones(1, group.arena.bfm.dim)).search
    return search.n if isinstance(search, Ellipsoid | Shooting) else 1
