"""Simulates many runs in one tensor: agents in a finite world with noisy rewards, and the trace they leave."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.edge import as_index, as_size, as_vectors, in_range
from zscout.randomness import Streams
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import Method
from zscout.transfer.rollout import Environment, Step, Walk
from zscout.types import Action, BehaviorModel, FiniteWorld, Obs

WORLD = 2**40  # the place in a run's stream where its world begins: far from any that its agent draws from


class TaskRuns:
    """An environment of R runs in a finite world; noise, slips and starts come from each run's own seed.

    ``reward`` [R S], and ``noise`` as a tensor, may be changed in place between two steps.
    """

    def __init__(
        self,
        world: FiniteWorld,
        reward: Float[Tensor, "R S"],
        noise: float | Float[Tensor, " 1"],
        seeds: Int[Tensor, " R"],
    ) -> None:
        if not isinstance(noise, Tensor):
            noise = in_range(noise, "noise", 0.0, float("inf"), open_end=True)
        self.world, self.reward, self.noise, self.seeds = world, reward, noise, seeds
        self._start = (Streams(seeds, WORLD).uniform() * world.n_states).long()
        self._state, self._t = self._start, 0

    def true_reward(self, next_obs: Obs) -> Float[Tensor, " R"]:
        """R_{t+1} of each run without noise."""
        return self.reward.gather(1, torch.as_tensor(next_obs)[:, None])[:, 0]

    def reset(self, *, seed: int | None = None) -> tuple[Int[Tensor, " R"], dict[str, Any]]:
        """Every run at its start."""
        self._state = self._start
        return self._state, {}

    def step(self, action: Action) -> tuple[Int[Tensor, " R"], Float[Tensor, " R"], bool, bool, dict[str, Any]]:
        """S_{t+1} and R_{t+1} of every run; nothing ends."""
        self._t += 1
        streams = Streams(self.seeds, WORLD + self._t)
        move = as_index(action, self.world.n_actions, "action", torch.device("cpu"))
        self._state = self.world.step(self._state, move, streams)
        return self._state, self.true_reward(self._state) + self.noise * streams.normal(), False, False, {}


@dataclass(frozen=True, eq=False)
class Trace:
    """What happened in R runs of T steps; row t is of the step from S_t to S_{t+1}."""

    task: Float[Tensor, "R d"]  # z_r
    seeds: Int[Tensor, " R"]
    ridge: float  # λ
    forgetting: float  # ρ
    intercept: bool  # whether r ≈ φ·z + c was fitted, so that ẑ has no constant part
    state: Int[Tensor, "T R"]
    z: Float[Tensor, "T R d"]
    exploring: Bool[Tensor, " T"]
    radius: Float[Tensor, "T R"]
    z_hat: Float[Tensor, "T R d"]
    best_z: Float[Tensor, "T R d"]
    action: Int[Tensor, "T R"]
    entered: Int[Tensor, "T R"]
    reward: Float[Tensor, "T R"]
    final_z: Float[Tensor, "R d"]  # what is settled for after the last reward
    final_z_hat: Float[Tensor, "R d"]


def simulated(agent: OnlineTransfer, env: Environment, least: float | None = None) -> Iterator[Step]:
    """The agent's steps, without end, with its beliefs. With ``least`` it is told only where it ``wants_reward``."""
    walk = Walk(agent, env, seed=0, beliefs=True)  # a reset that the agent asks for leads to the first start
    while True:
        step = walk.move()
        seen = None if least is None else torch.as_tensor(agent.wants_reward(step.next_obs, least))
        walk.tell(step, step.reward, seen)
        yield step if seen is None else replace(step, seen=seen)


def simulate(
    model: BehaviorModel,
    world: FiniteWorld,
    tasks: Float[Tensor, "R d"],
    method: str | Method,
    *,
    seeds: Int[Tensor, " R"],
    steps: int,
    noise: float,
    told_noise: bool = False,
    reward: Float[Tensor, "R S"] | None = None,
) -> Trace:
    """R runs of one method, one for each task and seed; with ``told_noise`` the agent knows σ.

    ``reward`` of each state, where it is not φ·z_r.
    """
    tasks = as_vectors(tasks, model.dim, "tasks", torch.device("cpu"))
    sigma = noise if told_noise else None
    agent = OnlineTransfer(model, method, seed=seeds.tolist(), runs=len(tasks), noise=sigma)
    if reward is None:
        reward = tasks @ model.phi(torch.arange(world.n_states)).double().cpu().T
    env = TaskRuns(world, reward, noise, agent.seeds)
    return trace_of(agent, tasks, list(islice(simulated(agent, env), as_size(steps, "steps", 1))))


def trace_of(agent: OnlineTransfer, tasks: Float[Tensor, "R d"], steps: Sequence[Step]) -> Trace:
    """Steps one after the other, of an agent that has taken them all."""
    beliefs = [step.belief for step in steps if step.belief is not None]
    assert len(beliefs) == len(steps)

    def column(values: Iterable[Any]) -> Tensor:
        return torch.stack([torch.as_tensor(value).cpu() for value in values])

    return Trace(
        task=tasks,
        seeds=agent.seeds,
        ridge=agent.method.ridge,
        forgetting=agent.method.forgetting,
        intercept=agent.method.intercept,
        state=column(step.obs for step in steps),
        z=column(followed(step) for step in steps),
        exploring=torch.tensor([belief.exploring for belief in beliefs]),
        radius=column(belief.radius for belief in beliefs),
        z_hat=column(belief.z_hat for belief in beliefs),
        best_z=column(belief.best_z for belief in beliefs),
        action=column(step.action for step in steps),
        entered=column(step.next_obs for step in steps),
        reward=column(step.reward for step in steps),
        final_z=agent.best_z.cpu(),
        final_z_hat=agent.z_hat.cpu(),
    )


def followed(step: Step) -> Float[Tensor, "R d"]:
    """Z_t; while an explorer acts, the z that would be kept."""
    assert step.belief is not None
    found: Tensor = step.belief.best_z if step.z is None else step.z
    return found
