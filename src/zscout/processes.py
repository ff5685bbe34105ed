"""Start-up of worker processes."""

import os
import signal
import threading
from multiprocessing import parent_process


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
