"""Arrays in files, read in blocks of rows: NumPy's npz, HDF5 and Parquet. No pickle is ever loaded."""

import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zscout.base.files import short
from zscout.base.hints import MissingExtraError

ROWS = 65_536  # of a block
DEEPEST = 2  # groups around an array that is used
WIDEST = 10_000  # numbers in a row
PACKED, UNSTORED = 500, 2**26  # most bytes of an array for each one stored; more are fine if they are few
LONGEST_HEADER = 2**14  # bytes of an .npy that say what it holds
FLAGS = ("terminals", "timeouts", "terminations", "terminated", "next_terminated", "truncated", "discount")
NUMBERS = "biuf"  # kinds of dtype: bool, int, unsigned, float


DAMAGE: tuple[type[Exception], ...] = (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, MemoryError)
DAMAGE += (RuntimeError,)  # of h5py; NotImplementedError of zipfile is one


class Field(NamedTuple):
    """The shape and the dtype of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Table(ABC):
    """Named arrays; ``fields`` are read without their content."""

    def __init__(self, name: str) -> None:
        self.name, self.fields = name, dict[str, Field]()

    def __str__(self) -> str:
        """Its arrays, as far as a line has room."""
        return ", ".join(self.fields)[:200] or "no arrays"

    @abstractmethod
    def rows(self, name: str) -> Iterator[np.ndarray]:
        """One array in blocks of ``ROWS`` rows."""

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[np.ndarray, ...]]:
        """Rows of these arrays, side by side; raises if one is missing, not numbers, or longer than another."""
        for name in names:
            if name not in self.fields:
                raise ValueError(f"{self.name} has no {name!r}; it has {self}")
            shape, dtype = self.fields[name]
            if dtype.kind not in NUMBERS or not shape or prod(shape[1:]) > WIDEST:
                found = f"{self.name}: {name} has shape {shape} and dtype {dtype}"
                raise ValueError(f"{found}, expected rows of numbers, at most {WIDEST:,}")
        lengths = {name: self.fields[name].shape[0] for name in names}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
            raise ValueError(f"{self.name}: arrays differ in length: {found}")
        with readable(self.name):
            first = 0
            for parts in zip(*map(self.rows, names), strict=True):
                for name, part in zip(names, parts, strict=True):
                    if name.rpartition("/")[2] in FLAGS:
                        check_flags(part, first, f"{self.name}: {name}")
                first += len(parts[0])
                yield parts

    def whole(self, name: str) -> np.ndarray:
        """One array."""
        return np.concatenate([part for (part,) in self.blocks([name])] or [np.empty(0)])


@contextmanager
def readable(name: str, *others: type[Exception]) -> Iterator[None]:
    """A file that breaks off, or is not what its ending says, raises ValueError with its name."""
    try:
        yield
    except (*DAMAGE, *others) as error:
        raise ValueError(f"{name} is damaged: {' '.join(str(error).split())[:200]}") from None


def check_packed(size: int, stored: int, what: str) -> None:
    """Raise if a small file declares very much: it would fill the disk."""
    if size > UNSTORED + PACKED * stored:
        raise ValueError(f"{what} should have {size:,} bytes, {stored:,} are stored: save it uncompressed")


def check_flags(flags: np.ndarray, first: int, what: str) -> None:
    """Raise unless all are 0 or 1; ``first``: the number of the first row."""
    for at in np.argwhere((flags != 0) & (flags != 1))[:1]:
        raise ValueError(f"{what} of row {first + at[0]} is {flags[tuple(at)]}, expected 0 or 1")


class NpzTable(Table):
    """An .npz, compressed or not, unpacked as it is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        with readable(self.name), zipfile.ZipFile(path) as file:
            for member in file.infolist():
                if member.filename.endswith(".npy"):
                    name = member.filename.removesuffix(".npy")
                    with file.open(member) as stream:
                        head = BytesIO(stream.read(LONGEST_HEADER))
                    shape, _, dtype = _header(head, self.name)
                    size = prod(shape) * dtype.itemsize
                    check_packed(size, member.compress_size, f"{self.name}: {short(name)}")
                    if size > member.file_size - head.tell():
                        raise EOFError(f"{name} breaks off")
                    self.fields[name] = Field(shape, dtype)

    def rows(self, name: str) -> Iterator[np.ndarray]:
        """One array in blocks; one that is stored by columns at once, since its rows are all over the file."""
        with zipfile.ZipFile(self.name) as file, file.open(f"{name}.npy") as stream:
            shape, by_columns, dtype = _header(stream, self.name)
            scattered, length = by_columns and len(shape) > 1, shape[0]
            for first in range(0, length, max(1, length) if scattered else ROWS):
                part = (length if scattered else min(ROWS, length - first), *shape[1:])
                content = stream.read(size := prod(part) * dtype.itemsize)
                if len(content) != size:
                    raise EOFError(f"{name} breaks off")
                rows = np.frombuffer(content, dtype).reshape(part, order="F" if scattered else "C")
                yield from (rows[start : start + ROWS] for start in range(0, len(rows), ROWS))


def _header(stream: Any, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it is stored by columns, and dtype of an .npy; one of Python objects is refused."""
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, by_columns, dtype = read(stream)
    except (ValueError, KeyError, TypeError, SyntaxError) as error:
        raise ValueError(f"{name} holds an array that cannot be read: {error}") from None
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are not loaded: save arrays of numbers")
    return shape, by_columns, dtype


class Hdf5Table(Table):
    """The datasets of an open HDF5 file, also of its groups, as "a/b/c"; no link is followed, no other file read."""

    def __init__(self, file: Any, name: str) -> None:
        super().__init__(name)
        self._file = file
        with readable(name):
            self._collect(file, "")

    def _collect(self, group: Any, prefix: str) -> None:
        import h5py

        for name in group:
            path = f"{prefix}{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{self.name}: {path} is a link, expected arrays and groups in the file itself")
            part = group[name]
            if isinstance(part, h5py.Dataset):
                self.fields[path] = Field(tuple(part.shape or ()), part.dtype)
            elif isinstance(part, h5py.Group) and path.count("/") < DEEPEST:
                self._collect(part, f"{path}/")

    def rows(self, name: str) -> Iterator[np.ndarray]:
        """One array in blocks."""
        data = self._file[name]
        if data.is_virtual or data.external:
            raise ValueError(f"{self.name}: {name} is in another file, which is not read")
        check_packed(data.nbytes, data.id.get_storage_size(), f"{self.name}: {name}")
        return (data[first : first + ROWS] for first in range(0, len(data), ROWS))


@contextmanager
def opened_hdf5(path: Path) -> Iterator[Hdf5Table]:
    """An HDF5 file."""
    if find_spec("h5py") is None:
        raise MissingExtraError(f"{path.name} is HDF5, which needs h5py", "hdf5")
    import h5py

    with readable(str(path)):
        file = h5py.File(path, "r")
    with file:
        yield Hdf5Table(file, str(path))


class ParquetTable(Table):
    """A Parquet file: columns of numbers, or of lists of equally many numbers."""

    def __init__(self, path: Path) -> None:
        if find_spec("pyarrow") is None:
            raise MissingExtraError(f"{path.name} is Parquet, which needs pyarrow", "parquet")
        from pyarrow import ArrowException, types
        from pyarrow.parquet import ParquetFile

        super().__init__(str(path))
        self._damage = ArrowException
        with readable(self.name, ArrowException):
            self._file = ParquetFile(path)
            found = self._file.metadata
            groups = [found.row_group(k) for k in range(found.num_row_groups)]
            values = sum(one.column(k).num_values for one in groups for k in range(one.num_columns))
        check_packed(4 * values, path.stat().st_size, self.name)  # float32
        for column in self._file.schema_arrow:
            kind = getattr(column.type, "value_type", column.type)  # of a list
            known = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
            dtype = np.dtype(kind.to_pandas_dtype() if known else object)
            self.fields[column.name] = Field((self._file.metadata.num_rows,), dtype)

    def rows(self, name: str) -> Iterator[np.ndarray]:
        """One column in blocks."""
        with readable(self.name, self._damage):
            for batch in self._file.iter_batches(batch_size=ROWS, columns=[name]):
                column = batch.column(0)
                lists = hasattr(column, "flatten")
                if column.null_count or (lists and len(set(column.value_lengths().to_pylist())) > 1):
                    raise ValueError(f"{self.name}: the rows of {name} are empty or differ in length")
                flat: np.ndarray = (column.flatten() if lists else column).to_numpy(zero_copy_only=False)
                yield flat.reshape(len(column), -1) if lists else flat
