"""The shipped worlds as Gymnasium environments: zscout/OpenGrid-v0, zscout/FourRooms-v0, zscout/Maze-v0."""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Discrete

from zscout.base.types import Action
from zscout.worlds.grids.grid import MOVES, GridWorld
from zscout.worlds.grids.rewards import BlackBox, LinearReward, RewardLike, as_reward
from zscout.worlds.registry import PLACES

PIXELS = 24  # the side of a cell in a rendered frame
INK, PAPER, AGENT = (38, 38, 46), (246, 244, 238), (28, 92, 188)
BAD, GOOD = np.array((214, 96, 77)), np.array((77, 165, 110))  # the paper's red and green


class GridEnv(gymnasium.Env[np.int64, np.int64]):
    """A GridWorld as a Gymnasium environment; episodes never end.

    ``reward`` is a LinearReward, a TableReward, a list or array of one number per state, a callable of the state
    entered, or None (0). An episode starts in a uniformly random state, or at s with ``reset(options={"state": s})``.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(self, world: GridWorld, reward: RewardLike = None, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        self.world = world
        self.reward = as_reward(reward, world.n_states)
        if isinstance(self.reward, LinearReward) and self.reward.task.ndim != 1:
            shape = tuple(self.reward.task.shape)
            raise ValueError(f"task must be [d], because an environment is one run, got {shape}")
        self.render_mode = render_mode
        self.observation_space, self.action_space = Discrete(world.n_states), Discrete(world.n_actions)
        self.state: int | None = None
        self._rng = torch.Generator()

    @property
    def np_random(self) -> np.random.Generator:
        """The generator of starts, slips and noise."""
        return super().np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._np_random, self._np_random_seed = value, -1  # as in Gymnasium's setter
        self._rng.manual_seed(int(value.integers(2**63)))  # later slips and noise are drawn with torch

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode; ``seed`` also seeds all later slips and noise."""
        start = start_in(options, "s")
        if start is not None and start not in self.observation_space:
            raise ValueError(f"options['state'] is {start!r}, expected 0 … {self.world.n_states - 1}")
        super().reset(seed=seed)
        self._rng.manual_seed(int(self.np_random.integers(2**63)))
        self.state = int(self.np_random.integers(self.world.n_states)) if start is None else int(start)
        return np.int64(self.state), {}

    def step(self, action: Action) -> tuple[np.int64, SupportsFloat, bool, bool, dict[str, Any]]:
        """S_{t+1}, and R_{t+1} of the state just entered."""
        if self.state is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        if np.ndim(torch.as_tensor(action)):
            raise ValueError(f"expected one action, because an environment is one run, got {action!r}")
        before = self._rng.get_state()
        try:
            state = int(self.world.step(self.state, action, self._rng))
            reward = float(self.reward(state, self._rng))
        except BaseException:
            self._rng.set_state(before)  # a failed step leaves the environment unchanged
            raise
        self.state = state
        return np.int64(state), reward, False, False, {}

    def render(self) -> np.ndarray | None:
        """The map with the agent; cells are coloured by reward if it is a table or linear."""
        if self.render_mode is None:
            return None
        colours = np.full((*self.world.shape, 3), INK, dtype=np.uint8)
        colours[self.world.cells[:, 0], self.world.cells[:, 1]] = self._cell_colours()
        frame = colours.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
        frame[::PIXELS] = frame[:, ::PIXELS] = INK
        for one, other in map(sorted, self.world.blocked):
            row, column = other[0] * PIXELS, other[1] * PIXELS
            if (other[0] - one[0], other[1] - one[1]) == MOVES[1]:  # the wall lies above `other`
                frame[row - 2 : row + 3, column : column + PIXELS] = INK
            else:  # the wall is left of `other`
                frame[row : row + PIXELS, column - 2 : column + 3] = INK
        if self.state is not None:
            row, column = self.world.cells[self.state].tolist()
            y, x = np.ogrid[: frame.shape[0], : frame.shape[1]]
            centre = ((row + 0.5) * PIXELS, (column + 0.5) * PIXELS)
            frame[(y - centre[0]) ** 2 + (x - centre[1]) ** 2 <= (0.32 * PIXELS) ** 2] = AGENT
        return frame

    def _cell_colours(self) -> np.ndarray:
        """Red for negative rewards, green for positive ones; a callable reward is not shown."""
        paper = np.tile(np.array(PAPER, dtype=float), (self.world.n_states, 1))
        if isinstance(self.reward, BlackBox):
            return paper.astype(np.uint8)
        table = self.reward.table.numpy()
        worth = (table / max(np.abs(table).max(), 1e-300))[:, None]  # −1 … 1
        colours: np.ndarray = paper + np.abs(worth) * (np.where(worth < 0, BAD, GOOD) - paper)
        return colours.astype(np.uint8)


def make_env(place: str, reward: RewardLike = None, slip: float = 0.0, render_mode: str | None = None) -> GridEnv:
    """The entry point of ``gymnasium.make("zscout/OpenGrid-v0", reward=…, slip=…)``."""
    return GridEnv(PLACES[place].make(slip=slip), reward, render_mode)


def start_in(options: dict[str, Any] | None, shown: str) -> Any:
    """The start that ``reset(options={"state": …})`` asks for, or None; raises at any other option."""
    if unknown := set(options or {}) - {"state"}:
        raise ValueError(f"unknown option {min(map(str, unknown))!r}: reset takes options={{'state': {shown}}}")
    return (options or {}).get("state")
