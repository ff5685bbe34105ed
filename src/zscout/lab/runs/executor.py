"""Where chunks of runs are computed: in this process, in worker processes, or on a Ray cluster."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol, TypeVar, runtime_checkable

from zscout.base.edge import as_size, known_name
from zscout.base.processes import WorkerPool
from zscout.lab.runs.spec import Spec

RUNNERS = ("local", "ray")
Result = TypeVar("Result")


@runtime_checkable
class Executor(Protocol):
    """Computes chunks. It starts what it needs with the first chunk, and never touches the store."""

    @property
    def slots(self) -> int:
        """The number of chunks that can run at once now; it may change, as a cluster does."""

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        """Errors of a chunk whose worker is gone: the chunk can be submitted again."""

    @property
    def isolated(self) -> bool:
        """Whether the end of a worker costs its own chunk only, and not all that run."""

    def submit(self, work: Callable[[Sequence[Spec]], Result], specs: Sequence[Spec]) -> Future[Result]:
        """Begin a chunk, also after a loss."""

    def close(self) -> None:
        """End at once; what still runs is lost. A later ``submit`` starts again."""


class InProcess:
    """One chunk after the other, in this process."""

    slots, isolated = 1, True
    lost: tuple[type[BaseException], ...] = ()

    def submit(self, work: Callable[[Sequence[Spec]], Result], specs: Sequence[Spec]) -> Future[Result]:
        """Compute the chunk now."""
        future: Future[Result] = Future()
        future.set_result(work(specs))
        return future

    def close(self) -> None:
        """Nothing runs between chunks."""


class LocalProcesses:
    """Worker processes of this machine with one thread each; when one dies, all are replaced."""

    isolated = False
    lost: tuple[type[BaseException], ...] = (BrokenProcessPool,)

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._pool: WorkerPool | None = None

    def submit(self, work: Callable[[Sequence[Spec]], Result], specs: Sequence[Spec]) -> Future[Result]:
        """Begin a chunk, in new processes if one died."""
        self._pool = self._pool or WorkerPool(self.slots)
        try:
            return self._pool.submit(work, specs)
        except BrokenProcessPool:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = WorkerPool(self.slots)
            return self._pool.submit(work, specs)

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.terminate()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def executor_named(runner: str = "local", *, jobs: int | None = None, address: str = "") -> Executor:
    """The executor of ``--runner``, ``--jobs`` and ``--address``; raises if it cannot be used."""
    jobs = None if jobs is None else as_size(jobs, "jobs", 1)
    if known_name(runner, RUNNERS, "runner") == "ray":
        from zscout.lab.runs.ray_executor import RayCluster

        return RayCluster(address, most=jobs)
    if address:
        raise ValueError(f"--address {address} needs --runner ray")
    return LocalProcesses(jobs) if jobs and jobs > 1 else InProcess()
