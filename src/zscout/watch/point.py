"""A run in the point maze as frames, with its return in each episode beside the oracle's from the same start."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.edge import as_size
from zscout.lab.arenas.arena import Batch, Task
from zscout.lab.arenas.exact_values import without_constant
from zscout.lab.arenas.point import PointArena, task_named
from zscout.lab.arenas.simulation import followed
from zscout.lab.runs.spec import Spec
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.offline import constant_part_of
from zscout.watch.viewer import Frame, Point, Scene, beside_oracle, checked_run, mode_of, share, vector_run
from zscout.worlds.points.maze import PointMaze
from zscout.worlds.points.tasks import KINDS

STEPS = 210  # three episodes
PER_CELL = 3  # squares of the maps along a cell
STEPS_AHEAD, STEPS_AVERAGED = 30, 10  # a behaviour leads to the mean place of the last 10 of its next 30 steps
VELOCITIES = 9  # of ``at_velocities``
SAME_PLACE = 1.0  # cells: places at this distance are the same place


def run_named(model: str, method: str, task: str, *, noise: float, seed: int, steps: int) -> Spec:
    """The checked spec of a run.

    ``task`` is the number of a task of compare, a name such as ``goal 12``, or z_r as numbers with commas between. With
    a number and a ``seed`` below 1000, this is the run of ``compare --arena point-maze`` with that task and seed.
    """
    arena, named = PointArena(model), _name_in(task)
    if named is not None:
        return checked_run(arena, method, named, 0, noise=noise, seed=seed, steps=steps)
    words = f"its number, a kind ({', '.join(KINDS)}) and a number,"
    return vector_run(arena, method, task, words, noise=noise, seed=seed, steps=steps)


def _name_in(task: str) -> Task | None:
    """The name of a reward, such as ``goal 12``; None if the text does not begin with a kind."""
    kind, *numbers = task.split() or [""]
    if kind not in KINDS:
        return None
    if len(numbers) != 1 or not numbers[0].isdecimal():
        raise ValueError(f"expected a task such as '{kind} 12', got {task!r}")
    return f"{kind} {as_size(int(numbers[0]), f'the number of a {kind} task', 0, 2**63 - 1)}"


def watch_run(spec: Spec) -> tuple[Scene, Iterator[Frame]]:
    """The scene, and a frame for each step."""
    arena = spec.arena
    assert isinstance(arena, PointArena)
    task = arena.vectors([spec.task])
    agent = OnlineTransfer(arena.bfm, spec.build(task), seed=[spec.seed], runs=1)
    maps = _Maps(arena, spec)
    named = isinstance(spec.task, str)
    scene = Scene(
        spec,
        reward=f"{'r' if named else 'φ·z_r'} {'at its best velocity' if maps.moving else 'at rest'}",
        truth=maps.truth,
        limits=maps.limits,
        doubt=maps.doubt(agent),
        best=maps.best,
        chart="Return of each episode; dashed: the oracle's from the same start",
        ticks={},
        about=f"{spec.task}: {task_named(str(spec.task)).name}" if named else "",
        per_cell=PER_CELL,
        pace=80,
    )
    return scene, islice(_frames(agent, arena, spec, maps), spec.steps)


def _frames(agent: OnlineTransfer, arena: PointArena, spec: Spec, maps: "_Maps") -> Iterator[Frame]:
    task = arena.vectors([spec.task])
    learnable = without_constant(task, constant_part_of(arena.bfm)) if agent.method.intercept else task
    for both in beside_oracle(arena, spec, agent):
        step, episode, own, best = both.step, both.step.episode, both.own, both.best
        assert step.belief is not None
        z, z_hat = followed(step), agent.z_hat.cpu()
        action = torch.as_tensor(step.action).float()
        path = on_map(physics_of(arena.world, step.obs, action))
        heading: Point | None = None
        settled = place = _point(path[-1])
        if not step.belief.exploring:
            heading, settled = _leads_to(arena, torch.cat([z, step.belief.best_z]), step.obs)
        mode = mode_of(heading, settled, place, lambda one, other: math.dist(one, other) < SAME_PLACE)
        numbers = {
            "step": step.t + 1,
            "episode": episode + 1,
            "state": step.obs[0].tolist(),
            "action": action[0].tolist(),
            "entered": step.next_obs[0].tolist(),
            "mode": mode,
            "reward": float(step.reward),
            "return": own,  # of this episode so far, without noise
            "oracle": best,  # the oracle's in the same steps
            "error": float((z_hat - learnable).norm()),  # ‖ẑ − z_r‖
            "z": z[0].tolist(),  # Z_t; for an explorer's step, the best z
            "z_hat": z_hat[0].tolist(),
        }
        returns = f"return {share(own, 1)}, the oracle's {share(best, 1)}"
        down, right = step.next_obs[0, [3, 2]].tolist()
        yield Frame(
            step=step.t + 1,
            reward=float(step.reward),
            path=path,
            heading=heading,
            mode=mode,
            estimate=maps.estimate(agent),
            doubt=maps.doubt(agent),
            level=own,
            label=share(own, 1),
            line=f"episode {episode + 1}  {returns}",
            head=f"episode {episode + 1}: {returns}",
            numbers=numbers,
            velocity=(down * arena.world.repeat, right * arena.world.repeat),
            reference=best,
        )


def free_squares(world: PointMaze, per_cell: int) -> Bool[Tensor, "rows columns"]:
    """Which squares of the map are not walls; ``per_cell`` squares along a cell."""
    free = torch.zeros(world.grid.shape, dtype=torch.bool)
    free[tuple(world.grid.cells.T)] = True
    return free.repeat_interleave(per_cell, 0).repeat_interleave(per_cell, 1)


def at_velocities(world: PointMaze, places: Float[Tensor, "n 2"]) -> Float[Tensor, "9 n 4"]:
    """Observations at places: at rest first, then at top speed in eight directions."""
    angle = torch.arange(8) * (math.pi / 4)
    fast = torch.stack([angle.cos(), angle.sin()], -1) * world.top_speed
    velocities = torch.cat([torch.zeros(1, 2), fast])[:, None].expand(-1, len(places), -1)
    return torch.cat([places.expand(9, -1, -1), velocities], -1)


def physics_of(world: PointMaze, obs: Float[Tensor, "1 4"], action: Float[Tensor, "1 2"]) -> Float[Tensor, "k 4"]:
    """The point before and after each physics step of one action."""
    slow, states = replace(world, repeat=1), [obs]
    for _ in range(world.repeat):
        states.append(slow.advance(states[-1], action)[0])
    return torch.cat(states)


class _Maps:
    """Maps at the centres of squares: at rest, or if all places at rest are worth the same, at the best velocity."""

    def __init__(self, arena: PointArena, spec: Spec) -> None:
        self.free = free_squares(arena.world, PER_CELL)
        obs = at_velocities(arena.world, (self.free.nonzero().flip(-1) + 0.5) / PER_CELL)
        tasks = [spec.task] * obs[..., 0].numel()
        env = arena.environment(Batch(tasks, [0] * len(tasks), offset=spec.offset))
        reward = env.true_reward(obs.reshape(-1, 4)).reshape(9, -1)
        self.moving = bool(reward[0].max() - reward[0].min() < 1e-9)
        shown = slice(1, None) if self.moving else slice(1)
        self.phi = arena.bfm.phi(obs[shown]).double().cpu()
        self.truth = self.of(reward[shown])
        self.limits = float(reward[0].min()), float(reward[shown].max())

    def of(self, values: Float[Tensor, "v n"]) -> np.ndarray:
        """The largest values over velocities as a map, NaN on walls."""
        found = np.full(self.free.shape, np.nan)
        found[self.free.numpy()] = values.amax(0).cpu().numpy()
        return found

    def estimate(self, agent: OnlineTransfer) -> np.ndarray:
        """The expected reward."""
        return self.of(agent.posterior.reward(self.phi.flatten(0, 1)[None]).reshape(len(self.phi), -1))

    def doubt(self, agent: OnlineTransfer) -> np.ndarray:
        """Its width, in σ."""
        return self.of(agent.posterior.reward_width(self.phi.flatten(0, 1)[None]).reshape(len(self.phi), -1))

    @property
    def best(self) -> frozenset[Point]:
        """The middle of where the reward at rest is largest: of these squares, the one nearest to their mean."""
        if self.moving:
            return frozenset()
        squares = (np.argwhere(self.truth >= np.nanmax(self.truth) - 1e-9) + 0.5) / PER_CELL - 0.5
        return frozenset({_point(squares[np.linalg.norm(squares - squares.mean(0), axis=1).argmin()])})


def on_map(obs: Float[Tensor, "n 4"], per_cell: int = 1) -> np.ndarray:
    """Rows and columns in squares, ``per_cell`` along a cell; the centre of a square is a whole number."""
    return obs[:, [1, 0]].double().cpu().numpy() * per_cell - 0.5


def _point(place: np.ndarray) -> Point:
    row, column = place.tolist()
    return row, column


def _leads_to(arena: PointArena, z: Float[Tensor, "n d"], obs: Float[Tensor, "1 4"]) -> list[Point]:
    """Where π(·,z) leads from here: the mean place of the last of its next steps, for each z."""
    state, places = obs.expand(len(z), -1), []
    for _ in range(STEPS_AHEAD):
        state, _ = arena.world.advance(state, torch.as_tensor(arena.bfm.act(state, z, None)).float())
        places.append(on_map(state))
    return [_point(place) for place in np.mean(places[-STEPS_AVERAGED:], axis=0)]
