"""A run as frames to display: each step as numbers and maps, with exact regret and the value of the estimate."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.edge import as_index, as_size, as_vectors
from zscout.lab.arena import Batch, Tasks
from zscout.lab.grid_arena import GridArena, finite
from zscout.lab.ground import Ground
from zscout.lab.simulation import TaskRuns, followed, simulated, trace_of
from zscout.lab.spec import Spec
from zscout.transfer.agent import OnlineTransfer
from zscout.worlds.grid import Cell

Mode: TypeAlias = Literal["wanders", "tries", "goes", "stays"]
DOING: dict[Mode, str] = {
    "wanders": "wanders: an explorer chooses its actions",
    "tries": "tries a behaviour that leads elsewhere: perhaps that is worth more",
    "goes": "goes to the best place it knows",
    "stays": "stays at the best place it knows",
}
TASKS = Tasks(count=100, seeds=1)  # the tasks that compare reports on
IN_JSON = ("step", "state", "action", "entered", "mode", "reward", "regret", "lost", "value", "error")


@dataclass(frozen=True, eq=False)
class Scene:
    """The constant part of a run."""

    spec: Spec
    truth: np.ndarray  # φ·z_r [rows columns], NaN on walls
    doubt: np.ndarray  # width of the expected reward, in σ, before the first reward [rows columns]
    best: frozenset[Cell]  # where φ·z_r is largest


@dataclass(frozen=True, eq=False)
class Frame:
    """One step, from S_t to S_{t+1}, and the estimates after it."""

    step: int  # t + 1, the number of rewards so far
    state: int  # S_t
    action: int  # A_t
    entered: int  # S_{t+1}
    z: np.ndarray  # Z_t [d]; for an explorer's step, the z to use without further learning
    reward: float  # R_{t+1}
    regret: float  # v*(S_t) − v of π(·,Z_t) there
    lost: float  # regret so far ÷ the regret of a lost step, mean v* − v_random for tasks of this ‖z_r‖
    z_hat: np.ndarray  # ẑ [d]
    value: float  # of the z to use without further learning: 0 is a random walk, 1 is optimal
    error: float  # ‖ẑ − z_r‖
    left: Cell  # of S_t
    cell: Cell  # of S_{t+1}
    heading: Cell | None  # where π(·,Z_t) leads from S_t; None for an explorer's step
    mode: Mode  # whether it follows the z that it would keep
    estimate: np.ndarray  # the expected reward, φ·ẑ + c [rows columns], NaN on walls
    doubt: np.ndarray  # its width in units of σ [rows columns]

    @property
    def doing(self) -> str:
        """The mode in words, with the agent as subject."""
        return DOING[self.mode]

    def to_json(self) -> dict[str, Any]:
        """The step without its maps."""
        return {name: getattr(self, name) for name in IN_JSON} | {"z": self.z.tolist(), "z_hat": self.z_hat.tolist()}


def run_named(arena: GridArena, method: str, task: str, *, noise: float, seed: int, steps: int) -> Spec:
    """The checked spec of a run.

    ``task`` is the number of a task of compare, or z_r as numbers with commas between. With a number and a ``seed``
    below 1000, this is the run of compare with that task and seed.
    """
    try:
        numbers = [float(word) for word in task.split(",")]
    except ValueError:
        raise ValueError(f"a task is its number or z_r with commas between, got {task!r}") from None
    ground, number = arena.ground, 0
    if task.strip().lstrip("+-").isdecimal():
        number = as_size(int(task), "the number of a task", 0, TASKS.count - 1)
        z_r = arena.vectors(TASKS.draw(arena)[number : number + 1])
    else:
        z_r = as_vectors(numbers, ground.exact.dim, "the task")[None]
    if not ground.yardstick.gap(z_r) > 1e-9 * float(z_r.norm() * ground.exact.features.norm(dim=-1).max()):
        raise ValueError("for this task every policy is worth the same: there is nothing to find")
    run_seed = (TASKS.run_seeds[number] + seed) % 2**63
    spec = Spec(arena, method, tuple(z_r[0].tolist()), noise=noise, seed=run_seed, steps=steps)
    spec.check()
    return spec


def watch_run(spec: Spec) -> tuple[Scene, Iterator[Frame]]:
    """The scene, and a frame for each step."""
    arena = finite(spec.arena)
    ground, task = arena.ground, arena.vectors([spec.task])
    agent = OnlineTransfer(ground.model, spec.build(task), seed=[spec.seed], runs=1)
    env = arena.environment(Batch([spec.task], [spec.seed], spec.noise, spec.outside, spec.offset))
    truth = ground.world.to_map(env.reward[0])
    best = np.argwhere(truth >= np.nanmax(truth) - 1e-9 * np.nanmax(np.abs(truth)))
    scene = Scene(spec, truth, _doubt(agent, ground), frozenset((int(row), int(column)) for row, column in best))
    return scene, islice(_frames(agent, ground, task, env), spec.steps)


def _frames(agent: OnlineTransfer, ground: Ground, task: Float[Tensor, "1 d"], env: TaskRuns) -> Iterator[Frame]:
    yardstick, to_map = ground.yardstick, ground.world.to_map
    cells = [(int(row), int(column)) for row, column in ground.world.cells]
    gap = ground.gap * float(task.norm()) / math.sqrt(ground.exact.dim)  # random tasks have ‖z‖ = √d
    learnable = yardstick.without_constant(task) if agent.method.intercept else task
    regret_so_far = 0.0
    for step in simulated(agent, env):
        assert step.belief is not None
        z, z_hat = followed(step), agent.z_hat.cpu()
        regret = float(yardstick.regret(trace_of(agent, task, [step])))
        regret_so_far += regret
        state, entered = int(step.obs), int(step.next_obs)
        heading = None if step.belief.exploring else _leads_to(ground, z, state)
        yield Frame(
            step=step.t + 1,
            state=state,
            action=int(step.action),
            entered=entered,
            z=z[0].cpu().numpy(),
            reward=float(step.reward),
            regret=regret,
            lost=regret_so_far / gap,
            z_hat=z_hat[0].numpy(),
            value=float(yardstick.value(agent.best_z.cpu(), task)),
            error=float((z_hat - learnable).norm()),
            left=cells[state],
            cell=cells[entered],
            heading=None if heading is None else cells[heading],
            mode=mode_of(heading, _leads_to(ground, step.belief.best_z, state), entered),
            estimate=to_map(agent.posterior.reward(ground.exact.features[None])[0].cpu()),
            doubt=_doubt(agent, ground),
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
    return max(end_of_way(world.next_state.gather(1, action[:, None])[:, 0].tolist(), state), key=worth.__getitem__)


def end_of_way(follows: Sequence[int], state: int) -> list[int]:
    """The cycle that a path from this state ends in; ``follows`` has the next state of each."""
    for _ in follows:  # after this number of steps it is in its cycle
        state = follows[state]
    cycle = [state]
    while follows[cycle[-1]] != state:
        cycle.append(follows[cycle[-1]])
    return cycle


def mode_of(heading: int | None, settled: int, entered: int) -> Mode:
    """The mode, from where the followed z leads, where the z to keep leads, and the state just entered."""
    if heading is None:
        return "wanders"
    if heading != settled:
        return "tries"
    return "stays" if entered == heading else "goes"
