"""What a point-maze model holds: returns, the search for the best z, labels, and the stored measures."""

import json
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import zscout
from benchmarks import hilp, mixed, point_measures
from benchmarks.hilp import (
    Differences,
    Trajectories,
    fitted,
    hilbert_loss,
    path_correlations,
    r_squared,
    train_hilbert,
    value_of,
)
from benchmarks.point_measures import best_z, main, returns
from zscout import calibrated
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.point import PointArena, task_named
from zscout.lab.compare.statistics import Estimate
from zscout.lab.compare.stored_results import (
    LABEL_COUNTS,
    POINT_MAZE_FILE,
    StoredCell,
    TaskMeasures,
    stored_cells,
    stored_measures,
)
from zscout.models.fb.data import random_forces
from zscout.models.fb.training import FBTrainer
from zscout.paper.experiments.continuous import SHOWN, _measured_row, labels_figure

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


# HILP


def test_goals_come_later_in_the_same_episode_or_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hilp, "RUNS", 32)
    data = Trajectories.drawn(ARENA.world, 32 * 90, seed=0)
    t = torch.arange(90)[:, None]
    goes_on = (data.last > t)[:-1]
    assert torch.equal(data.obs[1:][goes_on], data.next_obs[:-1][goes_on])
    assert 60 < int((data.last - t).max()) < 70
    assert not bool((data.obs[1:] == data.next_obs[:-1]).all(-1)[~goes_on].any())
    place = torch.stack(
        [t.expand(90, 32), torch.arange(32).expand(90, 32)], -1
    ).float()  # so that s says when and where
    for share, same in ((0.0, 1.0), (1.0, 1 / 32)):
        monkeypatch.setattr(hilp, "RANDOM_GOALS", share)
        s, entered, goal = replace(data, obs=place, next_obs=place + 0.5).batch(4_000, torch.Generator().manual_seed(0))
        assert torch.equal(entered, s + 0.5)
        assert float((goal[:, 1] == entered[:, 1]).double().mean()) == pytest.approx(same, abs=0.02)
        last = data.last[tuple(s.long().T)]
        if not share:
            assert bool((goal[:, 0] >= entered[:, 0]).all())
            assert bool((goal[:, 0] <= last + 0.5).all())


def test_the_loss_of_values_is_an_expectile() -> None:
    value, after = torch.tensor([-1.0, -3.0, 0.0]), torch.tensor([0.0, 0.0, 0.0])
    assert float(hilbert_loss(value, after)) == pytest.approx((0 + 0.9 * 4 + 0.1 * 1) / 3)


def test_distances_of_hilp_follow_paths_around_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hilp, "BATCH", 256)
    monkeypatch.setattr(hilp, "RATE", 1.5)
    recipe = replace(hilp.Options(Path()).recipe, transitions=20_000, hidden=32, tau=0.05, runs=16)
    trainer = FBTrainer(ARENA.world, recipe)
    data = Trajectories.drawn(ARENA.world, 4_096 * 20, seed=0)
    s, _, goal = data.batch(100, torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(value_of(trainer.online, s, goal), value_of(trainer.online, goal, s))
        assert value_of(trainer.online, s, s).tolist() == pytest.approx([-1e-3] * 100)
    before, _ = path_correlations(trainer.online, ARENA.world)
    assert list(train_hilbert(trainer, data, 400, seed=0)) == list(range(1, 401))
    after, straight = path_correlations(trainer.online, ARENA.world)
    assert before < 0.7 < 0.8 < after
    assert straight == pytest.approx(0.9196, abs=1e-3)  # of the map alone


def test_psi_of_differences_is_that_of_states_less_the_start() -> None:
    model, world = ARENA.bfm, ARENA.world
    both = Differences(model, random_forces(world, 2_000, torch.Generator().manual_seed(0)))
    start, z = world.random_states(6, torch.Generator().manual_seed(1)), model.sample_z(6, 2)
    of_states = of_differences = torch.zeros(6, model.dim, dtype=torch.float64)
    state = start
    for k in range(250):
        entered, _ = world.advance(state, torch.as_tensor(model.act(state, z)))
        of_states = of_states + model.gamma**k * model.phi(entered).double()
        of_differences = of_differences + model.gamma**k * both.phi_of_transition(state, None, entered).double()
        state = entered
    missed = of_states - model.psi(start, z[:, None])[:, 0]
    missed_by_differences = of_differences - both.psi(start, z[:, None])[:, 0]
    assert torch.allclose(missed_by_differences, (1 - model.gamma) * missed, atol=1e-4)


def test_rewards_of_differences_lead_to_their_task() -> None:
    model = ARENA.bfm
    data = random_forces(ARENA.world, 8_000, torch.Generator().manual_seed(0))
    both = Differences(model, data)
    moved = both.phi_of_transition(data.obs, None, data.next_obs)
    tasks = model.sample_z(3, 1)
    for one, phi in ((model, model.phi(data.next_obs)), (calibrated(both, (data.obs, None, data.next_obs)), moved)):
        assert torch.allclose(fitted(one, data, [*(phi @ tasks.mT + 3).mT]).float(), tasks, atol=0.01)


def test_r_squared_is_of_rows_that_were_not_fitted() -> None:
    rng = torch.Generator().manual_seed(0)
    phi, noise = torch.randn(4_000, 3, generator=rng), torch.randn(4_000, generator=rng)
    line = phi @ torch.tensor([1.0, 2.0, 2.0])
    rewards = torch.stack([line, line + 3, line + 3 * noise, noise], 1)
    assert r_squared(phi, rewards, True).tolist() == pytest.approx([1.0, 1.0, 0.5, 0.0], abs=0.05)
    assert r_squared(phi, rewards, False).tolist() == pytest.approx([1.0, 0.0, 0.5, 0.0], abs=0.05)


@pytest.mark.long
def test_hilp_is_measured(tmp_path: Path) -> None:
    hilp.main(hilp.Options(tmp_path / "found.json", tasks=5, episodes=1, updates=8, policy_steps=8, evaluation_steps=8))
    found = json.loads((tmp_path / "found.json").read_text())
    assert len(found["rows"]) == 2 * 4 + 3 * 3
    shipped = next(row for row in found["rows"] if row["measure"] == "50,000 labels")
    assert shipped["kinds"]["all"]["value"] == pytest.approx(1.0, abs=0.01)


@torch.no_grad()
def test_the_network_corrects_measured_consequences_for_the_start_only() -> None:
    atlas = zscout.chart(ARENA.bfm, ARENA.world, behaviours=6, starts=2, steps=20, progress=False)
    starts = ARENA.world.random_states(mixed.STARTS, torch.Generator().manual_seed(0)).float()
    measured, network = (mixed.Mixed(ARENA, atlas, measured=which) for which in (True, False))
    assert torch.allclose(measured.psi(starts).mean(0), atlas.psi, atol=1e-6)  # over starts: as measured
    apart = measured.psi(starts) - network.psi(starts)
    assert torch.allclose(apart, apart[:1].expand_as(apart), atol=1e-6)  # both change alike with the start
    assert not torch.allclose(apart, torch.zeros_like(apart), atol=1e-3)
    agent = zscout.OnlineTransfer(ARENA.bfm, atlas=atlas, runs=2)
    agent.learn(starts[:8].reshape(2, 4, -1), torch.arange(8.0).reshape(2, 4))
    with mixed.with_psi(measured):
        assert (atlas.index_of(agent.ask(starts[:2]).float()) >= 0).all()
