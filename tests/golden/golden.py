"""What zscout computes, as digests: a change that moves or renames code must leave them as they are on one machine.

    python tests/golden/golden.py --write      make golden.json anew
    python tests/golden/golden.py              compare: names the parts that differ, exit code 1
    python tests/golden/golden.py --only live  some parts only

Parts: methods (z and ẑ of every method in four arenas), compare (numbers of ``compare --quick``), training (weights
after three short trainings), live (frames of scripted runs), reproduce (the report of ``reproduce --quick``). Digests
depend on the processor, so golden.json is not in the repository. Ten minutes on two cores; reproduce takes most.
"""

import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch
import tyro

from zscout import METHODS
from zscout.cli import main as zscout
from zscout.lab.arenas.arena import Arena, Batch, Tasks
from zscout.lab.arenas.body import BodyArena
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.point import PointArena
from zscout.lab.runs.spec import Spec, walk
from zscout.live.session.run import LiveRun
from zscout.live.session.setup import Setup

HERE = Path(__file__).parent
STEPS = 25
Parts = Iterator[tuple[str, str]]  # names and digests


def digest(*values: Any) -> str:
    """Of tensors, bytes, or what JSON can hold."""
    found = hashlib.sha256()
    for value in values:
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu().contiguous().numpy().tobytes()
        found.update(value if isinstance(value, bytes) else json.dumps(value, sort_keys=True, default=str).encode())
    return found.hexdigest()[:16]


def methods() -> Parts:
    """z and ẑ of every method that an arena can run."""
    arenas: dict[str, Arena] = {
        "exact": GridArena(features="clusters"),
        "network": GridArena(features="clusters", model="network"),
        "point-maze": PointArena(),
        "walker": BodyArena("walker-fb", body="walker"),
    }
    for place, arena in arenas.items():
        batch = Batch(Tasks(2, 1, "report").draw(arena), [5, 6], 0.3)
        for name in METHODS:
            try:
                agent, steps = walk(Spec(arena, name, batch.tasks[0]).group, batch, STEPS)
                shown = digest(*[step.z for step in steps if step.z is not None], agent.z_hat, agent.best_z)
            except ValueError as error:  # a method that this arena refuses
                shown = f"refused: {error}"[:60]
            yield f"{place}, {name}", shown


def compare() -> Parts:
    """The numbers of all rows."""
    for arena in ("grid", "point-maze", "cheetah"):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "numbers.json")
            quietly("compare", "--quick", "--arena", arena, "--out", folder, "--json", str(out))
            yield arena, digest(json.loads(out.read_text())["rows"])


def training() -> Parts:
    """The weights."""
    for world, model in (("open-grid", "usfa"), ("point-maze", "fb"), ("cheetah", "fb")):
        with tempfile.TemporaryDirectory() as folder:
            quietly("pretrain", "--quick", "--world", world, "--model", model, "--out", folder)
            yield f"{world}, {model}", digest(Path(folder, "model.safetensors").read_bytes())


def live() -> Parts:
    """The frames of a hidden reward and of a person's, in each kind of world."""
    for world in ("open-grid", "point-maze", "walker"):
        hidden = LiveRun(Setup.from_json({"world": world, "reward": {"task": 3}, "seed": 1}), 1000)
        shown = [answer for _ in range(STEPS) for answer in hidden.step().messages]
        yield f"{world}, hidden", digest(*shown)
        person = LiveRun(Setup.from_json({"world": world, "who": "person", "seed": 1}), 1000)
        yield f"{world}, person", digest(*[answer for _ in range(STEPS) for answer in person.step().messages])


def reproduce() -> Parts:
    """The report without its header, which holds times."""
    with tempfile.TemporaryDirectory() as folder:
        quietly("reproduce", "--quick", "--out", folder)
        report = Path(folder, "report.html").read_text()
        yield "report", digest(re.sub(r"(?s)<header.*?</header>", "", report))


def quietly(*words: str) -> None:
    """Run a command without its output."""
    with redirect_stdout(StringIO()):
        zscout([*words])


PARTS: dict[str, Callable[[], Parts]] = {one.__name__: one for one in (methods, compare, training, live, reproduce)}


def main(write: bool = False, only: tuple[str, ...] = tuple(PARTS), file: Path = HERE / "golden.json") -> None:
    """Compare with the file, or write it."""
    known: dict[str, str] = json.loads(file.read_text()) if file.is_file() else {}
    if not write and not known:
        sys.exit(f"{file} is missing: make it with --write, on the commit to compare with")
    found: dict[str, str] = {}
    for part in only:
        for name, shown in PARTS[part]():
            found[f"{part}: {name}"] = shown
            same = write or known.get(f"{part}: {name}") == shown
            print(f"{'' if same else 'DIFFERS  '}{part}: {name}  {shown}", flush=True)
    if write:
        file.write_text(json.dumps(known | found, indent=1) + "\n")
        return
    missing = [name for name in known if name.split(":")[0] in only and name not in found]
    differs = [name for name, shown in found.items() if known.get(name) != shown]
    print(f"{len(found) - len(differs)} of {len(found)} are as they were; missing: {', '.join(missing) or 'none'}")
    sys.exit(1 if differs or missing else 0)


if __name__ == "__main__":
    tyro.cli(main)
