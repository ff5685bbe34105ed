"""zscout chart."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from zscout.base.hints import known_name
from zscout.cli.parts.options import DataPath, Quick, Usual, device_named, model_for, usage_errors
from zscout.cli.parts.output import say, writable_folder
from zscout.cli.parts.progress import bar_with_time_left, stopped, stored_data
from zscout.worlds.registry import PLACES, of_kind


def charted() -> list[str]:
    """The places in which models can be charted."""
    return list(of_kind("point", "body"))


@dataclass(frozen=True)
class Chart:
    """Follow a model's behaviours once, or read them off your data, and keep what they do: an atlas.

    Resumes if interrupted; with --data, no simulator is needed.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]  # Folder for atlas.safetensors.
    world: Annotated[str, tyro.conf.arg(help=f"{', '.join(charted())}.")] = Usual("walker")
    data: DataPath = None
    layout: str = ""  # Of --data: exorl, d4rl, ogbench, minari, metamotivo or plain; default: as the files say.
    model: str = ""  # A shipped model's name, a folder, or hf://owner/name; default: the world's shipped model.
    behaviours: int = 2048  # Number of z: half of sample_z and of random smooth rewards, half children of the best.
    starts: int = 6  # Starts from which each is followed; with --data, segments of each, on average at least.
    steps: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Actions from each start, of which the first fifth is not counted; default: 300, with --data 100, or
    fewer if those do not show 64 behaviours."""
    seed: int = 0  # Seed of the z, the starts and the features.
    device: str = "cpu"  # cpu or cuda, for the networks.
    overwrite: Quick = False  # Replace what is in --out: a finished atlas, or one that was stopped.
    quick: Quick = False  # Quick test: 8 behaviours, 2 starts, 20 steps; do not use the atlas.

    def run(self, console: Console) -> None:
        """Chart with a progress bar, then save."""
        from zscout.transfer.atlas.resuming import check_finished

        with usage_errors():
            check_finished(self.out, self.overwrite)
            device_named(self.device)
            if self.layout and self.data is None:
                raise ValueError("--layout applies to --data only")
            run = self._charting() if self.data is None else self._reading(console)
        if run.resumed:
            say(console, f"resuming in {self.out}")
        told = 0
        with bar_with_time_left(console) as bar:
            task = bar.add_task("charting", total=run.total)
            try:
                for done in run:
                    bar.update(task, completed=done)
                    if bar.disable and done * 20 // run.total > told:  # lines, not a bar, in a log file
                        told = done * 20 // run.total
                        say(console, f"{done:,} of {run.total:,} {'steps' if self.data is None else 'segments'}")
            except KeyboardInterrupt as stop:
                same = "the same command without --overwrite" if self.overwrite else "the same command again"
                stopped(f"stopped; run {same} to resume", stop)
        atlas = run.atlas()
        if self.data is not None:
            from zscout.models.data.dataset import STORED, discard

            discard(self.out / STORED)
        size = (self.out / "atlas.safetensors").stat().st_size / 2**20
        say(console, f"wrote {self.out}: {atlas}, {size:.2f} MB")
        start = f"the start decides {atlas.start_share:.0%} of what a behaviour does"
        use = "uses" if atlas.is_steady else "does not use"
        say(console, f"{start}, so the default {use} this atlas; it keeps a z for {atlas.hold} steps")

    def _charting(self) -> Any:
        import zscout
        from zscout.transfer.atlas.charting import Charting

        place = PLACES[known_name(self.world, charted(), "world to chart")]
        writable_folder(self.out)
        model = zscout.load(model_for(place, self.model or Usual()), self.device)
        about = getattr(model, "about", {})
        world = place.make(**({"repeat": about["repeat"]} if "repeat" in about else {}))
        if model.observation_space.shape != world.observation_space.shape:
            raise ValueError(
                f"{self.model} is a model of another world: its observations differ from the {self.world}'s"
            )
        behaviours, starts, steps = self._size()
        steps, replace = 300 if steps is None else steps, self.overwrite
        return Charting(model, world, behaviours, starts, steps, self.seed, folder=self.out, overwrite=replace)

    def _size(self) -> tuple[int, int, int | None]:
        return (8, 2, 20) if self.quick else (self.behaviours, self.starts, self.steps)

    def _reading(self, console: Console) -> Any:
        """The same from recorded trajectories."""
        import zscout
        from zscout.models.data.dataset import STORED
        from zscout.transfer.atlas.trajectories import SegmentCharting

        if not self.model or not isinstance(self.world, Usual):
            raise ValueError("--data needs --model and no --world: whose behaviours does the data show?")
        writable_folder(self.out)
        model = zscout.load(self.model, self.device)
        assert self.data is not None
        with stored_data(console, self.data, self.out / STORED, self.layout) as data:
            wanted, found = model.observation_space.shape, data.next_obs.shape[1:]
            if wanted != found:
                raise ValueError(f"{self.model} has observations {wanted}, the data has {found}")
            run = SegmentCharting(
                model, data.trajectories, lambda rows: data.next_obs[rows], *self._size(), self.seed, folder=self.out
            )
        say(console, f"segments of {run.steps} steps")
        return run
