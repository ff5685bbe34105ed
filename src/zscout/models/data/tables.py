"""Arrays in files, read in blocks of rows: NumPy's npz, HDF5 and Parquet. No pickle is ever loaded."""

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from zscout.base.hints import MissingExtraError

ROWS = 65_536  # of a block
NUMBERS = "biuf"  # kinds of dtype: bool, int, unsigned, float

Block: TypeAlias = list[np.ndarray]


@dataclass(frozen=True)
class Field:
    """The shape and the dtype of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Table(Protocol):
    """Named arrays; ``fields`` are read without their content."""

    name: str  # for errors
    fields: dict[str, Field]

    def blocks(self, names: Sequence[str]) -> Iterator[Block]:
        """Rows of these arrays, which have the same length, side by side; an absent one raises."""


@contextmanager
def readable(name: str) -> Iterator[None]:
    """A file that breaks off, or is not what its ending says, raises ValueError with its name."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{name} is damaged: {error}") from None


def same_length(table: Table, names: Sequence[str]) -> int:
    """The number of rows of these arrays; raises if one is missing, not numbers, or longer than another."""
    for name in names:
        if name not in table.fields:
            raise ValueError(f"{table.name} has no {name!r}; it has {', '.join(table.fields) or 'nothing'}")
        field = table.fields[name]
        if field.dtype.kind not in NUMBERS or not field.shape:
            raise ValueError(
                f"{table.name}: {name} has shape {field.shape} and dtype {field.dtype}, expected rows of numbers"
            )
    lengths = {name: table.fields[name].shape[0] for name in names}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise ValueError(f"{table.name}: arrays differ in length: {found}")
    return next(iter(lengths.values()))


class NpzTable:
    """An .npz, compressed or not, unpacked as it is read."""

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.fields = path, str(path), dict[str, Field]()
        with readable(self.name), zipfile.ZipFile(path) as file:
            for member in file.namelist():
                if member.endswith(".npy"):
                    with file.open(member) as stream:
                        shape, _, dtype = _header(stream, self.name)
                    self.fields[member.removesuffix(".npy")] = Field(shape, dtype)

    def blocks(self, names: Sequence[str]) -> Iterator[Block]:
        """Rows of these arrays."""
        length = same_length(self, names)
        with readable(self.name), zipfile.ZipFile(self.path) as file:
            yield from map(list, zip(*(self._rows(file, name, length) for name in names), strict=True))

    def _rows(self, file: zipfile.ZipFile, name: str, length: int) -> Iterator[np.ndarray]:
        with file.open(f"{name}.npy") as stream:
            shape, by_columns, dtype = _header(stream, self.name)
            scattered = by_columns and len(shape) > 1  # its rows are all over the file
            for first in range(0, length, length if scattered else ROWS):
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


class Hdf5Table:
    """The datasets of an open HDF5 file or of one of its groups, "a/b" included."""

    def __init__(self, group: Any, name: str) -> None:
        self.name, self.fields, self._group = name, dict[str, Field](), group
        _collect(group, "", self.fields, name)

    def blocks(self, names: Sequence[str]) -> Iterator[Block]:
        """Rows of these arrays."""
        length = same_length(self, names)
        with readable(self.name):
            for first in range(0, length, ROWS):
                yield [self._group[name][first : first + ROWS] for name in names]

    def group(self, name: str) -> "Hdf5Table":
        """One of its groups."""
        return Hdf5Table(self._group[name], f"{self.name}, {name}")

    def whole(self, name: str) -> np.ndarray:
        """One array."""
        if not same_length(self, [name]):
            raise ValueError(f"{self.name}: {name} is empty")
        with readable(self.name):
            found: np.ndarray = self._group[name][()]
        return found


def _collect(group: Any, prefix: str, fields: dict[str, Field], where: str) -> None:
    """The datasets of a group and of the groups directly in it; links into other files are refused."""
    import h5py

    for name in group:
        if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
            raise ValueError(f"{where}: {prefix}{name} links to another file, which is not followed")
        with readable(where):
            part = group[name]
        if isinstance(part, h5py.Dataset):
            if part.is_virtual or part.external:
                raise ValueError(f"{where}: {prefix}{name} is stored in another file, which is not read")
            fields[f"{prefix}{name}"] = Field(tuple(part.shape or ()), part.dtype)
        elif not prefix:
            _collect(part, f"{name}/", fields, where)


@contextmanager
def opened_hdf5(path: Path) -> Iterator[Any]:
    """An HDF5 file."""
    if find_spec("h5py") is None:
        raise MissingExtraError(f"{path.name} is HDF5, which needs h5py", "hdf5")
    import h5py

    with readable(str(path)):
        file = h5py.File(path, "r")
    with file:
        yield file


class ParquetTable:
    """A Parquet file: columns of numbers, or of lists of equally many numbers."""

    def __init__(self, path: Path) -> None:
        if find_spec("pyarrow") is None:
            raise MissingExtraError(f"{path.name} is Parquet, which needs pyarrow", "parquet")
        self.path, self.name, self.fields = path, str(path), dict[str, Field]()
        with self._opened() as file:
            length = file.metadata.num_rows
            if length:
                first = next(file.iter_batches(batch_size=1))
                for name in first.schema.names:
                    one = _column(first.column(name), self.name, name)
                    self.fields[name] = Field((length, *one.shape[1:]), one.dtype)

    def blocks(self, names: Sequence[str]) -> Iterator[Block]:
        """Rows of these columns."""
        same_length(self, names)
        with self._opened() as file:
            for batch in file.iter_batches(batch_size=ROWS, columns=list(names)):
                yield [_column(batch.column(name), self.name, name) for name in names]

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        try:
            with ParquetFile(self.path) as file:
                yield file
        except (ArrowException, OSError) as error:
            raise ValueError(f"{self.name} is damaged: {str(error).splitlines()[0]}") from None


def _column(column: Any, where: str, name: str) -> np.ndarray:
    """A column as rows [n] or [n k]."""
    if column.null_count:
        raise ValueError(f"{where}: {name} has empty entries")
    if not hasattr(column, "flatten"):
        found: np.ndarray = column.to_numpy(zero_copy_only=False)
        return found
    values = column.flatten()
    if not len(column) or len(values) % len(column) or len(set(column.value_lengths().to_pylist())) > 1:
        raise ValueError(f"{where}: the rows of {name} differ in length")
    flat: np.ndarray = values.to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), -1)
