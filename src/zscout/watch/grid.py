"""A run in a grid world as frames, with exact regret and the exact value of the estimate."""

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.base.edge import as_index, as_vectors
from zscout.lab.arenas.arena import Batch
from zscout.lab.arenas.grid import GridArena, finite
from zscout.lab.arenas.ground import Ground
from zscout.lab.arenas.simulation import TaskRuns, followed, simulated, trace_of
from zscout.lab.runs.spec import Spec
from zscout.transfer.agent import OnlineTransfer
from zscout.watch.viewer import REPORTED_TASKS, Frame, Scene, checked_run, mode_of, read_task, share


def run_named(arena: GridArena, method: str, task: str, *, noise: float, seed: int, steps: int) -> Spec:
    """The checked spec of a run.

    ``task`` is the number of a task of compare, or z_r as numbers with commas between. With a number and a ``seed``
    below 1000, this is the run of compare with that task and seed.
    """
    ground, found = arena.ground, read_task(task)
    if isinstance(found, int):
        z_r = arena.vectors(REPORTED_TASKS.draw(arena)[found : found + 1])
    else:
        z_r = as_vectors(found, ground.exact.dim, "the task")[None]
    if not ground.yardstick.gap(z_r) > 1e-9 * float(z_r.norm() * ground.exact.features.norm(dim=-1).max()):
        raise ValueError("for this task every policy is worth the same: there is nothing to find")
    number = found if isinstance(found, int) else 0
    return checked_run(arena, method, tuple(z_r[0].tolist()), number, noise=noise, seed=seed, steps=steps)


def watch_run(spec: Spec) -> tuple[Scene, Iterator[Frame]]:
    """The scene, and a frame for each step."""
    arena = finite(spec.arena)
    ground, task = arena.ground, arena.vectors([spec.task])
    agent = OnlineTransfer(ground.model, spec.build(task), seed=[spec.seed], runs=1)
    env = arena.environment(Batch([spec.task], [spec.seed], spec.noise, spec.outside, spec.offset))
    truth = ground.world.to_map(env.reward[0])
    best = np.argwhere(truth >= np.nanmax(truth) - 1e-9 * np.nanmax(np.abs(truth)))
    scene = Scene(
        spec,
        reward="φ·z_r",
        truth=truth,
        limits=(float(np.nanmin(truth)), float(np.nanmax(truth))),
        doubt=_doubt(agent, ground),
        best=frozenset((int(row), int(column)) for row, column in best),
        chart="What the policy of its estimate, π(·,ẑ), is worth",
        ticks={0.0: "random walk", 1.0: "best policy"},
    )
    return scene, islice(_frames(agent, ground, task, env), spec.steps)


def _frames(agent: OnlineTransfer, ground: Ground, task: Float[Tensor, "1 d"], env: TaskRuns) -> Iterator[Frame]:
    yardstick, to_map = ground.yardstick, ground.world.to_map
    cells = ground.world.cells
    gap = ground.gap * float(task.norm()) / math.sqrt(ground.exact.dim)  # random tasks have ‖z‖ = √d
    learnable = yardstick.without_constant(task) if agent.method.intercept else task
    regret_so_far = 0.0
    for step in simulated(agent, env):
        assert step.belief is not None
        z, z_hat = followed(step), agent.z_hat.cpu()
        regret = float(yardstick.regret(trace_of(agent, task, [step])))
        regret_so_far += regret
        lost, value = regret_so_far / gap, float(yardstick.value(agent.best_z.cpu(), task))
        error = float((z_hat - learnable).norm())
        state, entered = int(step.obs), int(step.next_obs)
        heading = None if step.belief.exploring else _leads_to(ground, z, state)
        mode = mode_of(heading, _leads_to(ground, step.belief.best_z, state), entered)
        numbers = {
            "step": step.t + 1,
            "state": state,
            "action": int(step.action),
            "entered": entered,
            "mode": mode,
            "reward": float(step.reward),
            "regret": regret,  # v*(S_t) − v of π(·,Z_t) there
            "lost": lost,  # regret so far ÷ the regret of a lost step, mean v* − v_random for tasks of this ‖z_r‖
            "value": value,  # of the best z: 0 is a random walk, 1 is optimal
            "error": error,  # ‖ẑ − z_r‖
            "z": z[0].tolist(),  # Z_t; for an explorer's step, the best z
            "z_hat": z_hat[0].tolist(),
        }
        yield Frame(
            step=step.t + 1,
            reward=float(step.reward),
            path=cells[[state, entered]].numpy(),
            heading=None if heading is None else (int(cells[heading, 0]), int(cells[heading, 1])),
            mode=mode,
            estimate=to_map(agent.posterior.reward(ground.exact.features[None])[0].cpu()),
            doubt=_doubt(agent, ground),
            level=value,
            label=share(value),
            line=f"lost {lost:.1f} steps  value {share(value)}  ‖ẑ − z_r‖ {error:.2f}",
            head=f"lost so far: {lost:.1f} steps of random walking",
            numbers=numbers,
        )


def _doubt(agent: OnlineTransfer, ground: Ground) -> np.ndarray:
    return ground.world.to_map(agent.posterior.reward_width(ground.exact.features[None])[0])


def _leads_to(ground: Ground, z: Float[Tensor, "1 d"], state: int) -> int:
    """Where π(·,z) ends from here: the state with the highest φ·z among those that it visits forever."""
    world, model = ground.world, ground.model
    states = torch.arange(world.n_states)
    rng = Generator(device=z.device).manual_seed(0)  # for a random policy: one draw for each state
    action = as_index(model.act(states, z.expand(len(states), -1), rng), world.n_actions, "action", states.device)
    worth = (ground.exact.features @ z[0].to(ground.exact.features)).tolist()
    return max(end_of_way(ground, action, state), key=worth.__getitem__)


def end_of_way(ground: Ground, policy: Int[Tensor, " S"], state: int) -> list[int]:
    """The cycle that the path of a policy from this state ends in."""
    follows = ground.world.next_state.gather(1, policy[:, None])[:, 0].tolist()
    for _ in follows:  # after this number of steps it is in its cycle
        state = follows[state]
    cycle = [state]
    while follows[cycle[-1]] != state:
        cycle.append(follows[cycle[-1]])
    return cycle
