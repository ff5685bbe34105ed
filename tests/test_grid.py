import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components, shortest_path

from zscout.features.laplacian import adjacency
from zscout.worlds import GridWorld, four_rooms, maze, open_grid

UP, DOWN, LEFT, RIGHT = range(4)


def test_states_are_numbered_row_by_row_and_the_border_blocks() -> None:
    world = GridWorld.from_map("..\n.#")
    assert world.n_states == 3
    assert world.n_actions == 4
    assert world.cells.tolist() == [[0, 0], [0, 1], [1, 0]]
    #                                  up down left right
    assert world.next_state.tolist() == [[0, 2, 0, 1], [1, 1, 0, 1], [0, 2, 2, 2]]


def test_actions_move_as_named_in_the_open_grid() -> None:
    world = open_grid()
    centre = world.state_at(4, 4)
    assert centre == 40
    reached = world.step([centre] * 4, [UP, DOWN, LEFT, RIGHT])
    assert world.cells[reached].tolist() == [[3, 4], [5, 4], [4, 3], [4, 5]]


@pytest.mark.parametrize(
    ("world", "shape", "states"),
    [(open_grid(), (9, 9), 81), (four_rooms(), (11, 11), 104), (maze(), (15, 15), 129), (open_grid(3), (3, 3), 9)],
)
def test_shipped_worlds(world: GridWorld, shape: tuple[int, int], states: int) -> None:
    assert world.shape == shape
    assert world.n_states == states
    assert str(GridWorld.from_map(str(world))) == str(world)


def test_the_maze_has_long_detours() -> None:
    world = maze()
    steps = shortest_path(adjacency(world), unweighted=True)
    straight = (world.cells[:, None] - world.cells[None]).abs().sum(-1).numpy()
    apart = straight > 0
    assert steps.max() == 80
    assert (steps[apart] / straight[apart]).mean() > 3


def test_a_blocked_edge_stops_both_ways_and_nothing_else() -> None:
    world = GridWorld.from_map("...\n...", blocked=[((0, 0), (0, 1))])
    assert world.step([0, 1], [RIGHT, LEFT]).tolist() == [0, 1]
    assert world.step([0, 1], [DOWN, RIGHT]).tolist() == [3, 2]


def test_an_indented_map_reads_the_same() -> None:
    text = """
        ..
        #.
    """
    assert str(GridWorld.from_map(text)) == "..\n#."


def test_step_accepts_ints_numpy_and_torch_and_broadcasts(rng: torch.Generator) -> None:
    world = open_grid()
    assert int(world.step(0, RIGHT)) == 1
    assert int(world.step(np.int64(0), np.int64(RIGHT))) == 1
    assert world.step(np.array([0, 1]), np.array([RIGHT, RIGHT])).tolist() == [1, 2]
    assert world.step(torch.zeros(2, 3, dtype=torch.long), RIGHT).tolist() == [[1, 1, 1]] * 2
    assert world.step(torch.empty(0, dtype=torch.long), RIGHT).shape == (0,)
    slippery = open_grid(slip=0.5)
    assert slippery.step(torch.zeros(5, dtype=torch.long), RIGHT, rng).shape == (5,)


def test_slip_executes_each_action_as_often_as_the_table_says(rng: torch.Generator) -> None:
    world = open_grid(slip=0.4)
    centre, runs = world.state_at(4, 4), 100_000
    reached = world.step(torch.full((runs,), centre), UP, rng)
    share = torch.bincount(reached, minlength=world.n_states).double() / runs
    expected = torch.zeros(world.n_states, dtype=torch.float64)
    expected.scatter_add_(0, world.successors[centre, UP], world.probabilities[centre, UP])
    # 0.7 for up and 0.1 for each other; the standard error is at most .0015
    assert sorted(expected[expected > 0].tolist()) == pytest.approx([0.1, 0.1, 0.1, 0.7])
    assert torch.allclose(share, expected, atol=0.006)


def test_the_same_seed_slips_the_same_way() -> None:
    world = open_grid(slip=0.5)
    walks = []
    for seed in (1, 1, 2):
        rng = torch.Generator().manual_seed(seed)
        state = torch.full((50,), 40)
        for _ in range(5):
            state = world.step(state, UP, rng)
        walks.append(state)
    assert torch.equal(walks[0], walks[1])
    assert not torch.equal(walks[0], walks[2])


def _moves(text: str) -> np.ndarray:
    """Who is beside whom, worked out from the text alone."""
    free = [(r, c) for r, line in enumerate(text.split("\n")) for c, mark in enumerate(line) if mark == "."]
    return np.array([[abs(a - c) + abs(b - d) == 1 for c, d in free] for a, b in free]).reshape(len(free), -1)


@given(st.lists(st.text("#.", min_size=4, max_size=4), min_size=1, max_size=5))
def test_any_map_is_read_faithfully_or_refused(rows: list[str]) -> None:
    text = "\n".join(rows)
    connected = "." in text and connected_components(_moves(text), directed=False)[0] == 1
    if not connected:
        with pytest.raises(ValueError, match="no free cell|cannot be reached"):
            GridWorld.from_map(text)
        return
    world = GridWorld.from_map(text)
    assert str(world) == text
    assert world.n_states == text.count(".")
    step = (world.cells[world.next_state] - world.cells[:, None]).abs().sum(-1)
    assert step.max() <= 1  # never jumps
    back = world.next_state[world.next_state, torch.tensor([DOWN, UP, RIGHT, LEFT])]
    moved = step == 1
    assert (back == torch.arange(world.n_states)[:, None])[moved].all()  # every move can be undone


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("   \n ", "empty"),
        ("##\n##", "no free cell"),
        ("...\n..", "row 2 has 2 cells, row 1 has 3"),
        ("..\n\n..", "row 2 has 0 cells"),
        ("..\n.x", "row 2 holds 'x'"),
        ("..x", "row 1 holds 'x'"),
        ("maps/office.txt", "got what looks like a path: read it first, Path('maps/office.txt').read_text()"),
        (".#.", "1 free cells cannot be reached from (0, 0): (0, 2)"),
    ],
)
def test_bad_maps_say_what_came(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        GridWorld.from_map(text)


@pytest.mark.parametrize("slip", [-0.1, 1.1, float("nan")])
def test_bad_slip(slip: float) -> None:
    with pytest.raises(ValueError, match="slip must be in"):
        GridWorld.from_map("..", slip=slip)


@pytest.mark.parametrize("edge", [((0, 0), (0, 2)), ((0, 0), (1, 0)), ((0, 0), (0, 0))])
def test_a_blocked_edge_must_join_neighbours(edge: tuple[tuple[int, int], tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="does not join two neighbouring free cells"):
        GridWorld.from_map("...", blocked=[edge])


def test_blocking_every_way_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be reached"):
        GridWorld.from_map("..", blocked=[((0, 0), (0, 1))])


def test_bad_states_and_actions() -> None:
    world = open_grid()
    with pytest.raises(ValueError, match="state 81 is outside 0 … 80"):
        world.step(81, 0)
    with pytest.raises(ValueError, match="state -1 is outside"):
        world.step(-1, 0)
    with pytest.raises(ValueError, match="action 4 is outside 0 … 3"):
        world.step(0, 4)
    with pytest.raises(ValueError, match="whole numbers, got torch.float32"):
        world.step(torch.zeros(2), 0)
    with pytest.raises(ValueError, match="whole numbers, got torch.float64"):
        world.step(np.array([np.nan]), 0)
    with pytest.raises(ValueError, match="this world has slip: it needs rng"):
        open_grid(slip=0.1).step(0, 0)
    with pytest.raises(ValueError, match=r"cell \(9, 0\) is not a free cell"):
        world.state_at(9, 0)
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        open_grid(0)
    with pytest.raises(ValueError, match=r"states and actions have batch dimensions \(2,\) and \(3,\)"):
        world.step([0, 1], [0, 1, 2])


def test_to_map_lays_values_out_and_leaves_walls_nan() -> None:
    picture = GridWorld.from_map(".#\n..").to_map([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(picture, [[1.0, np.nan], [2.0, 3.0]])
    with pytest.raises(ValueError, match=r"expected \[\*b 81\], one value per state"):
        open_grid().to_map([1.0, 2.0])
