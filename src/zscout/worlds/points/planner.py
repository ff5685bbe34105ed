"""Near-optimal returns in a point maze: value iteration on a grid of states, executed by a one-step search."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.sparse import csr_array
from torch import Tensor

from zscout.base.edge import as_size
from zscout.worlds.points.maze import PointMaze

BatchReward: TypeAlias = Callable[[Float[Tensor, "n 4"]], Float[Tensor, " n"]]
"""Rewards of n observations entered."""


class PointPlanner:
    """Plans for any reward of the observation, in one maze.

    V is stored at ``per_cell``² places in each free cell and ``speeds``² velocities, and interpolated multilinearly
    between them; nodes inside walls have no weight. A backup is Q(s,a) = r(s') + V(s') with the world's own s', for
    ``directions`` forces of full size, the same of half size, and 0.

    Accuracy in four rooms with 70 decisions: planned and executed returns differ by at most 0.4 % for goals, regions
    and directions and 1.3 % for velocities; twice the resolution of every axis raises executed returns of goals and
    regions by at most 0.2 %.
    """

    def __init__(
        self, world: PointMaze, *, per_cell: int = 3, speeds: int = 5, directions: int = 8, fine_directions: int = 16
    ) -> None:
        as_size(per_cell, "per_cell", 1, 20)
        as_size(speeds, "speeds", 2, 41)
        self.world, self.per_cell = world, per_cell
        self.forces, self.fine_forces = _forces(directions), _forces(fine_directions)
        self.velocities = torch.linspace(-world.top_speed, world.top_speed, speeds)
        rows, columns = world.grid.shape
        free = torch.zeros(rows, columns, dtype=torch.bool)
        free[world.grid.cells[:, 0], world.grid.cells[:, 1]] = True
        self._free = free.repeat_interleave(per_cell, 0).repeat_interleave(per_cell, 1)
        place = torch.full(self._free.shape, -1)
        place[self._free] = torch.arange(int(self._free.sum()))
        self._place = place.flatten()  # number of each node of the map, −1 in walls
        y, x = (self._free.nonzero() + 0.5).div(per_cell).unbind(-1)
        v = torch.cartesian_prod(self.velocities, self.velocities)
        self.nodes: Float[Tensor, "N 4"] = torch.cat(
            [torch.stack([x, y], -1).repeat_interleave(len(v), 0), v.repeat(len(x), 1)], -1
        )
        n = len(self.forces)
        self._entered, self._over = world.advance(
            self.nodes.repeat_interleave(n, 0), self.forces.repeat(len(self.nodes), 1)
        )
        self._matrix = self._interpolation(self._entered, ~self._over)

    def plan(self, reward: BatchReward, *, horizon: int = 70) -> "Plan":
        """The plan for ``horizon`` decisions."""
        r = _rewards(reward, self._entered).numpy()
        kept = [np.zeros(len(self.nodes), dtype=np.float32)]
        for _ in range(as_size(horizon, "horizon", 1, 10_000) - 1):
            kept.append((r + self._matrix @ kept[-1]).reshape(len(self.nodes), -1).max(1))
        return Plan(self, reward, torch.from_numpy(np.stack(kept[::-1])))

    def value(self, table: Float[Tensor, " N"], state: Float[Tensor, "n 4"]) -> Float[Tensor, " n"]:
        """V at any states."""
        index, weight = self._corners(state)
        return (table[index] * weight).sum(-1)

    def _interpolation(self, state: Float[Tensor, "n 4"], counts: Bool[Tensor, " n"]) -> csr_array:
        index, weight = self._corners(state)
        weight = weight * counts[:, None]
        n, corners = index.shape
        place = np.arange(0, n * corners + 1, corners)
        matrix = csr_array((weight.flatten().numpy(), index.flatten().int().numpy(), place), shape=(n, len(self.nodes)))
        matrix.eliminate_zeros()
        return matrix

    def _corners(self, state: Float[Tensor, "n 4"]) -> tuple[Tensor, Float[Tensor, "n 16"]]:
        """The 16 nodes around each state and their weights, which sum to 1."""
        rows, columns = self._free.shape
        speeds = len(self.velocities)
        scale = (speeds - 1) / (2 * self.world.top_speed)
        exact = torch.cat([state[:, :2] * self.per_cell - 0.5, (state[:, 2:] + self.world.top_speed) * scale], -1)
        last = torch.tensor([columns - 1, rows - 1, speeds - 1, speeds - 1])
        low = exact.floor()
        part = exact - low
        low = low.long()
        choice = torch.cartesian_prod(*[torch.arange(2)] * 4)  # [16 4]
        corner = (low[:, None] + choice).clamp(min=torch.zeros(4, dtype=torch.long), max=last)
        weight = torch.where(choice.bool(), part[:, None], 1 - part[:, None]).prod(-1)
        place = self._place[corner[..., 1] * columns + corner[..., 0]]
        weight = weight * (place >= 0)
        index = (place.clamp(min=0) * speeds + corner[..., 2]) * speeds + corner[..., 3]
        return index, weight / weight.sum(-1, keepdim=True).clamp(min=1e-9)


@dataclass(frozen=True, eq=False)
class Plan:
    """A near-optimal policy for one reward: argmax_a r(s') + V(s') by the world's own s'."""

    planner: PointPlanner
    reward: BatchReward
    values: Float[Tensor, "T N"]  # V with T − 1 − t decisions to go

    def act(self, state: Float[Tensor, "n 4"], t: int = 0) -> Float[Tensor, "n 2"]:
        """The force at decision t."""
        return self._best(state, t)[0]

    def expected(self, state: Float[Tensor, "n 4"]) -> Float[Tensor, " n"]:
        """The planned return from each state at t = 0."""
        return self._best(state, 0)[1]

    def execute(self, state: Float[Tensor, "n 4"]) -> Float[Tensor, " n"]:
        """The return of rollouts from each state."""
        total, alive = torch.zeros(len(state)), torch.ones(len(state))
        for t in range(len(self.values)):
            state, over = self.planner.world.advance(state, self.act(state, t))
            total = total + alive * _rewards(self.reward, state)
            alive = alive * ~over
        return total

    def _best(self, state: Float[Tensor, "n 4"], t: int) -> tuple[Float[Tensor, "n 2"], Float[Tensor, " n"]]:
        planner, forces = self.planner, self.planner.fine_forces
        entered, over = planner.world.advance(state.repeat_interleave(len(forces), 0), forces.repeat(len(state), 1))
        value = planner.value(self.values[t], entered) * ~over
        best = (_rewards(self.reward, entered) + value).reshape(len(state), -1).max(-1)
        return forces[best.indices], best.values


def _forces(directions: int) -> Float[Tensor, "A 2"]:
    """0, and forces of full and half size in equal angles; full ones reach the edge of [−1, 1]²."""
    angle = torch.arange(as_size(directions, "directions", 4, 360)) * (2 * math.pi / directions)
    ring = torch.stack([angle.cos(), angle.sin()], -1)
    ring = ring / ring.abs().amax(-1, keepdim=True)
    return torch.cat([torch.zeros(1, 2), ring, ring / 2])


def _rewards(reward: BatchReward, state: Float[Tensor, "n 4"]) -> Float[Tensor, " n"]:
    found = torch.as_tensor(reward(state))
    if tuple(found.shape) != (len(state),):
        raise ValueError(
            f"reward of {len(state)} observations has shape {tuple(found.shape)}, expected one number each"
        )
    if not bool(torch.isfinite(found).all()):
        raise ValueError("reward holds NaN or inf")
    return found.float()
