"""Training checkpoints: one file with everything that determines the next steps."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, device

from zscout.base.files import parse_json, read_tensors, write_tensors


@runtime_checkable
class Resumable(Protocol):
    """A trainer that can be stopped and resumed."""

    recipe: Any  # a dataclass
    seed: int
    device: device

    @property
    def fixed(self) -> list[Tensor]:
        """Tensors that must be the same when it is resumed."""

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training changes."""

    def counters(self) -> dict[str, Any]:
        """The same for plain values."""

    def resume(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        """Continue from both."""


def write_checkpoint(trainer: Resumable, path: Path, setting: str = "") -> None:
    """Write atomically: a crash leaves the old checkpoint or the new one."""
    metadata = {"identity": _identity(trainer, setting), "counters": json.dumps(trainer.counters(), allow_nan=False)}
    write_tensors(path, trainer.tensors(), metadata)


def read_checkpoint(trainer: Resumable, path: Path, setting: str = "") -> bool:
    """Resume from a checkpoint, if there is one; recipe, data, features, seed and setting must match."""
    if not path.exists():
        return False
    try:
        metadata, tensors = read_tensors(path)
    except ValueError as error:
        raise ValueError(f"{error}; remove it to start over") from None
    if metadata.get("identity") != _identity(trainer, setting):
        what = "other settings (recipe, features, data, seed, device, patience or keep)"
        raise ValueError(f"{path} was written with {what}; remove it, or train into another folder")
    trainer.resume(tensors, parse_json(metadata["counters"]))
    return True


def _identity(trainer: Resumable, setting: str) -> str:
    """A hash of everything that must match for a resumed training to equal an uninterrupted one."""
    digest = hashlib.sha256(json.dumps(asdict(trainer.recipe), sort_keys=True).encode())
    digest.update(f"{trainer.seed} {trainer.device.type} {setting}".encode())
    for tensor in trainer.fixed:
        digest.update(tensor.cpu().numpy().tobytes())
    return digest.hexdigest()
