"""Load models: shipped ones, folders and those of the Hub. Weights are safetensors only: no code is ever loaded."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_device
from zscout.base.files import opened_tensors, parsed, read_json
from zscout.base.hints import nearest
from zscout.base.packing import SCALE, unpacked
from zscout.models.fb.model import FB, FBConfig
from zscout.models.files.folder import CONFIG, OBSERVATIONS, WEIGHTS, check_tensors
from zscout.models.files.hub import PREFIX, fetched
from zscout.models.usfa.model import USFA, USFAConfig
from zscout.models.usfa.moments import MomentUSFA

CONFIGS: dict[str, type[USFAConfig] | type[FBConfig]] = {USFA.format: USFAConfig, FB.format: FBConfig}
LATER: dict[type, dict[str, Any]] = {  # fields that old files lack
    USFAConfig: {
        "moment_gamma": None,
        "moment_hidden": USFAConfig.moment_hidden,
        "moment_layers": USFAConfig.moment_layers,
    },
    FBConfig: {"prior": False, "angles": [], "normalised": False},
}
DTYPES = ("F32", "F16", "I8")  # of weights in a file
ELSEWHERE = "a model of another project is built with its code and passed to zscout.adapters, as docs/adapters.md shows"


def shipped() -> dict[str, Path]:
    """The models inside the package, by name."""
    folder = Path(str(files("zscout.models").joinpath("shipped")))
    return {path.name: path for path in sorted(folder.glob("*")) if (path / CONFIG).is_file()}


def load(name_or_folder: str | Path, device: torch.device | str = "cpu") -> USFA | FB:
    """Load a shipped model by name, a saved one by folder, or one of the Hub by hf://owner/name[@revision]; frozen.

    A shipped name takes precedence over a folder of the same name: write ``./name``, or pass a Path, for the folder.
    """
    place, folder = as_device(device), _find(name_or_folder)
    config, about = _read_config(folder / CONFIG)
    tensors = _read_weights(folder / WEIGHTS, config)  # checked before allocation: a config may ask for any size
    if isinstance(config, FBConfig):
        model: USFA | FB = FB(config)
    else:
        kind = USFA if config.moment_gamma is None else MomentUSFA
        model = kind(config, tensors["features"], tensors["state_inputs"])
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    model.about = about
    return model.freeze().to(place)


def observations_of(name_or_folder: str | Path) -> Float[Tensor, "n k"]:
    """The observations saved with a model."""
    path = _find(name_or_folder) / OBSERVATIONS
    if not path.is_file():
        raise ValueError(f"{name_or_folder} has no {OBSERVATIONS}")
    with opened_tensors(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    if "observations" not in tensors:
        raise ValueError(f"{path} holds no observations")
    found = unpacked(tensors, str(path))["observations"].float()
    if found.ndim != 2 or not torch.isfinite(found).all():
        raise ValueError(f"{path} must hold finite observations [n k], got shape {tuple(found.shape)}")
    return found


def located(name_or_folder: str | Path) -> Path:
    """The folder of a shipped model, a saved one, or one of the Hub, which is fetched first."""
    if isinstance(name_or_folder, str):
        if name_or_folder in (models := shipped()):
            return models[name_or_folder]
        if name_or_folder.startswith(PREFIX):
            return fetched(name_or_folder)
    return Path(name_or_folder)


def _find(name_or_folder: str | Path) -> Path:
    folder = located(name_or_folder)
    if folder.is_file():
        raise ValueError(
            f"{folder} is a file, expected a folder with {CONFIG} and {WEIGHTS} (pickles are not loaded); {ELSEWHERE}"
        )
    if not folder.is_dir():
        models = shipped()
        shown = f"{nearest(name_or_folder, models)}the shipped ones are {', '.join(models)}"
        raise ValueError(f"there is no shipped model or folder {str(name_or_folder)!r}: {shown}")
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            others = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
            raise ValueError(f"{name_or_folder} has no {name}; it holds {others} (pickles are not loaded); {ELSEWHERE}")
    return folder


@dataclass(frozen=True)
class _File:
    """The content of a config.json."""

    format: str
    model: dict[str, Any]
    about: dict[str, Any]


def _read_config(path: Path) -> tuple[USFAConfig | FBConfig, dict[str, Any]]:
    content = read_json(path)
    if isinstance(content, dict) and "format" not in content:
        raise ValueError(f"{path} has no format, expected a folder that zscout.save wrote; {ELSEWHERE}")
    file: _File = parsed(content, _File, str(path))
    if file.format not in CONFIGS:
        raise ValueError(f"{path} has format {file.format!r}, this version reads {' and '.join(CONFIGS)}")
    kind = CONFIGS[file.format]
    config: USFAConfig | FBConfig = parsed({**LATER[kind], **file.model}, kind, str(path))
    return config, file.about


def _read_weights(path: Path, config: USFAConfig | FBConfig) -> dict[str, torch.Tensor]:
    with opened_tensors(path) as file:
        found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        unexpected = {name for name in found if not name.endswith(SCALE)}
        for name, shape in config.shapes():  # lazily, up to the first mismatch: a config may name a billion layers
            has = tuple(found[name].get_shape()) if name in found else "nothing"
            if has != shape:
                raise ValueError(f"{path}: its {CONFIG} expects {name} of shape {shape}, got {has}")
            if (dtype := found[name].get_dtype()) not in DTYPES:
                raise ValueError(f"{path} holds {name} as {dtype}, expected {', '.join(DTYPES)}")
            unexpected.discard(name)
        for name in sorted(unexpected):
            raise ValueError(f"{path}: its {CONFIG} expects no {name!r}, got shape {found[name].get_shape()}")
        tensors = unpacked({name: file.get_tensor(name) for name in found}, str(path))
    check_tensors(tensors, str(path))
    return tensors
