"""How far data travel through the source: python -m benchmarks.house (extra mujoco).

For one ``ask`` and one ``tell``: the source files that are entered, and how often a call leads from one file to
another. Then the modules that are loaded to train a walker, the most files in a folder, files and lines.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import zscout

ROOT = Path(zscout.__file__).parent
TRAINING = "import sys, zscout.lab.training.fb; print(sum(name.startswith('zscout') for name in sys.modules))"


def travelled(call: Callable[[], Any]) -> tuple[int, int]:
    """Files of the package that a call enters, and calls from one of them to another."""
    seen: set[str] = set()
    moves = 0

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal moves
        here = frame.f_code.co_filename
        if event == "call" and here.startswith(str(ROOT)):
            seen.add(here)
            before = frame.f_back.f_code.co_filename if frame.f_back else ""
            moves += before.startswith(str(ROOT)) and before != here

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(seen), moves


def main() -> None:
    """Print the table."""
    for name in ("grid9-laplacian", "walker-fb"):
        bfm: Any = zscout.load(name)
        grid = name.startswith("grid")
        here: Any = 3 if grid else np.zeros(bfm.observation_space.shape, np.float32)
        there: Any = 4 if grid else here + 0.1
        agent = zscout.OnlineTransfer(bfm, seed=0)
        for reward in (0.0, 1.0, 0.5):  # with tables made and rewards known
            agent.ask(here)
            agent.tell(there, reward, done=True)
        asked, told = travelled(lambda: agent.ask(here)), travelled(lambda: agent.tell(there, 0.2))  # noqa: B023
        print(f"{name}: ask {asked[0]} files, {asked[1]} moves; tell {told[0]} files, {told[1]} moves")
    loaded = subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, text=True, check=True).stdout.strip()
    files = list(ROOT.rglob("*.py"))
    most = max(len(list(folder.glob("*.py"))) for folder in {path.parent for path in files})
    lines = sum(path.read_text().count("\n") for path in files)
    print(f"modules loaded to train a walker: {loaded}; most files in a folder: {most}")
    print(f"{len(files)} files, {lines:,} lines")


if __name__ == "__main__":
    main()
