"""Worker processes: single-threaded, ignore Ctrl-C, exit with their parent."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class WorkerPool(ProcessPoolExecutor):
    """New worker processes; if one dies, the whole pool is broken and must be replaced."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers, mp_context=get_context("spawn"), initializer=begin_worker)

    def submit(
        self, work: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """Begin a call; a process that it starts never gets Ctrl-C."""
        if sys.platform == "win32":
            return super().submit(work, *args, **kwargs)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a new process inherits this
        try:
            return super().submit(work, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def terminate(self) -> None:
        """Stop the processes at once, whatever they are doing."""
        for process in list((self._processes or {}).values()):
            process.terminate()
        if (results := self._result_queue) is not None:
            # The last open end: or the rest of a half-sent result would be waited for.
            results._writer.close()  # type: ignore[attr-defined]


def begin_worker() -> None:
    """Use one thread, ignore Ctrl-C, exit when the parent exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it; before torch, whose import takes seconds
    import torch

    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)  # a killed parent cannot stop its workers
