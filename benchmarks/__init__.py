"""Benchmarks, load measurements and measuring scripts: run from a checkout, not part of the package.

``python -m benchmarks.NAME`` ends in one line at Ctrl-C, and where a path is wrong.
"""

import signal
import sys
from types import TracebackType


def end(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """End in one line, as ``zscout`` does; a bug shows its traceback."""
    from zscout.cli.parts.progress import end_in_one_line

    end_in_one_line(error)
    sys.__excepthook__(kind, error, traceback)


if sys.argv[0] == "-m" and sys.platform != "win32":  # Python is looking for the module to run
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    from zscout.base.stopping import handle_ctrl_c, stop_cleanly

    handle_ctrl_c(stop_cleanly())
    sys.excepthook = end
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
