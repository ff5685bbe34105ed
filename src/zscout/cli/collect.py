"""zscout collect."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from zscout.base.hints import known_name
from zscout.cli.parts.options import Quick, device_named, usage_errors
from zscout.cli.parts.output import UsageError, say, writable_folder
from zscout.cli.parts.progress import bar_with_time_left, stopped
from zscout.worlds.registry import PLACES, of_kind


@dataclass(frozen=True)
class Collect:
    """Make a fixed set of reward-free transitions of a world: a folder for pretrain --data."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]  # Folder for the .npz files: obs, action, next_obs, terminated.
    world: Annotated[str, tyro.conf.arg(help=f"{', '.join(of_kind('point', 'body'))}.")] = "walker"
    transitions: int = 1_000_000  # How many.
    # Of bodies: updates of an FB model that explores, for each step of all bodies; 0: random controls only. The point
    # maze has random forces only.
    updates: int = 0
    set: tuple[str, ...] = ()  # Changes to the recipe of a body, e.g. bodies=64 episode=200.
    seed: int = 0  # Seed of starts, controls and weights.
    device: str = "cpu"  # cpu or cuda, for the exploring model.
    quick: Quick = False  # Quick test: 2,000 transitions, 8 bodies.

    def run(self, console: Console) -> None:
        """Collect with a progress bar."""
        from zscout.lab.training.collecting import collect
        from zscout.lab.training.fb import FBPretraining

        with usage_errors():
            device_named(self.device)
            place = PLACES[known_name(self.world, of_kind("point", "body"), "world to collect in")]
            if place.kind == "point" and (self.updates or self.set):
                raise UsageError(f"--updates and --set do not apply to --world {self.world}: it has random forces")
            writable_folder(self.out)
            if any(self.out.glob("*.npz")):
                raise UsageError(f"{self.out} holds data already; collect into another folder")
            total, changes = (2_000, (*self.set, "bodies=8")) if self.quick else (self.transitions, self.set)
            what = FBPretraining(
                world=self.world,
                changes=changes if place.kind == "body" else (),
                seed=self.seed,
                device=self.device,
                quick=self.quick,
            )
            what.build_recipe()
            run = collect(what, self.out, total, self.updates)
            done = next(run)
        told = 0
        with bar_with_time_left(console) as bar:
            task = bar.add_task("collecting", total=total, completed=done)
            try:
                for done in run:
                    bar.update(task, completed=done)
                    if not console.is_terminal and done * 10 // total > told:  # lines in a log file
                        told = done * 10 // total
                        say(console, f"{done:,} of {total:,} transitions")
            except KeyboardInterrupt as stop:
                stopped(f"stopped; delete {self.out} before you collect again", stop)
        say(console, f"wrote {self.out}: {done:,} transitions of the {self.world}")
