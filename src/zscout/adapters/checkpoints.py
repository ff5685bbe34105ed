"""Load a folder of a public project: JSON and safetensors, never a pickle."""

from dataclasses import replace
from pathlib import Path
from typing import overload

import torch
from torch import nn

from zscout.adapters.adapter import Adapter, ForwardBackward
from zscout.adapters.agents import FB_FORMAT, HILP_FORMAT, agent_design
from zscout.adapters.designs import ELSEWHERE, Design, bfm_zero_design, metamotivo_design, td_jepa_design
from zscout.adapters.settings import Settings
from zscout.base.edge import as_device, in_range
from zscout.base.files import opened_tensors
from zscout.base.types import Obs
from zscout.models.fb.model import FB
from zscout.models.files import pretrained
from zscout.models.files.folder import CONFIG, WEIGHTS
from zscout.models.usfa.model import USFA
from zscout.transfer.atlas.atlas import FILE as ATLAS
from zscout.transfer.atlas.atlas import Atlas
from zscout.worlds.registry import FBName

ARGUMENTS = "init_kwargs.json"
DTYPES = ("F64", "F32", "F16", "BF16")  # of weights in a file; all are used as float32
PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin")
CONVERT = (
    "a pickle can run any code when it is opened, so zscout opens none: convert it once on a machine where that code "
    "may run, as docs/adapters.md shows"
)


@overload
def load(  # type: ignore[overload-overlap]
    name_or_folder: FBName,
    device: torch.device | str = "cpu",
) -> FB: ...


@overload  # a folder may hold an FB model or a public project's too: narrow it with isinstance
def load(name_or_folder: str | Path, device: torch.device | str = "cpu") -> USFA: ...


def load(name_or_folder: str | Path, device: torch.device | str = "cpu") -> USFA | FB | Adapter:
    """Load a model, frozen: a shipped name, a folder, or hf://owner/name[@revision] of the Hugging Face Hub.

    A folder is a saved model or a public project's checkpoint; an atlas in it becomes ``model.atlas``.
    A shipped name takes precedence over a folder of the same name: write ``./name``, or pass a Path, for the folder.
    Public projects: metamotivo, TD-JEPA, BFM-Zero, and converted agents of HILP and controllable_agent.
    """
    path = pretrained.located(name_or_folder)
    _refuse_pickles(path)
    if _is_public(path):
        return load_checkpoint(path, device=device)
    model = pretrained.load(name_or_folder, device)
    if isinstance(model, FB) and (path / ATLAS).is_file():
        model.atlas = Atlas.load(path, model)
    return model


def load_checkpoint(
    folder: str | Path,
    observations: Obs | None = None,
    *,
    gamma: float | None = None,
    device: torch.device | str = "cpu",
) -> Adapter:
    """The model in a public project's folder; γ defaults to the one in its training settings, if they are there.

    ``observations`` are a sample for C = E BBᵀ of a forward-backward model: see ``ForwardBackward.fitted``.
    """
    path, place = Path(folder), as_device(device)
    _refuse_pickles(path)
    inner = _model_folder(path)
    if inner is None:
        raise ValueError(f"{path} is not a folder of metamotivo, TD-JEPA, BFM-Zero or of zscout.adapters.convert")
    config = Settings.of(inner / CONFIG)
    with torch.device("meta"):  # sizes are checked against the file before memory is taken
        design = _design(config, inner)
    _fill(design, inner / WEIGHTS, place)
    networks = replace(design.networks, device=place)
    model = design.kind(networks, _discount(path, inner, config) if gamma is None else gamma)
    if observations is None:
        return model
    if not isinstance(model, ForwardBackward):
        raise ValueError("observations are for forward-backward models; this one's φ needs no sample")
    return model.fitted(observations)


def _is_public(path: Path) -> bool:
    try:
        return _model_folder(path) is not None
    except ValueError:
        return not (path / WEIGHTS).is_file()  # a damaged folder of ours has its own message


def _model_folder(path: Path) -> Path | None:
    """The folder with the weights, if the folder is a public project's: itself, or its ``model``."""
    for folder in (path, path / "model"):
        if (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file():
            config = Settings.of(folder / CONFIG)
            if "archi" in config or config.given.get("format") in (HILP_FORMAT, FB_FORMAT):
                return folder
    return None


def _refuse_pickles(path: Path) -> None:
    if path.is_file() and path.suffix in PICKLES:
        raise ValueError(f"{path} is a pickle; {CONVERT}")
    if not path.is_dir() or any((folder / WEIGHTS).is_file() for folder in (path, path / "model")):
        return  # a pickle beside safetensors is ignored
    pickles = sorted(one.name for one in path.iterdir() if one.suffix in PICKLES)
    if pickles:
        raise ValueError(f"{path} has no {WEIGHTS}, only {', '.join(pickles[:3])}; {CONVERT}")


def _design(config: Settings, folder: Path) -> Design:
    if "format" in config:
        return agent_design(config)
    if "name" not in config:
        return metamotivo_design(config)
    readable = ("TDJEPAModel", "FBModel", "FBcprModel", "FBcprAuxModel")
    name = config.choice("name", readable, hint=ELSEWHERE)
    if not (folder / ARGUMENTS).is_file():
        pickle = (folder / "init_kwargs.pkl").exists()
        raise ValueError(f"{folder} has no {ARGUMENTS}{f', only init_kwargs.pkl; {CONVERT}' if pickle else ''}")
    arguments = Settings.of(folder / ARGUMENTS)
    if name == "TDJEPAModel" or (name == "FBModel" and "normalizers" not in config.part("obs_normalizer")):
        return td_jepa_design(config, arguments)
    return bfm_zero_design(config, arguments)


def _discount(path: Path, inner: Path, config: Settings) -> float | None:
    """γ of a converted agent, or of the training settings in the folder above the model's."""
    if "format" in config:
        return _gamma(config, "gamma")
    if inner == path or not (path / CONFIG).is_file():
        return None
    training = Settings.of(path / CONFIG)
    return _gamma(training.part("train"), "discount") if "train" in training else None


def _gamma(settings: Settings, name: str) -> float | None:
    value = settings.given.get(name)
    return None if value is None else in_range(value, f"{settings.where}: {name}", 0.0, 1.0, open_end=True)


def _fill(design: Design, path: Path, device: torch.device) -> None:
    """Give the modules their weights; shapes and types are compared before anything is read."""
    with opened_tensors(path) as file:
        names, wanted = set(file.keys()), list(design.tensors())
        for name, _, _, expected in wanted:
            found = tuple(file.get_slice(name).get_shape()) if name in names else "nothing"
            if found != expected:
                raise ValueError(f"{path}: its {CONFIG} expects {name} of shape {expected}, got {found}")
            if (dtype := file.get_slice(name).get_dtype()) not in DTYPES:
                raise ValueError(f"{path} holds {name} as {dtype}, expected {', '.join(DTYPES)}")
        expects = {name for name, *_ in wanted}
        for name in sorted(names - expects):
            if any(name.startswith(f"{prefix}.") for prefix in design.parts) and not _unused(name):
                raise ValueError(f"{path}: its {CONFIG} expects no {name}")
        tensors = {name: file.get_tensor(name).float() for name in expects}
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all() or (name.endswith("running_var") and bool((tensor < 0).any())):
            raise ValueError(f"{path} holds NaN, inf or a negative variance in {name}")
    modules: dict[nn.Module, dict[str, torch.Tensor]] = {}
    for name, module, inner, _ in wanted:
        modules.setdefault(module, {})[inner] = tensors[name].to(device)
    for module, weights in modules.items():
        module.load_state_dict(weights, assign=True)
        module.eval().requires_grad_(False)


def _unused(name: str) -> bool:
    """Whether a tensor plays no part in acting: counters, and HILP's other features."""
    return name.endswith("num_batches_tracked") or name.startswith("feature_learner.")
