"""Save models: a folder with config.json, model.safetensors and README.md, as on model hubs."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.files import write_bytes, write_tensors
from zscout.base.packing import in_bytes, may_be_packed
from zscout.base.types import HasAtlas
from zscout.models.files.card import fb_card, usfa_card

CONFIG, WEIGHTS, CARD, OBSERVATIONS = "config.json", "model.safetensors", "README.md", "observations.safetensors"
MANIFEST = "manifest.json"  # of a data set
CARDS: dict[str, Callable[[Any, dict[str, Any]], str]] = {"zscout-usfa-1": usfa_card, "zscout-fb-1": fb_card}


@runtime_checkable
class Saveable(Protocol):
    """A USFA or an FB model."""

    format: ClassVar[str]  # one of CARDS
    config: Any  # a dataclass
    about: dict[str, Any]

    def state_dict(self) -> dict[str, Tensor]:
        """The weights."""


def save(
    model: Saveable, folder: str | Path, *, half: bool = False, int8: bool = False, license: str | None = None
) -> Path:
    """Write a model that ``load`` restores exactly; existing files are replaced atomically.

    With ``half`` weight matrices are stored as float16, in half the space (those of M as with ``int8``), with ``int8``
    as integers with a scale for each column, in a quarter; ``load`` then gives the rounded values.
    The folder can be uploaded to the Hugging Face Hub as it is: README.md is its card. ``license`` is the Hub's name of
    one, such as "mit"; the model keeps it.
    """
    if not isinstance(model, Saveable):
        raise ValueError(f"expected a USFA or FB, got {type(model).__name__}: only these can be saved")
    folder = Path(folder)
    about = model.about if license is None else {**model.about, "license": license}
    config = {"format": model.format, "model": asdict(model.config), "about": about}
    text = json.dumps(config, indent=1, allow_nan=False) + "\n"
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    check_tensors(tensors, "the model")
    if half and int8:
        raise ValueError("half and int8 exclude each other")
    if half:
        exact = tensors
        tensors = {name: tensor.half() if may_be_packed(name) else tensor for name, tensor in exact.items()}
        check_tensors(tensors, "the model, in half precision,")
        # M's own error is far larger than that of 8 bits.
        tensors |= in_bytes({name: tensor for name, tensor in exact.items() if name.startswith("occupancy_network.")})
    if int8:
        tensors = in_bytes(tensors)
    card = CARDS[model.format](model.config, about)  # raises before anything is written
    write_tensors(folder / WEIGHTS, tensors)
    write_bytes(folder / CONFIG, text.encode())
    write_bytes(folder / CARD, card.encode())
    if isinstance(model, HasAtlas) and model.atlas is not None:
        model.atlas.save(folder)
    return folder


def save_observations(folder: str | Path, observations: Float[Tensor, "n k"]) -> None:
    """Write observations of the training data beside a model, to calibrate or to label, in 16 bits."""
    write_tensors(Path(folder) / OBSERVATIONS, {"observations": observations.detach().cpu().float().half()})


def check_tensors(tensors: dict[str, Tensor], where: str) -> None:
    """Raise unless all are finite and float32, or float16 where that is allowed."""
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32 and not (tensor.dtype == torch.float16 and may_be_packed(name)):
            expected = "float32 or float16" if may_be_packed(name) else "float32"
            raise ValueError(f"{where} holds {name} as {tensor.dtype}, expected {expected}")
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{where} holds NaN or inf in {name}")
