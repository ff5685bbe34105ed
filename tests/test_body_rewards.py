"""Bodies that ask for rewards, and bodies whose task changes."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import zscout
from benchmarks import body_rewards
from benchmarks.rehearsal import Search
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


@torch.no_grad()
def test_a_rehearsal_adds_children_and_keeps_what_is_best() -> None:
    model = zscout.load("walker-fb")
    world = zscout.worlds.body("walker", repeat=2, threads=1)
    league: Any = SimpleNamespace(model=model, world=world, atlas=model.atlas)
    weights = torch.randn(2, model.atlas.dim, generator=torch.Generator().manual_seed(0)).double()
    search = Search(league, weights, torch.Generator().manual_seed(1))
    first = search.best()
    assert torch.equal(first.double(), model.atlas.z[(weights @ model.atlas.psi.mT).argmax(-1)].double())
    before = search.value.amax(-1)
    search.round(children=3, starts=2, steps=20, number=0)
    assert search.z.shape == (2, 11, model.dim)
    assert (search.value.amax(-1) >= before).all()
    assert torch.allclose(search.z, model.project_z(search.z), atol=1e-4)
