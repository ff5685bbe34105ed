"""Records of runs in one SQLite file, safe against stops and shared by several processes."""

import contextlib
import hashlib
import json
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from zscout.lab.spec import Spec


@dataclass(frozen=True, eq=False)
class Record:
    """One run: a few numbers, and what happened at each step.

    ``steps`` has T rows in each column: state S_t, action, entered S_{t+1}, z Z_t, reward R_{t+1}, error ‖ẑ − z_r‖,
    regret, width ‖ψ(S_t;Z_t)‖_{V⁻¹}, bound (eq. 6) and naive bound in lost steps, inside (whether z_r is in the
    ellipsoid), conditions (whether all of the lemma's hold), log_det of V⁻¹ in features and log_det_states in state
    counts, normalised reward (0 the mean state's, 1 the best one's), value of π(·,ẑ) (0 a random walk, 1 optimal;
    with networks looked at every fifth step). What is learned from R_{t+1} stands in row t.
    """

    spec: Spec
    numbers: Mapping[str, float]  # lost, lost_own, settled, final, error, value, ridge
    steps: Mapping[str, np.ndarray]
    provenance: Mapping[str, Any]  # version, code, the method's pieces, runs in its batch, seconds


@dataclass(frozen=True)
class Failure:
    """A run that could not be finished, and why."""

    spec: Spec
    error: str


def pack(steps: Mapping[str, np.ndarray]) -> bytes:
    """Columns of steps as bytes: safetensors, squeezed."""
    return zlib.compress(to_bytes({name: np.ascontiguousarray(column) for name, column in steps.items()}), level=3)


def unpack(content: bytes) -> dict[str, np.ndarray]:
    """What ``pack`` packed."""
    try:
        return dict(from_bytes(zlib.decompress(content)))
    except (zlib.error, SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"the steps of this run cannot be read: {error}") from error


FILE = "runs.sqlite"
SCHEMA = 2
BEFORE_CHECKSUMS = 1
OURS = 0x7A53C007  # SQLite's application_id: this is a store of zscout, not any database
TABLES = """
CREATE TABLE runs (
    digest TEXT PRIMARY KEY, spec TEXT NOT NULL, numbers TEXT NOT NULL, provenance TEXT NOT NULL, steps BLOB NOT NULL,
    checksum TEXT NOT NULL
) STRICT;
CREATE TABLE failures (digest TEXT PRIMARY KEY, spec TEXT NOT NULL, error TEXT NOT NULL) STRICT;
"""
StoredRow: TypeAlias = tuple[Any, ...]  # the columns of ``runs``
PATIENCE = 60.0  # seconds to wait for another process's commit, which takes milliseconds


class StoreError(OSError):
    """The file cannot be used, and why."""


class Store:
    """Records by their specs' digests, in one file of a folder that is made when it is not there.

    Every ``add`` is one transaction in a write-ahead log: after a kill at any moment a record is there whole or not.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {folder} cannot be made: {error.strerror}") from error
        with self._said():
            self._file = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            try:
                self._open()
            except BaseException:
                self._file.close()
                raise

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, answers: Sequence[Record | Failure]) -> None:
        """All of them or, on an error, none; a record that is there stays, and outlives its run's failures."""
        records = [answer for answer in answers if isinstance(answer, Record)]
        failures = [answer for answer in answers if isinstance(answer, Failure)]
        rows = [
            (r.spec.digest, _json(r.spec.to_json()), _json(r.numbers), _json(r.provenance), pack(r.steps))
            for r in records
        ]
        with self._said(), self._transaction():
            checked = [(*row, _checksum(row)) for row in rows]
            self._file.executemany("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?)", checked)
            self._file.executemany("DELETE FROM failures WHERE digest = ?", [row[:1] for row in rows])
            failed = [(f.spec.digest, _json(f.spec.to_json()), f.error) for f in failures]
            self._file.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", failed)

    def missing(self, specs: Sequence[Spec]) -> list[Spec]:
        """Those of which there is no record, each once."""
        with self._said():
            there = {row[0] for row in self._file.execute("SELECT digest FROM runs")}
        return [spec for spec in dict.fromkeys(specs) if spec.digest not in there]

    def drop_damaged(self, specs: Sequence[Spec]) -> int:
        """Remove those whose bytes are not those that were written, so that they are run again; how many there were."""
        damaged = [(spec.digest,) for spec in dict.fromkeys(specs) if not _is_whole(self._row(spec))]
        if damaged:
            with self._said(), self._transaction():
                self._file.executemany("DELETE FROM runs WHERE digest = ?", damaged)
        return len(damaged)

    def numbers(self, spec: Spec) -> dict[str, float] | None:
        """A run's few numbers, None where it is not there."""
        row = self._checked_row(spec)
        return None if row is None else json.loads(row[2])

    def record(self, spec: Spec) -> Record:
        """A run with its steps."""
        row = self._checked_row(spec)
        if row is None:
            raise KeyError(f"{self.path} has no run {spec.digest}")
        return Record(spec, json.loads(row[2]), unpack(row[4]), json.loads(row[3]))

    def failure(self, spec: Spec) -> str | None:
        """Why a run failed when it was last tried, None where it did not."""
        with self._said():
            row = self._file.execute("SELECT error FROM failures WHERE digest = ?", (spec.digest,)).fetchone()
        return None if row is None else str(row[0])

    def __len__(self) -> int:
        with self._said():
            return int(self._file.execute("SELECT count(*) FROM runs").fetchone()[0])

    def _row(self, spec: Spec) -> StoredRow | None:
        """As bytes: a damaged row may be no text."""
        columns = "digest, CAST(spec AS BLOB), CAST(numbers AS BLOB), CAST(provenance AS BLOB), steps, checksum"
        with self._said():
            found = self._file.execute(f"SELECT {columns} FROM runs WHERE digest = ?", (spec.digest,))
            row: StoredRow | None = found.fetchone()
        return row

    def _checked_row(self, spec: Spec) -> StoredRow | None:
        row = self._row(spec)
        if not _is_whole(row):
            raise StoreError(f"{self.path}: run {spec.digest} was changed since it was written")
        return row

    def _open(self) -> None:
        with self._transaction():  # another process may be making the same file now
            self._look_and_make()
        self._write_ahead()
        self._file.execute("PRAGMA synchronous = FULL")  # chunks are seconds apart: safety costs nothing

    def _write_ahead(self) -> None:
        """Two processes that switch a new file at once: SQLite tells one of them "locked" without waiting."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._file.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)
            else:
                return

    def _look_and_make(self) -> None:
        schema, ours = (
            self._file.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")
        )
        tables = {row[0] for row in self._file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if (tables and ours != OURS) or ours not in (0, OURS):
            raise StoreError(f"{self.path} is a database, but no store of zscout: name another folder")
        if tables and schema == BEFORE_CHECKSUMS:
            self._file.execute("ALTER TABLE runs ADD COLUMN checksum TEXT NOT NULL DEFAULT ''")
            rows = self._file.execute("SELECT digest, spec, numbers, provenance, steps FROM runs").fetchall()
            checked = [(_checksum(row), row[0]) for row in rows]
            self._file.executemany("UPDATE runs SET checksum = ? WHERE digest = ?", checked)
            self._file.execute(f"PRAGMA user_version = {SCHEMA}")
            schema = SCHEMA
        if tables and schema != SCHEMA:
            age = "an older" if schema < SCHEMA else "a newer"
            raise StoreError(
                f"{self.path} was written by {age} version (its schema is {schema}, this one reads {SCHEMA}): "
                "name another folder, or move the file away"
            )
        if not tables:
            for statement in TABLES.split(";\n"):  # executescript would commit halfway
                self._file.execute(statement)
            self._file.execute(f"PRAGMA application_id = {OURS}")
            self._file.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._file.execute("COMMIT")
        except BaseException:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """SQLite's errors, as what a person can do something about."""
        try:
            yield
        except sqlite3.Error as error:
            text = str(error)
            why = next((said for part, said in SAID.items() if part in text), text)
            kept = "" if why in (SAID["not a database"], SAID["malformed"]) else "; nothing that was finished is lost"
            raise StoreError(f"{self.path}: {why}{kept}") from error


SAID = {
    "full": "the disk is full",
    "readonly": "it may not be written to",
    "unable to open": "it cannot be opened or made",
    "not a database": "it is no database",
    "malformed": "it is damaged",
    "locked": f"another process has held it for {PATIENCE:.0f} seconds",
    "disk I/O": "reading or writing it failed (is the disk full?)",
}


def _checksum(row: StoredRow) -> str:
    """Of all that a row holds."""
    digest = hashlib.sha256()
    for part in row:
        content = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def _is_whole(row: StoredRow | None) -> bool:
    """Whether a row, if there is one, is as it was written."""
    return row is None or _checksum(row[:-1]) == row[-1]


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(dict(content), sort_keys=True)
