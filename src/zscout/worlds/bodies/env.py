"""Bodies as Gymnasium environments: zscout/Walker-v0 and its siblings."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from zscout.worlds.bodies.physics import Body, body
from zscout.worlds.bodies.tasks import BodyTask, body_task
from zscout.worlds.grids.env import AGENT, INK, PAPER
from zscout.worlds.vector_env import ObsReward, VectorWorldEnv

PIXELS, WIDTH, ABOVE, BELOW = 80, 4.0, 2.4, 0.2  # of a frame: pixels and metres


class BodyEnv(VectorWorldEnv):
    """A Body as a Gymnasium environment.

    ``reward`` is the name of a task, a callable of the observation entered, or None (0). Episodes are truncated after
    ``horizon`` steps (None: never) and terminate only if the simulation diverges. They start as dm_control's do, or
    anywhere with ``reset(options={"state": …})``; ``env.unwrapped.state`` is the state.
    """

    def __init__(
        self,
        world: Body,
        reward: ObsReward | str | None = None,
        horizon: int | None = 1_000,
        render_mode: str | None = None,
    ) -> None:
        paid = body_task(world, reward) if isinstance(reward, str) else reward
        super().__init__(world, paid, horizon, render_mode, world.rest)
        self.metadata = {**self.metadata, "render_fps": round(1 / world.seconds)}

    def _paid(self, seen: Float[Tensor, " o"], obs: np.ndarray) -> Any:
        return self.reward(seen) if isinstance(self.reward, BodyTask) else super()._paid(seen, obs)

    def render(self) -> np.ndarray | None:
        """The body from the side, at the middle of the frame; the floor has a mark every metre."""
        if self.render_mode is None:
            return None
        state = self.world.rest if self.state is None else torch.from_numpy(self.state)
        ends, radii = self.world.segments(state)
        return side_view(ends.numpy(), radii.numpy())


def side_view(ends: np.ndarray, radii: np.ndarray, pixels: int = PIXELS) -> np.ndarray:
    """A picture [h w 3] of a body from its capsules, in pixels a metre, with the first one at the middle."""
    frame = np.full((round(pixels * (ABOVE + BELOW)), round(pixels * WIDTH), 3), PAPER, dtype=np.uint8)
    left = ends[0, :, 0].mean() - WIDTH / 2
    z, x = np.ogrid[: frame.shape[0], : frame.shape[1]]
    x, z = left + (x + 0.5) / pixels, ABOVE - (z + 0.5) / pixels
    frame[(z < 0) & ((z > -0.02) | (np.abs(x - np.round(x)) < 0.02))] = INK
    for (start, end), radius in zip(ends, radii, strict=True):
        along = end - start
        share = np.clip(((x - start[0]) * along[0] + (z - start[1]) * along[1]) / (along @ along), 0, 1)
        distance = np.hypot(x - start[0] - share * along[0], z - start[1] - share * along[1])
        frame[distance <= max(radius, 0.5 / pixels)] = AGENT
    return frame


def make_body(
    place: str,
    reward: ObsReward | str | None = None,
    horizon: int | None = 1_000,
    render_mode: str | None = None,
    repeat: int = 1,
) -> BodyEnv:
    """The entry point of ``gymnasium.make("zscout/Walker-v0", reward=…, horizon=…, repeat=…)``."""
    return BodyEnv(body(place, repeat=repeat, threads=1), reward, horizon, render_mode)
