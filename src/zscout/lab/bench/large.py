"""A large finite world from nothing to a transfer, in a process of its own: seconds of each part, and memory."""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Generator

from zscout.bfm.exact import ExactModel
from zscout.features import laplacian
from zscout.lab.bench.clock import Timing
from zscout.lab.bench.measurement import Row
from zscout.lab.bench.memory import peak_bytes
from zscout.lab.bench.setting import NOISE, Setting
from zscout.lab.bench.start_up import start
from zscout.transfer.agent import OnlineTransfer
from zscout.worlds import open_grid

TASKS = 100
STEPS = {50: 200, 100: 200}  # of the transfer, by the side of the world
QUICK = {15: 10}
PARTS = {"features": "eigenfunctions", "exact model": "z", "transfer": "steps"}


def large(setting: Setting) -> Iterator[Row]:
    """Large worlds."""
    for size, steps in setting.of(STEPS, QUICK).items():
        found = json.loads(start("-m", __name__, str(size), str(steps)))
        where = f"exact, {size * size:,} states"
        for what, part in found.items():
            amount, seconds, bytes_then = part
            row = Row.of(Timing((seconds,)), group="large", what=what, amount=amount, unit=PARTS[what], where=where)
            yield replace(row, peak_bytes=bytes_then)


def main(size: int, steps: int) -> None:
    """The child's part: amount, seconds and peak memory of each part as JSON."""
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
    """The default method in the world, for so many steps."""
    rng, agent = Generator().manual_seed(0), OnlineTransfer(model, seed=0)
    state = torch.tensor(0)
    for _ in range(steps):
        state = model.world.step(state, agent.act(state), rng)
        agent.tell(state, float(reward[state] + NOISE * torch.randn((), generator=rng)))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
