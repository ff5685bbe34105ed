"""Load a model together with its atlas."""

from pathlib import Path
from typing import overload

import torch

from zscout.models.fb.model import FB
from zscout.models.files import pretrained
from zscout.models.usfa.model import USFA
from zscout.transfer.atlas.atlas import FILE as ATLAS
from zscout.transfer.atlas.atlas import Atlas
from zscout.worlds.registry import FBName


@overload
def load(  # type: ignore[overload-overlap]
    name_or_folder: FBName,
    device: torch.device | str = "cpu",
) -> FB: ...


@overload  # a folder may hold an FB model, too: narrow it with isinstance
def load(name_or_folder: str | Path, device: torch.device | str = "cpu") -> USFA: ...


def load(name_or_folder: str | Path, device: torch.device | str = "cpu") -> USFA | FB:
    """Load a model, frozen: a shipped name, a saved folder, or hf://owner/name[@revision] of the Hugging Face Hub.

    An atlas in the folder becomes ``model.atlas``.
    A shipped name takes precedence over a folder of the same name: write ``./name``, or pass a Path, for the folder.
    """
    model, path = pretrained.load(name_or_folder, device), pretrained.located(name_or_folder)
    if isinstance(model, FB) and (path / ATLAS).is_file():
        model.atlas = Atlas.load(path, model)
    return model
