"""Measurements in fresh processes: start-up, and large worlds with their peak memory."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Generator

from benchmarks.measurement import Row, Setting, Timing, interleaved
from benchmarks.problems import NOISE
from zscout.features import laplacian
from zscout.models.exact.model import ExactModel
from zscout.transfer.agent import OnlineTransfer
from zscout.worlds import open_grid

ROOT = Path(__file__).parents[1]
STATUS = Path("/proc/self/status")

PYTHON, TORCH = "python -c pass", "import torch"
COMMANDS = {
    PYTHON: ("-c", "pass"),
    TORCH: ("-c", "import torch"),
    "zscout --help": ("-m", "zscout", "--help"),
    "import zscout": ("-c", "import zscout"),
    "zscout.load": ("-c", "import zscout; zscout.load('grid9-laplacian')"),
}
FLOORS = {"zscout --help": PYTHON, "import zscout": PYTHON, "zscout.load": TORCH}

TASKS = 100
STEPS = {50: 200, 100: 200}  # of the transfer, by the side of the world
QUICK = {15: 10}
PARTS = {"features": "eigenfunctions", "exact model": "z", "transfer": "steps"}


def start_up(setting: Setting) -> Iterator[Row]:
    """Start-up of processes."""
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


def large(setting: Setting) -> Iterator[Row]:
    """Large worlds."""
    for size, steps in setting.of(STEPS, QUICK).items():
        found = json.loads(start("-m", __name__, str(size), str(steps)))
        where = f"exact, {size * size:,} states"
        for what, part in found.items():
            amount, seconds, bytes_then = part
            row = Row.of(Timing((seconds,)), group="large", what=what, amount=amount, unit=PARTS[what], where=where)
            yield replace(row, peak_bytes=bytes_then)


def start(*words: str) -> str:
    """The output of a new Python process in the checkout, at its end."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def peak_bytes() -> int:
    """Peak memory of this process."""
    if STATUS.exists():  # getrusage starts at the memory of the parent
        (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource  # not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(size: int, steps: int) -> None:
    """Print amount, seconds and peak memory of each part of a large world as JSON; the child process of ``large``."""
    torch.set_num_threads(1)
    world, before, found = open_grid(size), peak_bytes(), {}

    def done(what: str, amount: int, began: float) -> None:
        found[what] = (amount, time.perf_counter() - began, peak_bytes() - before)

    began = time.perf_counter()
    phi = laplacian(world)
    done("features", phi.shape[1], began)
    began, model = time.perf_counter(), ExactModel(world, phi)
    model.successor_features(model.sample_z(TASKS, 0))
    done("exact model", TASKS, began)
    began, task = time.perf_counter(), model.sample_z(1, 1)[0]
    transfer(model, phi @ task, steps)
    done("transfer", steps, began)
    print(json.dumps(found))


def transfer(model: ExactModel, reward: torch.Tensor, steps: int) -> None:
    """Run the default method for so many steps."""
    rng, agent = Generator().manual_seed(0), OnlineTransfer(model, seed=0)
    state = torch.tensor(0)
    for _ in range(steps):
        state = model.world.step(state, agent.act(state), rng)
        agent.tell(state, float(reward[state] + NOISE * torch.randn((), generator=rng)))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
