"""zscout export."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from zscout.cli.parts.options import usage_errors
from zscout.cli.parts.output import say, writable_folder


@dataclass(frozen=True)
class Export:
    """Write a model's π, φ and ψ as ONNX files, for robots and programs without torch."""

    model: Annotated[str, tyro.conf.arg(metavar="MODEL"), tyro.conf.Positional]
    """A shipped model's name, the folder of a saved one, or hf://owner/name."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder for pi.onnx, phi.onnx, psi.onnx and export.json; existing files are replaced."""

    def run(self, console: Console) -> None:
        """Load, export, and say what was written."""
        import zscout

        with usage_errors():
            writable_folder(self.out)
            if self.model == "exact":
                raise ValueError("the exact model cannot be exported: it is a table, not a network")
            folder = zscout.export(zscout.load(self.model), self.out)
        for path in sorted(folder.glob("*.onnx")):
            say(console, f"wrote {path}, {path.stat().st_size / 2**20:.1f} MB")
        say(console, f"wrote {folder / 'export.json'}")
