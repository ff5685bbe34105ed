"""The loop around an agent of many runs and a Gymnasium vector environment."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from zscout.types import Action, Agent, Obs

NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"  # gymnasium.vector.AutoresetMode


@dataclass(frozen=True, eq=False)
class BatchStep:
    """One step of every run, as it happened."""

    t: int
    obs: Obs  # S_t [runs …]
    action: Action  # A_t [runs …]
    next_obs: Obs  # S_{t+1} [runs …], of an episode that ended its last
    reward: np.ndarray  # R_{t+1} [runs]
    terminated: np.ndarray
    truncated: np.ndarray
    episode: np.ndarray
    only_reset: np.ndarray  # no step was taken: it began a new episode, and taught nothing
    z: Any = None  # Z_t [runs d], of an agent that has one


def batched_rollout(agent: Agent, env: "VectorEnv[Any, Any, Any]", steps: int, seed: int | None) -> Iterator[BatchStep]:
    """``rollout`` for a vector environment."""
    mode = autoreset_mode(env)
    if mode == NEXT_STEP and "seen" not in inspect.signature(agent.tell).parameters:
        raise ValueError(
            "this vector environment resets in a step of its own, of which tell(…, seen=) is told, and this agent's "
            "tell takes no seen: make the environment with AutoresetMode.SAME_STEP"
        )
    obs, _ = env.reset(seed=seed)
    ended = np.zeros(env.num_envs, dtype=bool)
    episode = np.zeros(env.num_envs, dtype=int)
    for t in range(steps):
        action = agent.act(obs)
        z = getattr(agent, "present_z", None)
        after, reward, terminated, truncated, info = env.step(action)
        # After an end the next step resets: its action is ignored, and its reward of 0 is nobody's.
        only_reset = ended if mode == NEXT_STEP else np.zeros_like(ended)
        ended = np.asarray(terminated | truncated)
        next_obs = with_last(after, ended, info) if mode == SAME_STEP else after
        told: Any = agent
        if only_reset.any():
            # done: a z that is held for an episode was asked for at the last state of the episode before.
            told.tell(next_obs, reward, ended | only_reset, seen=~only_reset)
        else:
            told.tell(next_obs, reward, ended)
        yield BatchStep(t, obs, action, next_obs, reward, terminated, truncated, episode.copy(), only_reset, z)
        obs = after
        episode += ended
        if getattr(agent, "wants_reset", False):
            obs, _ = env.reset(seed=seed)
            episode += ~ended
            ended = np.zeros_like(ended)
        elif mode == DISABLED and ended.any():
            obs, _ = env.reset(options={"reset_mask": ended})


def autoreset_mode(env: "VectorEnv[Any, Any, Any]") -> str:
    """How it begins a new episode."""
    mode = (env.metadata or {}).get("autoreset_mode")
    name = str(getattr(mode, "value", mode))
    if name not in (NEXT_STEP, SAME_STEP, DISABLED):
        raise ValueError(
            f"metadata['autoreset_mode'] of the vector environment is {mode!r}, expected one of "
            "gymnasium.vector.AutoresetMode: without it a reset cannot be told from a step"
        )
    return name


def with_last(obs: Any, ended: np.ndarray, info: dict[str, Any]) -> Any:
    """S_{t+1} where the observation that came is already that of the next episode."""
    if not ended.any():
        return obs
    if "final_obs" not in info:
        raise ValueError("an episode ended, and the vector environment's info has no 'final_obs'")
    last = np.array(obs)
    for run in np.flatnonzero(ended):
        last[run] = info["final_obs"][run]
    return last
