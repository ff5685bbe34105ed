"""Transitions of a folder of files, checked and stored as memory-mapped float32: only what is drawn is in memory."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Generator, Tensor

from zscout.base.files import parsed, read_json, write_json
from zscout.base.hints import known_name
from zscout.models.data.layouts import LAYOUTS, Piece, data_files, layout_of, opened
from zscout.models.fb.data import Experience
from zscout.models.files.folder import MANIFEST

STORED = ".zscout-data"  # the folder of transitions in that of a model or an atlas, while they are needed
OURS = "made-by-zscout"  # a file that says that the folder may be removed
HELD_OUT = 0.05  # share of the transitions that training does not see
BEYOND = 1e-3  # what an action may lie beyond [−1, 1]: rounding


@dataclass(frozen=True)
class Summary:
    """What was found."""

    layout: str
    files: int
    transitions: int
    trajectories: int
    longest: int  # transitions of a trajectory
    terminated: int  # trajectories that end in a terminal state
    discrete: bool  # whether actions are whole numbers
    obs_low: tuple[float, ...]
    obs_high: tuple[float, ...]
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    digest: str  # of all transitions
    source: str  # of paths, sizes and times of the files

    def __str__(self) -> str:
        return (
            f"layout {self.layout}: {self.files:,} file{'s' if self.files > 1 else ''}, {self.transitions:,} "
            f"transitions in {self.trajectories:,} trajectories (longest {self.longest:,}), {self.terminated:,} "
            f"terminations; observations [{len(self.obs_low)}] from {min(self.obs_low):.4g} to "
            f"{max(self.obs_high):.4g}, {'discrete ' if self.discrete else ''}actions [{len(self.action_low)}] from "
            f"{min(self.action_low):.4g} to {max(self.action_high):.4g}"
        )


def gather(path: Path, folder: Path, layout: str = "") -> Iterator[tuple[int, int, int]]:
    """Read all files into a folder that ``Dataset`` opens; yields files read, their number, and transitions read.

    A folder that holds the same files' transitions is kept; one that ``gather`` did not make is refused.
    """
    files, name = data_files(path), known_name(layout, LAYOUTS, "layout") if layout else ""
    if any(file.resolve().is_relative_to(folder.resolve()) for file in files):
        raise ValueError(f"{folder} is for copies of the data: move your files out of it")
    facts = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    source = hashlib.sha256(repr((layout, facts)).encode()).hexdigest()
    if (folder / MANIFEST).is_file() and Dataset(folder).summary.source == source:
        return
    discard(folder)
    if folder.exists() or folder.is_symlink():
        raise ValueError(f"{folder} holds other files: move them, they would be replaced")
    folder.mkdir(parents=True)
    (folder / OURS).touch()
    try:
        with _Writer(folder) as writer:
            for done, file in enumerate(files):
                with opened(file) as table:
                    name = name or layout_of(table)
                    writer.begin(file)
                    for piece in LAYOUTS[name].read(table):
                        writer.add(piece)
                        yield done, len(files), writer.written
            write_json(folder / MANIFEST, asdict(writer.summary(name, len(files), source)))
    except BaseException as error:
        discard(folder)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            raise OSError(error.errno, error.strerror, str(folder)) from error  # a full disk names no file
        raise


def discard(folder: Path) -> None:
    """Remove a folder that ``gather`` made; any other stays."""
    if (folder / OURS).is_file() and not folder.is_symlink():
        shutil.rmtree(folder)


class Dataset:
    """Memory-mapped transitions of a folder that ``gather`` wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.summary: Summary = parsed(read_json(folder / MANIFEST), Summary, str(folder / MANIFEST))
        found, n = self.summary, self.summary.transitions
        self.obs, self.next_obs = (self._mapped(name, (n, len(found.obs_low))) for name in ("obs", "next_obs"))
        self.action = self._mapped("action", (n, len(found.action_low)))
        self.terminated, self.end = (self._mapped(name, (n,), np.dtype(bool)) for name in ("terminated", "end"))

    def _mapped(self, name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
        return np.memmap(self.folder / name, dtype, "r", shape=shape)

    def __len__(self) -> int:
        return self.summary.transitions

    def rows(self, index: Int[Tensor, " n"]) -> Experience:
        """These transitions."""
        order = index.sort()  # so that the files are read from front to back
        back = torch.empty_like(order.indices)
        back[order.indices] = torch.arange(len(index))
        parts = self.obs, self.action, self.next_obs, self.terminated
        return Experience(*(torch.from_numpy(np.array(part[order.values.numpy()]))[back] for part in parts))

    @cached_property
    def trajectories(self) -> tuple[np.ndarray, np.ndarray]:
        """The first row of each trajectory, and its number of rows."""
        last = np.flatnonzero(self.end)
        first = np.concatenate([[0], last[:-1] + 1])
        return first, last - first + 1

    def split(self, rng: Generator) -> tuple[Int[Tensor, " n"], Int[Tensor, " m"]]:
        """The rows to train on, and those held out: some trajectories; the end of the longest if these are too long."""
        first, lengths = self.trajectories
        most = min(max(1, round(HELD_OUT * len(self))), len(self) - 1)
        order = torch.randperm(len(first), generator=rng).numpy()
        out = np.zeros(len(first), bool)
        out[order[lengths[order].cumsum() <= most]] = True
        held = np.repeat(out, lengths)
        if not out.any():
            end = (first + lengths)[lengths.argmax()]
            held[end - most : end] = True
        return torch.from_numpy(np.flatnonzero(~held)), torch.from_numpy(np.flatnonzero(held))


def continuous(summary: Summary) -> None:
    """Raise unless an FB model can learn from these actions."""
    if summary.discrete:
        raise ValueError(
            "the actions are whole numbers, an FB model needs continuous ones: pass --world with a grid, for a USFA"
        )
    largest = max(map(abs, (*summary.action_low, *summary.action_high)))
    if largest > 1 + BEYOND:
        raise ValueError(f"actions reach {largest:.4g}, expected at most 1: divide them by the actuators' limits")


class _Writer(ExitStack):
    """Checks transitions and appends them to the files of a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.digest = folder, hashlib.blake2b(digest_size=16)
        self.files = {name: self.enter_context((folder / name).open("wb")) for name in ("obs", "action", "next_obs")}
        self.terminated, self.end = list[np.ndarray](), list[np.ndarray]()
        self.ranges: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # smallest and largest entries
        self.shapes: dict[str, tuple[str, int]] = {}  # the file that came first, and the entries of a row
        self.discrete, self.written = False, 0

    def begin(self, file: Path) -> None:
        """The next pieces are of this file."""
        if self.end:
            self.end[-1][-1] = True
        self.file, self.read, self.entered = str(file), 0, np.empty(0, np.float32)

    def add(self, piece: Piece) -> None:
        """Check and append."""
        if not len(piece.obs):
            return
        whole = piece.action.dtype.kind in "iu" and (piece.action.ndim == 1 or piece.action.shape[1] == 1)
        self.discrete = whole if not self.end else self.discrete and whole
        given = {"obs": piece.obs, "action": piece.action, "next_obs": piece.next_obs}
        rows = {name: self._rows(name, part) for name, part in given.items()}
        over, end = np.array(piece.terminated, bool), np.array(piece.end, bool)
        lengths = {name: len(part) for name, part in {**rows, "terminated": over, "end": end}.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{self.file}: arrays differ in length: {lengths}")
        obs, next_obs = rows["obs"], rows["next_obs"]
        end[:-1] |= (next_obs[:-1] != obs[1:]).any(1)
        if len(self.entered) and (self.entered != obs[0]).any():
            self.end[-1][-1] = True
        self.entered, self.read = next_obs[-1], self.read + len(obs)
        self.written += len(obs)
        for name, part in rows.items():
            content = part.tobytes()
            self.files[name].write(content)
            self.digest.update(content)
        self.digest.update(over.tobytes())
        self.terminated.append(over)
        self.end.append(end)

    def _rows(self, name: str, given: np.ndarray) -> np.ndarray:
        """Finite float32 [n k], as wide as all before."""
        part = given[:, None] if given.ndim == 1 else given
        if part.ndim != 2 or not part.shape[1] or part.dtype.kind not in "biuf":
            raise ValueError(
                f"{self.file}: {name} has shape {given.shape} and dtype {given.dtype}, expected [n k], vectors"
            )
        kind = name.removeprefix("next_")
        before, width = self.shapes.setdefault(kind, (self.file, part.shape[1]))
        if part.shape[1] != width:
            raise ValueError(f"{self.file}: {name} has {part.shape[1]} entries, {kind} of {before} has {width}")
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(part, np.float32)
        finite = np.isfinite(rows).all(1)
        if not finite.all():
            where = self.read + int(np.flatnonzero(~finite)[0])
            raise ValueError(f"{self.file}: {name} of transition {where} holds NaN, inf or a number beyond float32")
        low, high = self.ranges.get(kind, (rows[0], rows[0]))
        self.ranges[kind] = np.minimum(low, rows.min(0)), np.maximum(high, rows.max(0))
        return rows

    def summary(self, layout: str, files: int, source: str) -> Summary:
        """Write the flags; what was added."""
        if not self.end:
            raise ValueError(f"{self.file} holds no transitions" + (f", nor do {files - 1} more" if files > 1 else ""))
        self.end[-1][-1] = True
        terminated, end = np.concatenate(self.terminated), np.concatenate(self.end)
        terminated.tofile(self.folder / "terminated")
        end.tofile(self.folder / "end")
        self.digest.update(end.tobytes())
        last = np.flatnonzero(end)
        (obs_low, obs_high), (low, high) = (
            [tuple(part.tolist()) for part in self.ranges[kind]] for kind in ("obs", "action")
        )
        for file in self.files.values():
            file.flush()
        return Summary(
            layout=layout,
            files=files,
            transitions=len(end),
            trajectories=len(last),
            longest=int(np.diff(last, prepend=-1).max()),
            terminated=int(terminated.sum()),
            discrete=self.discrete,
            digest=self.digest.hexdigest(),
            source=source,
            obs_low=obs_low,
            obs_high=obs_high,
            action_low=low,
            action_high=high,
        )
