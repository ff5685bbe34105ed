"""Random rewards for a point maze: goals, regions, directions, avoid-and-reach, velocities."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import as_size, known_name
from zscout.base.types import Obs
from zscout.worlds.points.maze import PointMaze

Field: TypeAlias = Callable[[Float[Tensor, "*b 4"]], Float[Tensor, "*b"]]


@dataclass(frozen=True, eq=False)
class PointTask:
    """A reward of the observation (x, y, vx, vy): of one, or of a batch [*b 4]."""

    kind: str
    name: str
    field: Field

    def __call__(self, obs: Obs) -> Float[Tensor, "*b"]:
        """Rewards of observations."""
        return self.field(torch.as_tensor(obs, dtype=torch.float32))


def point_tasks(world: PointMaze, kind: str, n: int, seed: int) -> list[PointTask]:
    """n random tasks of a kind: see ``KINDS``."""
    make = KINDS[known_name(kind, KINDS, "kind of task")]
    rng = Generator().manual_seed(seed)
    return [PointTask(kind, *make(world, rng)) for _ in range(as_size(n, "n", 0))]


def _place(world: PointMaze, rng: Generator) -> tuple[float, float]:
    x, y = world.random_states(1, rng)[0, :2].tolist()
    return x, y


def _goal(world: PointMaze, rng: Generator) -> tuple[str, Field]:
    """1 within one cell of a place."""
    x, y = _place(world, rng)
    return f"within 1 of ({x:.1f}, {y:.1f})", lambda o: _near(o, x, y)


def _region(world: PointMaze, rng: Generator) -> tuple[str, Field]:
    """1 inside a box of 3 to 5 cells a side around a place."""
    x, y = _place(world, rng)
    a, b = (3 + 2 * torch.rand(2, generator=rng)).div(2).tolist()
    return (
        f"in x {x - a:.1f} … {x + a:.1f}, y {y - b:.1f} … {y + b:.1f}",
        lambda o: ((o[..., 0] - x).abs().lt(a) & (o[..., 1] - y).abs().lt(b)).float(),
    )


def _direction(world: PointMaze, rng: Generator) -> tuple[str, Field]:
    """How far the point is in a direction, from −1 to 1."""
    c, s = _angle(rng)
    rows, columns = world.grid.shape
    reach = abs(c) * columns / 2 + abs(s) * rows / 2
    return (
        f"far along ({c:.2f}, {s:.2f})",
        lambda o: ((o[..., 0] - columns / 2) * c + (o[..., 1] - rows / 2) * s) / reach,
    )


def _avoid(world: PointMaze, rng: Generator) -> tuple[str, Field]:
    """A goal, less 1 within 1.5 cells of another place that is at least 3 cells away."""
    x, y = _place(world, rng)
    u, v = x, y
    while math.hypot(u - x, v - y) < 3:
        u, v = _place(world, rng)
    return (
        f"within 1 of ({x:.1f}, {y:.1f}), not within 1.5 of ({u:.1f}, {v:.1f})",
        lambda o: _near(o, x, y) - _near(o, u, v, 1.5),
    )


def _velocity(world: PointMaze, rng: Generator) -> tuple[str, Field]:
    """Speed anywhere, speed in one half of the map, or speed in a direction, each from 0 to 1."""
    c, s = _angle(rng)
    top, (rows, columns) = world.top_speed, world.grid.shape
    choice = int(torch.randint(3, (), generator=rng))
    if choice == 0:
        return f"fast along ({c:.2f}, {s:.2f})", lambda o: (o[..., 2] * c + o[..., 3] * s).div(top).clamp(0, 1)
    if choice == 1:
        enough = 0.5 + 0.5 * float(torch.rand((), generator=rng))
        return f"fast, up to {enough:.2f} of the top speed", lambda o: _speed(o).div(enough * top).clamp(max=1)
    return (
        f"fast on the side of ({c:.2f}, {s:.2f})",
        lambda o: (
            _speed(o).div(top).clamp(max=1) * ((o[..., 0] - columns / 2) * c + (o[..., 1] - rows / 2) * s > 0).float()
        ),
    )


def _angle(rng: Generator) -> tuple[float, float]:
    angle = 2 * math.pi * float(torch.rand((), generator=rng))
    return math.cos(angle), math.sin(angle)


def _near(o: Float[Tensor, "*b 4"], x: float, y: float, radius: float = 1.0) -> Float[Tensor, "*b"]:
    return ((o[..., 0] - x).square() + (o[..., 1] - y).square() < radius**2).float()


def _speed(o: Float[Tensor, "*b 4"]) -> Float[Tensor, "*b"]:
    return torch.hypot(o[..., 2], o[..., 3])


KINDS: dict[str, Callable[[PointMaze, Generator], tuple[str, Field]]] = {
    "goal": _goal,
    "region": _region,
    "direction": _direction,
    "avoid": _avoid,
    "velocity": _velocity,
}
