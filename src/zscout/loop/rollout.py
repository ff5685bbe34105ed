"""The loop around an agent: choose z, act, step, tell."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_size, check_array_space, for_each_entry
from zscout.base.types import Agent, Obs
from zscout.loop.asynchronous import AsyncTransfer
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.inputs import Flags, Rewards
from zscout.transfer.score.certificate import Certified

NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"  # gymnasium.vector.AutoresetMode


@dataclass(frozen=True, eq=False)
class Belief:
    """An agent's estimates at S_t."""

    exploring: bool  # whether an explorer chooses the action
    radius: Float[Tensor, "*b"]  # √β_t
    z_hat: Float[Tensor, "*b d"]  # ẑ_t
    best_z: Float[Tensor, "*b d"]  # the best z so far


@dataclass(frozen=True, eq=False)
class Step:
    """One step from S_t to S_{t+1}, of one run or of all runs of a batch."""

    t: int
    obs: Any  # S_t
    action: Any  # A_t
    next_obs: Any  # S_{t+1}; at the end of an episode, its last observation
    reward: Any  # R_{t+1}: a float, or one for each run; None if it is told later
    terminated: Any = False
    truncated: Any = False
    episode: Any = 0
    z: Any = None  # Z_t, if the agent uses z
    seen: Any = None  # which runs got a reward; None: all
    only_reset: Any = False  # vector environments: this step only reset, nothing is learned from it
    belief: Belief | None = None  # at S_t, if recorded
    cost: Any = None  # by name, of an agent with limits: the environment's info[name]; NaN for a run without it


@runtime_checkable
class Environment(Protocol):
    """The part of a Gymnasium environment that a rollout needs, for one run or many."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """The first observation."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """S_{t+1}, R_{t+1}, terminated, truncated, info."""


class Walk:
    """An agent in an environment, one step at a time: ``move``, then ``tell``. ``rollout`` loops over both.

    Runs of a batch end together; ``rollout`` also takes vector environments, whose runs end one by one.
    """

    def __init__(self, agent: Agent, env: Environment, seed: int | None = None, *, beliefs: bool = False) -> None:
        self.agent, self.env = agent, env
        self._seed, self._beliefs = seed, beliefs
        self._t = self._episode = 0
        self._costs = _Costs(agent)
        self.obs, _ = env.reset(seed=seed)  # S_t

    def move(self) -> Step:
        """Choose an action and take it; the agent does not learn yet."""
        agent, belief = self.agent, None
        if self._beliefs and isinstance(agent, OnlineTransfer):
            belief = Belief(agent.exploring, agent.radius, agent.z_hat, agent.best_z)
        action = agent.act(self.obs)
        z = getattr(agent, "present_z", None)
        next_obs, reward, terminated, truncated, info = _noting(self._t, self.env.step, action)
        if np.ndim(terminated) or np.ndim(truncated):
            raise ValueError("terminated and truncated must be single flags: use rollout for a vector environment")
        flags = terminated, truncated, self._episode
        cost = self._costs.of_one(info)
        if terminated or truncated:
            self._costs.check_all_reported()
        return Step(self._t, self.obs, action, next_obs, reward, *flags, z, belief=belief, cost=cost)

    def tell(self, step: Step, reward: Rewards | None, seen: Flags | None = None) -> None:
        """Tell the agent the reward; reset if the episode ended or the agent requests it."""
        done = bool(step.terminated or step.truncated)
        _tell(self.agent, step.next_obs, reward, done, seen, step.cost)
        self.obs, self._t = step.next_obs, self._t + 1
        wants_reset = bool(getattr(self.agent, "wants_reset", False))
        if done or wants_reset:
            self.obs, _ = _noting(self._t, self.env.reset, seed=self._seed if wants_reset else None)
            self._episode += 1


def rollout(
    agent: Agent,
    env: "gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]",
    steps: int,
    seed: int | None = None,
    until: Certified | None = None,
) -> Iterator[Step]:
    """Yield ``steps`` steps, each after the agent learned from it; reset at the end of an episode.

    The first reset uses ``seed``. A reset requested by the agent uses the same seed, which in most environments gives
    the same start; without a seed there is no common start, which lola needs. A vector environment of n
    needs n runs, ``OnlineTransfer(bfm, runs=n)``; all autoreset modes of Gymnasium work. Steps that only reset are not
    learned from. With ``until`` it ends early, when all runs are certified at their observations: see
    ``OnlineTransfer.certificate``. An agent with limits is told the costs in ``info``, by the limits' names; raises if
    an episode or the rollout ends without a name.
    """
    as_size(steps, "steps", 0)
    if until is not None and not isinstance(until, Certified):
        raise ValueError(f"until must be a Certified, got {until!r}")
    if isinstance(env, VectorEnv):
        check_array_space(env.single_observation_space, "the environment's")
        taken = _vector_rollout(agent, env, steps, seed)
    else:
        check_array_space(env.observation_space, "the environment's")
        taken = _rollout(agent, env, steps, seed)
    if until is None:
        return taken
    if not isinstance(agent, OnlineTransfer):
        raise ValueError(f"until needs an OnlineTransfer, got {type(agent).__name__}")
    return _until(taken, agent, until)


def _until(steps: Iterator[Step], agent: OnlineTransfer, until: Certified) -> Iterator[Step]:
    for step in steps:
        yield step
        ended = np.any(step.terminated) or np.any(step.truncated)  # at the end all z may be worth the same
        if agent.t % until.every == 0 and not ended and until.of(agent.certificate(until.delta)).all():
            return


def _noting(t: int, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The call's result; an error of the environment gets a note on what the agent learned before it."""
    try:
        return call(*arguments, **options)
    except Exception as error:
        error.add_note(
            f"zscout: the environment raised this after {t} steps of the rollout. The agent learned from those, and "
            "from nothing since: a new rollout continues with what it knows."
        )
        raise


def _tell(agent: Any, next_obs: Obs, reward: Rewards | None, done: Flags, seen: Flags | None, cost: Any) -> None:
    given = {"seen": seen, "cost": cost}  # an agent need not know these if all rewards were seen, and without limits
    agent.tell(next_obs, reward, done, **{name: value for name, value in given.items() if value is not None})


class _Costs:
    """The costs that an environment reports, of limits that are told theirs."""

    def __init__(self, agent: Agent) -> None:
        limits = agent.limits if isinstance(agent, OnlineTransfer | AsyncTransfer) else ()
        self._names = [one.name for one in limits if one.cost is None]
        self._unreported = set(self._names)
        self._info: dict[str, Any] | None = None  # of the last step

    def of_one(self, info: dict[str, Any]) -> dict[str, Any] | None:
        """Those of a single run."""
        found = {name: info[name] for name in self._names if name in info}
        self._unreported -= found.keys()
        self._info = info
        return found or None

    def of_runs(self, info: dict[str, Any], ended: np.ndarray, only_reset: np.ndarray) -> dict[str, Any] | None:
        """Those of each run, NaN if it reports none; ``ended``: those whose last step is in ``final_info``."""
        last = _final(info, "final_info") if self._names and ended.any() else {}
        found = {name: np.full(len(ended), np.nan) for name in self._names}
        for name, cost in found.items():
            for part, runs in ((info, ~ended & ~only_reset), (last, ended)):
                if name not in part:
                    continue
                values = np.asarray(part[name])
                if values.shape != ended.shape:
                    raise ValueError(f"info[{name!r}] has shape {values.shape}, expected {ended.shape}: one cost a run")
                reported = runs & part.get(f"_{name}", True)
                cost[reported] = values[reported]
                if reported.any():
                    self._unreported.discard(name)
        self._info = last or info
        return found or None

    def check_all_reported(self) -> None:
        """Raise if there were steps, and none reported the cost of one of the limits."""
        if self._unreported and self._info is not None:
            has = ", ".join(repr(name) for name in self._info if not name.startswith("_")) or "nothing"
            raise ValueError(
                f"info never has {min(self._unreported)!r}, the cost of a limit, but {has}: report it at each step, or "
                "name the limit after what is reported"
            )


def _rollout(agent: Agent, env: Environment, steps: int, seed: int | None) -> Iterator[Step]:
    walk = Walk(agent, env, seed)
    for _ in range(steps):
        step = walk.move()
        walk.tell(step, float(step.reward))
        yield step
    walk._costs.check_all_reported()


def _vector_rollout(agent: Agent, env: "VectorEnv[Any, Any, Any]", steps: int, seed: int | None) -> Iterator[Step]:
    """One run per environment; episodes of the runs end independently."""
    mode = str(getattr(declared := (env.metadata or {}).get("autoreset_mode"), "value", declared))
    if mode not in (NEXT_STEP, SAME_STEP, DISABLED):
        raise ValueError(
            f"metadata['autoreset_mode'] of the vector environment is {declared!r}, expected one of "
            "gymnasium.vector.AutoresetMode: it says which steps are resets"
        )
    if mode == NEXT_STEP and "seen" not in inspect.signature(agent.tell).parameters:
        raise ValueError(
            "this vector environment resets in a separate step, and this agent's tell has no parameter seen to skip "
            "it: make the environment with AutoresetMode.SAME_STEP"
        )
    obs, _ = env.reset(seed=seed)
    ended = np.zeros(env.num_envs, dtype=bool)
    episode = np.zeros(env.num_envs, dtype=int)
    costs = _Costs(agent)
    for t in range(steps):
        action = agent.act(obs)
        z = getattr(agent, "present_z", None)
        after, reward, terminated, truncated, info = _noting(t, env.step, action)
        # After an episode ends, the next step only resets: its action is ignored, its reward 0 is no data.
        only_reset = ended if mode == NEXT_STEP else np.zeros_like(ended)
        seen = ~only_reset if only_reset.any() else None
        ended = np.asarray(terminated | truncated)
        next_obs = _with_last(after, ended, info) if mode == SAME_STEP else after
        # only_reset is done, too: a z held for an episode was chosen at the last state of the previous episode.
        cost = costs.of_runs(info, ended if mode == SAME_STEP else np.zeros_like(ended), only_reset)
        if ended.any():
            costs.check_all_reported()
        _tell(agent, next_obs, reward, ended | only_reset, seen, cost)
        flags = terminated, truncated, episode.copy()
        yield Step(t, obs, action, next_obs, reward, *flags, z, seen, only_reset, cost=cost)
        obs = after
        episode += ended
        if getattr(agent, "wants_reset", False):
            obs, _ = _noting(t + 1, env.reset, seed=seed)
            episode += ~ended
            ended = np.zeros_like(ended)
        elif mode == DISABLED and ended.any():
            obs, _ = _noting(t + 1, env.reset, options={"reset_mask": ended})
    costs.check_all_reported()


def _final(info: dict[str, Any], name: str) -> Any:
    if name not in info:
        raise ValueError(f"info has no {name!r} at the end of an episode: this vector environment must provide it")
    return info[name]


def _with_last(obs: Any, ended: np.ndarray, info: dict[str, Any]) -> Any:
    """S_{t+1}, with ``final_obs`` where the observation already belongs to the next episode."""
    if not ended.any():
        return obs

    def with_finals(after: Any, *finals: Any) -> np.ndarray:
        last = np.array(after)
        last[ended] = np.stack(finals)
        return last

    return for_each_entry(with_finals, obs, *_final(info, "final_obs")[ended])
