"""Installs and says what it does meanwhile: ``python tests/installing.py WORDS`` is ``pip install WORDS``.

A line for each package that is fetched, and one after each five seconds without.
"""

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from typing import Any

SILENCE = 5.0  # seconds
PIP = re.compile(
    r"(Downloading|Using cached) (?:\S*/)?([\w.]+-[\w.]+)\S*(?<!\.metadata)( \(.+\))|(Installing|Building)\b"
)


def run(command: Sequence[str], shown: "re.Pattern[str]", **options: Any) -> int:
    """Run a command, print the groups that are found in its lines, and return its exit code."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace", **options)
    lines: Queue[str | None] = Queue()
    Thread(target=_read, args=(process, lines), daemon=True).start()
    began, doing, said = time.monotonic(), "starting", time.monotonic()
    while True:
        text = ""
        with suppress(Empty):
            line = lines.get(timeout=max(0.0, said + SILENCE - time.monotonic()))
            if line is None:
                return process.wait()
            doing = line or doing
            if found := shown.match(line):
                text = " ".join(part.strip() for part in found.groups() if part)
        if not text and time.monotonic() >= said + SILENCE:
            text = f"… {doing[:60]}, {time.monotonic() - began:.0f} s"
        if text:
            print(f"  {text}", flush=True)
            said = time.monotonic()


def _read(process: "subprocess.Popen[str]", lines: "Queue[str | None]") -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line.strip())
    lines.put(None)


if __name__ == "__main__":
    quietly = ["--disable-pip-version-check", "--progress-bar", "off"]
    try:
        sys.exit(run([sys.executable, "-m", "pip", "install", *quietly, *sys.argv[1:]], PIP))
    except KeyboardInterrupt:
        sys.exit(130)
