"""What worlds with vector observations share on the live page: their runs, episodes, and what φ·z + c expresses."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.lab.arenas.vector import Reward, VectorArena, VectorRuns
from zscout.live.places.explanation import LiveMode, rounded
from zscout.live.places.hidden_reward import Hidden
from zscout.live.places.run_so_far import RecordedStep


class VectorRun:
    """One run, with plain arrays: same seed, same starts and same noise as in the laboratory."""

    def __init__(
        self, arena: VectorArena, reward: Reward, noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]
    ) -> None:
        def reward_of(obs: Float[Tensor, "1 o"]) -> Float[Tensor, " 1"]:
            found = reward(obs)
            self._paid = float(found)
            return found

        self.mode: LiveMode = "begins"
        self._runs, self._noise = VectorRuns(arena, reward_of, 0.0, seeds), noise
        self._paid = 0.0  # the reward of the last step without noise
        self._episode, self._decision, self._return = 0, 0, 0.0

    @property
    def state(self) -> Float[Tensor, " k"]:
        """The state, which is more than the observation."""
        return self._runs.state[0]

    def reset(self, *, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """The start of an episode."""
        return self._runs.reset(seed=seed)[0][0].numpy(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """S_{t+1} and R_{t+1}."""
        self._runs.noise = float(self._noise)  # it may have changed
        obs, reward, terminated, truncated, _ = self._runs.step(np.asarray(action)[None])
        return obs[0].numpy(), float(reward), terminated, truncated, {}

    def _count(self, step: RecordedStep) -> None:
        """One more decision of the episode, with its reward without noise."""
        if step.episode != self._episode:
            self._episode, self._decision, self._return = step.episode, 0, 0.0
        self._decision, self._return = self._decision + 1, self._return + self._paid

    def _shown_episode(self, hidden: Hidden | None) -> dict[str, Any]:
        """Parts of a frame; the return is unknown if a person gives the reward."""
        total = None if hidden is None else rounded(self._return)
        return {"episode": self._episode + 1, "decision": self._decision, "return": total}


class LinearPart:
    """All φ·z + c at some observations."""

    def __init__(self, phi: Float[Tensor, "m d"]) -> None:
        ones = torch.ones(len(phi), 1, dtype=phi.dtype)
        self._basis: Float[Tensor, "m k"] = torch.linalg.qr(torch.cat([phi, ones], -1)).Q

    def share_of(self, reward: Float[Tensor, " m"]) -> float | None:
        """R² of the nearest φ·z + c; None for a constant."""
        spread = float((reward - reward.mean()).square().sum())
        missed = reward - self._basis @ (self._basis.T @ reward)
        return None if spread < 1e-12 else 1 - float(missed.square().sum()) / spread
