"""The shipped worlds: '#' is a wall, '.' is free."""

from zscout.base.edge import as_size
from zscout.worlds.grids.grid import GridWorld

FOUR_ROOMS = """
.....#.....
.....#.....
...........
.....#.....
.....#.....
#.####.....
.....###.##
.....#.....
.....#.....
...........
.....#.....
"""

# Walking distance is on average three times the distance on the map; the longest path is 80 steps.
MAZE = """
.......#.......
######.#.#####.
.#.....#.#.#...
.#.#####.#.#.##
.#.#.....#...#.
.#.#.#####.###.
...#.....#...#.
.#.#.#.#.###.#.
.#.....#.#.#.#.
.#######.#.#.#.
.........#.#...
##########.###.
.#.........#...
.#.###.#####.##
.....#.........
"""


def open_grid(size: int = 9, *, slip: float = 0.0) -> GridWorld:
    """The paper's world: size × size free cells, no walls."""
    size = as_size(size, "size", 1)
    return GridWorld.from_map("\n".join(["." * size] * size), slip=slip)


def four_rooms(*, slip: float = 0.0) -> GridWorld:
    """Four rooms joined by four doors, 11×11 cells including walls."""
    return GridWorld.from_map(FOUR_ROOMS, slip=slip)


def maze(*, slip: float = 0.0) -> GridWorld:
    """A 15×15 maze of corridors with long detours and a few loops."""
    return GridWorld.from_map(MAZE, slip=slip)
