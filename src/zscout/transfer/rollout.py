"""The loop around an agent and any Gymnasium environment."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

import gymnasium
from gymnasium.vector import VectorEnv

from zscout.edge import as_size, check_array_space
from zscout.transfer.batched_rollout import BatchStep, batched_rollout
from zscout.types import Action, Agent, Obs


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
        return batched_rollout(agent, env, steps, seed)
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
