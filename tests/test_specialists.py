"""Specialists: TD3 on all tasks of a body at once."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.specialists import Recipe, Specialists, main
from zscout.worlds.bodies.physics import body
from zscout.worlds.bodies.tasks import body_task, body_tasks

pytestmark = pytest.mark.long
TINY = Recipe(bodies=3, batch=32, hidden=16, warm_up=20, episode=15, kept=100)


def learner(*names: str, gamma: float = 0.9) -> Specialists:
    world = body("cheetah", threads=1)
    tasks = [body_task(world, name) for name in names]
    recipe = Recipe(**{**vars(TINY), "gamma": gamma})
    made = Specialists(world, tasks, recipe, seed=0, device=torch.device("cpu"))
    for _ in range(recipe.warm_up):
        made.collect()
    return made


def test_stored_rewards_are_those_of_each_task_and_transitions_the_worlds_own() -> None:
    made = learner("walk", "crouch")
    world = made.world
    for number, name in enumerate(("walk", "crouch")):
        task = body_task(world, name)
        assert torch.allclose(made.reward[:20, number], task(made.next_obs[:20, number]).float())
    before, action = made.state.clone(), None
    made.collect()
    action = made.action[20].flatten(0, 1)
    entered, _ = world.advance(before, action)
    assert torch.allclose(made.next_obs[20].flatten(0, 1), world.observe(entered).float(), atol=1e-5)
    assert int(made.age.max()) < TINY.episode


def test_critics_learn_the_reward_with_gamma_0() -> None:
    made = learner("rear-up", "upside-down", gamma=0.0)
    first = float(made.update())
    for _ in range(400):
        last = float(made.update())
    assert last < 0.3 * first


def test_tasks_do_not_disturb_each_other() -> None:
    one, other = learner("walk", "crouch"), learner("walk", "crouch")
    other.reward[:, 1] += 5.0
    for _ in range(3):
        one.update()
        other.update()
    for mine, its in zip(one.actor.parameters(), other.actor.parameters(), strict=True):
        assert torch.equal(mine[0], its[0])
    assert not torch.equal(one.critics.weights[0][1], other.critics.weights[0][1])
    assert torch.equal(one.critics.weights[0][0], other.critics.weights[0][0])
    assert torch.equal(one.critics.weights[0][2], other.critics.weights[0][2])  # the second critic of the first task


def test_the_command_writes_returns_of_all_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.specialists.Specialists.returns.__defaults__", (1, 5))
    main(tmp_path / "a.json", "cheetah", minutes=0.0, settings="bodies=2,batch=8,hidden=8,warm_up=3,repeat=2")
    found = json.loads((tmp_path / "a.json").read_text())
    assert list(found["returns"]) == [task.name for task in body_tasks(body("cheetah"))]
    assert found["recipe"]["repeat"] == 2
    assert found["control_steps_a_task"] == 4 * 2 * 2
    main(
        tmp_path / "b.json",
        "cheetah",
        minutes=0.0,
        settings="bodies=2,batch=8,hidden=8,warm_up=3",
        kinds=("benchmark",),
    )
    few = json.loads((tmp_path / "b.json").read_text())["returns"]
    assert list(few) == [task.name for task in body_tasks(body("cheetah"), "benchmark")]
