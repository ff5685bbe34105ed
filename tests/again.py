"""Runs tests again and again beside busy loops, and logs each run; started anew, it goes on where the log ends.

    python tests/again.py --log out/again.log --times 3 --loops 4 processes
    python tests/again.py --log out/again.log --times 20 --loops 4 clocks

``processes``: each file that uses a browser, a server, a process or a thread. ``clocks``: tests where time could count,
those of a file together. Else files, or tests by name.
"""

import argparse
import contextlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BESIDE = r"\b(subprocess|served|chrome|run_zscout|run_programs|fork|threading|asyncio|AsyncT\w+|executor_named)\b"
LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"  # ends with this program
CLOCKS = "live_page live_server live_connections live_clock asynchronous attacks cli exact faults runners store"
WORDS = """painted or teaches or side_by_side or task_counts or chosen or dot or forgets or lost_c or phone or
keyboard or kept_on or exported or first_visit or axe or 1280 or hidden_task or without_a_page or does_not_read or
too_many or load_is or asked_for or token_stays or silent or pause or turn or queue or errors_of or signals or
ctrl_c or second_thread or leaves or many_threads or fork or forgotten or kill or finished or stopped or
many_processes""".replace("\n", " ")


def items(name: str) -> dict[str, list[str]]:
    """What pytest gets in one run, by the run's name in the log."""
    if name == "clocks":
        return {file: [f"tests/test_{file}.py", "-k", WORDS] for file in [*CLOCKS.split(), "training", "watching"]}
    files = sorted(ROOT.glob("tests/**/test_*.py")) if name == "processes" else []
    return {path.stem: [str(path)] for path in files if re.search(BESIDE, path.read_text())} or {name: [name]}


def logged(log: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """The runs so far, without a line that a stop tore."""
    found = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            found[row["what"], row["run"]] = row
    return found


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("names", nargs="+")
parser.add_argument("--log", type=Path, required=True)
parser.add_argument("--times", type=int, default=3)
parser.add_argument("--loops", type=int, default=4)
asked = parser.parse_args()
chosen = {what: words for name in asked.names for what, words in items(name).items()}
done = logged(asked.log)
asked.log.parent.mkdir(parents=True, exist_ok=True)
todo = [(what, run) for run in range(1, asked.times + 1) for what in chosen if (what, run) not in done]
loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(asked.loops if todo else 0)]
try:
    for number, (what, run) in enumerate(todo, 1):
        began, command = time.monotonic(), [sys.executable, "-m", "pytest", "-q", *chosen[what]]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        seconds, lines = time.monotonic() - began, ended.stdout.strip().splitlines() or [""]
        row = {"what": what, "run": run, "passed": not ended.returncode, "seconds": seconds, "last": lines[-1]}
        done[what, run] = row | {"loops": asked.loops, "said": lines[-200:] * bool(ended.returncode)}
        with asked.log.open("a") as file:
            file.write(f"\n{json.dumps(done[what, run])}")
        left = sum(row["seconds"] for row in done.values()) / len(done) * (len(todo) - number) / 60
        state = "FAILED" if ended.returncode else "passed"
        print(f"{state} {what}, run {run}, {seconds:.0f} s: {lines[-1]}; {left:.0f} min left", flush=True)
except KeyboardInterrupt:
    sys.exit("stopped; the same command goes on")
finally:
    for loop in loops:
        loop.kill()
failed = [f"{what}, run {run}" for (what, run), row in done.items() if what in chosen and not row["passed"]]
print(f"{len(failed)} of {len(chosen) * asked.times} failed", *failed, sep="\n")
sys.exit(bool(failed))
