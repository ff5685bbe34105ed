"""The loop around an agent and any Gymnasium environment, plain or vector."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from zscout.edge import as_size, check_array_space
from zscout.types import Action, Agent, Obs

NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"  # gymnasium.vector.AutoresetMode


@dataclass(frozen=True, eq=False)
class Step:
    """One step as it happened."""

    t: int
    obs: Obs  # S_t
    action: Action  # A_t
    next_obs: Obs  # S_{t+1}
    reward: float  # R_{t+1}
    terminated: bool
    truncated: bool
    episode: int
    z: Any = None  # Z_t, of an agent that has one


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


@overload
def rollout(
    agent: Agent, env: "gymnasium.Env[Any, Any]", steps: int, seed: int | None = None
) -> Iterator[Step]: ...  # one run
@overload
def rollout(
    agent: Agent, env: "VectorEnv[Any, Any, Any]", steps: int, seed: int | None = None
) -> Iterator[BatchStep]: ...  # one run for each of its environments
def rollout(agent: Agent, env: Any, steps: int, seed: int | None = None) -> Iterator[Any]:
    """So many steps, told to the agent and then yielded; an episode that ends, or that the agent wants to begin anew,
    is followed by a reset.

    The first reset takes ``seed``. One that the agent asked for takes the same seed again, which in most environments
    leads to the same start. A vector environment of n is n runs, ``OnlineTransfer(bfm, runs=n)``, in any of Gymnasium's
    autoreset modes: a step that only resets is not learned from.
    """
    as_size(steps, "steps", 0)
    if isinstance(env, VectorEnv):
        check_array_space(env.single_observation_space, "the environment's")
        return _batched_rollout(agent, env, steps, seed)
    check_array_space(env.observation_space, "the environment's")
    return _rollout(agent, env, steps, seed)


def _rollout(agent: Agent, env: "gymnasium.Env[Any, Any]", steps: int, seed: int | None) -> Iterator[Step]:
    obs, _ = env.reset(seed=seed)
    episode = 0
    for t in range(steps):
        action = agent.act(obs)
        z = getattr(agent, "present_z", None)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        agent.tell(next_obs, float(reward), bool(terminated or truncated))
        yield Step(t, obs, action, next_obs, float(reward), bool(terminated), bool(truncated), episode, z)
        obs = next_obs
        wants_reset = bool(getattr(agent, "wants_reset", False))
        if terminated or truncated or wants_reset:
            obs, _ = env.reset(seed=seed if wants_reset else None)
            episode += 1


def _batched_rollout(
    agent: Agent, env: "VectorEnv[Any, Any, Any]", steps: int, seed: int | None
) -> Iterator[BatchStep]:
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
