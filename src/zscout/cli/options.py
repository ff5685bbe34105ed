"""Checks of options that several commands share."""

import os
from pathlib import Path
from typing import Annotated

import tyro

from zscout.cli.mistakes import UsageError

OutputFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
Quick = tyro.conf.FlagCreatePairsOff[bool]


def names_of(text: str, option: str = "--methods", example: str = "usf-ucb,opti") -> list[str]:
    """Parse comma-separated names."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"{option} is empty; expected names such as {example}, or all")
    return names


def writable(*paths: Path | None) -> None:
    """Raise before anything runs if a file cannot be written."""
    for path in filter(None, paths):
        if path.is_dir():
            raise UsageError(f"{path} is a folder, expected a file")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UsageError(f"no permission to write {path}")


def device_named(name: str) -> str:
    """The device; raises if it is not available."""
    import torch

    if name.split(":")[0] not in ("cpu", "cuda"):
        raise UsageError(f"--device {name}: expected cpu or cuda")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device here; leave --device out, or write --device cpu")
    try:
        torch.empty(0, dtype=torch.float64, device=name)
    except (RuntimeError, NotImplementedError, AssertionError, TypeError) as error:
        raise UsageError(f"--device {name}: {str(error).splitlines()[0].split('. ')[0]}") from error
    return name
