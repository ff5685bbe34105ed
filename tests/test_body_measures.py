"""What a model of a body holds: the search for the best z, labels, and a command that resumes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import zscout
from benchmarks import body_measures
from benchmarks.body_measures import best_z, main, measure
from benchmarks.cross_entropy import cross_entropy
from test_body_training import TINY
from zscout.lab.arenas.body import BodyArena
from zscout.lab.evaluation.judging import episode_returns
from zscout.models.fb.body_training import BodyTrainer
from zscout.models.fb.model import FB
from zscout.models.files.folder import save_observations
from zscout.models.files.pretrained import observations_of
from zscout.models.sphere import project_sphere
from zscout.transfer.offline import fit_task
from zscout.worlds.bodies.physics import Body, body
from zscout.worlds.bodies.tasks import body_task, body_tasks

STORED = Path(__file__).parents[1] / "results"
SMALL = {
    "EPISODES": 3,
    "RANDOM": 2,
    "LABEL_COUNTS": (50, 150, 500),
    "POPULATION": 12,
    "ELITE": 4,
    "ROUNDS": 3,
    "SEARCH_STARTS": 2,
    "SEARCH_HORIZON": 16,
    "FINAL_STARTS": 3,
}


@pytest.fixture(scope="module")
def cheetah() -> Body:
    return body("cheetah", threads=1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An untrained cheetah model, whose actions are held for two control steps, with 300 observations."""
    trainer = BodyTrainer(body("cheetah", repeat=2, threads=1), replace(TINY, goal_features="cheetah"), seed=0)
    trainer._warm_up()
    model = trainer.model
    model.about = {"name": "tiny", "world": "cheetah", "repeat": 2}
    folder = tmp_path_factory.mktemp("models") / "tiny"
    zscout.save(model, folder)
    save_observations(folder, trainer.observations[:300])
    return str(folder)


@pytest.fixture
def model(saved: str, monkeypatch: pytest.MonkeyPatch) -> FB:
    monkeypatch.setattr(BodyArena, "horizon", 24)
    for name, value in SMALL.items():
        monkeypatch.setattr(body_measures, name, value)
    found = zscout.load(saved)
    assert isinstance(found, FB)
    return found


def test_the_cross_entropy_method_finds_the_best_direction() -> None:
    """The return is z·w on the sphere of radius 3: the best z are ±w."""
    w = torch.eye(9)[:2] * torch.tensor([[3.0], [-3.0]])
    z = project_sphere(torch.ones(2, 9))
    search = cross_entropy(
        lambda tried: (tried * w[:, None]).sum(-1),
        project_sphere,
        z,
        torch.Generator().manual_seed(0),
        population=64,
        elite=8,
        rounds=15,
        spread=0.7,
    )
    values = [((best * w).sum(-1), (mean * w).sum(-1)) for best, mean in search]
    bests, means = (torch.stack(each) for each in zip(*values, strict=True))
    assert bool((bests.diff(dim=0) >= 0).all())  # the elites keep the best so far
    # At first z·w is 3 and −3; measured at the end: 9.0 and 8.7.
    assert bool((bests[-1] > 0.9 * 9).all())
    assert bool((means[-1] > 0.9 * 9).all())


def test_returns_of_many_z_are_those_of_one_z_for_each_task(model: FB, cheetah: Body) -> None:
    tasks, z = [body_task(cheetah, name) for name in ("run", "crouch")], model.sample_z(4, 0).reshape(2, 2, -1)
    starts = cheetah.random_states(3, torch.Generator().manual_seed(5))
    found = episode_returns(model, cheetah, tasks, z, starts, horizon=10, repeat=2)
    assert found.shape == (2, 2, 3)
    for number in range(2):
        alone = episode_returns(model, cheetah, tasks, z[:, number, None], starts, horizon=10, repeat=2)[:, 0]
        torch.testing.assert_close(found[:, number], alone, rtol=1e-3, atol=1e-4)


def test_the_search_improves_on_its_start(model: FB, cheetah: Body) -> None:
    task, z = body_task(cheetah, "walk"), model.sample_z(1, 2)[0]
    best = best_z(model, task, z, torch.Generator().manual_seed(0))
    starts = cheetah.random_states(8, torch.Generator().manual_seed(9))
    both = torch.stack([z, best])[None]
    before, after = episode_returns(model, cheetah, [task], both, starts, 24, 2).mean(-1)[0].tolist()
    assert after > before + 2  # measured: 2.8 and 7.8


def test_measures_have_labels_and_follow_from_the_seed(model: FB, saved: str, cheetah: Body) -> None:
    task, observations = body_task(cheetah, "crouch"), observations_of(saved)
    found = measure(model, task, observations, seed=3)
    assert found == measure(model, task, observations, seed=3)
    assert found != measure(model, task, observations, seed=4)
    fit = fit_task(model, observations, task(observations))
    assert found.expressed == pytest.approx(fit.expressed, abs=1e-3)
    assert list(found.labels) == [50, 150, 300]  # 500 are more than there are
    starts = cheetah.random_states(3, torch.Generator().manual_seed(3))
    oracle = episode_returns(model, cheetah, [task], fit.z[None, None], starts, horizon=24, repeat=2)
    assert found.oracle == found.labels[300] == pytest.approx(float(oracle.mean()), abs=0.02)
    assert (found.task, found.kind) == ("crouch", "held-out")
    assert all(0 <= value <= 24 for value in (found.random_z, found.ceiling, *found.labels.values()))


def test_the_command_resumes(model: FB, saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found" / "measures.json"
    main("cheetah", saved, out, ("flip", "run"), threads=1)
    first = json.loads(out.read_text())
    assert [task["task"] for task in first["tasks"]] == ["run", "flip"]
    assert (first["model"], first["episodes"], first["rounds"]) == ("tiny", 3, 3)
    assert "2/2 run: random z" in capsys.readouterr().out
    first["tasks"][0]["ceiling"] = -1.0  # a number that no measure has
    out.write_text(json.dumps(first))
    main("cheetah", saved, out, threads=1)
    again = json.loads(out.read_text())
    names = [task.name for task in body_tasks(body("cheetah"))]
    assert [task["task"] for task in again["tasks"]] == names
    kept = {task["task"]: task for task in again["tasks"]}
    assert [kept["run"], kept["flip"]] == first["tasks"]
    assert "13/13 jump" in capsys.readouterr().out
    fresh = tmp_path / "fresh.json"
    main("cheetah", saved, fresh, ("walk",), threads=1)  # a task's numbers do not depend on the others
    assert json.loads(fresh.read_text())["tasks"] == [kept["walk"]]


def test_the_command_says_in_one_line_what_is_wrong(
    model: FB, saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "measures.json"
    main("cheetah", saved, out, ("run",), threads=1)
    before = out.read_text()
    (tmp_path / "other.json").write_text("[]")
    capsys.readouterr()
    for arguments, said in (
        (("cheeta", saved, out), "there is no body 'cheeta': did you mean cheetah?"),
        (("cheetah", saved, out, ("rum",)), "there is no task of the cheetah 'rum': did you mean run"),
        (("cheetah", "nowhere", out), "there is no shipped model or folder 'nowhere'"),
        (("walker", saved, out), "is not a model of walker"),
        (("cheetah", saved, out, (), 7), "holds measures with seed 0, not 7: name another file"),
        (("cheetah", saved, out, (), -1), "seed must be from 0 to"),
        (("cheetah", saved, tmp_path / "other.json"), "does not hold measures of a body: name another file"),
        (("cheetah", saved, tmp_path), "Is a directory"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(*arguments)
        assert stop.value.code == 2
        printed = capsys.readouterr().err
        assert said in printed
        assert printed.startswith("zscout: ")
        assert printed.count("\n") == 1
    assert out.read_text() == before


@pytest.mark.parametrize("name", ["walker", "cheetah", "quadruped"])
def test_the_stored_measurement_is_of_the_shipped_model_and_the_tasks_in_the_table(name: str) -> None:
    found = json.loads((STORED / f"measures-{name}.json").read_text())
    model = zscout.load(f"{name}-fb")
    assert isinstance(model, FB)
    header = body_measures._about(model, name, 0)
    assert {key: found[key] for key in header} == header
    tasks = {task["task"] for task in found["tasks"]}
    assert tasks >= {task.name for task in body_tasks(body(name, threads=1)) if task.kind != "held-out"}
