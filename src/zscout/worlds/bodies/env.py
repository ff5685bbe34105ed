"""Bodies as Gymnasium environments: zscout/Walker-v0 and its siblings."""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
import torch

from zscout.base.edge import as_size
from zscout.base.types import Action
from zscout.worlds.bodies.physics import Body, body
from zscout.worlds.bodies.tasks import BodyTask, body_task
from zscout.worlds.grids.env import AGENT, INK, PAPER
from zscout.worlds.grids.rewards import finite_number
from zscout.worlds.points.env import ObsReward, vector_start_in

PIXELS, WIDTH, ABOVE, BELOW = 80, 4.0, 2.4, 0.2  # of a frame: pixels and metres


class BodyEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A Body as a Gymnasium environment.

    ``reward`` is the name of a task, a callable of the observation entered, or None (0). Episodes are truncated after
    ``horizon`` steps (None: never) and terminate only if the simulation diverges. They start as dm_control's do, or
    anywhere with ``reset(options={"state": …})``; ``env.unwrapped.state`` is the state.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(
        self,
        world: Body,
        reward: ObsReward | str | None = None,
        horizon: int | None = 1_000,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        if reward is not None and not callable(reward) and not isinstance(reward, str):
            raise ValueError(
                f"reward must be a task, a callable of the observation, or None, got {type(reward).__name__}"
            )
        self.world = world
        self.reward = body_task(world, reward) if isinstance(reward, str) else reward
        self.horizon = None if horizon is None else as_size(horizon, "horizon", 1)
        self.render_mode, self.metadata = render_mode, {**self.metadata, "render_fps": round(1 / world.seconds)}
        self.observation_space, self.action_space = world.observation_space, world.action_space
        self.state: np.ndarray | None = None
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        given = vector_start_in(options, self.world.state_size)
        super().reset(seed=seed)
        if given is None:
            rng = torch.Generator().manual_seed(int(self.np_random.integers(2**63)))
            given = self.world.random_states(1, rng)[0]
        self.state, self.steps = given.numpy().copy(), 0
        return self.world.observe(given).float().numpy(), {}

    def step(self, action: Action) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        """S_{t+1}, and R_{t+1} of the observation just entered; a failed step leaves the environment unchanged."""
        if self.state is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        if tuple(np.shape(action)) != self.action_space.shape:
            raise ValueError(f"the action has shape {np.shape(action)}, expected {self.action_space.shape}")
        entered, terminated = self.world.step(self.state, action)
        seen = self.world.observe(entered)
        obs = seen.float().numpy()
        answer: Any = 0.0
        if isinstance(self.reward, BodyTask):
            answer = self.reward(seen)
        elif self.reward is not None:
            answer = self.reward(obs.copy())
        reward = finite_number(answer, "the reward")
        self.state, self.steps = entered.numpy(), self.steps + 1
        return obs, reward, bool(terminated), self.horizon is not None and self.steps >= self.horizon, {}

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
