"""zscout transfer."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console

from zscout.cli.parts.options import OPEN_GRID, OutputFile, Quick, Usual, World, check_world, model_for, usage_errors
from zscout.cli.parts.output import UsageError, fail, say, writable, write_files
from zscout.worlds.registry import PLACES, of_kind

if TYPE_CHECKING:
    from zscout.lab.runs.spec import Spec
    from zscout.watch.body import BodyFrame, BodyScene
    from zscout.watch.viewer import Frame, Scene

    AnyScene: TypeAlias = Scene | BodyScene
    AnyFrame: TypeAlias = Frame | BodyFrame


@dataclass(frozen=True)
class Transfer:
    """Watch one run step by step: the world, the method's estimate of the reward, and the value it gets."""

    world: World = OPEN_GRID
    features: str = Usual("laplacian")
    """clusters, laplacian, or your table [S d], a row for each state, in a .npy file; only for grids."""
    # exact, network (the shipped one), or a saved model's name or folder; of point-maze and bodies only the last.
    model: str = Usual("network")
    method: str = "usf-ucb"  # A method of zscout compare.
    task: str = "0"
    """The number of a task of zscout compare, 0 to 99; or z_r itself, comma-separated: --task=1,0,0,0,0,0,0,0,-1. In
    point-maze also a kind of reward (goal, region, direction, avoid, velocity) and a number: --task "goal 12"; of a
    body also its name: --task run."""
    noise: float = 0.3  # Standard deviation of the reward noise.
    steps: int | None = None  # Steps of the run; by default 100, in point-maze three episodes, of a body two.
    seed: int = 0  # Seed of the start, the noise and the method.
    speed: float = 8.0  # Steps per second in the terminal; 0: no limit.
    gif: OutputFile = None  # Also write the run to this file as an animated GIF; creates its folder.
    quick: Quick = False  # Quick test: at most 20 steps, without pauses.
    json: OutputFile = None  # Also write the numbers of every step to this file; creates its folder.

    def run(self, console: Console) -> None:
        """Run, show, write the requested files; when stopped, write the steps so far."""
        import torch

        from zscout.base.edge import in_range

        torch.set_num_threads(1)  # small tensors: more threads are slower
        with usage_errors():
            speed = 0.0 if self.quick else in_range(self.speed, "speed", 0.0, math.inf, open_end=True)
            if self.gif is not None and self.gif.suffix.lower() != ".gif":
                raise UsageError(f"--gif must end in .gif, got {self.gif}")
            writable(self.gif, self.json)
            spec, watch_run = self._spec()
        steps = spec.steps
        scene, frames = watch_run(spec)
        if scene.about:
            say(console, scene.about)
        seen: list[AnyFrame] = []
        try:
            _show(scene, frames, seen, steps, 1 / speed if speed else 0.0, console)
        except KeyboardInterrupt:
            self._write(scene, seen, console)
            fail(f"stopped after {len(seen)} of {steps} steps", code=130)
        self._write(scene, seen, console)

    def _spec(self) -> "tuple[Spec, Callable[[Spec], tuple[AnyScene, Iterator[AnyFrame]]]]":
        """The run, and what shows it."""
        from zscout.lab.arenas.grid import GridArena
        from zscout.watch import body as body_viewer
        from zscout.watch import grid as grid_viewer
        from zscout.watch import point as point_viewer

        def asked(default: int) -> dict[str, Any]:
            steps = default if self.steps is None else self.steps
            return {"noise": self.noise, "seed": self.seed, "steps": min(steps, 20) if self.quick else steps}

        check_world(self.world, PLACES)
        if (place := of_kind("point", "body").get(self.world)) is None:
            arena = GridArena(str(self.world), str(self.features), str(self.model))
            return grid_viewer.run_named(arena, self.method, self.task, **asked(100)), grid_viewer.watch_run
        if not isinstance(self.features, Usual):
            raise UsageError(f"--features {self.features} does not apply to --world {self.world}")
        names = model_for(place, self.model), self.method, self.task
        if place.kind == "point":
            return point_viewer.run_named(*names, **asked(point_viewer.STEPS)), point_viewer.watch_run
        steps = asked(body_viewer.default_steps(self.world, names[0]))
        return body_viewer.run_named(self.world, *names, **steps), body_viewer.watch_run

    def _write(self, scene: "AnyScene", seen: "list[Any]", console: Console) -> None:
        if not seen:
            return
        content = {"run": scene.spec.to_json(), "steps": [frame.numbers for frame in seen]}
        write_files(console, (self.json, content))
        if self.gif is not None:
            from zscout.watch.animation import write_gif
            from zscout.watch.body import BodyScene
            from zscout.watch.body_animation import write_body_gif

            with console.status("drawing"):
                if isinstance(scene, BodyScene):
                    path = write_body_gif(self.gif, scene, seen)
                else:
                    path = write_gif(self.gif, scene, seen)
            say(console, f"wrote {path}")


def _show(
    scene: "AnyScene", frames: "Iterable[AnyFrame]", seen: "list[Any]", steps: int, pause: float, console: Console
) -> None:
    """Redraw each frame in a terminal, else print every tenth as a line; appends frames to ``seen``."""
    from rich.live import Live

    from zscout.watch.terminal import View, plain_line

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
