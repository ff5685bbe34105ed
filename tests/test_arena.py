"""Arenas: the protocol, and Monte-Carlo evaluation beside the exact one."""

from pathlib import Path

import numpy as np
import pytest
import torch

import zscout
from zscout.lab.arenas import grid as grid_arena
from zscout.lab.arenas import ground
from zscout.lab.arenas.arena import NUMBERS, Batch, Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.comparison import Entrant
from zscout.lab.evaluation.monte_carlo import STARTS, played
from zscout.lab.runs.chunks import run_batch
from zscout.lab.runs.store import Record
from zscout.models.exact.model import ExactModel
from zscout.transfer.methods import METHODS


def ran(arena: GridArena, method: str, tasks: int = 12, steps: int = 60) -> list[Record]:
    return run_batch(Entrant(arena, method, tasks=Tasks(tasks, 1), steps=steps).specs)


def column(records: list[Record], name: str) -> np.ndarray:
    return np.array([record.numbers[name] for record in records])


def test_a_grid_is_an_arena_with_the_numbers_of_every_arena() -> None:
    for evaluator in ("exact", "monte-carlo"):
        arena = GridArena(evaluator=evaluator)
        assert isinstance(arena, GridArena)
        (record,) = ran(arena, "greedy", 1, 20)
        assert set(NUMBERS) <= set(record.numbers)
        assert all(np.isfinite(list(record.numbers.values())))


def test_monte_carlo_returns_agree_with_exact_values() -> None:
    """Same runs, both evaluators: rewards from 16 starts over 60 steps against discounted values from all states."""
    exact, sampled = (ran(GridArena(evaluator=name), "greedy") for name in ("exact", "monte-carlo"))
    assert [record.steps["reward"].astype(np.float32).tolist() for record in exact] == [
        record.steps["reward"].tolist() for record in sampled
    ]
    assert np.allclose(column(exact, "error"), column(sampled, "error"))
    values = column(exact, "value"), column(sampled, "value")
    assert np.corrcoef(*values)[0, 1] > 0.97
    assert np.abs(values[0] - values[1]).mean() < 0.08
    lost = column(exact, "lost"), column(sampled, "lost")
    assert np.corrcoef(*lost)[0, 1] > 0.8
    assert lost[1].mean() == pytest.approx(lost[0].mean(), rel=0.15)


def test_the_oracle_loses_nothing_and_random_actions_lose_every_step() -> None:
    arena = GridArena(evaluator="monte-carlo")
    oracle, random = (ran(arena, method, 20, 40) for method in ("oracle", "random"))
    assert np.abs(column(oracle, "lost")).max() < 1e-9
    assert column(oracle, "value").tolist() == pytest.approx([1.0] * 20)
    assert column(oracle, "settled").all()
    assert column(random, "lost").mean() == pytest.approx(40, rel=0.15)


def test_an_offset_of_the_reward_changes_no_number() -> None:
    arena = GridArena(evaluator="monte-carlo")
    plain, moved = (
        run_batch(Entrant(arena, "usf-ucb", tasks=Tasks(3, 1), steps=15, offset=offset).specs) for offset in (0.0, 7.0)
    )
    for one, other in zip(plain, moved, strict=True):
        for name in ("lost", "settled", "final", "value"):
            assert one.numbers[name] == pytest.approx(other.numbers[name], abs=1e-6)


def test_a_task_without_anything_to_gain_loses_nothing() -> None:
    arena = GridArena(features="clusters", evaluator="monte-carlo")
    flat = (3.0,) * 9  # every state has the same reward
    specs = Entrant(arena, "random", tasks=Tasks(1, 1), steps=10).specs
    record = run_batch([type(specs[0])(arena, "random", flat, seed=1, steps=10)])[0]
    assert record.numbers["lost"] == 0
    assert record.numbers["value"] == 1


def test_played_rewards_are_those_of_the_batch_without_noise() -> None:
    arena = GridArena()
    tasks = Tasks(3, 2)
    batch = Batch(tasks.draw(arena), tasks.run_seeds, noise=5.0)
    method = METHODS["oracle"](dim=9, task=arena.vectors(batch.tasks))
    both = played(arena, batch, method, 12), played(arena, Batch(batch.tasks, batch.seeds), method, 12)
    assert torch.equal(*both)
    third = METHODS["oracle"](dim=9, task=arena.vectors(batch.tasks[2:3]))
    alone = played(arena, Batch(batch.tasks[2:3], batch.seeds[2:3]), third, 12)
    assert torch.allclose(alone[:, 0], both[0][:, 2])
    assert STARTS > 1


def test_a_large_world_with_a_network_builds_no_exact_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zscout.save(zscout.load("maze-laplacian"), tmp_path / "mine")

    def refused(*_: object) -> None:
        raise AssertionError("an exact model was built")

    monkeypatch.setattr(grid_arena, "MOST_EXACT_STATES", 50)
    monkeypatch.setattr(ExactModel, "__init__", refused)
    monkeypatch.setattr(ground, "arena_features", refused)
    arena = GridArena("maze", model=str(tmp_path / "mine"))
    assert not arena.exact_with(arena.ground.world.n_states)
    records = ran(arena, "usf-ucb", 2, 10)
    assert all(np.isfinite(record.numbers["lost"]) for record in records)


def test_an_unknown_evaluator_is_named() -> None:
    with pytest.raises(ValueError, match="evaluator"):
        GridArena(evaluator="guess")
