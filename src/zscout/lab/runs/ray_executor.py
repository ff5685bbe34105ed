"""Chunks as tasks of a Ray cluster: one started here, or a running one by its address; needs the extra ``ray``."""

import contextlib
import importlib.util
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import zscout
from zscout.base.hints import MissingExtraError
from zscout.lab.runs.executor import Result
from zscout.lab.runs.spec import Spec, code_digest

PATIENCE = 3.0  # seconds to wait for the address; Ray itself waits for minutes
SECONDS_APART = 5.0  # between two looks at the size of the cluster
MEMORY = 512 * 2**20  # bytes of a cluster of our own for answers on their way: 40,000 runs of 200 steps
EMPTY_SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # a frame of HTTP/2: the first that each side sends has this type, 4
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # no report, no warning


class ClusterError(OSError):
    """The cluster cannot be used."""


@dataclass(frozen=True)
class Refusal:
    """Why a node may not compute a chunk."""

    why: str


class RayCluster:
    """All cores of a Ray cluster, one chunk on each.

    Every chunk carries the digest of its first run. A node that gets another digest for it has other code or weights,
    and refuses.
    """

    isolated = True

    def __init__(self, address: str = "", *, most: int | None = None) -> None:
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("--runner ray needs Ray", "ray")
        if address:
            check_listening(address)
        self._address, self._most = address, most
        self._compute: Any = None  # the remote function, once connected
        self._ours, self._cores, self._looked = True, 1, 0.0

    @property
    def slots(self) -> int:
        """Its cores now, and no more than ``most``."""
        self._connect()
        if time.monotonic() - self._looked > SECONDS_APART:
            import ray

            self._cores, self._looked = max(1, int(ray.cluster_resources().get("CPU", 1))), time.monotonic()
        return min(self._cores, self._most or self._cores)

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        """A worker or a node that is gone, with its chunk or with its answer, or an answer that found no room."""
        from ray import exceptions

        gone = exceptions.WorkerCrashedError, exceptions.NodeDiedError, exceptions.OutOfMemoryError
        return (*gone, exceptions.ObjectLostError, *_no_room())

    def submit(self, work: Callable[[Sequence[Spec]], Result], specs: Sequence[Spec]) -> Future[Result]:
        """Begin a chunk on any free core."""
        self._connect()
        answer: Future[Result] = Future()
        there = self._compute.remote(work, list(specs), specs[0].digest, code_digest(), str(Path.cwd()))
        there.future().add_done_callback(partial(_pass_on, answer))
        return answer

    def close(self) -> None:
        """Leave the cluster, which ends our tasks; end it if it was started here."""
        if self._compute is not None and self._ours:
            import ray

            ray.shutdown()
        self._compute = None

    def _connect(self) -> None:
        if self._compute is not None:
            return
        os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
        import ray

        where: dict[str, Any] = {"address": self._address}
        if not self._address:
            cores = self._most or os.cpu_count() or 1
            where = {"address": "local", "num_cpus": cores, "object_store_memory": MEMORY, "include_dashboard": False}
        self._ours = not ray.is_initialized()
        if self._ours:
            with _own_signals():
                try:
                    ray.init(**where, log_to_driver=False, logging_level="error")
                except (OSError, RuntimeError, ValueError, AssertionError) as error:
                    name = self._address or "of this machine"
                    raise ClusterError(f"the Ray cluster {name} cannot be used: {_first_line(error)}") from error
        # A lost chunk comes back to us: what is run again is decided in one place, for every executor.
        self._compute = ray.remote(num_cpus=1, max_retries=0)(compute)


def check_listening(address: str) -> None:
    """Raise unless something at host:port speaks HTTP/2, as Ray's gRPC server does."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise ValueError(f"--address {address}: expected host:port of a running cluster, such as 10.0.0.1:6379")
    reply = b""
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as there, contextlib.suppress(TimeoutError):
            there.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + EMPTY_SETTINGS)
            reply = there.recv(9)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ClusterError(
            f"nothing listens at --address {address} ({why}): start a cluster with ray start --head --port {port}"
        ) from error
    if reply[3:4] != EMPTY_SETTINGS[3:4] and os.environ.get("RAY_USE_TLS") != "1":
        raise ClusterError(f"what listens at --address {address} is not a Ray cluster")


def compute(
    work: Callable[[Sequence[Spec]], Result], specs: Sequence[Spec], name: str, code: str, folder: str
) -> Result | Refusal:
    """On a node: a chunk, or why this node may not compute it."""
    torch.set_num_threads(1)
    with contextlib.suppress(OSError):  # without a shared folder, only shipped maps, models and methods run
        os.chdir(folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # a user's modules
    node = f"the node {socket.gethostname()}"
    if code_digest() != code:
        return Refusal(
            f"{node} has other zscout code ({zscout.__version__}, {code_digest()[:12]}) than this one ({code[:12]}): "
            "install the same zscout on every node"
        )
    try:
        here = specs[0].digest
        specs[0].build(specs[0].arena.vectors([specs[0].task]))  # raises if a user's method has another source here
    except (Exception, SystemExit) as error:  # of user code, or a missing file
        return Refusal(f"{node} cannot run {specs[0].method} in {specs[0].arena.key}: {_first_line(error)}")
    if here != name:
        return Refusal(f"{node} reads another map, model or table than this one: give every node the same files")
    return work(specs)


def _no_room() -> tuple[type[BaseException], ...]:
    """Errors of an object store that is full."""
    from ray import exceptions

    return exceptions.ObjectStoreFullError, exceptions.OutOfDiskError


def _pass_on(answer: "Future[Result]", there: "Future[Result | Refusal]") -> None:
    from ray.exceptions import RayTaskError

    error = there.exception()
    if isinstance(error, RayTaskError):
        cause = error.cause if error.cause is not None else error
        if isinstance(cause, _no_room()):  # a smaller chunk has a smaller answer
            answer.set_exception(cause)
            return
        error = ClusterError(f"a node ({getattr(error, 'ip', '')}) failed: {type(cause).__name__}: {_last_line(cause)}")
    if error is not None:
        answer.set_exception(error)
    elif isinstance(found := there.result(), Refusal):
        answer.set_exception(ClusterError(found.why))
    else:
        answer.set_result(found)


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handlers of Ctrl-C and SIGTERM: Ray sets one of its own."""
    numbers = [signal.SIGINT, signal.SIGTERM] if threading.current_thread() is threading.main_thread() else []
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def _last_line(error: BaseException) -> str:
    return next(iter(reversed(str(error).strip().splitlines())), "") or type(error).__name__
