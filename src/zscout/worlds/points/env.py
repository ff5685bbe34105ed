"""The point maze as a Gymnasium environment: zscout/PointMaze-v0."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from zscout.worlds.grids.env import AGENT, BAD, INK, PAPER, PIXELS
from zscout.worlds.grids.maps import FOUR_ROOMS
from zscout.worlds.points.maze import PointMaze
from zscout.worlds.registry import PLACES
from zscout.worlds.vector_env import ObsReward, VectorWorldEnv


class PointMazeEnv(VectorWorldEnv):
    """A PointMaze as a Gymnasium environment.

    ``reward`` is a callable of the observation entered; None is 0. Episodes are truncated after ``horizon`` steps
    (None: never) and terminate in pits. They start at rest at a uniformly random place, or anywhere with
    ``reset(options={"state": [x, y, vx, vy]})``.
    """

    metadata = {  # noqa: RUF012 (as Gymnasium declares it)
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 10,
    }
    meaning = ": x, y, vx, vy"

    def __init__(
        self,
        world: PointMaze,
        reward: ObsReward | None = None,
        horizon: int | None = 70,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(world, reward, horizon, render_mode, torch.zeros(4))

    def _given(self, start: Any) -> Float[Tensor, " 4"] | None:
        given = super()._given(start)
        if given is not None:
            self.world.check_free(given)
        return given

    def render(self) -> Any:
        """The map with the point: text, or an image."""
        if self.render_mode is None:
            return None
        if self.render_mode == "ansi":
            return self.world.picture(self.state)
        colours = np.full((*self.world.grid.shape, 3), INK, dtype=np.uint8)
        colours[tuple(self.world.grid.cells.numpy().T)] = PAPER
        colours[self.world.pits.numpy()] = BAD
        frame = colours.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
        if self.state is not None:
            rows, columns = np.ogrid[: frame.shape[0], : frame.shape[1]]
            x, y = self.state[:2] * PIXELS
            frame[(rows - y) ** 2 + (columns - x) ** 2 <= (0.25 * PIXELS) ** 2] = AGENT
        return frame


def make_point_maze(
    place: str,
    map: str = FOUR_ROOMS,
    reward: ObsReward | None = None,
    horizon: int | None = 70,
    render_mode: str | None = None,
    repeat: int = 3,
) -> PointMazeEnv:
    """The entry point of ``gymnasium.make("zscout/PointMaze-v0", reward=…, horizon=…, map=…)``."""
    return PointMazeEnv(PLACES[place].make(map=map, repeat=repeat), reward, horizon, render_mode)
