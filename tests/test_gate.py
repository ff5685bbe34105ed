"""Runs that are told only what they want to know."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.reward_requests import LEAST, gated_runs, gates
from simulating import simulate
from zscout import OnlineTransfer
from zscout.base.randomness import Streams
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.simulation import WORLD_DRAWS
from zscout.lab.evaluation.exact_evaluation import evaluate_exactly
from zscout.lab.runs.spec import Spec

pytestmark = pytest.mark.long
ARENA = GridArena(features="clusters")


def test_a_gate_at_0_is_no_gate_and_the_numbers_are_those_of_compare() -> None:
    ground, spec = ARENA.ground, Spec(ARENA, "usf-ucb", (), steps=40)
    tasks, seeds = ground.draw(Tasks(3, 2))
    gated = gated_runs(ground, spec, tasks, seeds, 0.0)
    trace = simulate(ground.model, ground.world, tasks, "usf-ucb", seeds=seeds, steps=40, noise=0.3)
    numbers, _ = evaluate_exactly(trace, ground)
    assert gated["told"].tolist() == [40.0] * 6
    for name in ("lost", "settled"):
        assert torch.allclose(gated[name], numbers[name])


def test_a_run_in_the_batch_is_that_run_alone() -> None:
    ground, spec = ARENA.ground, Spec(ARENA, "usf-ucb", (), steps=60)
    tasks, seeds = ground.draw(Tasks(3, 1))
    together = gated_runs(ground, spec, tasks, seeds, 0.5)
    assert len(set(together["told"].tolist())) > 1
    for run in range(3):
        alone = gated_runs(ground, spec, tasks[run : run + 1], seeds[run : run + 1], 0.5)
        assert float(alone["told"]) == float(together["told"][run])
        assert float(alone["lost"]) == pytest.approx(float(together["lost"][run]))


def test_it_is_the_loop_that_a_user_writes() -> None:
    ground, spec = ARENA.ground, Spec(ARENA, "usf-ucb", (), noise=0.0, steps=60)
    tasks, seeds = ground.draw(Tasks(1, 1))
    agent, told = OnlineTransfer(ground.model, "usf-ucb", seed=int(seeds)), 0
    state = int(Streams(seeds, WORLD_DRAWS).uniform() * 81)
    for _ in range(60):
        state = int(ground.world.step(state, agent.act(state)))
        reward = float(ground.exact.features[state] @ tasks[0]) if agent.wants_reward(state) else None
        told += reward is not None
        agent.tell(state, reward)
    assert 5 < told < 40
    assert float(gated_runs(ground, spec, tasks, seeds, 0.5)["told"]) == told


def test_a_few_rewards_are_nearly_as_good_as_all() -> None:
    rows = list(gates(["clusters"], Tasks(6, 1)))
    assert [row.least for row in rows] == list(LEAST)
    told = [row.told.value for row in rows]
    assert told[0] == 200
    assert told == sorted(told, reverse=True)
    half = rows[LEAST.index(0.5)]
    assert half.told.value < 25  # 20.8 of 200 over 300 runs
    assert half.lost.value < 22  # 15.1, with every reward 16.3


def test_the_command_prints_a_table() -> None:
    command = [sys.executable, "-m", "benchmarks.reward_requests", "--quick", "--features", "clusters"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "| features | least | rewards told | lost steps | settled |"
    assert len(lines) == 2 + len(LEAST)
    assert lines[2].startswith("| clusters | 0 (every one) | 50 | ")
