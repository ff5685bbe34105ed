"""zscout transfer."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from zscout.cli.mistakes import UsageError, fail, usage_errors
from zscout.cli.options import OutputFile, Quick, writable

if TYPE_CHECKING:
    from zscout.lab.viewer import Frame, Scene

EVERY = 10  # steps between two lines where nothing can be redrawn


@dataclass(frozen=True)
class Transfer:
    """Watch one run: the world, what the method expects of it, and what that is worth, step by step."""

    world: str = "open-grid"
    """open-grid, four-rooms, maze, or a text file with a map of '#' and '.'."""
    features: str = "laplacian"
    """clusters, laplacian, or your own as module:name: a table, or a function of the world."""
    model: str = "network"
    """exact, network (the one that ships), the name or folder of a saved model, or your own as module:name."""
    method: str = "usf-ucb"
    """One of the methods that zscout compare knows, or your own as module:name."""
    task: str = "0"
    """The number of one of compare's tasks, 0 to 99; or z_r itself, numbers with commas: --task=1,0,0,0,0,0,0,0,-1."""
    noise: float = 0.3
    """Standard deviation of the rewards' noise."""
    steps: int = 100
    """Rewards that the run sees."""
    seed: int = 0
    """Decides the start, the noise and what the method draws."""
    speed: float = 8.0
    """Steps a second in the terminal; 0: as fast as it goes."""
    gif: OutputFile = None
    """Also write the run to this file, an animated GIF, and make its folder."""
    quick: Quick = False
    """At most 20 steps, as fast as it goes."""
    json: OutputFile = None
    """Also write every step's numbers to this file, and make its folder."""

    def run(self, console: Console) -> None:
        """Run, show, write what was asked for; a stop writes what was seen."""
        import torch

        from zscout.edge import as_size, in_range
        from zscout.lab.arena import Arena
        from zscout.lab.viewer import run_named, watch_run

        torch.set_num_threads(1)  # these tensors are small: a second thread costs more than it gives
        with usage_errors():
            steps = as_size(self.steps, "steps", 1)
            steps = min(steps, 20) if self.quick else steps
            speed = 0.0 if self.quick else in_range(self.speed, "speed", 0.0, math.inf, open_end=True)
            self._check_files()
            arena = Arena(self.world, self.features, self.model)
            named = (arena, self.method, self.task)
            spec = run_named(*named, noise=self.noise, seed=self.seed, steps=steps)
        scene, frames = watch_run(spec)
        seen: list[Frame] = []
        try:
            _show(scene, frames, seen, steps, 1 / speed if speed else 0.0, console)
        except KeyboardInterrupt:
            self._write(scene, seen, console)
            fail(f"stopped after {len(seen)} of {steps} steps", code=130)
        self._write(scene, seen, console)

    def _check_files(self) -> None:
        """Before the run: a run that cannot be kept should not be begun."""
        if self.gif is not None and self.gif.suffix.lower() != ".gif":
            raise UsageError(f"--gif names a file that ends in .gif, got {self.gif}")
        writable(self.gif, self.json)

    def _write(self, scene: "Scene", seen: "list[Frame]", console: Console) -> None:
        if not seen:
            return
        written: list[Path] = []
        if self.json is not None:
            from zscout.files import write_json

            content = {"run": scene.spec.to_json(), "steps": [frame.to_json() for frame in seen]}
            written.append(write_json(self.json, content))
        if self.gif is not None:
            from zscout.report.animation import write_gif

            with console.status("drawing"):
                written.append(write_gif(self.gif, scene, seen))
        for path in written:
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def _show(
    scene: "Scene", frames: "Iterable[Frame]", seen: "list[Frame]", steps: int, pause: float, console: Console
) -> None:
    """Each frame in its place in a terminal, else a line for every tenth; ``seen`` grows as they come."""
    from rich.live import Live

    from zscout.report.terminal import View, plain_line

    if not console.is_interactive:
        for frame in frames:
            seen.append(frame)
            if frame.step % EVERY == 0 or frame.step == steps:
                console.print(plain_line(frame, steps), highlight=False, soft_wrap=True)
        return
    due = time.monotonic()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for frame in frames:
            seen.append(frame)
            live.update(View(scene, seen, steps), refresh=True)
            due = max(due + pause, time.monotonic())  # a step that took long is not made up for
            time.sleep(max(due - time.monotonic(), 0.0))
