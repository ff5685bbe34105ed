"""The point maze on the live page: places are squares of half a cell, and the point moves between them."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.lab.arenas.point import PointArena
from zscout.live.places.explanation import LiveMode, rounded
from zscout.live.places.live_world import Hidden, RecordedStep, RunSoFar
from zscout.live.places.map_frame import map_frame
from zscout.live.places.vector import EpisodeReturn, LinearPart, VectorRun
from zscout.watch.point import SAME_PLACE, VELOCITIES, at_velocities, free_squares, physics_of
from zscout.watch.viewer import Point, mode_of
from zscout.worlds.grids.grid import Cell
from zscout.worlds.points.tasks import point_tasks

PER_CELL = 2  # squares along a cell
OF_PLACES = ("goal", "region", "direction", "avoid")  # kinds of random tasks: those that reward places, not velocities


class LivePointMaze:
    """Four rooms with the shipped model; a place has the features of a point at rest in its centre."""

    def __init__(self) -> None:
        self.arena = PointArena()
        rows, columns = self.arena.world.grid.shape
        self.shape: Cell = rows * PER_CELL, columns * PER_CELL
        squares = free_squares(self.arena.world, PER_CELL).nonzero()
        self.places: list[Cell] = [(row, column) for row, column in squares.tolist()]
        self._index = {square: index for index, square in enumerate(self.places)}
        centres = (squares.flip(-1) + 0.5) / PER_CELL
        self._at_rest = torch.cat([centres, torch.zeros_like(centres)], -1)  # [n 4]
        self.features: Float[Tensor, "n d"] = self.arena.bfm.phi(self._at_rest).double()

    @property
    def entries(self) -> int:
        """The number of places."""
        return len(self.places)

    @property
    def constants(self) -> dict[str, Any]:
        """None: the map is offered."""
        return {}

    def place(self, obs: Any) -> int:
        """The square that holds the point."""
        return self._index[int(obs[1] * PER_CELL), int(obs[0] * PER_CELL)]

    def leads_to(self, obs: Any, z: Float[Tensor, "n d"]) -> Int[Tensor, " n"]:
        """The place where the model expects a point that follows z from here to be most, for each z.

        ψ(s;z)·φ(place) is the density of its discounted visits, up to a constant.
        """
        return (self.arena.bfm.psi(obs, z).double() @ self.features.T).argmax(-1)

    def random_task(self, number: int) -> Float[Tensor, " n"]:
        """The reward at the centre of each place."""
        kind = OF_PLACES[number % len(OF_PLACES)]
        return point_tasks(self.arena.world, kind, 1, number)[0](self._at_rest).double()

    def hide(self, table: Float[Tensor, " n"]) -> "PointReward":
        """The reward, and how much of it the features express."""
        return PointReward(table, self._linear)

    @cached_property
    def _linear(self) -> LinearPart:
        """All φ·z + c at places, at rest and at top speed in eight directions."""
        obs = at_velocities(self.arena.world, self._at_rest[:, :2]).reshape(-1, 4)
        return LinearPart(self.arena.bfm.phi(obs).double())

    def environment(
        self, reward: Float[Tensor, "1 n"], noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]
    ) -> VectorRun:
        """The laboratory's environment for one run."""
        return VectorRun(self.arena, lambda obs: reward[:, self.place(obs[0])], noise, seeds)

    def judge(self, best_z: Float[Tensor, " d"]) -> "PointJudge":
        """Where behaviours lead, and the return of each episode."""
        return PointJudge(self)


class PointReward:
    """One reward for each place; nothing is known of the best policy."""

    attainable = truth = None

    def __init__(self, table: Float[Tensor, " n"], linear: LinearPart) -> None:
        self.table, self._linear = table, linear

    @cached_property
    def expressed(self) -> float | None:
        """R² of the nearest φ·z + c over places and velocities; None for a constant."""
        return self._linear.share_of(self.table.repeat(VELOCITIES))


class PointJudge:
    """Asks the model where behaviours lead, and adds up the reward of each episode."""

    def __init__(self, world: LivePointMaze) -> None:
        self.mode: LiveMode = "begins"
        self.target: int | None = None  # the place where π(·,Z_t) leads
        self._world, self._episode = world, EpisodeReturn()

    def assess(self, steps: Sequence[RecordedStep], best_z: Float[Tensor, " d"], hidden: Hidden | None) -> None:
        """Find where the last step leads, and add its reward without noise to the episode's."""
        if not steps:
            return
        last, places = steps[-1], self._world.places
        paid = 0.0 if hidden is None else float(hidden.table[self._world.place(last.entered)])
        self._episode.add(last, paid)
        target, settled = self._world.leads_to(last.state, torch.stack([last.z, last.belief.best_z])).tolist()
        self.target = None if last.belief.exploring else target
        heading = None if self.target is None else places[target]
        self.mode = mode_of(heading, places[settled], _on_map(last.entered), _same)

    def shown(self, run: RunSoFar, hidden: Hidden | None) -> dict[str, Any]:
        """The maps, the way of the last decision in squares, the episode, and its return so far."""
        way = [run.obs]
        if run.steps:
            state, force = torch.as_tensor(run.steps[-1].state)[None], torch.tensor([run.steps[-1].action])
            way = [*physics_of(self._world.arena.world, state, force)]
        return {
            **map_frame(self._world, run, hidden, self.mode, self.target),
            "path": rounded(np.array([_on_map(point) for point in way])),
            **self._episode.shown(hidden),
        }


def _on_map(obs: Any) -> Point:
    """Row and column in squares, where the centre of a square is a whole number."""
    return float(obs[1]) * PER_CELL - 0.5, float(obs[0]) * PER_CELL - 0.5


def _same(one: Point, other: Point) -> bool:
    return math.dist(one, other) < SAME_PLACE * PER_CELL
