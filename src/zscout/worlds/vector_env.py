"""What the point maze and bodies share as Gymnasium environments."""

from collections.abc import Callable
from typing import Any, SupportsFloat, TypeAlias

import gymnasium
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_finite, as_size
from zscout.base.types import Action
from zscout.worlds.grids.env import start_in
from zscout.worlds.grids.rewards import finite_number

ObsReward: TypeAlias = Callable[[np.ndarray], Any]
"""The reward of the observation entered, as a number."""


class VectorWorldEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A world with vector states; episodes are truncated after ``horizon`` steps (None: never)."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (as Gymnasium's)
    meaning = ""  # of the entries of a state, in an error

    def __init__(
        self,
        world: Any,
        reward: ObsReward | None,
        horizon: int | None,
        render_mode: str | None,
        like: Float[Tensor, " k"],  # a state, for its size and precision
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode must be None or in {self.metadata['render_modes']}, got {render_mode!r}")
        if reward is not None and not callable(reward):
            raise ValueError(f"reward must be a callable of the observation, or None, got {type(reward).__name__}")
        self.world, self.reward, self.render_mode, self._like = world, reward, render_mode, like
        self.horizon = None if horizon is None else as_size(horizon, "horizon", 1)
        self.observation_space, self.action_space = world.observation_space, world.action_space
        self.state: np.ndarray | None = None
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        start = self._given(start_in(options, "…"))
        super().reset(seed=seed)
        if start is None:
            rng = torch.Generator().manual_seed(int(self.np_random.integers(2**63)))
            start = self.world.random_states(1, rng)[0]
        start = start.to(self._like)
        self.state, self.steps = start.numpy().copy(), 0
        return _as_array(self.world.observe(start)), {}

    def step(self, action: Action) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        """S_{t+1}, and R_{t+1} of the observation just entered; a failed step leaves the environment unchanged."""
        if self.state is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        if tuple(np.shape(action)) != self.action_space.shape:
            raise ValueError(f"the action has shape {np.shape(action)}, expected {self.action_space.shape}")
        entered, terminated = self.world.step(self.state, action)
        seen = self.world.observe(entered)
        obs = _as_array(seen)
        reward = finite_number(self._paid(seen, obs), "the reward")
        self.state, self.steps = entered.numpy(), self.steps + 1
        return obs, reward, bool(terminated), self.horizon is not None and self.steps >= self.horizon, {}

    def _given(self, start: Any) -> Float[Tensor, " k"] | None:
        """The checked state that ``reset(options={"state": …})`` asks for."""
        if start is None:
            return None
        if np.shape(start) != self._like.shape:
            shape, size = np.shape(start), len(self._like)
            raise ValueError(f"options['state'] has shape {shape}, expected ({size},){self.meaning}")
        return as_finite(start, "options['state']")

    def _paid(self, seen: Float[Tensor, " o"], obs: np.ndarray) -> Any:
        """The reward of an observation, in the world's precision and as the agent gets it."""
        return 0.0 if self.reward is None else self.reward(obs.copy())


def _as_array(seen: Float[Tensor, " o"]) -> np.ndarray:
    return seen.float().numpy().copy()
