"""Bodies stepped in batches beside dm_control's own loop, and beside MuJoCo's physics alone."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.measurement import Row, Setting, interleaved
from zscout.worlds import body, body_task
from zscout.worlds.bodies.physics import STATE

BATCH = 256
ALONE = 100  # control steps of dm_control's loop in a call, which then takes about as long as a batch
TASKS = {"walker": "walk", "cheetah": "run", "quadruped": "walk"}


def bodies(setting: Setting) -> Iterator[Row]:
    """Bodies in batches beside dm_control's loop."""
    os.environ.setdefault("MUJOCO_GL", "disable")  # before dm_control is there: nothing is rendered
    from dm_control import suite

    for name, task in TASKS.items():
        env = suite.load(name, task, task_kwargs={"random": setting.seed % 2**32})
        loop = _Loop(env, setting.seed)
        batches = {threads: _Batch(name, task, threads, setting.seed) for threads in (1, 2)}
        ways = {"loop": loop.run}
        for threads, batch in batches.items():
            ways |= {f"ours {threads}": batch.step, f"physics {threads}": batch.physics_alone}
        timings = interleaved(ways, setting.of(60, 8))
        for threads in batches:
            yield Row.of(
                timings[f"ours {threads}"],
                group="bodies",
                what=f"{BATCH} {name}s, {threads} thread{'s' * (threads > 1)}",
                where="step, observation and reward",
                amount=BATCH,
                unit="control steps",
                difference=f"|state − theirs|, {ALONE} steps",
                largest=loop.difference(name),
                limit=0.0,
                floor="MuJoCo alone",
                floor_seconds=timings[f"physics {threads}"].median,
            ).against("dm_control's loop, one body", timings["loop"], ALONE)


class _Loop:
    """dm_control's own loop with random actions."""

    def __init__(self, env: Any, seed: int) -> None:
        self.env, self.draws = env, np.random.default_rng(seed)
        self.env.reset()

    def run(self) -> None:
        for action in self.actions():
            self.env.step(self.controls(action))

    def actions(self) -> np.ndarray:
        return self.draws.uniform(-1, 1, (ALONE, *self.env.action_spec().shape))

    def controls(self, action: np.ndarray) -> np.ndarray:
        """An action in dm_control's ranges."""
        low, high = self.env.action_spec().minimum, self.env.action_spec().maximum
        return np.asarray((high + low) / 2 + (high - low) / 2 * action)

    def difference(self, name: str) -> float:
        """The largest difference between a world's states and dm_control's after the same actions."""
        self.env.reset()
        world, data = body(name, threads=1), self.env.physics.data
        state = torch.zeros(world.state_size, dtype=torch.float64)
        start = torch.tensor(np.r_[data.qpos, data.qvel, data.qacc_warmstart])
        state[: len(start)] = start
        for action in self.actions():
            self.env.step(self.controls(action))
            state, _ = world.step(state, action)
        found = np.r_[data.qpos, data.qvel]
        return float(np.abs(state[: len(found)].numpy() - found).max())


class _Batch:
    """Bodies stepped together with random actions; ``physics_alone`` has the same states."""

    def __init__(self, name: str, task: str, threads: int, seed: int) -> None:
        from mujoco.batch import Batch

        self.world = body(name, threads=threads)
        self.task = body_task(self.world, task)
        self.rng = torch.Generator().manual_seed(seed)
        self.state = self.world.random_states(BATCH, self.rng)
        self.physics = Batch(self.world.model, BATCH, threads)

    def step(self) -> None:
        action = 2 * torch.rand(BATCH, *self.world.action_space.shape, generator=self.rng) - 1
        self.state, _ = self.world.advance(self.state, action)
        self.task(self.world.observe(self.state))

    def physics_alone(self) -> None:
        parts = self.world.parts(self.state)
        for name, part in zip(STATE, parts, strict=False):
            if part.shape[1]:
                self.physics.bind(name)[:] = part.numpy()
        self.physics.step(None, self.world.physics_steps)
