"""Public layouts of reward-free data, each as transitions in blocks; the layout is detected from the files."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from zscout.models.data.tables import NpzTable, ParquetTable, Table, opened_hdf5

HDF5 = (".hdf5", ".h5")
ENDINGS = (".npz", ".parquet", *HDF5)
MINARI, METAMOTIVO = "episode_", "ep_"  # names of their groups, before a number
NEXT = ("next/observation", "next_observation")  # of a buffer of transitions
TERMINATED = ("next/terminated", "next_terminated", "terminated", "discount")  # 0 in a discount terminates


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
    found = [one for one in files if one.suffix.lower() in ENDINGS]
    if not found:
        raise ValueError(f"{path} holds no data: expected files that end with {', '.join(ENDINGS)}")
    endings = {one.suffix.lower() for one in found}
    if len(endings) > 1 and not endings <= {*HDF5}:
        raise ValueError(f"{path} holds files of several kinds: {', '.join(sorted(endings))}")
    return found


def opened(file: Path) -> AbstractContextManager[Table]:
    """The arrays of a file."""
    ending = file.suffix.lower()
    if ending in HDF5:
        return opened_hdf5(file)
    return nullcontext(ParquetTable(file) if ending == ".parquet" else NpzTable(file))


def layout_of(table: Table) -> str:
    """The name of the first layout whose arrays a file has."""
    for name, layout in LAYOUTS.items():
        if layout.fits(table):
            return name
    wanted = "; ".join(f"{name}: {layout}" for name, layout in LAYOUTS.items())
    raise ValueError(f"{table.name} has {table}, which is no known layout. Expected {wanted}")


# Layouts


class Layout(NamedTuple):
    """How transitions lie in a file."""

    arrays: tuple[str, ...]
    read: Callable[[Any], Pieces]
    groups: str = ""  # of HDF5, one for each episode: their names, before a number
    without: tuple[str, ...] = ()  # arrays that say that it is another

    def fits(self, table: Table) -> bool:
        """Whether the file has its groups or arrays."""
        if self.groups and _groups(table, self.groups):
            return True
        return set(self.arrays) <= table.fields.keys() and table.fields.keys().isdisjoint(self.without)

    def __str__(self) -> str:
        return (f"groups {self.groups}0 … with " if self.groups else "") + ", ".join(self.arrays)


def _exorl(table: Table) -> Pieces:
    """One episode; row 0 of action and discount is a dummy: row t leads to observation t."""
    for (obs, action, discount), (next_obs, *_) in _pairs(table.blocks(["observation", "action", "discount"])):
        yield _piece(obs[:-1], action[1:], next_obs, np.reshape(discount[1:], -1) == 0)


def _metamotivo(file: Table) -> Pieces:
    """A group for each episode; or a buffer of transitions, whose next ones may be in a group."""
    if _groups(file, METAMOTIVO):
        yield from _episodes(file, METAMOTIVO, "observation", "action", "terminated")
        return
    following = NEXT[0] if NEXT[0] in file.fields else NEXT[1]
    over = [name for name in TERMINATED if name in file.fields][:1]
    for obs, action, next_obs, *flags in file.blocks(["observation", "action", following, *over]):
        zero = np.reshape(flags[0], -1) == 0 if flags else np.ones(len(obs), bool)
        yield _piece(obs, action, next_obs, zero if over == ["discount"] else ~zero)


def _plain(table: Table) -> Pieces:
    """Transitions; with truncated, those end a trajectory, too."""
    for obs, action, next_obs, over, *cut in table.blocks(
        ["obs", "action", "next_obs", "terminated", *({"truncated"} & table.fields.keys())]
    ):
        yield _piece(obs, action, next_obs, _any([over]), _any([over, *cut]))


def _groups(table: Table, prefix: str) -> list[str]:
    """The groups whose names are the prefix and a number, in the order of their numbers."""
    found = {name.partition("/")[0] for name in table.fields if "/" in name}
    return sorted(
        (name for name in found if name.startswith(prefix) and name[len(prefix) :].isdecimal()),
        key=lambda name: int(name[len(prefix) :]),
    )


def _episodes(file: Table, prefix: str, obs: str, action: str, terminated: str) -> Pieces:
    """Observations are as many as actions, or one more; an episode is read whole."""
    if not (groups := _groups(file, prefix)):
        raise ValueError(f"{file.name} has no groups {prefix}0, {prefix}1 …")
    for group in groups:
        of_dict, flags = f"{group}/{obs}/observation", f"{group}/{terminated}"
        seen = file.whole(of_dict if of_dict in file.fields else f"{group}/{obs}")
        done, n = file.whole(f"{group}/{action}"), len(seen) - 1
        if n < 1:
            continue
        if len(done) not in (n, n + 1):
            raise ValueError(f"{file.name}, {group}: {n + 1} observations and {len(done)} actions, expected one less")
        over = file.whole(flags)[:n] if flags in file.fields else np.zeros(n, bool)
        if len(over) != n:
            raise ValueError(f"{file.name} has {len(over)} entries in {flags}, expected {n}")
        yield _piece(seen[:-1], done[:n], seen[1:], _any([over]), np.arange(n) == n - 1)


def _joined(table: Table, end: str, over: str = "") -> Pieces:
    """Trajectories one after the other. Without next_observations, the last action of each leads nowhere."""
    names = ["observations", "actions", end, *([over] if over else [])]
    if "next_observations" in table.fields:
        for next_obs, obs, action, *flags in table.blocks(["next_observations", *names]):
            yield _piece(obs, action, next_obs, _any(flags[1:], len(obs)), _any(flags))
        return
    for (obs, action, *flags), (next_obs, *_) in _pairs(table.blocks(names)):
        ends = _any(flags)
        kept = ~ends[:-1]
        yield _piece(obs[:-1][kept], action[:-1][kept], next_obs[kept], _any([], int(kept.sum())), ends[1:][kept])


def _any(flags: Sequence[np.ndarray], length: int = 0) -> np.ndarray:
    """Where one of the flags is set; nowhere if there are none."""
    found: np.ndarray = np.any([np.reshape(flag, -1) != 0 for flag in flags] or [np.zeros(length, bool)], axis=0)
    return found


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


LAYOUTS = {
    "exorl": Layout(("observation", "action", "discount"), _exorl, without=NEXT),
    # A terminal row terminates, a timeout only ends
    "d4rl": Layout(
        ("observations", "actions", "terminals", "timeouts"), partial(_joined, over="terminals", end="timeouts")
    ),
    # A terminal row ends a trajectory and does not terminate
    "ogbench": Layout(("observations", "actions", "terminals"), partial(_joined, end="terminals")),
    "minari": Layout(
        ("observations", "actions", "terminations"),
        partial(_episodes, prefix=MINARI, obs="observations", action="actions", terminated="terminations"),
        MINARI,
    ),
    "metamotivo": Layout(("observation", "action"), _metamotivo, METAMOTIVO),
    "plain": Layout(("obs", "action", "next_obs", "terminated"), _plain),
}
"""By name; the first that fits is taken."""
