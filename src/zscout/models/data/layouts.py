"""Public layouts of reward-free data, each as transitions in blocks; the layout is detected from the files."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from zscout.base.hints import known_name
from zscout.models.data.tables import Hdf5Table, NpzTable, ParquetTable, Table, opened_hdf5

HDF5 = (".hdf5", ".h5")
ENDINGS = (".npz", ".parquet", *HDF5)
MINARI, METAMOTIVO = "episode_", "ep_"  # names of their groups, before a number


@dataclass(frozen=True, eq=False)
class Piece:
    """Some transitions in order."""

    obs: np.ndarray  # [n k]
    action: np.ndarray  # [n a], or [n] whole numbers
    next_obs: np.ndarray  # [n k]
    terminated: np.ndarray  # [n]: the episode terminated in next_obs
    end: np.ndarray  # [n]: the next transition is of another trajectory


Pieces: TypeAlias = Iterator[Piece]
Block: TypeAlias = tuple[np.ndarray, ...]


def data_files(path: Path) -> list[Path]:
    """The data files of a folder and of folders in it, sorted; or the one file."""
    if not path.exists():
        raise ValueError(f"there is no {path}: expected a folder of episodes, or a file")
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    found = [one for one in files if one.suffix in ENDINGS]
    if not found:
        raise ValueError(f"{path} holds no data: expected files that end with {', '.join(ENDINGS)}")
    if len({one.suffix in HDF5 or one.suffix for one in found}) > 1:
        raise ValueError(f"{path} holds files of several kinds: {', '.join(sorted({one.suffix for one in found}))}")
    return found


def layout_of(file: Path, asked: str = "") -> str:
    """The name of the layout of a file: the one asked for, or the first whose arrays it has."""
    if asked:
        return known_name(asked, LAYOUTS, "layout")
    with ExitStack() as stack:
        table = _table(file, stack)
        for name, layout in LAYOUTS.items():
            if layout.fits(table):
                return name
    wanted = "; ".join(f"{name}: {layout}" for name, layout in LAYOUTS.items())
    raise ValueError(
        f"{file} has {', '.join(table.fields)[:200] or 'no arrays'}, which is no known layout. Expected {wanted}"
    )


def pieces_of(file: Path, layout: str) -> Pieces:
    """The transitions of a file."""
    with ExitStack() as stack:
        yield from LAYOUTS[layout].read(_table(file, stack))


# Layouts


class Layout(NamedTuple):
    """How transitions lie in a file."""

    arrays: tuple[str, ...]
    read: Callable[[Any], Pieces]
    groups: str = ""  # of HDF5, one for each episode: their names, before a number

    def fits(self, table: Table) -> bool:
        """Whether the file has its groups or arrays."""
        return bool(self.groups and _groups(table, self.groups)) or set(self.arrays) <= table.fields.keys()

    def __str__(self) -> str:
        return (f"groups {self.groups}0 … with " if self.groups else "") + ", ".join(self.arrays)


def _exorl(table: Table) -> Pieces:
    """One episode; row 0 of action and discount is a dummy: row t leads to observation t."""
    for (obs, action, discount), (next_obs, *_) in _pairs(table.blocks(["observation", "action", "discount"])):
        yield _piece(obs[:-1], action[1:], next_obs, np.reshape(discount[1:], -1) == 0)


def _ogbench(table: Table) -> Pieces:
    """Trajectories one after the other; a terminal row is the last of one, and its action leads nowhere."""
    names = ["observations", "actions", "terminals"]
    if "next_observations" in table.fields:
        for obs, action, last, next_obs in table.blocks([*names, "next_observations"]):
            yield _piece(obs, action, next_obs, np.zeros(len(obs), bool), np.reshape(last, -1) != 0)
        return
    for (obs, action, last), (next_obs, *_) in _pairs(table.blocks(names)):
        ends = np.reshape(last, -1) != 0
        kept = ~ends[:-1]
        nowhere = np.zeros(int(kept.sum()), bool)
        yield _piece(obs[:-1][kept], action[:-1][kept], next_obs[kept], nowhere, ends[1:][kept])


def _minari(file: Hdf5Table) -> Pieces:
    """A group for each episode."""
    return _episodes(file, MINARI, "observations", "actions", "terminations")


def _metamotivo(file: Hdf5Table) -> Pieces:
    """A group for each episode; or a buffer of transitions, whose next ones may be in a group."""
    if _groups(file, METAMOTIVO):
        yield from _episodes(file, METAMOTIVO, "observation", "action", "terminated")
        return
    inner = "next/" if "next/observation" in file.fields else "next_"
    names, over = ["observation", "action", f"{inner}observation"], "next/terminated"
    yield from _transitions(file, [*names, over] if over in file.fields else names)


def _plain(table: Table) -> Pieces:
    """Transitions; with truncated, those end a trajectory, too."""
    names = ["obs", "action", "next_obs", "terminated"]
    return _transitions(table, [*names, "truncated"] if "truncated" in table.fields else names)


LAYOUTS = {
    "exorl": Layout(("observation", "action", "discount"), _exorl),
    "ogbench": Layout(("observations", "actions", "terminals"), _ogbench),
    "minari": Layout(("observations", "actions", "terminations"), _minari, MINARI),
    "metamotivo": Layout(("observation", "action"), _metamotivo, METAMOTIVO),
    "plain": Layout(("obs", "action", "next_obs", "terminated"), _plain),
}
"""By name; the first that fits is taken."""


# Parts


def _table(file: Path, stack: ExitStack) -> Table:
    if file.suffix in HDF5:
        return stack.enter_context(opened_hdf5(file))
    return ParquetTable(file) if file.suffix == ".parquet" else NpzTable(file)


def _groups(table: Table, prefix: str) -> list[str]:
    """The groups whose names are the prefix and a number, in the order of their numbers."""
    found = {name.partition("/")[0] for name in table.fields if "/" in name}
    return sorted(
        (name for name in found if name.startswith(prefix) and name[len(prefix) :].isdecimal()),
        key=lambda name: int(name[len(prefix) :]),
    )


def _episodes(file: Hdf5Table, prefix: str, obs: str, action: str, terminated: str) -> Pieces:
    """Observations are as many as actions, or one more; an episode is read whole."""
    if not (groups := _groups(file, prefix)):
        raise ValueError(f"{file.name} has no groups {prefix}0, {prefix}1 …")
    for group in groups:
        table = file.inner(group)
        seen = table.whole(f"{obs}/observation" if f"{obs}/observation" in table.fields else obs)
        done = table.whole(action)
        if len(done) not in (len(seen), len(seen) - 1):
            raise ValueError(f"{table.name} has {len(seen)} observations and {len(done)} actions, expected one less")
        n = len(seen) - 1
        over = table.whole(terminated)[:n] if terminated in table.fields else np.zeros(n, bool)
        if len(over) != n:
            raise ValueError(f"{table.name} has {len(over)} entries in {terminated}, expected {n}")
        yield _piece(seen[:-1], done[:n], seen[1:], np.reshape(over, -1) != 0, np.arange(n) == n - 1)


def _transitions(table: Table, names: Sequence[str]) -> Pieces:
    for obs, action, next_obs, *flags in table.blocks(names):
        over, *cut = [np.reshape(flag, -1) != 0 for flag in flags] or [np.zeros(len(obs), bool)]
        yield _piece(obs, action, next_obs, over, cut[0] if cut else None)


def _pairs(blocks: Iterator[Block]) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Each block with the last row of the one before, and the same without its first row."""
    before: list[np.ndarray] = []
    for block in blocks:
        joined = [np.concatenate(parts) for parts in zip(before, block, strict=True)] if before else list(block)
        before = [part[-1:] for part in joined]
        if len(joined[0]) > 1:
            yield joined, [part[1:] for part in joined]


def _piece(
    obs: np.ndarray, action: np.ndarray, next_obs: np.ndarray, over: np.ndarray, end: np.ndarray | None = None
) -> Piece:
    return Piece(obs, action, next_obs, over, over if end is None else over | end)
