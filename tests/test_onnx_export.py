"""Exported files give the model's numbers in onnxruntime, for any batch; what cannot be exported is refused."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import zscout
from toys import PAPER_MODELS
from zscout.cli import main
from zscout.models.fb.model import FB, FBConfig
from zscout.models.files import onnx_export
from zscout.models.files.pretrained import observations_of
from zscout.models.usfa.model import USFA, USFAConfig


def small_fb(**changes: Any) -> FB:
    bounds: dict[str, Any] = {"observation_low": (None, -1.0, 0.0), "observation_high": (None, 1.0, 2.0)}
    config = FBConfig(**bounds, actions=2, **{"dim": 9, "hidden": 16, **changes})
    return FB(config, seed=3).calibrate(torch.rand(500, 3, generator=torch.Generator().manual_seed(0)))


def small_usfa(**changes: Any) -> USFA:
    config = USFAConfig(n_states=6, n_actions=3, dim=4, inputs=6, hidden=16, layers=2, **changes)
    features = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    return USFA(config, features, torch.eye(6), seed=2)


MODELS: dict[str, Callable[[], Any]] = {
    "pointmaze-fb": lambda: zscout.load("pointmaze-fb"),
    "cheetah-fb": lambda: zscout.load("cheetah-fb"),  # its B sees kinematics
    "walker-fb": lambda: zscout.load("walker-fb"),
    "quadruped-fb": lambda: zscout.load("quadruped-fb"),
    "grid9-laplacian": lambda: zscout.load("grid9-laplacian"),
    "grid9-laplacian-paper": lambda: zscout.load(PAPER_MODELS / "grid9-laplacian-paper"),  # no actor: greedy in ψ·z
    "plain FB": lambda: small_fb(gated=False, frequencies=0, heads=1, goal_features="0,2"),
    "FB with an angle": lambda: small_fb(angles=(1,), goal_features="0,2"),
    "USFA that draws": lambda: small_usfa(temperature=0.5, unit_z=False, dropout=0.3),
}


def answers(folder: Path, obs: Any, z: Any) -> dict[str, Any]:
    given, found = {"observation": obs, "z": z}, {}
    for name, file in json.loads((folder / "export.json").read_text())["files"].items():
        session = onnxruntime.InferenceSession(folder / name)
        assert [one.name for one in session.get_inputs()] == file["inputs"]
        (found[file["output"]],) = session.run(None, {key: given[key] for key in file["inputs"]})
    return found


def closeness(one: Any, other: Any) -> float:
    return float(np.abs(np.asarray(one) - np.asarray(other)).max() / np.abs(np.asarray(other)).max())


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_gives_the_models_numbers(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    assert zscout.export(model, tmp_path / "new" / "folder") == tmp_path / "new" / "folder"
    frozen = model.freeze()
    for n in (1, 7):
        if isinstance(model, USFA):
            obs: Any = np.arange(n) * 11 % model.config.n_states
        elif name in ("cheetah-fb", "quadruped-fb", "walker-fb"):  # observations without bounds
            obs = observations_of(name)[:n].numpy()
        else:
            model.observation_space.seed(n)
            obs = np.stack([model.observation_space.sample() for _ in range(n)])
        z = model.sample_z(n, 5)
        z = z * torch.linspace(1e-3, 30.0, n)[:, None]  # any length, as for act
        if n > 1:
            z[3] = 0.0
        found = answers(tmp_path / "new" / "folder", obs, z.numpy())
        assert closeness(found["phi"], frozen.phi(obs)) < 1e-5
        assert closeness(found["psi"], frozen.psi(obs, z[:, None])[:, 0]) < 1e-5
        if "probabilities" in found:
            assert closeness(found["probabilities"].sum(-1), np.ones(n)) < 1e-6
            every = torch.arange(6)
            table = torch.stack([frozen.policy(one[None])[0, state] for one, state in zip(z, every[obs], strict=True)])
            assert closeness(found["probabilities"], table) < 1e-5
        elif isinstance(model, USFA):
            assert np.array_equal(found["action"], frozen.act(obs, z))
        else:
            assert float(np.abs(found["action"] - frozen.act(obs, z)).max()) < 5e-5


def test_the_description_says_what_a_program_needs(tmp_path: Path) -> None:
    said = json.loads((zscout.export(small_fb(), tmp_path) / "export.json").read_text())
    assert said["format"] == "zscout-onnx-1"
    assert (said["model"], said["dim"], said["gamma"]) == ("FB", 9, 0.95)
    assert said["z_radius"] == math.sqrt(9)
    assert said["observation"] == {
        "dtype": "float32",
        "shape": [3],
        "low": [None, -1.0, 0.0],
        "high": [None, 1.0, 2.0],
    }
    assert said["action"] == {"dtype": "float32", "shape": [2], "low": -1.0, "high": 1.0}
    assert set(said["files"]) | {"export.json"} == {path.name for path in tmp_path.iterdir()}
    said = json.loads((zscout.export(small_usfa(), tmp_path) / "export.json").read_text())  # replaces the files
    assert (said["observation"]["n"], said["action"]["n"]) == (6, 3)


def test_a_model_is_not_changed_by_its_export(tmp_path: Path) -> None:
    model = small_usfa(dropout=0.3).train()
    zscout.export(model, tmp_path)
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())


def test_what_cannot_be_exported_is_refused(
    tmp_path: Path, laplacian_model: zscout.ExactModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for model in (laplacian_model, zscout.calibrated(zscout.load("grid9-clusters"))):
        with pytest.raises(ValueError, match="cannot be exported: only the networks of a USFA or an FB can"):
            zscout.export(model, tmp_path / "none")  # type: ignore[arg-type]
    monkeypatch.setattr(onnx_export, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=re.escape("pip install -e '.[onnx]'")):
        zscout.export(small_fb(), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_command_exports_a_saved_model_and_refuses_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    zscout.save(small_usfa(), "mine")
    main(["export", "mine", "--out", "out/robot"])
    assert "wrote out/robot/pi.onnx" in capsys.readouterr().out
    assert Path("out/robot/export.json").is_file()
    Path("file").touch()
    for words, message in (
        (["exact", "--out", "x"], "the exact model cannot be exported: it is a table, not a network"),
        (["pointmaze", "--out", "x"], "did you mean pointmaze-fb?"),
        (["mine", "--out", "file"], "file is a file; --out names a folder"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["export", *words])
        assert ended.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
