"""zscout reproduce."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from zscout.cli.options import JsonFile, Quick


@dataclass(frozen=True)
class Reproduce:
    """Compute and draw the paper's figures: so far features, policies (in three worlds) and training."""

    out: Path = Path("out")
    """Folder for the results; made when it is not there."""
    seed: int = 0
    """Decides the random task vectors and where the trajectories start."""
    quick: Quick = False
    """Only the paper's own world, for a first look."""
    json: JsonFile = None
    """Also write every number that is drawn to this file, and make its folder."""

    def run(self, console: Console) -> None:
        """Compute, draw, say where."""
        from rich.progress import track

        from zscout.files import write_json
        from zscout.lab.paper import FIGURES, training_figure
        from zscout.lab.stored import stored_trainings
        from zscout.report.figures import draw_curves, draw_panels, save_figure

        figures = FIGURES[:1] if self.quick else FIGURES
        numbers: list[dict[str, Any]] = []
        written: list[Path] = []
        curves = training_figure(stored_trainings())
        numbers.append(curves.to_json())
        written += save_figure(draw_curves(curves), self.out / "figures", curves.name)
        for figure in track(figures, "Features and trajectories", console=console, transient=True):
            table = figure.compute(self.seed)
            numbers.append(table.to_json())
            written += save_figure(draw_panels(table), self.out / "figures", table.name)
        if self.json is not None:
            written.append(write_json(self.json, {"seed": self.seed, "figures": numbers}))
        for path in written:
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)
