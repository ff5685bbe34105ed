"""What a point-maze model holds: returns, the search for the best z, labels, and the stored measures."""

import json
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from benchmarks import point_measures
from benchmarks.point_measures import best_z, main, returns
from reproduction.experiments.continuous import SHOWN, _measured_row, labels_figure
from reproduction.stored_results import (
    LABEL_COUNTS,
    POINT_MAZE_FILE,
    StoredCell,
    TaskMeasures,
    stored_cells,
    stored_measures,
)
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.point import PointArena, task_named
from zscout.lab.compare.statistics import Estimate

ARENA = PointArena()
NAMES = ["goal 3", "velocity 5"]


def test_returns_are_those_of_the_environment() -> None:
    starts = ARENA.world.random_states(3, torch.Generator().manual_seed(1))
    z = ARENA.bfm.sample_z(2, 0)
    found = returns(ARENA, NAMES, z[:, None], starts)
    for name, own, total in zip(NAMES, z, found[:, 0], strict=True):
        rewards = []
        env = gymnasium.make("zscout/PointMaze-v0", reward=task_named(name))
        for start in starts:
            obs, _ = env.reset(options={"state": start.numpy()})
            done = False
            while not done:
                obs, reward, _, done, _ = env.step(np.asarray(ARENA.bfm.act(obs, own)))
                rewards.append(float(reward))
        assert float(total) == pytest.approx(sum(rewards) / len(starts), abs=0.5)  # float32 paths drift apart


def test_the_search_for_the_best_z_never_ends_below_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ROUNDS": 3, "POPULATION": 16, "ELITE": 4}.items():
        monkeypatch.setattr(point_measures, name, value)
    starts = ARENA.world.random_states(4, torch.Generator().manual_seed(1))
    z = ARENA.bfm.sample_z(2, 0)
    best = best_z(ARENA, NAMES, z, starts, torch.Generator().manual_seed(0))
    before, after = (returns(ARENA, NAMES, each[:, None], starts)[:, 0] for each in (z, best))
    assert bool((after >= before - 1e-4).all())
    assert float(after.sum()) > float(before.sum()) + 1


def test_the_command_measures_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"ROUNDS": 1, "POPULATION": 8, "ELITE": 2, "STARTS": 4, "SEARCH_STARTS": 2, "LABEL_COUNTS": (50, 500)}
    for name, value in settings.items():
        monkeypatch.setattr(point_measures, name, value)
    main(tmp_path / "found.json", tasks=1)
    (found,) = json.loads((tmp_path / "found.json").read_text())
    assert found["task"] == Tasks(1, 1).draw(ARENA)[0]
    assert set(found["labels"]) == {"50", "500", "50000"}
    assert found["oracle"] == found["labels"]["50000"]
    assert 0 < found["planner"] <= ARENA.horizon


def test_stored_measures_are_of_the_tasks_of_compare() -> None:
    names = Tasks(point_measures.TASKS, 1).draw(ARENA)
    for tasks in stored_measures().values():
        assert [task.task for task in tasks] == names
        assert all(set(task.labels) == set(LABEL_COUNTS) for task in tasks)
    shipped = stored_measures()["pointmaze-fb"][0]
    assert ARENA.fit(shipped.task).expressed == pytest.approx(shipped.expressed, abs=1e-3)


def test_the_figure_has_labels_offline_and_episodes_online() -> None:
    tasks = [TaskMeasures("goal 1", 0.5, 0.0, {n: n / 25_000 for n in LABEL_COUNTS}, 2.0, 3.0, 4.0)] * 2
    row = stored_cells(POINT_MAZE_FILE)[0].rows[0]
    rows = [
        replace(row, method=method, settings={}, episodes=[Estimate(k / 5, 0.0, 1.0) for k in (1, 2)])
        for method in SHOWN[::-1]
    ]
    (panels,) = labels_figure(tasks, {"online": StoredCell("", "", "", rows)}).rows.values()
    offline, online = panels
    assert [*offline.curves[0].x] == [*LABEL_COUNTS]
    assert offline.logarithmic_x
    assert offline.curves[0].y == pytest.approx([n / 50_000 for n in LABEL_COUNTS])
    assert [curve.label for curve in online.curves] == [*SHOWN]
    assert [[*curve.x] for curve in online.curves] == [[1, 2]] * len(SHOWN)
    assert online.curves[0].y == [0.2, 0.4]


def test_stored_runs_are_of_the_league() -> None:
    cells = stored_cells(POINT_MAZE_FILE)
    assert [cell.name for cell in cells] == [
        f"{arena}-{noise}" for arena in ("point-maze", "point-maze-linear") for noise in ("0", "0.3")
    ]
    for cell in cells:
        assert all(row.note and row.runs == 300 for row in cell.rows)
        assert all(len(row.episodes) == 5 for row in cell.rows if not row.settings)


def test_a_row_of_the_table_is_a_ratio_of_means() -> None:
    one = TaskMeasures("goal 1", 0.5, 0.0, {50: 1.0, 500: 2.0, 5_000: 3.0, 50_000: 6.0}, 6.0, 8.0, 8.0)
    two = TaskMeasures("goal 2", 0.7, 2.0, {50: 1.0, 500: 2.0, 5_000: 3.0, 50_000: 2.0}, 2.0, 4.0, 8.0)
    other = TaskMeasures("region 1", 0.9, 0.0, {50: 0.0, 500: 0.0, 5_000: 0.0, 50_000: 0.0}, 0.0, 0.0, 8.0)
    row = _measured_row("goal", {"a": [one, two, other]})
    assert row[:3] == ["goal", "0.60", "0.12 (0.12)"]
    assert row[-2:] == ["0.50 (0.50)", "0.75 (0.75)"]
