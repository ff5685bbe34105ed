"""A point mass between walls: continuous states and forces, in torch, thousands of runs at once."""

from dataclasses import dataclass

import numpy as np
import torch
from gymnasium.spaces import Box
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from zscout.base.edge import as_rows, as_size, in_range
from zscout.base.types import Action, Obs
from zscout.worlds.grids.grid import FREE, WALL, GridWorld
from zscout.worlds.grids.maps import FOUR_ROOMS

PIT, BODY = "o", "@"
SKIN = 0.01  # cells: the distance to a wall at which the point stops


@dataclass(frozen=True, eq=False, repr=False)
class PointMaze:
    """A point mass on a map of walls; its state and observation is (x, y, vx, vy).

    A cell is 1 wide; x grows to the right and y downwards, as the map is read, so the cell in row 2 and column 3 has
    its centre at (3.5, 2.5). Velocities are in cells per physics step. A decision is a force in [−1, 1]², held for
    ``repeat`` physics steps of

        v ← drag · v + push · force, then x ← x + vx, then y ← y + vy.

    A wall stops one axis: the point rests ``SKIN`` before it, with velocity 0 along that axis, and slides
    along the other.

    Pits terminate: the point stays where it entered the pit, and no features count after the observation in the pit,
    ψ(s;z) = φ(S_1) + γφ(S_2) + … up to that observation. ψ of a pit is 0.
    """

    grid: GridWorld  # the map, pits counted as free cells
    pits: Bool[Tensor, "rows columns"]
    repeat: int = 3
    drag: float = 0.75
    push: float = 0.075

    def __post_init__(self) -> None:
        as_size(self.repeat, "repeat", 1, 100)
        in_range(self.drag, "drag", 0.0, 1.0, open_end=True)
        in_range(self.push, "push", 1e-6, 1.0)
        if self.top_speed > 0.9:  # a faster point could jump over a wall
            raise ValueError(
                f"push {self.push:g} and drag {self.drag:g} give a top speed of {self.top_speed:.3g} cells per physics "
                "step, expected push/(1 − drag) at most 0.9"
            )
        if self.is_pit.all():
            raise ValueError("every free cell is a pit, expected at least one '.'")
        walls = torch.ones(self.grid.shape[0] + 2, self.grid.shape[1] + 2, dtype=torch.bool)  # the border is a wall
        walls[self.grid.cells[:, 0] + 1, self.grid.cells[:, 1] + 1] = False
        object.__setattr__(self, "_walls", {torch.device("cpu"): (walls.flatten(), self.pits.flatten())})

    @property
    def top_speed(self) -> float:
        """The limit of |v| along an axis under full force, in cells per physics step."""
        return self.push / (1 - self.drag)

    @property
    def is_pit(self) -> Bool[Tensor, " S"]:
        """Whether each cell of the grid is a pit."""
        return self.pits[self.grid.cells[:, 0], self.grid.cells[:, 1]]

    @property
    def observation_space(self) -> Box:
        """(x, y, vx, vy)."""
        rows, columns = self.grid.shape
        high = np.array([columns, rows, self.top_speed, self.top_speed], dtype=np.float32)
        return Box(np.array([0, 0, -high[2], -high[3]], dtype=np.float32), high)

    @property
    def action_space(self) -> Box:
        """The force."""
        return Box(-1.0, 1.0, (2,), np.float32)

    def step(self, state: Obs, force: Action) -> tuple[Float[Tensor, "*b 4"], Bool[Tensor, "*b"]]:
        """The next states, and which of them terminated; forces beyond [−1, 1] are clipped."""
        runs, here, push = as_rows(state, force, (4, 2), "force")
        self.check_free(here)
        entered, terminated = self.advance(here.float(), push.float())
        return entered.reshape(*runs, 4), terminated.reshape(runs)

    def advance(
        self, state: Float[Tensor, "n 4"], force: Float[Tensor, "n 2"]
    ) -> tuple[Float[Tensor, "n 4"], Bool[Tensor, " n"]]:
        """``step`` without checks, for training loops, on the device of ``state``."""
        walls, pits = self._tables(state.device)
        width = self.grid.shape[1] + 2
        x, y, vx, vy = state.unbind(-1)
        push_x, push_y = (force.clamp(-1, 1) * self.push).unbind(-1)
        with_pits = bool(self.is_pit.any())
        fallen = self._in_pit(pits, x, y) if with_pits else torch.zeros_like(x, dtype=torch.bool)
        row, column = y.floor(), x.floor()
        for _ in range(self.repeat):
            before = (x, y, vx, vy)
            vx, vy = torch.add(push_x, vx, alpha=self.drag), torch.add(push_y, vy, alpha=self.drag)
            if with_pits:
                vx, vy = vx.masked_fill(fallen, 0), vy.masked_fill(fallen, 0)
            x, vx, column = _move(walls, x, vx, column, (row + 1) * width + 1, 1)
            y, vy, row = _move(walls, y, vy, row, column + (width + 1), width)
            if with_pits:
                x, y = (torch.where(fallen, old, new) for old, new in zip(before[:2], (x, y), strict=True))
                fallen = fallen | self._in_pit(pits, x, y)
        return torch.stack([x, y, vx, vy], -1), fallen

    def observe(self, state: Float[Tensor, "*b 4"]) -> Float[Tensor, "*b 4"]:
        """The state."""
        return state

    def random_states(self, n: int, rng: Generator) -> Float[Tensor, "n 4"]:
        """n states at rest, uniform over the free area without pits."""
        cells = self.grid.cells[~self.is_pit].to(rng.device)
        chosen = cells[torch.randint(len(cells), (n,), generator=rng, device=rng.device)]
        return at_rest(chosen, torch.rand(n, 2, generator=rng, device=rng.device))

    def picture(self, state: np.ndarray | None = None) -> str:
        """The map as text, with '@' at the point."""
        marks = np.full(self.grid.shape, WALL)
        marks[self.grid.cells[:, 0], self.grid.cells[:, 1]] = FREE
        marks[self.pits.numpy()] = PIT
        if state is not None:
            marks[int(state[1]), int(state[0])] = BODY
        return "\n".join("".join(row) for row in marks)

    def __str__(self) -> str:
        """The map."""
        return self.picture()

    def __repr__(self) -> str:
        rows, columns = self.grid.shape
        return f"PointMaze({rows}×{columns}, repeat={self.repeat})"

    def _tables(self, device: torch.device) -> tuple[Bool[Tensor, " k"], Bool[Tensor, " m"]]:
        known: dict[torch.device, tuple[Tensor, Tensor]] = self._walls  # type: ignore[attr-defined]
        if device not in known:
            walls, pits = known[torch.device("cpu")]
            known[device] = (walls.to(device), pits.to(device))
        return known[device]

    def _in_pit(self, pits: Bool[Tensor, " m"], x: Float[Tensor, "*b"], y: Float[Tensor, "*b"]) -> Bool[Tensor, "*b"]:
        return pits[(y.floor() * self.grid.shape[1] + x.floor()).long()]

    def check_free(self, state: Float[Tensor, "*b 4"]) -> None:
        """Raise unless all states are inside free cells and not faster than the top speed."""
        rows, columns = self.grid.shape
        x, y = state[..., 0], state[..., 1]
        inside = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
        walls, _ = self._tables(state.device)
        index = (y.clamp(0, rows - 1).floor() + 1) * (columns + 2) + x.clamp(0, columns - 1).floor() + 1
        wrong = ~inside | walls[index.long()]
        if wrong.any():
            found = state[wrong][0, :2].tolist()
            raise ValueError(f"({found[0]:.4g}, {found[1]:.4g}) is not in a free cell of this {rows}×{columns} map")
        if bool((state[..., 2:].abs() > self.top_speed * 1.0001).any()):
            fastest = float(state[..., 2:].abs().max())
            raise ValueError(f"a velocity is {fastest:.4g}, expected at most {self.top_speed:.4g} along an axis")


def at_rest(cells: Int[Tensor, "n 2"], inside: Float[Tensor, "n 2"]) -> Float[Tensor, "n 4"]:
    """States at rest in cells (row, column), each at the place ``inside`` [0, 1]² of its cell."""
    place = cells.flip(-1) + (SKIN + (1 - 2 * SKIN) * inside)
    return torch.cat([place, torch.zeros_like(place)], -1)


def _move(
    walls: Bool[Tensor, " k"],
    place: Float[Tensor, " n"],
    speed: Float[Tensor, " n"],
    cell: Float[Tensor, " n"],
    base: Float[Tensor, " n"],
    stride: int,
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Place, speed and cell along one axis after a physics step; a wall stops the point before it."""
    moved = place + speed
    entered = moved.floor()
    blocked = walls[(base + entered * stride).long()]
    at_wall = torch.where(speed > 0, cell + (1 - SKIN), cell + SKIN)
    return torch.where(blocked, at_wall, moved), speed.masked_fill(blocked, 0), torch.where(blocked, cell, entered)


def point_maze(
    map: str = FOUR_ROOMS,
    *,
    repeat: int = 3,
    drag: float = 0.75,
    push: float = 0.075,
) -> PointMaze:
    """A point mass on a map of '#' (wall), '.' (free) and 'o' (a pit, which terminates); four rooms by default."""
    if not isinstance(map, str):
        raise ValueError(f"expected a map, text of '#', '.' and 'o', got {type(map).__name__}")
    try:
        grid = GridWorld.from_map(map.replace(PIT, FREE))
    except ValueError as error:
        raise ValueError(str(error).replace("or '.' (free)", "'.' (free) or 'o' (pit)")) from None
    lines = [line.strip() for line in map.strip().splitlines()]
    pits = torch.tensor([[mark == PIT for mark in line] for line in lines])
    return PointMaze(grid, pits, repeat, drag, push)
