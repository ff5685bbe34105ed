"""Many runs of an agent in one tensor: the environment of a finite world, and the trace of the runs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.base.edge import as_index, in_range
from zscout.base.randomness import Streams
from zscout.base.types import Action, FiniteWorld, Obs
from zscout.loop.rollout import Environment, Step, Walk
from zscout.transfer.agent import OnlineTransfer

WORLD_DRAWS = 2**40  # where the world's draws begin in a run's stream: far from those of its agent


class TaskRuns:
    """An environment of R runs in a finite world; noise, slips and starts (if not given) come from each run's seed.

    ``reward`` [R S], and ``noise`` if it is a tensor, may be changed in place between two steps.
    """

    def __init__(
        self,
        world: FiniteWorld,
        reward: Float[Tensor, "R S"],
        noise: float | Float[Tensor, " 1"],
        seeds: Int[Tensor, " R"],
        start: Int[Tensor, " R"] | None = None,
    ) -> None:
        if not isinstance(noise, Tensor):
            noise = in_range(noise, "noise", 0.0, float("inf"), open_end=True)
        self.world, self.reward, self.noise, self.seeds = world, reward, noise, seeds
        self._start = (Streams(seeds, WORLD_DRAWS).uniform() * world.n_states).long() if start is None else start
        self._state, self._t = self._start, 0

    def true_reward(self, next_obs: Obs) -> Float[Tensor, " R"]:
        """R_{t+1} of each run without noise."""
        return self.reward.gather(1, torch.as_tensor(next_obs)[:, None])[:, 0]

    def reset(self, *, seed: int | None = None) -> tuple[Int[Tensor, " R"], dict[str, Any]]:
        """Every run at its start."""
        self._state = self._start
        return self._state, {}

    def step(self, action: Action) -> tuple[Int[Tensor, " R"], Float[Tensor, " R"], bool, bool, dict[str, Any]]:
        """S_{t+1} and R_{t+1} of every run; episodes never end."""
        self._t += 1
        streams = Streams(self.seeds, WORLD_DRAWS + self._t)
        move = as_index(action, self.world.n_actions, "action", torch.device("cpu"))
        self._state = self.world.step(self._state, move, streams)
        return self._state, self.true_reward(self._state) + self.noise * streams.normal(), False, False, {}


@dataclass(frozen=True, eq=False)
class Trace:
    """R runs of T steps; row t is the step from S_t to S_{t+1}."""

    task: Float[Tensor, "R d"]  # z_r
    ridge: float  # λ
    intercept: bool  # whether r ≈ φ·z + c was fitted: then ẑ has no constant part
    state: Int[Tensor, "T R"]
    z: Float[Tensor, "T R d"]
    exploring: Bool[Tensor, " T"]
    radius: Float[Tensor, "T R"]
    z_hat: Float[Tensor, "T R d"]
    best_z: Float[Tensor, "T R d"]
    action: Int[Tensor, "T R"]
    entered: Int[Tensor, "T R"]
    reward: Float[Tensor, "T R"]
    final_z: Float[Tensor, "R d"]  # the best z after the last reward
    final_z_hat: Float[Tensor, "R d"]


def simulated(agent: OnlineTransfer, env: Environment) -> Iterator[Step]:
    """Endless steps of the agent, with beliefs."""
    walk = Walk(agent, env, seed=0, beliefs=True)  # a reset that the agent asks for leads to the first start
    while True:
        step = walk.move()
        walk.tell(step, step.reward)
        yield step


def trace_of(agent: OnlineTransfer, tasks: Float[Tensor, "R d"], steps: Sequence[Step]) -> Trace:
    """The trace of an agent's steps; the agent is the one after the last step."""
    beliefs = [step.belief for step in steps if step.belief is not None]
    assert len(beliefs) == len(steps)

    def column(values: Iterable[Any]) -> Tensor:
        return torch.stack([torch.as_tensor(value).cpu() for value in values])

    return Trace(
        task=tasks,
        ridge=agent.method.ridge,
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
    """Z_t; for an explorer's step, the best z."""
    assert step.belief is not None
    z: Tensor = step.belief.best_z if step.z is None else step.z
    return z
