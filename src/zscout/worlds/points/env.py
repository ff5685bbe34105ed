"""The point maze as a Gymnasium environment: zscout/PointMaze-v0."""

from collections.abc import Callable
from typing import Any, SupportsFloat, TypeAlias

import gymnasium
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_finite, as_size
from zscout.base.types import Action
from zscout.worlds.grids.env import AGENT, BAD, INK, PAPER, PIXELS, start_in
from zscout.worlds.grids.maps import FOUR_ROOMS
from zscout.worlds.grids.rewards import finite_number
from zscout.worlds.points.maze import PointMaze
from zscout.worlds.registry import PLACES

ObsReward: TypeAlias = Callable[[np.ndarray], Any]
"""The reward of the observation entered, (x, y, vx, vy), as a number."""


class PointMazeEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A PointMaze as a Gymnasium environment.

    ``reward`` is a callable of the observation entered; None is 0. Episodes are truncated after ``horizon`` steps
    (None: never) and terminate in pits. They start at rest at a uniformly random place, or anywhere with
    ``reset(options={"state": [x, y, vx, vy]})``.
    """

    metadata = {  # noqa: RUF012 (as Gymnasium declares it)
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 10,
    }

    def __init__(
        self,
        world: PointMaze,
        reward: ObsReward | None = None,
        horizon: int | None = 70,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, "ansi", "rgb_array"):
            raise ValueError(f"render_mode must be None, 'ansi' or 'rgb_array', got {render_mode!r}")
        if reward is not None and not callable(reward):
            raise ValueError(f"reward must be a callable of the observation, or None, got {type(reward).__name__}")
        self.world, self.reward = world, reward
        self.horizon = None if horizon is None else as_size(horizon, "horizon", 1)
        self.render_mode = render_mode
        self.observation_space, self.action_space = world.observation_space, world.action_space
        self.state: np.ndarray | None = None
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        given = vector_start_in(options, 4, ": x, y, vx, vy")
        if given is not None:
            self.world.check_free(given)
        super().reset(seed=seed)
        if given is None:
            rng = torch.Generator().manual_seed(int(self.np_random.integers(2**63)))
            given = self.world.random_states(1, rng)[0]
        self.state, self.steps = given.float().numpy(), 0
        return self.state.copy(), {}

    def step(self, action: Action) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        """S_{t+1}, and R_{t+1} of the observation just entered; a failed step leaves the environment unchanged."""
        if self.state is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        if tuple(np.shape(action)) != (2,):
            raise ValueError(f"the force has shape {np.shape(action)}, expected (2,)")
        entered, terminated = self.world.step(self.state, action)
        state = entered.numpy()
        where = ", ".join(f"{entry:.4g}" for entry in state)
        reward = 0.0 if self.reward is None else finite_number(self.reward(state.copy()), f"the reward at ({where})")
        self.state, self.steps = state, self.steps + 1
        truncated = self.horizon is not None and self.steps >= self.horizon
        return state.copy(), reward, bool(terminated), truncated, {}

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


def vector_start_in(options: dict[str, Any] | None, entries: int, meaning: str = "") -> Float[Tensor, " k"] | None:
    """The checked state that ``reset(options={"state": …})`` asks for, or None."""
    start = start_in(options, "…")
    if start is None:
        return None
    if tuple(np.shape(start)) != (entries,):
        raise ValueError(f"options['state'] has shape {np.shape(start)}, expected ({entries},){meaning}")
    return as_finite(start, "options['state']")
