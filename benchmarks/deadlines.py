"""A control loop of 50 ticks a second on one core: the time from a tick to its action, with and without a worker."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import numpy as np

from benchmarks.measurement import Row, Setting, Timing, one_thread
from zscout.loop.asynchronous import AsyncTransfer
from zscout.models.fb.model import FB, FBConfig
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import METHODS

TICK = 0.02  # seconds
WIDTH, DIM, OBSERVED, ACTIONS = 1_024, 50, 24, 6
HOLDS = (1, 25)
STRETCH = 50  # ticks of a way before the next one has its turn


def deadlines(setting: Setting) -> Iterator[Row]:
    """A control loop at 50 Hz."""
    model = full_size(setting.seed % 2**31)
    method = METHODS["usf-ucb"](dim=DIM, noise=None, norm_bound=None)
    with one_thread(), one_core(), contextlib.ExitStack() as stack:
        loops: dict[tuple[int, bool], Loop] = {}
        for hold in HOLDS:
            agents = [OnlineTransfer(model, replace(method, hold=hold), seed=setting.task_seed) for _ in range(2)]
            loops[hold, False] = Loop(agents[0], setting.seed)
            loops[hold, True] = Loop(stack.enter_context(AsyncTransfer(agents[1])), setting.seed)
        for _ in range(setting.of(12, 1)):
            for loop in loops.values():
                loop.run(setting.of(STRETCH, STRETCH // 2))
    for (hold, beside), loop in loops.items():
        row = Row.of(
            Timing(tuple(loop.seconds)),
            group="deadlines",
            what=f"tick to action, {'beside a worker' if beside else 'agent alone'}, hold {hold}",
            where=f"FB, width {WIDTH:,}, d = {DIM}",
            unit="actions",
        )
        yield row.against("agent alone", Timing(tuple(loops[hold, False].seconds))) if beside else row


def full_size(seed: int) -> FB:
    """An FB model with random weights, which takes as long as a trained one."""
    free = (None,) * OBSERVED
    config = FBConfig(observation_low=free, observation_high=free, actions=ACTIONS, dim=DIM, hidden=WIDTH)
    return FB(config, seed=seed).freeze()


class Loop:
    """A control loop around an agent; ticks that pass while it is late are skipped, as a robot's would be."""

    def __init__(self, agent: OnlineTransfer | AsyncTransfer, seed: int) -> None:
        self.agent, self.seconds = agent, list[float]()
        draws = np.random.default_rng(seed)
        self._observations = draws.standard_normal((1_000, OBSERVED)).astype(np.float32)
        self._rewards, self._steps = draws.standard_normal(1_000).tolist(), count()

    def run(self, ticks: int) -> None:
        """Act at that many ticks; the worker, if there is one, is idle before and after."""
        tick = time.perf_counter() + TICK
        for _ in range(ticks):
            late = max(time.perf_counter() - tick, 0.0)
            tick += TICK * np.ceil(late / TICK)
            time.sleep(max(tick - time.perf_counter(), 0.0))
            step = next(self._steps) % 999
            self.agent.act(self._observations[step])
            self.seconds.append(time.perf_counter() - tick)
            self.agent.tell(self._observations[step + 1], self._rewards[step])
            tick += TICK
        if isinstance(self.agent, AsyncTransfer):
            self.agent.drain()


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread, and those that it starts, on one core where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
