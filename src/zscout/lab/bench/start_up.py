"""How long one waits before anything happens."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

from zscout.lab.bench.clock import interleaved
from zscout.lab.bench.measurement import Row
from zscout.lab.bench.setting import Setting

PYTHON, TORCH = "python -c pass", "import torch"
COMMANDS = {
    PYTHON: ("-c", "pass"),
    TORCH: ("-c", "import torch"),
    "zscout --help": ("-m", "zscout", "--help"),
    "import zscout": ("-c", "import zscout"),
    "zscout.load": ("-c", "import zscout; zscout.load('grid9-laplacian')"),
}
FLOORS = {"zscout --help": PYTHON, "import zscout": PYTHON, "zscout.load": TORCH}


def start_up(setting: Setting) -> Iterator[Row]:
    """Processes from nothing."""
    timings = interleaved(
        {name: lambda words=words: start(*words) for name, words in COMMANDS.items()},  # type: ignore[misc]
        setting.of(5, 2),
        warm=False,  # this process has read the same files
    )
    for name, timing in timings.items():
        row = Row.of(timing, group="start-up", what=name, unit="start")
        if name in FLOORS:
            row = replace(row, floor=FLOORS[name], floor_seconds=timings[FLOORS[name]].median)
        yield row


def start(*words: str) -> str:
    """A process of its own, to its end; what it printed."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    return done.stdout
