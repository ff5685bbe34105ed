"""Sparse rewards: where they are, what they are worth, and who falls for the decoy."""

from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor

from benchmarks.league import arena_from_json
from commands import run_zscout
from zscout.lab.arenas.arena import Batch, Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.patches import DECOY_NEARER, PatchArena
from zscout.lab.compare.comparison import Entrant
from zscout.lab.runs.chunks import run_batch

FINE = PatchArena(rewards="decoy")


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Steps between cells of the open grid."""
    return (a[:, None] - b[None]).abs().sum(-1)


def test_a_patch_is_four_cells_of_reward_1() -> None:
    arena = PatchArena()
    tables = arena.tables(arena.sample_tasks(50, Generator().manual_seed(0)))
    cells = [arena.ground.world.cells[table == 1] for table in tables]
    assert all(len(patch) == 4 and bool((patch.amax(0) - patch.amin(0) == 1).all()) for patch in cells)
    assert torch.equal(tables.sum(1), torch.full((50,), 4.0, dtype=torch.float64))
    assert len({tuple(table.tolist()) for table in tables}) > 20  # they are random


def test_a_decoy_is_worth_half_and_nearer_to_the_start() -> None:
    world, tasks = FINE.ground.world, FINE.sample_tasks(50, Generator().manual_seed(0))
    env = FINE.environment(Batch(tasks, list(range(50))))
    start, _ = env.reset()
    for table, state in zip(FINE.tables(tasks), start, strict=True):
        good, decoy = (world.cells[table == reward] for reward in (1.0, 0.5))
        assert len(good) == len(decoy) == 4
        near, far = (int(distance(world.cells[state][None], patch).min()) for patch in (decoy, good))
        assert 0 < near <= far - DECOY_NEARER
        assert int(distance(good, decoy).min()) >= 2
    assert not torch.equal(start, FINE.environment(Batch(tasks[::-1], list(range(50)))).reset()[0])


def test_the_least_squares_fit_leads_to_the_good_patch() -> None:
    """With fine features the oracle is optimal for the true reward, so every run could settle."""
    for arena in (FINE, PatchArena()):
        tasks = Tasks(30, 1).draw(arena)
        tables, z = arena.tables(tasks), arena.vectors(tasks)
        fit = z @ arena.ground.features.T
        left = tables - fit
        assert float((left @ arena.ground.features).abs().max()) < 1e-9  # the residual is orthogonal to φ
        assert float(left.abs().max()) > 0.1  # and not 0: the features cannot express the reward
        assert float(arena.ground.by_state.value(z, tables).min()) > 0.95


def numbers_of(arena: GridArena, method: str, steps: int, tasks: int = 6) -> list[dict[str, float]]:
    entrant = Entrant.of(arena, method, {}, Tasks(tasks, 1), steps=steps)
    return [dict(record.numbers) for record in run_batch(entrant.specs)]


def test_the_oracle_loses_nothing_and_a_random_walk_loses_about_one_step_in_each() -> None:
    oracle, random = numbers_of(FINE, "oracle", 30, 20), numbers_of(FINE, "random", 30, 20)
    assert max(abs(run["lost"]) for run in oracle) < 0.5
    assert {run["decoyed"] for run in oracle} == {0.0}
    assert {run["settled"] for run in oracle} == {1.0}
    mean = sum(run["lost"] for run in random) / 20
    assert 20 < mean < 40  # 30 steps; starts are farther from the good patch than the mean state


def test_a_greedy_run_falls_for_the_decoy() -> None:
    runs = numbers_of(FINE, "greedy", 80, 8)
    caught = [run for run in runs if run["decoyed"]]
    assert len(caught) >= 4
    assert not any(run["settled"] for run in caught)


def test_tasks_are_read_back_and_kept_apart() -> None:
    assert arena_from_json(FINE.to_json()) == FINE
    assert arena_from_json(GridArena().to_json()) == GridArena()
    assert FINE.key.endswith("/decoy")
    assert not set(Tasks(40, 1, "tuning").run_seeds) & set(Tasks(40, 1, "report").run_seeds)
    assert Tasks(40, 1, "tuning").draw(FINE) != Tasks(40, 1, "report").draw(FINE)
    for wrong in ("patch", "patch x", "decoy 3 4", "goal 3"):
        with pytest.raises(ValueError, match="expected a task such as 'patch 12'"):
            FINE.tables([wrong])
    with pytest.raises(ValueError, match="no 2×2 patch of free cells"):
        PatchArena("maze").sample_tasks(1, Generator().manual_seed(0))
    with pytest.raises(ValueError, match="kind of rewards"):
        PatchArena(rewards="dense")


def test_the_command_takes_them(tmp_path: Path) -> None:
    done = run_zscout(["compare", "--rewards", "decoy", "--methods", "greedy", "--quick"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "decoy rewards" in done.stdout
    assert "at decoy" in done.stdout
    wrong = run_zscout(["compare", "--rewards", "decoy", "--outside", "0.2", "--quick"], tmp_path)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "--outside does not apply" in wrong.stderr
