"""The point maze on the live page: places are squares of half a cell, and the point moves between them."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.lab.arenas.point import PointArena
from zscout.live.places.explanation import rounded
from zscout.live.places.hidden_reward import Hidden, VectorReward
from zscout.live.places.maps import LiveMap, map_frame
from zscout.live.places.run_so_far import RecordedStep, RunSoFar
from zscout.live.places.vector import LinearPart, VectorRun
from zscout.watch.point import SAME_PLACE, VELOCITIES, at_velocities, free_squares, on_map, physics_of
from zscout.watch.viewer import Point, mode_of
from zscout.worlds.points.tasks import point_tasks

PER_CELL = 2  # squares along a cell
OF_PLACES = ("goal", "region", "direction", "avoid")  # kinds of random tasks: those that reward places, not velocities


class LivePointMaze(LiveMap):
    """Four rooms with the shipped model; a place has the features of a point at rest in its centre."""

    def __init__(self) -> None:
        self.arena = PointArena()
        rows, columns = self.arena.world.grid.shape
        self.shape = rows * PER_CELL, columns * PER_CELL
        squares = free_squares(self.arena.world, PER_CELL).nonzero()
        self.places = [(row, column) for row, column in squares.tolist()]
        self._index = {square: index for index, square in enumerate(self.places)}
        centres = (squares.flip(-1) + 0.5) / PER_CELL
        self._at_rest = torch.cat([centres, torch.zeros_like(centres)], -1)  # [n 4]
        self.features = self.arena.bfm.phi(self._at_rest).double()

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

    def hide(self, table: Float[Tensor, " n"]) -> VectorReward:
        """The reward, and how much of it the features express."""
        return VectorReward(table, self._linear.share_of(table.repeat(VELOCITIES)))

    @cached_property
    def _linear(self) -> LinearPart:
        """All φ·z + c at places, at rest and at top speed in eight directions."""
        obs = at_velocities(self.arena.world, self._at_rest[:, :2]).reshape(-1, 4)
        return LinearPart(self.arena.bfm.phi(obs).double())

    def run(self, reward: Float[Tensor, "1 n"], noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]) -> "PointRun":
        """One method's run; ``reward`` and ``noise`` may be changed in place."""
        return PointRun(self, reward, noise, seeds)


class PointRun(VectorRun):
    """Asks the model where behaviours lead."""

    def __init__(
        self, world: LivePointMaze, reward: Float[Tensor, "1 n"], noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]
    ) -> None:
        super().__init__(world.arena, lambda obs: reward[:, world.place(obs[0])], noise, seeds)
        self.target: int | None = None  # the place where π(·,Z_t) leads
        self._world = world

    def assess(self, steps: Sequence[RecordedStep], best_z: Float[Tensor, " d"], hidden: Hidden | None) -> None:
        """Find where the last step leads, and add its reward to the episode's."""
        if not steps:
            return
        last, places = steps[-1], self._world.places
        self._count(last)
        target, settled = self._world.leads_to(last.state, torch.stack([last.z, last.belief.best_z])).tolist()
        self.target = None if last.belief.exploring else target
        heading = None if self.target is None else places[target]
        [entered] = on_map(torch.as_tensor(last.entered)[None], PER_CELL).tolist()
        self.mode = mode_of(heading, places[settled], tuple(entered), _same)

    def shown(self, run: RunSoFar, hidden: Hidden | None) -> dict[str, Any]:
        """The maps, the way of the last decision in squares, the episode, and its return so far."""
        way = torch.as_tensor(run.obs)[None]
        if run.steps:
            state, force = torch.as_tensor(run.steps[-1].state)[None], torch.tensor([run.steps[-1].action])
            way = physics_of(self._world.arena.world, state, force)
        return {
            **map_frame(self._world, run, hidden, self.mode, self.target),
            "path": rounded(on_map(way, PER_CELL)),
            **self._shown_episode(hidden),
        }


def _same(one: Point, other: Point) -> bool:
    return math.dist(one, other) < SAME_PLACE * PER_CELL
