"""How a process begins that works for another one."""

import os
import signal
import threading
from multiprocessing import parent_process


def begin_worker() -> None:
    """One thread, deaf to Ctrl-C, gone when its parent is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer; torch takes seconds to import
    import torch

    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers: they watch it."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
