"""A run as frames to display: each step as numbers and maps, with exact regret and the value of the estimate."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
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


@dataclass(frozen=True, eq=False)
class Scene:
    """What stays the same while a run is watched."""

    spec: Spec
    truth: np.ndarray  # φ·z_r [rows columns], NaN on walls
    doubt: np.ndarray  # width of the expected reward, in σ, before the first reward [rows columns]
    best: frozenset[Cell]  # where φ·z_r is largest


@dataclass(frozen=True, eq=False)
class Frame:
    """One step, from S_t to S_{t+1}, and what is known after it."""

    step: int  # t + 1: how many rewards were seen
    state: int  # S_t
    action: int  # A_t
    entered: int  # S_{t+1}
    z: np.ndarray  # Z_t [d]; while an explorer acts, what would be settled for
    reward: float  # R_{t+1}
    regret: float  # v*(S_t) − v of π(·,Z_t) there
    lost: float  # regret so far ÷ the worth of a step, mean v* − v of a random walk for tasks of this ‖z_r‖
    z_hat: np.ndarray  # ẑ [d]
    value: float  # of π(·,ẑ), or of what else would be settled for now: 0 is a random walk, 1 is optimal
    error: float  # ‖ẑ − z_r‖
    left: Cell  # of S_t
    cell: Cell  # of S_{t+1}
    heading: Cell | None  # where π(·,Z_t) leads from S_t; None while an explorer acts
    mode: Mode  # whether what it does is what it would settle for
    estimate: np.ndarray  # the reward expected, φ·ẑ + c [rows columns], NaN on walls
    doubt: np.ndarray  # how uncertain it is, in units of σ [rows columns]

    @property
    def doing(self) -> str:
        """The mode in words; it is the agent that does it."""
        return DOING[self.mode]

    def to_json(self) -> dict[str, Any]:
        """The step without its maps."""
        numbers = ("step", "state", "action", "entered", "mode", "reward", "regret", "lost", "value", "error")
        named = {name: getattr(self, name) for name in numbers}
        return named | {"z": self.z.tolist(), "z_hat": self.z_hat.tolist()}


def run_named(arena: GridArena, method: str, task: str, *, noise: float, seed: int, steps: int) -> Spec:
    """What a user wrote, as a run; what cannot be run is refused.

    ``task`` is the number of one of the tasks of compare, or z_r itself, numbers with commas between. With a number,
    and a ``seed`` below 1000, this is the very run that compare has for that task and that seed.
    """
    z_r, first = _task(task, arena)
    spec = Spec(arena, method, tuple(z_r[0].tolist()), noise=noise, seed=(first + seed) % 2**63, steps=steps)
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
    scene = Scene(
        spec=spec,
        truth=truth,
        doubt=_doubt(agent, ground),
        best=frozenset((int(row), int(column)) for row, column in best),
    )
    return scene, islice(_frames(agent, ground, task, env), spec.steps)


def _frames(agent: OnlineTransfer, ground: Ground, task: Float[Tensor, "1 d"], env: TaskRuns) -> Iterator[Frame]:
    yardstick, to_map = ground.yardstick, ground.world.to_map
    cells = [(int(row), int(column)) for row, column in ground.world.cells]
    gap = ground.gap * float(task.norm()) / math.sqrt(ground.exact.dim)  # random tasks have ‖z‖ = √d
    regret_so_far = 0.0
    for step in simulated(agent, env):
        assert step.belief is not None
        z = followed(step)
        regret = float(yardstick.regret(trace_of(agent, task, [step])))
        regret_so_far += regret
        state, entered = int(step.obs), int(step.next_obs)
        heading = None if step.belief.exploring else _leads_to(ground, z, state)
        z_hat = agent.z_hat.cpu()
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
            error=float((z_hat - (yardstick.without_constant(task) if agent.method.intercept else task)).norm()),
            left=cells[state],
            cell=cells[entered],
            heading=None if heading is None else cells[heading],
            mode=mode_of(heading, _leads_to(ground, step.belief.best_z, state), entered),
            estimate=to_map(agent.posterior.reward(ground.exact.features[None])[0].cpu()),
            doubt=_doubt(agent, ground),
        )


def _task(text: str, arena: GridArena) -> tuple[Float[Tensor, "1 d"], int]:
    """z_r, and the first seed of its runs."""
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"a task is its number or z_r with commas between, got {text!r}") from None
    ground, number = arena.ground, 0
    if text.strip().lstrip("+-").isdecimal():
        number = as_size(int(text), "the number of a task", 0, TASKS.count - 1)
        task = arena.vectors(TASKS.draw(arena)[number : number + 1])
    else:
        task = as_vectors(numbers, ground.exact.dim, "the task")[None]
    scale = float(task.norm() * ground.exact.features.norm(dim=-1).max())
    if not ground.yardstick.gap(task) > 1e-9 * scale:
        raise ValueError("for this task every policy is worth the same: there is nothing to find")
    return task, TASKS.run_seeds[number]


def _doubt(agent: OnlineTransfer, ground: Ground) -> np.ndarray:
    return ground.world.to_map(agent.posterior.reward_width(ground.exact.features[None])[0])


def _leads_to(ground: Ground, z: Float[Tensor, "1 d"], state: int) -> int:
    """Where π(·,z) ends that starts here: of the states that it comes back to for ever, the one that z values most."""
    world, model = ground.world, ground.model
    states: Int[Tensor, " S"] = torch.arange(world.n_states)
    rng = Generator(device=z.device).manual_seed(0)  # for a policy that draws its actions: one draw for each state
    action = as_index(model.act(states, z.expand(len(states), -1), rng), world.n_actions, "action", states.device)
    worth = (ground.exact.features @ z[0].to(ground.exact.features)).tolist()
    return max(end_of_way(world.next_state.gather(1, action[:, None])[:, 0].tolist(), state), key=worth.__getitem__)


def end_of_way(follows: Sequence[int], state: int) -> list[int]:
    """The states that a way from here comes back to for ever; ``follows`` says which state follows each."""
    for _ in follows:  # after so many steps it is in its cycle
        state = follows[state]
    cycle = [state]
    while follows[cycle[-1]] != state:
        cycle.append(follows[cycle[-1]])
    return cycle


def mode_of(heading: int | None, settled: int, entered: int) -> Mode:
    """What is done from what it leads to, what would be settled for leads to, and where it is now."""
    if heading is None:
        return "wanders"
    if heading != settled:
        return "tries"
    return "stays" if entered == heading else "goes"
