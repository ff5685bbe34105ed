"""Grid worlds from ASCII maps; runs step in one tensor operation."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Generator, Tensor

from zscout.base.edge import as_finite, as_index, common_shape, in_range, required_rng
from zscout.base.randomness import Rng, uniform
from zscout.base.types import Action, Obs, Vectors

Cell = tuple[int, int]  # row and column
MOVES: tuple[Cell, ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right
ACTIONS = ("up", "down", "left", "right")
WALL, FREE = "#", "."


@dataclass(frozen=True, eq=False, repr=False)
class GridWorld:
    """A grid of free cells, numbered row by row; a move into a wall, a blocked edge or the border stays in place.

    With probability ``slip`` a uniformly random action replaces the chosen one.
    Build it with ``GridWorld.from_map``.
    """

    shape: tuple[int, int]  # rows and columns of the map
    cells: Int[Tensor, "S 2"]  # row and column of each state
    next_state: Int[Tensor, "S A"]  # next state of each action without slip
    slip: float = 0.0
    blocked: frozenset[frozenset[Cell]] = field(default_factory=frozenset)  # thin walls between two cells

    @classmethod
    def from_map(cls, text: str, slip: float = 0.0, blocked: Iterable[tuple[Cell, Cell]] = ()) -> "GridWorld":
        """Read a map; ``blocked`` lists pairs of neighbouring cells (row, column) with a thin wall between them."""
        slip = in_range(slip, "slip", 0.0, 1.0)
        shape, cells = _parse(text)
        number = {cell: state for state, cell in enumerate(cells)}
        thin_walls = frozenset(_edge(pair, number) for pair in blocked)

        def neighbour(cell: Cell, move: Cell) -> int:
            target = (cell[0] + move[0], cell[1] + move[1])
            return number[cell] if frozenset((cell, target)) in thin_walls else number.get(target, number[cell])

        next_state = torch.tensor([[neighbour(cell, move) for move in MOVES] for cell in cells])
        _check_reachable(next_state, cells)
        return cls(shape, torch.tensor(cells), next_state, slip, thin_walls)

    @property
    def n_states(self) -> int:
        """S, the number of free cells."""
        return self.next_state.shape[0]

    @property
    def n_actions(self) -> int:
        """A = 4: up, down, left, right."""
        return self.next_state.shape[1]

    @property
    def successors(self) -> Int[Tensor, "S A K"]:
        """The possible next states of each state and action: one, or with slip one per executed action."""
        if not self.slip:
            return self.next_state[:, :, None]
        return self.next_state[:, None, :].expand(-1, self.n_actions, -1)

    @property
    def probabilities(self) -> Float[Tensor, "S A K"]:
        """The probability of each of ``successors``."""
        if not self.slip:
            return torch.ones(self.n_states, self.n_actions, 1, dtype=torch.float64)
        executed = (1 - self.slip) * torch.eye(self.n_actions, dtype=torch.float64) + self.slip / self.n_actions
        return executed.expand(self.n_states, -1, -1)

    def step(self, state: Obs, action: Action, rng: Rng | None = None) -> Int[Tensor, "*b"]:
        """S_{t+1} ~ p(·|S_t, A_t), batched over runs; ``rng`` is needed only with slip."""
        here = as_index(state, self.n_states, "state")
        move = as_index(action, self.n_actions, "action")
        shape = common_shape(here.shape, move.shape, "states and actions")
        if self.slip:
            rng = required_rng(rng, "this world has slip")
            # One uniform number u per run: slips if u < slip; u / slip is then uniform and picks the action.
            u = uniform(shape, rng)
            move = torch.where(u < self.slip, (u * (self.n_actions / self.slip)).long(), move)
        return torch.take(self.next_state, here * self.n_actions + move)

    def random_states(self, n: int, rng: Generator) -> Int[Tensor, " n"]:
        """n uniformly random states."""
        return torch.randint(self.n_states, (n,), generator=rng)

    def state_at(self, row: int, column: int) -> int:
        """The state at a cell."""
        hit = (self.cells == torch.tensor([row, column])).all(1).nonzero()
        if not len(hit):
            raise ValueError(f"cell ({row}, {column}) is not a free cell of this {self.shape} world")
        return int(hit)

    def to_map(self, values: Vectors) -> np.ndarray:
        """Values of the states [*b S] laid out as the map [*b rows columns], NaN on walls."""
        numbers = as_finite(values, "values").cpu()
        if numbers.ndim == 0 or numbers.shape[-1] != self.n_states:
            shape = tuple(numbers.shape)
            raise ValueError(f"values has shape {shape}, expected [*b {self.n_states}], one value per state")
        picture = np.full((*numbers.shape[:-1], *self.shape), np.nan)
        picture[..., self.cells[:, 0], self.cells[:, 1]] = numbers.numpy()
        return picture

    def __str__(self) -> str:
        """The map."""
        picture = np.full(self.shape, WALL)
        picture[self.cells[:, 0], self.cells[:, 1]] = FREE
        return "\n".join("".join(row) for row in picture)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"GridWorld({rows}×{columns}, {self.n_states} states, slip={self.slip})"


def _parse(text: str) -> tuple[tuple[int, int], list[Cell]]:
    """The map's shape and its free cells, row by row."""
    if not isinstance(text, str):
        raise ValueError(f"expected the map's text, of '#' and '.', got {type(text).__name__}")
    lines = [line.strip() for line in text.strip().splitlines()]
    if len(lines) == 1 and re.fullmatch(r"[^#]*\w+(/[^#]+|\.\w+)", lines[0]):
        raise ValueError(
            f"expected the map's text, got what looks like a path: read it first, Path({lines[0]!r}).read_text()"
        )
    if not lines:
        raise ValueError("the map is empty, expected at least one free cell '.'")
    for row, line in enumerate(lines, start=1):
        if unknown := set(line) - {WALL, FREE}:
            raise ValueError(f"map row {row} holds {min(unknown)!r}, expected '#' (wall) or '.' (free)")
        if len(line) != len(lines[0]):
            lengths = f"map row {row} has {len(line)} cells, row 1 has {len(lines[0])}"
            raise ValueError(f"{lengths}: all rows must have the same length")
    cells = [(r, c) for r, line in enumerate(lines) for c, mark in enumerate(line) if mark == FREE]
    if not cells:
        raise ValueError("the map has no free cell '.'")
    return (len(lines), len(lines[0])), cells


def _edge(pair: tuple[Cell, Cell], number: dict[Cell, int]) -> frozenset[Cell]:
    try:
        (r1, c1), (r2, c2) = pair
    except (TypeError, ValueError):
        raise ValueError(f"blocked must hold pairs of cells ((row, column), (row, column)), got {pair}") from None
    if (r1, c1) not in number or (r2, c2) not in number or abs(r1 - r2) + abs(c1 - c2) != 1:
        raise ValueError(f"blocked edge {pair} does not join two neighbouring free cells")
    return frozenset(((r1, c1), (r2, c2)))


def _check_reachable(next_state: Int[Tensor, "S A"], cells: list[Cell]) -> None:
    n_states, n_actions = next_state.shape
    origin = np.repeat(np.arange(n_states), n_actions)
    moves = csr_array((np.ones(origin.size), (origin, next_state.flatten().numpy())), shape=(n_states, n_states))
    parts, label = connected_components(moves, directed=False)
    if parts > 1:
        lost = [cells[state] for state in np.flatnonzero(label != label[0])]
        shown = ", ".join(map(str, lost[:3])) + (", …" if len(lost) > 3 else "")
        where = f"{len(lost)} free cells cannot be reached from {cells[0]}: {shown}"
        raise ValueError(f"{where}: open a path or make them walls")
