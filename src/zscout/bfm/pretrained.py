"""Save and load models: a folder with config.json, model.safetensors and README.md, as on model hubs.

Weights are safetensors only: no code is ever loaded.
"""

import json
from dataclasses import asdict, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of

from zscout.bfm.usfa import USFA, USFAConfig
from zscout.files import parse_json, write_bytes
from zscout.names import nearest

FORMAT = "zscout-usfa-1"
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"


def shipped() -> dict[str, Path]:
    """The models inside the package, by name."""
    folder = Path(str(files("zscout.bfm").joinpath("models")))
    return {path.name: path for path in sorted(folder.glob("*")) if (path / CONFIG).is_file()}


def save(model: USFA, folder: str | Path, *, half: bool = False) -> Path:
    """Write a model that ``load`` restores exactly; existing files are replaced atomically.

    With ``half`` weight matrices are stored as float16, in half the space; ``load`` then gives the rounded values.
    """
    if not isinstance(model, USFA):
        raise ValueError(f"expected a USFA, got {type(model).__name__}: only a USFA can be saved")
    folder = Path(folder)
    config = {"format": FORMAT, "model": asdict(model.config), "about": model.about}
    text = json.dumps(config, indent=1, allow_nan=False) + "\n"
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    _check_tensors(tensors, "the model")
    if half:
        tensors = {name: tensor.half() if _may_be_half(name) else tensor for name, tensor in tensors.items()}
        _check_tensors(tensors, "the model, in half precision,")
    write_bytes(folder / WEIGHTS, bytes_of(tensors))
    write_bytes(folder / CONFIG, text.encode())
    write_bytes(folder / CARD, _model_card(model.config, model.about).encode())
    return folder


def load(name_or_folder: str | Path, device: torch.device | str = "cpu") -> USFA:
    """Load a shipped model by name, or a saved one by folder; frozen.

    A shipped name takes precedence over a folder of the same name: write ``./name``, or pass a Path, for the folder.
    """
    folder = _find(name_or_folder)
    config, about = _read_config(folder / CONFIG)
    tensors = _read_weights(folder / WEIGHTS, config)  # checked before allocation: a config may ask for any size
    model = USFA(config, tensors["features"], tensors["state_inputs"])
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    model.about = about
    return model.freeze().to(device)


def _check_tensors(tensors: dict[str, torch.Tensor], where: str) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32 and not (tensor.dtype == torch.float16 and _may_be_half(name)):
            expected = "float32 or float16" if _may_be_half(name) else "float32"
            raise ValueError(f"{where} holds {name} as {tensor.dtype}, expected {expected}")
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{where} holds NaN or inf in {name}")


def _may_be_half(name: str) -> bool:
    """Weight matrices; features stay exact, since rewards are linear in them."""
    return ".weights." in name


def _find(name_or_folder: str | Path) -> Path:
    models = shipped()
    if isinstance(name_or_folder, str) and name_or_folder in models:
        return models[name_or_folder]
    folder = Path(name_or_folder)
    if folder.is_file():
        raise ValueError(f"{folder} is a file, expected a folder with {CONFIG} and {WEIGHTS} (pickles are not loaded)")
    if not folder.is_dir():
        guess = nearest(name_or_folder, models)
        shown = f"{guess}the shipped ones are {', '.join(models)}"
        raise ValueError(f"there is no shipped model or folder {str(name_or_folder)!r}: {shown}")
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            others = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
            raise ValueError(f"{folder} has no {name}; it holds {others} (pickles are not loaded)")
    return folder


def _read_config(path: Path) -> tuple[USFAConfig, dict[str, Any]]:
    try:
        config = parse_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    _check_keys(path, config, {"format", "model", "about"})
    if config["format"] != FORMAT:
        raise ValueError(f"{path} has format {config['format']!r}, this version reads {FORMAT!r}")
    _check_keys(path, config["model"], {field.name for field in fields(USFAConfig)})
    for field in fields(USFAConfig):
        came = config["model"][field.name]
        if type(came) is not field.type and not (field.type is float and type(came) is int):
            raise ValueError(f"{path}: {field.name} is {came!r}, expected {field.type.__name__}")  # type: ignore[union-attr]
    if not isinstance(config["about"], dict):
        raise ValueError(f"{path}: about must be an object")
    return USFAConfig(**config["model"]), config["about"]


def _check_keys(path: Path, came: object, wanted: set[str]) -> None:
    if not isinstance(came, dict):
        raise ValueError(f"{path} holds {type(came).__name__}, expected an object")
    for name in sorted(came.keys() ^ wanted):
        raise ValueError(f"{path} {'has the unknown' if name in came else 'lacks the'} key {name!r}")


def _read_weights(path: Path, config: USFAConfig) -> dict[str, torch.Tensor]:
    try:
        tensors = tensors_of(path.read_bytes())
    except (SafetensorError, ValueError, KeyError) as error:
        raise ValueError(f"{path} is damaged or not a safetensors file: {error}") from None
    unexpected = set(tensors)
    for name, shape in config.shapes():  # lazily, up to the first mismatch: a config may name a billion layers
        found = tuple(tensors[name].shape) if name in tensors else "nothing"
        if found != shape:
            raise ValueError(f"{path}: its {CONFIG} expects {name} of shape {shape}, got {found}")
        unexpected.discard(name)
    for name in sorted(unexpected):
        raise ValueError(f"{path}: its {CONFIG} expects no {name}, got shape {tuple(tensors[name].shape)}")
    _check_tensors(tensors, str(path))
    return tensors


def _model_card(config: USFAConfig, about: dict[str, Any]) -> str:
    """Markdown with the front matter that model hubs read."""
    actor = ", and an actor of the same shape." if config.actor else "; the policy is greedy in ψ·z."
    card = f"""\
---
library_name: zscout
license: mit
tags: [reinforcement-learning, successor-features, behavioral-foundation-model]
---

# {about.get("name", "A USFA")}

Universal successor features ψ(s,a;z) for {config.n_states} states, {config.n_actions} actions and \
d = {config.dim} features, γ = {config.gamma:g}: {config.heads} network{"s" if config.heads > 1 else ""} of \
{config.layers} hidden layers of {config.hidden}{actor}

```python
import zscout

model = zscout.load("{about.get("name", "")}")  # or the path of this folder
```
"""
    if verdict := about.get("verdict"):
        card += f"""
Measured against the exact model on held-out z:

| | |
|---|---|
| normalised value (0 random walk, 1 optimal), mean over {verdict["tasks"]} z | {verdict["value"]:.4f} |
| its 5th percentile over z | {verdict["value_p5"]:.4f} |
| relative error of ψ for its own policy | {verdict["psi_error"]:.4f} |
"""
    if command := about.get("command"):
        card += f"\nMade with\n\n```bash\n{command}\n```\n"
    facts = ("world", "features", "recipe", "seed", "data", "version")
    return "\n".join([card, *[f"- {key}: {about[key]}" for key in facts if key in about]]).rstrip() + "\n"
