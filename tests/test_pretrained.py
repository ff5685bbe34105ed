"""Save and load: exact round trips, and every damaged or hostile folder refused with nothing half-written."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import zscout
from zscout.models.files.pretrained import shipped


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(shipped()["grid9-clusters"], tmp_path / "model"))


def change_config(folder: Path, change: "dict[str, object]", part: str = "model") -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config[part].update(change)
    path.write_text(json.dumps({**config, part: {k: v for k, v in config[part].items() if v is not None}}))


def test_round_trip_is_exact(tmp_path: Path) -> None:
    model = zscout.load("grid9-laplacian")
    again = zscout.load(zscout.save(model, tmp_path / "copy"))
    assert again.config == model.config
    assert again.about == model.about
    for (name, tensor), (_, other) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert torch.equal(tensor, other), name
    z = model.sample_z(20, 0)
    assert torch.equal(model.psi(model.states(), z), again.psi(again.states(), z))
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {"config.json", "model.safetensors", "README.md"}


def test_unknown_names_say_the_near_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean grid9-laplacian"):
        zscout.load("grid9-laplace")
    with pytest.raises(ValueError, match="the shipped ones are cheetah-fb, fourrooms-laplacian, grid9-clusters"):
        zscout.load("walker")
    with pytest.raises(ValueError, match="has no config.json; it holds nothing"):
        zscout.load(tmp_path)


def test_a_folder_may_be_called_as_a_shipped_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    zscout.save(zscout.load("maze-laplacian"), "grid9-clusters")
    assert zscout.load("grid9-clusters").config.n_states == 81
    for mine in ("./grid9-clusters", Path("grid9-clusters")):
        assert zscout.load(mine).config.n_states == 129


@pytest.mark.parametrize("keep", [0, 7, 100, 5000, -1])
def test_a_truncated_file_is_refused(folder: Path, keep: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="is damaged or not a safetensors file"):
        zscout.load(folder)


def test_damaged_weights_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = next(iter(tensors))
    save_file({**tensors, name: tensors[name] * float("nan")}, path)
    with pytest.raises(ValueError, match="holds NaN or inf in"):
        zscout.load(folder)
    save_file({key: tensor for key, tensor in tensors.items() if key != name}, path)
    with pytest.raises(ValueError, match=f"expects {name} of shape .*, got nothing"):
        zscout.load(folder)
    save_file({**tensors, "extra": torch.ones(2)}, path)
    with pytest.raises(ValueError, match=r"its config.json expects no 'extra'"):
        zscout.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hiden": 3}, "has the unknown key 'hiden'"),
        ({"gamma": None}, "lacks the key 'gamma'"),
        ({"gamma": 1.5}, "gamma must be in"),
        ({"heads": "two"}, "heads must be a whole number, got 'two'"),
        ({"actor": 1}, "actor must be true or false, got 1"),
        ({"dim": 8}, "its config.json expects"),
        ({"n_states": 104}, "its config.json expects"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(folder: Path, change: "dict[str, object]", message: str) -> None:
    change_config(folder, change)
    with pytest.raises(ValueError, match=message):
        zscout.load(folder)


def test_a_config_that_is_none_is_refused(folder: Path) -> None:
    for text, message in (
        ("{", "is not JSON"),
        ("[]", "must be an object"),
        ("{}", "has no format, expected a folder that zscout.save wrote"),
        ('{"format": "x"}', "lacks the key 'about'"),
    ):
        (folder / "config.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            zscout.load(folder)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "pwned",))  # type: ignore[return-value]

    payload = pickle.dumps(Hostile())
    (tmp_path / "model.pt").write_bytes(payload)
    with pytest.raises(ValueError, match=r"model.pt is a file, .*pickles are not loaded"):
        zscout.load(tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"has no config.json; it holds model.pt .*pickles are not loaded"):
        zscout.load(tmp_path)
    folder = Path(shutil.copytree(shipped()["grid9-clusters"], tmp_path / "model"))
    (folder / "model.safetensors").write_bytes(payload)
    with pytest.raises(ValueError, match="damaged or not a safetensors"):
        zscout.load(folder)
    assert not (tmp_path / "pwned").exists()


def test_only_what_can_be_loaded_is_saved(tmp_path: Path, laplacian_model: zscout.ExactModel) -> None:
    from zscout.models.files.folder import save

    model = zscout.load("grid9-clusters")
    model.about = {"verdict": float("nan")}
    with pytest.raises(ValueError, match="JSON"):
        save(model, tmp_path / "bad")
    with pytest.raises(ValueError, match="holds features as torch.float64"):
        save(zscout.load("grid9-clusters").double(), tmp_path / "bad")
    model = zscout.load("grid9-clusters")
    model.features[0, 0] = float("nan")
    with pytest.raises(ValueError, match="holds NaN or inf in features"):
        save(model, tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


def packed(folder: Path, size: float, error: float, *, half: bool = False, int8: bool = False) -> zscout.USFA:
    """A model that came back from a packed file: at most ``size`` of the whole, ψ wrong by at most ``error``."""
    model = zscout.load("grid9-clusters")
    whole, small = zscout.save(model, folder / "whole"), zscout.save(model, folder / "small", half=half, int8=int8)
    sizes = [(path / "model.safetensors").stat().st_size for path in (whole, small)]
    assert sizes[1] < size * sizes[0]
    rounded = zscout.load(small)
    assert rounded.features.equal(model.features)
    psi, near = (m.psi(torch.arange(81), model.sample_z(5, 0)) for m in (model, rounded))
    assert float((psi - near).norm() / psi.norm()) < error
    return rounded


def test_half_precision_halves_the_file_and_keeps_features_exact(tmp_path: Path) -> None:
    rounded = packed(tmp_path, 0.52, 2e-3, half=True)
    again = zscout.load(zscout.save(rounded, tmp_path / "again", half=True))
    assert all(a.equal(b) for a, b in zip(again.state_dict().values(), rounded.state_dict().values(), strict=True))


def test_eight_bits_take_a_quarter_of_the_file(tmp_path: Path) -> None:
    rounded = packed(tmp_path, 0.28, 0.02, int8=True)
    again = zscout.load(zscout.save(rounded, tmp_path / "again", int8=True))
    for name, tensor in rounded.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], tensor, rtol=1e-6, atol=0)
    with pytest.raises(ValueError, match="half and int8 exclude each other"):
        zscout.save(rounded, tmp_path / "both", half=True, int8=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, name: t.pop(name), "got nothing"),
        (lambda t, name: t.update({name: t[name].float()}), "needs float32 scales and a matrix of int8"),
        (lambda t, name: t.update({name + ".scale": t[name + ".scale"][..., :1]}), "has shape"),
        (lambda t, name: t[name + ".scale"].fill_(float("inf")), "holds NaN or inf"),
        (lambda t, name: t.pop(name + ".scale"), "as torch.int8, expected float32 or float16"),
    ],
)
def test_damaged_scales_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    folder = zscout.save(zscout.load("grid9-clusters"), tmp_path / "small", int8=True)
    tensors = load_file(folder / "model.safetensors")
    change(tensors, next(name.removesuffix(".scale") for name in tensors if name.endswith(".scale")))
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match=message):
        zscout.load(folder)
