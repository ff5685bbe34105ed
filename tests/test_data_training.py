"""FB models and USFAs of data: resumed trainings, parts of larger data, held-out errors, the commands to an agent."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Generator

import zscout
from benchmarks.transitions import Options, collect, explorer_of
from benchmarks.transitions import main as collected
from commands import run_zscout
from data_files import LENGTHS, plain
from zscout.cli import main
from zscout.cli.parts import progress
from zscout.cli.parts.output import UsageError
from zscout.cli.pretrain import Pretrain
from zscout.lab.training.fb import FBPretraining
from zscout.lab.training.grid import GridTraining
from zscout.models.data.dataset import STORED, Dataset, gather
from zscout.models.fb.data import Experience
from zscout.models.fb.learner import FBLearner
from zscout.models.fb.model import FB, FBConfig
from zscout.models.fb.offline import DataTrainer, errors_of
from zscout.models.fb.recipe import DataRecipe
from zscout.models.files.checkpoint import read_checkpoint, write_checkpoint
from zscout.models.files.pretrained import observations_of
from zscout.models.usfa.transitions import Transitions
from zscout.transfer.atlas.trajectories import SegmentCharting, fitting
from zscout.worlds import body, open_grid, point_maze

TINY = DataRecipe(dim=12, hidden=16, batch=64, steps=30, refresh=8, buffer=1_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4,200 transitions of the point maze under random forces."""
    path = tmp_path_factory.mktemp("maze")
    assert list(collect(FBPretraining(), path, 4_200, 0))[-1] == 4_200
    return path


@pytest.fixture(scope="module")
def data(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    stored = tmp_path_factory.mktemp("stored") / "data"
    list(gather(folder, stored))
    return Dataset(stored)


def same(one: FB, other: FB) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


# Collected data


def test_the_command_of_a_training_repeats_it() -> None:
    assert FBPretraining(world="", data="x.npz").command("out") == "zscout pretrain --model fb --data x.npz --out out"
    assert FBPretraining(seed=3).command("out") == "zscout pretrain --world point-maze --model fb --seed 3 --out out"


def test_collected_transitions_are_the_worlds_own_in_order(data: Dataset) -> None:
    entered, _ = point_maze().advance(*(torch.tensor(part) for part in (data.obs, data.action)))
    np.testing.assert_array_equal(data.next_obs, entered.numpy())
    assert data.summary.longest == 70
    assert data.summary.trajectories < 200


@pytest.mark.parametrize(
    ("updates", "trained"), [(0, False), (2, False), (0, True)], ids=["random", "learning", "trained"]
)
def test_collected_transitions_of_a_body(updates: int, trained: bool, tmp_path: Path) -> None:
    small = ("bodies=8", "episode=20", "hidden=16", f"dim={50 if trained else 12}", "batch=16", "warm_up=64")
    what = FBPretraining(world="walker", changes=(*small, "candidates=2"))
    options = Options(out=tmp_path, model="walker-fb")
    explorer, what = explorer_of(options, what) if trained else (None, what)
    counts = list(collect(what, tmp_path / "data", 500, updates, explorer))
    assert counts == sorted(counts)
    for _ in gather(tmp_path / "data", tmp_path / "stored"):
        pass
    data = Dataset(tmp_path / "stored")
    assert len(data) == counts[-1] == 500
    assert 20 <= data.summary.longest <= 20
    assert data.summary.trajectories < 60  # 8 bodies, about three episodes of 20 each
    assert body("walker").observation_space.shape == data.obs.shape[1:]
    actions = torch.tensor(data.action).reshape(-1, 6)
    change = float((actions[1:] - actions[:-1]).abs().mean())  # random controls drift: .21 to .23; a model's: .25
    assert (change > 0.24) == (trained or updates > 0), change


@pytest.mark.parametrize("named", ["cheetah-fb", "grid9-laplacian", "nothing"])
def test_a_model_that_cannot_explore_is_named(named: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=named):
        explorer_of(Options(out=tmp_path, model=named), FBPretraining(world="walker"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("nonsense=1",), "nonsense"),
        (("dim=12",), "dim 12 and repeat 2"),
        (("repeat=3",), "dim 50 and repeat 3"),
        (("warm_up=5000",), "warm_up=5000"),
        (("ramps=[6]",), "an entry of ramps"),
    ],
)
def test_a_model_explores_only_as_it_was_trained(changes: tuple[str, ...], message: str, tmp_path: Path) -> None:
    options = Options(out=tmp_path, model="walker-fb", transitions=5_000)
    with pytest.raises(UsageError, match=message):
        explorer_of(options, FBPretraining(world="walker", changes=changes))


def test_the_point_maze_is_not_explored_by_a_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="apply to bodies only"):
        collected(Options(out=tmp_path / "x", world="point-maze", updates=16))
    assert not (tmp_path / "x").exists()


# Training


@pytest.mark.parametrize("buffer", [1_000, 10_000])  # less and more than the data
def test_a_resumed_training_equals_an_uninterrupted_one(data: Dataset, buffer: int, tmp_path: Path) -> None:
    recipe = replace(TINY, buffer=buffer)
    whole = DataTrainer(data, recipe, seed=3)
    for line in whole.train(every=5):
        write_checkpoint(whole, tmp_path / f"{line.step}")
    assert (whole._part > 0) == (buffer < len(data))
    for step in (5, 16, 30):
        resumed = DataTrainer(data, recipe, seed=3)
        assert read_checkpoint(resumed, tmp_path / f"{step}")
        list(resumed.train(every=5))
        assert resumed.log == whole.log
        assert same(resumed.model, whole.model)


def test_a_checkpoint_of_other_data_is_refused(data: Dataset, folder: Path, tmp_path: Path) -> None:
    trainer = DataTrainer(data, TINY)
    write_checkpoint(trainer, tmp_path / "checkpoint")
    with np.load(folder / "00000.npz") as file:
        arrays = {name: file[name] for name in file.files}
    arrays["action"][7] *= 0.5
    np.savez(tmp_path / "other.npz", **arrays)
    for _ in gather(tmp_path / "other.npz", tmp_path / "stored"):
        pass
    with pytest.raises(ValueError, match="other settings"):
        read_checkpoint(DataTrainer(Dataset(tmp_path / "stored"), TINY), tmp_path / "checkpoint")


def test_the_buffer_holds_training_transitions_only(data: Dataset) -> None:
    trainer = DataTrainer(data, TINY, seed=1)
    held = {row.tobytes() for row in data.rows(trainer.held).action.numpy()}
    parts = []
    for _ in trainer.train(every=8):
        rows = {row.tobytes() for row in trainer.buffer.action.numpy() if abs(row).max() < 1}  # not clipped
        assert not rows & held
        parts.append(frozenset(rows))
    assert len(set(parts)) == 4  # 30 updates, renewed after 8


def test_terminal_transitions_have_no_tail(tmp_path: Path) -> None:
    plain(tmp_path / "a.npz", terminated=np.arange(sum(LENGTHS)) == 4)  # not in what is held out
    for _ in gather(tmp_path / "a.npz", tmp_path / "stored"):
        pass
    trainer = DataTrainer(Dataset(tmp_path / "stored"), replace(TINY, batch=512), seed=2)
    assert trainer.buffer.over.sum() == 1
    rows, _ = trainer._rows()
    assert rows.discount.unique().tolist() == pytest.approx([0.0, TINY.gamma])


def test_errors_by_hand() -> None:
    """With ψ = 0 the error is 1; whitened features of their own data have no error."""
    config = FBConfig(
        observation_low=(None,) * 2, observation_high=(None,) * 2, actions=1, dim=3, hidden=8, quadratic=False
    )
    model = FB(config, seed=0)
    rng = Generator().manual_seed(0)
    obs, after = torch.randn(2_000, 2, generator=rng), torch.randn(2_000, 2, generator=rng)
    model.calibrate(after)
    rows = Experience(obs, torch.zeros(2_000, 1), after, torch.zeros(2_000, dtype=torch.bool))
    with torch.no_grad():
        model.forward_map.weights[-1].zero_()
        model.forward_map.biases[-1].zero_()
    bellman, orthonormality = errors_of(model, rows)
    assert bellman == pytest.approx(1.0)
    assert orthonormality < 1e-3


def test_a_trained_model_has_smaller_errors(data: Dataset) -> None:
    recipe = replace(TINY, hidden=64, batch=256, steps=250, buffer=10_000, gamma=0.8)
    trainer = DataTrainer(data, recipe, seed=0)
    before = trainer.judge(trainer.model)
    list(trainer.train(every=100))
    after = trainer.judge(trainer.model)
    assert after.held_out_bellman < 0.9 * before.held_out_bellman
    assert after.transitions == len(trainer.held)


@pytest.mark.parametrize("kind", ["one", "constant", "constant goals"])
def test_data_without_variation_is_refused(kind: str, tmp_path: Path) -> None:
    n = 1 if kind == "one" else 40
    obs = np.random.default_rng(0).normal(size=(n + 1, 3)) * ([1, 0, 1] if kind == "constant goals" else kind == "one")
    arrays: dict[str, Any] = {"obs": obs[:-1] + 1, "action": np.zeros((n, 1)), "next_obs": obs[1:] + 1}
    np.savez(tmp_path / "a.npz", **arrays, terminated=np.zeros(n, bool))
    list(gather(tmp_path / "a.npz", tmp_path / "stored"))
    with pytest.raises(ValueError, match="nothing to learn"):
        DataTrainer(
            Dataset(tmp_path / "stored"), replace(TINY, goal_features="1" if kind == "constant goals" else "all")
        )


def test_little_data_gives_finite_errors(tmp_path: Path) -> None:
    """One trajectory of 6 transitions."""
    obs = np.random.default_rng(0).normal(size=(7, 3))
    np.savez(tmp_path / "a.npz", obs=obs[:-1], action=np.zeros((6, 1)), next_obs=obs[1:], terminated=np.zeros(6, bool))
    list(gather(tmp_path / "a.npz", tmp_path / "stored"))
    trainer = DataTrainer(Dataset(tmp_path / "stored"), TINY)
    list(trainer.train())
    found = trainer.judge(trainer.model)
    assert found.transitions == 1
    assert np.isfinite([*vars(found).values()]).all()
    assert trainer.model.sample_z(50, 0).isfinite().all()


def test_balance_needs_a_world(data: Dataset) -> None:
    with pytest.raises(ValueError, match="balance needs"):
        DataTrainer(data, replace(TINY, balance=0.5))


# An atlas of data


def segments(model: FB, data: Dataset, **options: Any) -> SegmentCharting:
    run = SegmentCharting(model, data.trajectories, lambda rows: data.next_obs[rows], **options)
    assert list(run)[-1] == run.total
    return run


def test_an_atlas_of_data_knows_what_segments_visit(data: Dataset) -> None:
    """Its values of a reward are the means over the segments whose z is nearest to each of its z."""
    model = DataTrainer(data, TINY).model
    run = segments(model, data, behaviours=5, starts=2, steps=35)
    atlas = run.atlas()
    assert run.total >= 60
    nearest = (torch.cat(run.z) @ atlas.z.mT).argmax(1)
    x = torch.tensor(data.next_obs[run.begins[:, None] + run.offsets[7:], 0]).mean(1)  # without the first fifth
    means = torch.stack([x[nearest == row].mean() for row in range(5)])
    found = atlas.values(lambda obs: obs[:, 0])
    assert float(torch.corrcoef(torch.stack([means, found.float()]))[0, 1]) > 0.95
    assert torch.equal(atlas.z, segments(model, data, behaviours=5, starts=2, steps=35).atlas().z)
    assert 0 <= atlas.start_share <= 1


def test_segments_are_of_one_trajectory(data: Dataset) -> None:
    run = segments(DataTrainer(data, TINY).model, data, behaviours=500, starts=3, steps=20)
    assert run.behaviours == run.total // 3
    rows = run.begins[:, None] + np.arange(19)
    assert not data.end[rows].any()
    assert len(np.unique(run.begins)) == run.total


def test_trajectories_that_are_too_short_are_refused(data: Dataset) -> None:
    with pytest.raises(ValueError, match="the longest trajectory has 70"):
        segments(DataTrainer(data, TINY).model, data, steps=71)


def test_segments_are_as_long_as_trajectories_allow(data: Dataset) -> None:
    assert fitting(np.array([1_000] * 50), 384) == 100
    assert fitting(np.array([70] * 300), 384) == 35  # two of each
    assert fitting(np.array([70, 20]), 384) == 10
    model = DataTrainer(data, TINY).model
    assert segments(model, data, behaviours=5, starts=2).steps > 60  # ten segments are enough
    run = segments(model, data, starts=1)
    assert run.behaviours >= 64
    assert ((data.trajectories[1] // (run.steps + 1)).sum()) < 64


# Commands


def test_ctrl_c_says_where_the_training_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the first line of the log nothing is stored; later the checkpoint may be older than the last update."""
    words = ["pretrain", "--data", str(folder), "--quick", "--set", "steps=250", "--out", str(tmp_path / "mine")]
    update, steps = FBLearner.update, [0]

    def stopped_after(stop: int) -> str:
        def counted(*given: Any) -> Any:
            steps[0] += 1
            if steps[0] > stop:
                raise KeyboardInterrupt
            return update(*given)

        steps[0] = 0
        monkeypatch.setattr(FBLearner, "update", counted)
        with pytest.raises(SystemExit) as left:
            main(words)
        assert left.value.code == 130
        return " ".join(capsys.readouterr().err.split())

    assert stopped_after(20).endswith(
        "stopped at step 20; run the same command again to begin anew: no checkpoint is written yet"
    )
    assert stopped_after(130).endswith("stopped at step 130; run the same command again to resume at step 100")
    assert stopped_after(20).endswith("stopped at step 120; run the same command again to resume at step 100")


def test_from_a_folder_of_episodes_to_an_agent(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine" / "data").mkdir(parents=True)
    (tmp_path / "mine" / "data" / "thesis.txt").touch()
    done = run_zscout(["pretrain", "--data", str(folder), "--quick", "--out", "mine"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "layout plain: 1 file, 4,200 transitions" in done.stdout
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == [
        "README.md",
        "config.json",
        "data",
        "model.safetensors",
        "observations.safetensors",
        "training.json",
    ]
    log = json.loads((tmp_path / "mine" / "training.json").read_text())
    assert set(log["verdict"]) == {"data"}  # no simulator, no returns
    model = zscout.load(str(tmp_path / "mine"))
    zscout.check_model(model)
    assert "world" not in model.about
    assert observations_of(tmp_path / "mine").shape[1] == 4
    charted = run_zscout(["chart", "--data", str(folder), "--model", "./mine", "--quick", "--out", "mine"], tmp_path)
    assert charted.returncode == 0, charted.stderr
    assert not (tmp_path / "mine" / STORED).exists()
    assert (tmp_path / "mine" / "data" / "thesis.txt").exists()
    model = zscout.load(str(tmp_path / "mine"))
    assert isinstance(model, FB)
    assert len(model.atlas.z) == 8
    env = gymnasium.make("zscout/PointMaze-v0")
    obs, _ = env.reset(seed=0)
    agent = zscout.OnlineTransfer(model, seed=0, atlas=model.atlas)
    for _ in range(3):
        assert (model.atlas.z == torch.as_tensor(agent.ask(obs)).float()).all(1).any()
        obs, *_ = env.step(agent.act(obs))
        agent.tell(obs, float(obs[0]))
    assert agent.t == 3


@pytest.mark.long
@pytest.mark.parametrize(("world", "found"), [("walker", "returns"), ("point-maze", "kinds")])
def test_data_of_a_known_world_is_judged_by_its_simulator(world: str, found: str, tmp_path: Path) -> None:
    changes = ("bodies=8", "episode=20") if world == "walker" else ()
    list(collect(FBPretraining(world=world, changes=changes), tmp_path / "data", 1_000, 0))
    done = run_zscout(["pretrain", "--data", "data", "--world", world, "--quick", "--out", "mine"], tmp_path)
    assert done.returncode == 0, done.stderr
    verdict = json.loads((tmp_path / "mine" / "training.json").read_text())["verdict"]
    assert verdict[found]
    assert verdict["data"]["transitions"] > 0
    assert zscout.load(tmp_path / "mine").about["world"] == world


def test_a_usfa_learns_from_recorded_states(tmp_path: Path) -> None:
    world, rng = open_grid(), Generator().manual_seed(0)
    state = torch.arange(world.n_states).repeat_interleave(world.n_actions)
    action = torch.arange(world.n_actions).repeat(world.n_states)
    arrays: dict[str, Any] = {
        "obs": state.numpy(),
        "action": action.numpy(),
        "next_obs": world.step(state, action, rng).numpy(),
    }
    np.savez(tmp_path / "walks.npz", **arrays, terminated=np.zeros(len(state), bool))
    command = Pretrain(tmp_path / "mine", world="open-grid", data=tmp_path / "walks.npz", quick=True)
    run = command._training()
    assert isinstance(run, GridTraining)
    assert torch.equal(run.trainer.data.outcomes, Transitions.of_world(world).outcomes)  # every transition was recorded
    assert run.facts()["data"] == str(tmp_path / "walks.npz")
    alone = Pretrain(tmp_path / "fb", data=tmp_path / "walks.npz")
    with pytest.raises(ValueError, match="whole numbers"):
        alone._training()
    with pytest.raises(ValueError, match="pass --world"):
        replace(alone, model="usfa")._training()
    plain(tmp_path / "vectors.npz")
    with pytest.raises(ValueError, match="whole numbers"):
        replace(command, out=tmp_path / "other", data=tmp_path / "vectors.npz")._training()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("pretrain --data none --out x", "there is no none"),
        ("pretrain --data empty --out x", "holds no data"),
        ("pretrain --layout plain --out x", "--layout"),
        ("pretrain --data a-file.npz --out x", "damaged"),
        ("pretrain --data plain.npz --world walker --out x", "walker has 24 and 6"),
        ("pretrain --data plain.npz --world walker --model usfa --out x", "--model fb"),
        ("pretrain --data plain.npz --walks 3 --out x", "--walks"),
        ("pretrain --data= --out x", "--data must be"),
        ("pretrain --data plain.npz --set none=1 --out x", "no 'none'"),
        ("pretrain --data plain.npz --set balance=0.5 --out x", "balance needs"),
        ("pretrain --data one.npz --out x", "nothing to learn"),
        ("chart --data plain.npz --out x", "--model"),
        ("chart --data plain.npz --model walker-fb --world walker --out x", "no --world"),
        ("chart --data plain.npz --model pointmaze-fb --out x", "(3,)"),
    ],
)
def test_a_mistake_is_one_line(
    words: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file.npz").write_bytes(b"no zip")
    (tmp_path / "empty").mkdir()
    plain(tmp_path / "plain.npz")
    one = np.zeros((1, 2))
    np.savez(tmp_path / "one.npz", obs=one, action=one, next_obs=one, terminated=np.zeros(1, bool))
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    told = capsys.readouterr().err
    assert (stop.value.code, len(told.splitlines())) == (2, 1)
    assert named in told
    assert not (tmp_path / "x" / STORED).exists()


def test_reading_tells_lines_off_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "TOLD", 10)
    plain(tmp_path / "a.npz")
    with progress.stored_data(Console(), tmp_path / "a.npz", tmp_path / "stored"):
        pass
    assert "read 18 transitions, 0 of 1 files" in capsys.readouterr().out


def test_a_wrong_recipe_is_refused_before_data_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain(tmp_path / "a.npz")
    monkeypatch.setattr("zscout.cli.pretrain.stored_data", None)  # reading would be a TypeError
    command = Pretrain(tmp_path / "x", data=tmp_path / "a.npz", set=("none=1",))
    with pytest.raises(ValueError, match="no 'none'"):
        command._training()
    with pytest.raises(ValueError, match="--walks does not apply"):
        replace(command, world="open-grid", walks=3, set=())._training()
