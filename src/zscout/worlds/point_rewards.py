"""Named rewards of a point maze: a goal, a region, a direction, a speed, a goal with a place to avoid."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.edge import known_name
from zscout.worlds.point_maze import PointMaze

KINDS = {"goal": 2, "region": 4, "direction": 2, "speed": 1, "avoid": 4}  # how many numbers each takes
WIDTH = 0.15  # of ``speed``, as a share of the top speed


class PointRewards:
    """The rewards of n runs, each by name, computed together.

    ==============================  ==========================================================================
    ``goal x y``                    exp(−‖(x, y) − place‖²/2), distances in cells
    ``region left top right down``  1 inside the rectangle
    ``direction x y``               velocity along (x, y), 1 at top speed along an axis
    ``speed s``                     1 at |v| = s times the top speed, a bell of width 0.15
    ``avoid x y u v``               goal x y minus goal u v
    ==============================  ==========================================================================
    """

    def __init__(self, world: PointMaze, names: Sequence[str]) -> None:
        self._top = world.top_speed
        parsed = [_parse(name) for name in names]
        self._kind = torch.tensor([kind for kind, _ in parsed])
        self._numbers = torch.tensor([numbers for _, numbers in parsed], dtype=torch.float64)

    def __call__(self, obs: Float[Tensor, "n 4"]) -> Float[Tensor, " n"]:
        """The reward of each run's observation; one name serves any number of observations."""
        x, y, vx, vy = obs.double().cpu().unbind(-1)
        a, b, c, d = self._numbers.unbind(-1)
        near = torch.exp(-((x - a) ** 2 + (y - b) ** 2) / 2)
        off = ((vx**2 + vy**2).sqrt() / self._top - a) / WIDTH
        each = torch.stack(
            [
                near,
                ((x >= a) & (x <= c) & (y >= b) & (y <= d)).double(),
                (vx * a + vy * b) / ((a**2 + b**2).sqrt().clamp(min=1e-9) * self._top),
                torch.exp(-(off**2) / 2),
                near - torch.exp(-((x - c) ** 2 + (y - d) ** 2) / 2),
            ]
        )
        return each.gather(0, self._kind.expand(x.shape)[None])[0]


def _parse(name: str) -> tuple[int, list[float]]:
    kind, *words = name.split()
    count = KINDS[known_name(kind, KINDS, "kind of reward,")]
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) != count or not torch.tensor(numbers).isfinite().all():
        raise ValueError(f"the reward {name!r}: expected {kind} and {count} numbers")
    return list(KINDS).index(kind), numbers + [0.0] * (4 - count)


def random_rewards(world: PointMaze, n: int, rng: Generator) -> list[str]:
    """n names: the kinds in turn, at random places of the maze, in random directions and at random speeds."""
    cells = world.grid.cells[~world.is_pit]
    names = []
    for i in range(n):
        kind = list(KINDS)[i % len(KINDS)]
        (y, x), (v, u) = cells[torch.randint(len(cells), (2,), generator=rng)].tolist()
        size = 1 + torch.rand(2, generator=rng)
        turn = 2 * torch.pi * torch.rand((), generator=rng)
        numbers = {
            "goal": (x + 0.5, y + 0.5),
            "region": (x + 0.5 - size[0], y + 0.5 - size[1], x + 0.5 + size[0], y + 0.5 + size[1]),
            "direction": (turn.cos(), turn.sin()),
            "speed": (torch.rand((), generator=rng),),
            "avoid": (x + 0.5, y + 0.5, u + 0.5, v + 0.5),
        }[kind]
        names.append(" ".join([kind, *(f"{float(number):.3g}" for number in numbers)]))
    return names
