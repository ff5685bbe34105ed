"""Bodies that ask for rewards, and bodies whose task changes."""

import pytest
import torch

import zscout
from benchmarks import body_rewards
from zscout.lab.arenas.arena import Batch, Tasks
from zscout.lab.arenas.body import BodyArena

pytestmark = pytest.mark.long


def test_tasks_change_and_rewards_are_told_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    arena = BodyArena("cheetah-fb", body="cheetah", horizon=8)
    tasks = Tasks(2, 1)
    first = Batch(tasks.draw(arena), tasks.run_seeds)
    later = Batch(list(reversed(first.tasks)), first.seeds)
    method = zscout.METHODS["greedy"](dim=arena.bfm.dim)
    own, told = body_rewards.online(arena, [first, later], method, 1)
    assert own.shape == (2, 2)
    assert told == 1
    same, _ = body_rewards.online(arena, [first, first], method, 1)
    assert torch.equal(own[0], same[0])
    assert not torch.equal(own[1], same[1])
    _, few = body_rewards.online(arena, [first], method, 1, least=1e6)
    assert few == 0
    body_rewards.main("cheetah", ("gate",), episodes=1, seeds=1, quick=True)
    assert capsys.readouterr().out.count("\n|") >= len(body_rewards.LEAST)
