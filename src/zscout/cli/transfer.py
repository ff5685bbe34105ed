"""zscout transfer."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from zscout.cli.options import OutputFile, Quick, Usual, check_world, usage_errors
from zscout.cli.output import UsageError, fail, say, writable, write_files

if TYPE_CHECKING:
    from zscout.lab.viewer import Frame, Scene


@dataclass(frozen=True)
class Transfer:
    """Watch one run step by step: the world, the method's estimate of the reward, and the value it gets."""

    world: str = "open-grid"  # open-grid, four-rooms, maze, a text file with a map of '#' and '.'; or point-maze.
    features: str = Usual("laplacian")
    """clusters, laplacian, or module:name: your table, or a function of the world; not for point-maze."""
    model: str = Usual("network")
    """exact, network (the shipped one), the name or folder of a saved model, or module:name of your own; for
    point-maze pointmaze-fb, or a folder."""
    method: str = "usf-ucb"  # A method of zscout compare, or module:name of your own.
    task: str = "0"
    """The number of a task of zscout compare, 0 to 99; or z_r itself, comma-separated: --task=1,0,0,0,0,0,0,0,-1. In
    point-maze also a kind of reward (goal, region, direction, avoid, velocity) and a number: --task "goal 12"."""
    noise: float = 0.3  # Standard deviation of the reward noise.
    steps: int | None = None  # Steps of the run; by default 100, in point-maze 210, which are three episodes.
    seed: int = 0  # Seed of the start, the noise and the method.
    speed: float = 8.0  # Steps per second in the terminal; 0: no limit.
    gif: OutputFile = None  # Also write the run to this file as an animated GIF; creates its folder.
    quick: Quick = False  # Quick test: at most 20 steps, without pauses.
    json: OutputFile = None  # Also write the numbers of every step to this file; creates its folder.

    def run(self, console: Console) -> None:
        """Run, show, write the requested files; when stopped, write the steps so far."""
        import torch

        from zscout.edge import as_size, in_range
        from zscout.lab import grid_viewer, point_viewer
        from zscout.lab.grid_arena import GridArena
        from zscout.lab.point_arena import POINT_MAZE, PointArena

        torch.set_num_threads(1)  # small tensors: more threads are slower
        with usage_errors():
            point_maze = self.world == POINT_MAZE
            usual = point_viewer.STEPS if point_maze else 100
            steps = as_size(usual if self.steps is None else self.steps, "steps", 1)
            steps = min(steps, 20) if self.quick else steps
            speed = 0.0 if self.quick else in_range(self.speed, "speed", 0.0, math.inf, open_end=True)
            if self.gif is not None and self.gif.suffix.lower() != ".gif":
                raise UsageError(f"--gif must end in .gif, got {self.gif}")
            writable(self.gif, self.json)
            if point_maze:
                if not isinstance(self.features, Usual):
                    raise UsageError(f"--features {self.features} does not apply to --world {POINT_MAZE}")
                model = PointArena.model if isinstance(self.model, Usual) else self.model
                spec = point_viewer.run_named(
                    model, self.method, self.task, noise=self.noise, seed=self.seed, steps=steps
                )
            else:
                check_world(self.world, POINT_MAZE)
                arena = GridArena(self.world, str(self.features), str(self.model))
                spec = grid_viewer.run_named(
                    arena, self.method, self.task, noise=self.noise, seed=self.seed, steps=steps
                )
        scene, frames = (point_viewer if point_maze else grid_viewer).watch_run(spec)
        if scene.about:
            say(console, scene.about)
        seen: list[Frame] = []
        try:
            _show(scene, frames, seen, steps, 1 / speed if speed else 0.0, console)
        except KeyboardInterrupt:
            self._write(scene, seen, console)
            fail(f"stopped after {len(seen)} of {steps} steps", code=130)
        self._write(scene, seen, console)

    def _write(self, scene: "Scene", seen: "list[Frame]", console: Console) -> None:
        if not seen:
            return
        content = {"run": scene.spec.to_json(), "steps": [frame.numbers for frame in seen]}
        write_files(console, (self.json, content))
        if self.gif is not None:
            from zscout.report.animation import write_gif

            with console.status("drawing"):
                path = write_gif(self.gif, scene, seen)
            say(console, f"wrote {path}")


def _show(
    scene: "Scene", frames: "Iterable[Frame]", seen: "list[Frame]", steps: int, pause: float, console: Console
) -> None:
    """Redraw each frame in a terminal, else print every tenth as a line; appends frames to ``seen``."""
    from rich.live import Live

    from zscout.report.terminal import View, plain_line

    if not console.is_interactive:
        for frame in frames:
            seen.append(frame)
            if frame.step % 10 == 0 or frame.step == steps:
                say(console, plain_line(frame, steps))
        return
    due = time.monotonic()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for frame in frames:
            seen.append(frame)
            live.update(View(scene, seen, steps), refresh=True)
            due = max(due + pause, time.monotonic())  # do not catch up after a slow step
            time.sleep(max(due - time.monotonic(), 0.0))
