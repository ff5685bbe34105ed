"""Worker processes: single-threaded, ignore Ctrl-C, exit with their parent."""

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process


class WorkerPool(ProcessPoolExecutor):
    """New worker processes; if one dies, the whole pool is broken and must be replaced."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers, mp_context=get_context("spawn"), initializer=begin_worker)

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
