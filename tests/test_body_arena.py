"""Bodies as arenas: tasks, starts, episodes, and comparisons with a small model."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import zscout
from benchmarks.league import arena_from_json
from commands import run_zscout
from zscout.lab.arenas.arena import Arena, Batch, Tasks
from zscout.lab.arenas.body import BodyArena
from zscout.lab.compare.comparison import Entrant
from zscout.lab.runs.chunks import run_batch
from zscout.models.fb.body_training import BodyTrainer
from zscout.models.files.folder import OBSERVATIONS, save_observations
from zscout.models.files.pretrained import observations_of
from zscout.worlds import body
from zscout.worlds.bodies.tasks import body_tasks


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An untrained walker model, whose actions are held for two control steps, with observations."""
    from test_body_training import TINY

    trainer = BodyTrainer(body("walker", repeat=2, threads=1), TINY, seed=0)
    trainer._warm_up()
    model = trainer.model
    model.about = {"world": "walker", "repeat": 2}
    folder = tmp_path_factory.mktemp("models") / "tiny"
    zscout.save(model, folder)
    save_observations(folder, trainer.observations[:500])
    return str(folder)


def test_it_is_an_arena_with_the_suites_tasks(saved: str) -> None:
    arena, held_out = BodyArena(saved), BodyArena(saved, "held-out")
    assert isinstance(arena, Arena)
    names = {task.name: task.kind for task in body_tasks(body("walker"))}
    assert {names[str(task)] for task in Tasks(20, 1).draw(arena)} == {"suite", "benchmark"}
    assert {names[str(task)] for task in Tasks(20, 1).draw(held_out)} == {"held-out"}
    assert len(set(Tasks(7, 2).draw(arena))) == 7
    assert arena.key == f"walker/suite/{saved}"
    assert arena_from_json(json.loads(json.dumps(arena.to_json()))) == arena
    assert arena.decisions == 500


def test_starts_come_from_the_seed_of_a_run_and_rewards_are_the_tasks(saved: str) -> None:
    arena = BodyArena(saved, horizon=8)
    batch = Batch(["stand", "run", "stand"], [5, 6, 7])
    env, alone = arena.environment(batch), arena.environment(Batch(["run"], [6]))
    first = env.reset(seed=0)[0]
    assert torch.equal(first[1:2], alone.reset(seed=0)[0])
    action = torch.full((3, 6), 0.3)
    for t in range(4):
        obs, reward, _, truncated, _ = env.step(action)
        own, seen, *_ = alone.step(action[:1])
        assert torch.equal(obs[1:2], own)
        assert torch.equal(reward[1:2], seen)
        assert truncated == (t == 3)  # 8 control steps are 4 actions
    assert float(reward[0]) == pytest.approx(float(arena.reward_of("stand")(obs[0])))
    assert not torch.equal(env.reset()[0], first)


@pytest.mark.parametrize("rewards", ["suite", pytest.param("linear", marks=pytest.mark.long)])
def test_methods_are_compared(saved: str, rewards: str) -> None:
    arena = BodyArena(saved, rewards, horizon=12)
    specs = Entrant(arena, "thompson", tasks=Tasks(2, 1), steps=12, noise=0.1).specs
    together, (alone,) = run_batch(specs), run_batch(specs[1:])
    first = slice(0, 5)  # later, rounding of the network grows: contacts are chaotic
    assert np.allclose(alone.steps["reward"][first], together[1].steps["reward"][first], atol=1e-3)
    assert {"lost", "return_1", "oracle_1", "return_2"} <= set(together[0].numbers)


def test_the_oracle_uses_the_observations_saved_with_a_model(saved: str, tmp_path: Path) -> None:
    arena = BodyArena(saved)
    obs = observations_of(saved)
    assert torch.equal(arena.observations(50_000, 0), obs)
    fit = arena.fit("stand")
    rewards = arena.reward_of("stand")(obs)
    assert torch.allclose(fit.z, zscout.infer_task(arena.bfm, obs, rewards))
    other = tmp_path / "bare"
    zscout.save(zscout.load(saved), other)
    with pytest.raises(ValueError, match=f"has no {OBSERVATIONS}"):
        BodyArena(str(other)).fit("stand")
    (other / OBSERVATIONS).write_bytes(b"not tensors")
    with pytest.raises(ValueError, match="damaged or not a safetensors file"):
        observations_of(other)


def test_commands_compare_bodies_and_say_what_is_wrong(saved: str, tmp_path: Path) -> None:
    words = ["compare", "--arena", "walker-held-out", "--methods", "greedy", "--quick", "--steps", "10"]
    done = run_zscout([*words, "--model", saved], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "greedy" in done.stdout
    for wrong, said in (
        (["--model", "pointmaze-fb"], "pointmaze-fb is not a model of walker"),
        (["--model", saved, "--features", "clusters"], "--features clusters does not apply"),
    ):
        failed = run_zscout([*words, *wrong], tmp_path)
        assert failed.returncode == 2
        assert said in failed.stderr
        assert "Traceback" not in failed.stderr


def test_the_suites_tasks_are_tuned_on_held_out_ones(saved: str, tmp_path: Path) -> None:
    arena = BodyArena(saved)
    other = arena.tuned_on
    assert other.tuned_on == arena
    assert not {*Tasks(7, 1, "report").draw(arena)} & {*Tasks(13, 1, "tuning").draw(other)}
    assert BodyArena(saved, "linear").tuned_on == BodyArena(saved, "linear")
    words = ["tune", "--arena", "walker", "--model", saved, "--methods", "greedy", "--quick", "--steps", "5"]
    done = run_zscout([*words, "--out", "out"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "settings chosen on 3 runs of other tasks" in " ".join(done.stdout.split())
    written = json.loads((tmp_path / "out/settings.json").read_text())
    assert list(written["settings"]) == [arena.key]
