"""Options that commands share, and their checks."""

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from zscout.base.hints import MissingExtraError, known_name
from zscout.cli.parts.output import UsageError, writable, write_files
from zscout.worlds.registry import Place, of_kind

if TYPE_CHECKING:
    from zscout.lab.arenas.arena import Arena
    from zscout.lab.compare.tables import TextTable
    from zscout.lab.runs.executor import Executor

OutputFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
Jobs = Annotated[int | None, tyro.conf.arg(metavar="INT")]
Runner = Annotated[str, tyro.conf.arg(metavar="{local,ray}")]
Address = Annotated[str, tyro.conf.arg(metavar="HOST:PORT")]
Quick = tyro.conf.FlagCreatePairsOff[bool]
ABOUT_DATA = "A folder of episodes, or a file: ExORL, D4RL, OGBench, Minari, metamotivo, or plain .npz or Parquet."
DataPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help=ABOUT_DATA)]


GRIDS, BODIES = (", ".join(of_kind(kind)) for kind in ("grid", "body"))
MAPS = f"{GRIDS}, or a text file with a map of '#' and '.'; point-maze"
World = Annotated[str, tyro.conf.arg(help=f"{MAPS}; or a body: {BODIES}.")]
ABOUT_REWARDS = (
    f"{MAPS}: continuous, with goals, regions, directions, velocities; "
    f"{BODIES}: the suite's tasks; walker-held-out …: other tasks; point-maze-linear, walker-linear …: rewards φ·z_r."
)
WorldAndRewards = Annotated[str, tyro.conf.arg(aliases=["--arena"], help=ABOUT_REWARDS)]


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn errors during the setup of a command into usage errors."""
    try:
        yield
    except (MissingExtraError, ValueError) as error:
        raise UsageError(str(error)) from error


def names_of(text: str, option: str = "--methods", example: str = "usf-ucb,opti") -> list[str]:
    """Parse comma-separated names."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"{option} is empty; expected names such as {example}, or all")
    return names


def device_named(name: str) -> str:
    """The device; raises if it is not available."""
    import torch

    from zscout.base.edge import as_device

    if name.split(":")[0] not in ("cpu", "cuda"):
        raise UsageError(f"--device {name}: expected cpu or cuda")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device here; leave --device out, or write --device cpu")
    as_device(name)
    return name


def check_world(name: str, known: Collection[str]) -> None:
    """Raise unless the name is known or that of a map file."""
    if name in known or Path(name).is_file():
        return
    if "." in name or os.sep in name:
        raise UsageError(f"there is no file {name!r}: expected a map file, or one of the worlds {', '.join(known)}")
    known_name(name, known, "world", ", or a map file")


class Usual(str):
    """Marks a default value, to tell it from the same text given by the user."""

    __slots__ = ()


OPEN_GRID = Usual("open-grid")  # the default world


def model_for(place: Place, given: str) -> str:
    """The model that the user gave, else the shipped one; raises if there is none."""
    if not isinstance(given, Usual):
        return given
    if not place.model:
        raise UsageError(f"no model of the {place.name} ships: pass the folder of a trained one as --model")
    return place.model


def _with_rewards() -> dict[str, tuple[Place, str]]:
    """Places that are no grids with each kind of rewards: walker, walker-held-out …; the first kind has no ending."""
    from zscout.lab.arenas.body import BodyArena
    from zscout.lab.arenas.point import PointArena

    kinds = {"point": PointArena.kinds, "body": BodyArena.kinds}
    return {
        name if rewards == kinds[place.kind][0] else f"{name}-{rewards}": (place, rewards)
        for name, place in of_kind("point", "body").items()
        for rewards in kinds[place.kind]
    }


@dataclass(frozen=True)
class ArenaOptions:
    """The world, its model and its rewards."""

    world: WorldAndRewards = OPEN_GRID
    features: str = Usual("laplacian")
    """clusters, laplacian, laplacian-fine, or your table [S d], a row for each state, in a .npy file."""
    model: str = Usual("exact")
    """exact, network (the shipped one), or the name or folder of a saved model."""
    # linear: φ·z_r. In grid worlds also patch: 1 on a random 2×2 patch, 0 elsewhere; decoy: and a second, nearer
    # patch worth half; both with laplacian-fine features unless you name others.
    rewards: str = Usual("linear")
    noise: float = 0.3  # Standard deviation of the reward noise.

    def build(self, device: str = "cpu") -> "Arena":
        """The arena by its names."""
        from zscout.lab.arenas.body import BodyArena
        from zscout.lab.arenas.grid import GridArena
        from zscout.lab.arenas.patches import DECOY, PATCH, PatchArena
        from zscout.lab.arenas.point import PointArena

        device, others = device_named(device), _with_rewards()
        check_world(self._grid, (*of_kind("grid"), *others))
        if self.world not in others:
            if known_name(self.rewards, ("linear", PATCH, DECOY), "kind of rewards,") != "linear":
                names = self._grid, self._features, str(self.model)
                return PatchArena(*names, device=device, rewards=str(self.rewards))
            return GridArena(self._grid, str(self.features), str(self.model), device=device)
        for name, value in (("features", self.features), ("rewards", self.rewards)):
            if not isinstance(value, Usual):
                raise UsageError(f"--{name} {value} does not apply to --world {self.world}")
        place, rewards = others[self.world]
        model = model_for(place, self.model)
        if place.kind == "point":
            return PointArena(model, rewards, device=device)
        return BodyArena(model, rewards, device=device, body=place.name)

    @property
    def title(self) -> str:
        """World, features and model, for titles of tables."""
        if self.world in _with_rewards():
            return self.world
        rewards = "" if self.rewards == "linear" else f", {self.rewards} rewards"
        return f"{self._grid}, {self._features} features, {self.model} model{rewards}"

    @property
    def _grid(self) -> str:
        return str(OPEN_GRID if self.world == "grid" else self.world)

    @property
    def _features(self) -> str:
        """The features; patches need fine ones."""
        fine = self.rewards != "linear" and isinstance(self.features, Usual)
        return "laplacian-fine" if fine else str(self.features)


@dataclass(frozen=True)
class DifficultyOptions:
    """What makes tasks harder than the method assumes."""

    outside: float = 0.0  # Share of the reward's variance over states that the features cannot express.
    offset: float = 0.0  # A constant added to every reward; it does not change the best behaviour.


@dataclass(frozen=True)
class ComputingOptions:
    """Where runs are computed."""

    jobs: Jobs = None  # Number of worker processes (default: 1); with --runner ray, of cores (default: all).
    runner: Runner = "local"  # local processes, or ray (an extra).
    address: Address = ""  # With --runner ray: a running cluster; without it, one is started on this machine.
    device: str = "cpu"  # cpu or cuda.

    def executor(self) -> "contextlib.closing[Executor]":
        """What computes the runs, closed at its end."""
        if self.runner == "ray" and self.device != "cpu":
            raise UsageError(f"--device {self.device} does not apply to --runner ray, which uses CPU cores")
        from zscout.lab.runs.executor import executor_named

        return contextlib.closing(executor_named(self.runner, jobs=self.jobs, address=self.address))


@dataclass(frozen=True)
class FileOptions:
    """Files to write besides the table; their folders are created."""

    json: OutputFile = None  # The table, the numbers and the seed of every run.
    csv: OutputFile = None  # The table as CSV.
    markdown: OutputFile = None  # The table as Markdown.

    def check(self) -> None:
        """Raise if one of them cannot be written."""
        writable(self.json, self.csv, self.markdown)

    def write(self, console: Console, tables: "Sequence[TextTable]", content: dict[str, Any], csv: str) -> None:
        """Write the results to the requested files."""
        from zscout.lab.compare.tables import to_markdown

        markdown = "\n".join(map(to_markdown, tables)).encode()
        write_files(console, (self.json, content), (self.csv, csv.encode()), (self.markdown, markdown))


# Groups of options: a title of their own in --help, no prefix in their names.
InArena = tyro.conf.OmitArgPrefixes[ArenaOptions]
WithDifficulty = tyro.conf.OmitArgPrefixes[DifficultyOptions]
WithComputing = tyro.conf.OmitArgPrefixes[ComputingOptions]
WithFiles = tyro.conf.OmitArgPrefixes[FileOptions]
ARENA, DIFFICULTY, COMPUTING, FILES = ArenaOptions(), DifficultyOptions(), ComputingOptions(), FileOptions()
Methods = Annotated[str, tyro.conf.arg(help="Comma-separated names, or all.")]
ABOUT_SETTINGS = (
    "auto: defaults for usf-ucb and usf-ucb-norm, stored tuned settings for the other methods where this arena has "
    "them. settling (or tuned): tuned settings for all methods, fewest lost steps among those that settle in 95 % of "
    "runs. fewest: the same without that condition. default: published settings. Or a JSON file: the one of zscout "
    'tune, or {"method": {"setting": value}}; methods it does not name run as with auto.'
)
Settings = Annotated[str, tyro.conf.arg(help=ABOUT_SETTINGS)]
COMPARED = "usf-ucb,usf-ucb-norm,usf-ucb-paper,greedy,random"
