"""Many runs at once: agents in a finite world whose rewards are φ·z_r + noise, all of them in one tensor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.edge import as_index, as_size, as_vectors, in_range
from zscout.randomness import Streams
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import Method
from zscout.types import BehaviorModel, FiniteWorld

WORLD = 2**40  # the place in a run's stream where its world begins: far from any that its agent draws from


@dataclass(frozen=True, eq=False)
class Moment:
    """One step of R runs, from S_t to S_{t+1}; all but the last four are as they were at S_t."""

    t: int
    state: Int[Tensor, " R"]  # S_t
    z: Float[Tensor, "R d"]  # Z_t; while an explorer acts, what would be settled for
    exploring: bool  # an explorer chose the action
    radius: Float[Tensor, " R"]  # √β_t
    z_hat: Float[Tensor, "R d"]  # ẑ_t
    best_z: Float[Tensor, "R d"]  # what would be settled for
    action: Int[Tensor, " R"]  # A_t
    entered: Int[Tensor, " R"]  # S_{t+1}, before a reset that the method asked for
    reward: Float[Tensor, " R"]  # R_{t+1}
    told: Bool[Tensor, " R"] | None = None  # whose reward was told; None: everyone's


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


def moments(
    agent: OnlineTransfer,
    world: FiniteWorld,
    reward: Float[Tensor, "R S"],
    noise: float | Float[Tensor, " 1"],
    least: float | None = None,
) -> Iterator[Moment]:
    """The agent in the world, for ever; noise, slips and starts come from each run's own seed.

    ``reward``, and ``noise`` as a tensor, are looked at step by step: they may be changed in place between two of them.
    With ``least`` it is told only where ``agent.wants_reward(S_{t+1}, least)``.
    """
    if not isinstance(noise, Tensor):
        noise = in_range(noise, "noise", 0.0, float("inf"), open_end=True)
    seeds = agent.seeds
    start = (Streams(seeds, WORLD).uniform() * world.n_states).long()
    state, t = start, 0
    while True:
        streams = Streams(seeds, WORLD + 1 + t)
        exploring, radius, z_hat, best_z = agent.exploring, agent.radius, agent.z_hat, agent.best_z
        action = as_index(agent.act(state), world.n_actions, "action", torch.device("cpu"))
        z = agent.present_z
        entered = world.step(state, action, streams)
        seen = reward.gather(1, entered[:, None])[:, 0] + noise * streams.normal()
        told = None if least is None else torch.as_tensor(agent.wants_reward(entered, least))
        agent.tell(entered, seen, seen=told)
        followed = best_z if z is None else z
        yield Moment(t, state, followed, exploring, radius, z_hat, best_z, action, entered, seen, told)
        state = start if agent.wants_reset else entered
        t += 1


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
    return trace_of(agent, tasks, list(islice(moments(agent, world, reward, noise), as_size(steps, "steps", 1))))


def trace_of(agent: OnlineTransfer, tasks: Float[Tensor, "R d"], rows: Sequence[Moment]) -> Trace:
    """Moments one after the other, of an agent that has come to the end of them."""

    def column(name: str) -> Tensor:
        return torch.stack([getattr(row, name).cpu() for row in rows])

    names = ("state", "z", "radius", "z_hat", "best_z", "action", "entered", "reward")
    return Trace(
        task=tasks,
        seeds=agent.seeds,
        ridge=agent.method.ridge,
        forgetting=agent.method.forgetting,
        intercept=agent.method.intercept,
        exploring=torch.tensor([row.exploring for row in rows]),
        final_z=agent.best_z.cpu(),
        final_z_hat=agent.z_hat.cpu(),
        **{name: column(name) for name in names},
    )
