"""Records of runs in one SQLite file: safe against kills, shared by several processes."""

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

from zscout.lab.runs.spec import Spec


@dataclass(frozen=True, eq=False)
class Record:
    """One run: a few numbers, and T rows in each column of steps.

    Columns: state S_t, action, entered S_{t+1}, z Z_t, reward R_{t+1}, error ‖ẑ − z_r‖, regret, width
    ‖ψ(S_t;Z_t)‖_{V⁻¹}, bound (eq. 6) and naive bound in lost steps, inside (whether z_r is in the ellipsoid),
    conditions (whether the lemma's hold), log_det of V⁻¹ in features and log_det_states in state counts, normalised
    reward (0 the mean state's, 1 the best one's), value of π(·,ẑ) (0 a random walk, 1 optimal; every fifth step with
    networks). Row t includes what is learned from R_{t+1}.
    """

    spec: Spec
    numbers: Mapping[str, float]  # lost, lost_own, settled, final, error, value, ridge
    steps: Mapping[str, np.ndarray]
    provenance: Mapping[str, Any]  # version, code, the method's parts, runs in its batch, seconds


@dataclass(frozen=True)
class Failure:
    """A run that failed, and why."""

    spec: Spec
    error: str


@dataclass(frozen=True, eq=False)
class Sealed:
    """A record as the store keeps it: a worker makes the row, so that the process with the file only writes it."""

    spec: Spec
    row: "StoredRow"

    @classmethod
    def of(cls, record: Record) -> "Sealed":
        """The row of a record, with its checksum."""
        name = (record.spec.digest, _json(record.spec.to_json()))
        row = (*name, _json(record.numbers), _json(record.provenance), pack(record.steps))
        return cls(record.spec, (*row, _checksum(row)))


Answer: TypeAlias = Record | Sealed | Failure


def pack(steps: Mapping[str, np.ndarray]) -> bytes:
    """Columns of steps as compressed safetensors."""
    return zlib.compress(to_bytes({name: np.ascontiguousarray(column) for name, column in steps.items()}), level=3)


def unpack(content: bytes) -> dict[str, np.ndarray]:
    """The inverse of ``pack``."""
    try:
        return dict(from_bytes(zlib.decompress(content)))
    except (zlib.error, SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"the steps of this run cannot be read: {error}") from error


FILE = "runs.sqlite"
SCHEMA = 2
OURS = 0x7A53C007  # SQLite's application_id: marks a store of zscout
TABLES = (
    """CREATE TABLE runs (
    digest TEXT PRIMARY KEY, spec TEXT NOT NULL, numbers TEXT NOT NULL, provenance TEXT NOT NULL, steps BLOB NOT NULL,
    checksum TEXT NOT NULL
) STRICT""",
    "CREATE TABLE failures (digest TEXT PRIMARY KEY, spec TEXT NOT NULL, error TEXT NOT NULL) STRICT",
)
# As bytes: a damaged row may not be text.
COLUMNS = "digest, CAST(spec AS BLOB), CAST(numbers AS BLOB), CAST(provenance AS BLOB), steps, checksum"
StoredRow: TypeAlias = tuple[Any, ...]
PATIENCE = 60.0  # seconds to wait for the commit of another process, which takes milliseconds
REASONS = {  # words of SQLite's errors
    "full": "the disk is full",
    "readonly": "it may not be written to",
    "unable to open": "it cannot be opened or made",
    "not a database": "it is not a database",
    "malformed": "it is damaged",
    "locked": f"another process has held it for {PATIENCE:.0f} seconds",
    "disk I/O": "reading or writing it failed (is the disk full?)",
}


class StoreError(OSError):
    """The file cannot be used."""


class Store:
    """Records by the digests of their specs, in one file of a folder, which is made if it is missing.

    Those of code without source are kept until it is closed.
    Every ``add`` is one transaction in a write-ahead log: after a kill at any moment a record is complete or missing.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._kept: dict[str, StoredRow | str] = {}  # rows and failures of code without source
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {folder} cannot be made: {error.strerror}") from error
        with self._errors_explained():
            self._file = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            try:
                with self._transaction():  # another process may be making the same file now
                    self._check_or_make()
                self._write_ahead()
                self._file.execute("PRAGMA synchronous = FULL")  # chunks are seconds apart: safety costs nothing
            except BaseException:
                self._file.close()
                raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, answers: Sequence[Answer]) -> None:
        """Add all, or none on an error; existing records stay, and a record replaces the failures of its run."""
        rows: list[StoredRow] = []
        failed: list[StoredRow] = []
        for answer in answers:
            if not answer.spec.is_stored:
                kept = Sealed.of(answer) if isinstance(answer, Record) else answer
                self._kept[answer.spec.digest] = kept.error if isinstance(kept, Failure) else kept.row
            elif isinstance(answer, Failure):
                failed.append((answer.spec.digest, _json(answer.spec.to_json()), answer.error))
            else:
                rows.append((Sealed.of(answer) if isinstance(answer, Record) else answer).row)
        with self._errors_explained(), self._transaction():
            self._file.executemany("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._file.executemany("DELETE FROM failures WHERE digest = ?", [row[:1] for row in rows])
            self._file.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", failed)

    def missing(self, specs: Sequence[Spec]) -> list[Spec]:
        """The specs without a record, each once."""
        with self._errors_explained():
            there = {row[0] for row in self._file.execute("SELECT digest FROM runs")}
        there |= {digest for digest, kept in self._kept.items() if not isinstance(kept, str)}
        return [spec for spec in dict.fromkeys(specs) if spec.digest not in there]

    def drop_damaged(self, specs: Sequence[Spec]) -> int:
        """Remove records whose bytes were changed, so that they are run again; returns their number."""
        damaged = [(spec.digest,) for spec in dict.fromkeys(specs) if not self._row(spec)[1]]
        if damaged:
            with self._errors_explained(), self._transaction():
                self._file.executemany("DELETE FROM runs WHERE digest = ?", damaged)
        return len(damaged)

    def numbers(self, spec: Spec) -> dict[str, float] | None:
        """The numbers of a run; None if there is no record."""
        row = self._intact_row(spec)
        return None if row is None else json.loads(row[2])

    def record(self, spec: Spec) -> Record:
        """A run with its steps."""
        row = self._intact_row(spec)
        if row is None:
            raise KeyError(f"{self.path} has no run {spec.digest}")
        return Record(spec, json.loads(row[2]), unpack(row[4]), json.loads(row[3]))

    def failure(self, spec: Spec) -> str | None:
        """Why the last try of a run failed; None if it did not."""
        if isinstance(kept := self._kept.get(spec.digest), str):
            return kept
        with self._errors_explained():
            row = self._file.execute("SELECT error FROM failures WHERE digest = ?", (spec.digest,)).fetchone()
        return None if row is None else str(row[0])

    def __len__(self) -> int:
        with self._errors_explained():
            return int(self._file.execute("SELECT count(*) FROM runs").fetchone()[0])

    def _row(self, spec: Spec) -> tuple[StoredRow | None, bool]:
        """The row of a run, if there is one, and whether it is intact."""
        if isinstance(kept := self._kept.get(spec.digest), tuple):
            return kept, True
        with self._errors_explained():
            found = self._file.execute(f"SELECT {COLUMNS} FROM runs WHERE digest = ?", (spec.digest,))
            row: StoredRow | None = found.fetchone()
        return row, row is None or _checksum(row[:-1]) == row[-1]

    def _intact_row(self, spec: Spec) -> StoredRow | None:
        row, intact = self._row(spec)
        if not intact:
            raise StoreError(f"{self.path}: run {spec.digest} was changed since it was written")
        return row

    def _write_ahead(self) -> None:
        """If two processes switch a new file at once, SQLite tells one of them "locked" without waiting: try again."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._file.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def _check_or_make(self) -> None:
        run = self._file.execute
        schema, ours = (run(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id"))
        tables = run("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if (tables and ours != OURS) or ours not in (0, OURS):
            raise StoreError(f"{self.path} is a database, but not a store of zscout: name another folder")
        if tables and schema != SCHEMA:
            age = "an older" if schema < SCHEMA else "a newer"
            raise StoreError(
                f"{self.path} was written by {age} version (its schema is {schema}, this one reads {SCHEMA}): "
                "name another folder, or move the file away"
            )
        if not tables:  # executescript would commit halfway
            for statement in (*TABLES, f"PRAGMA application_id = {OURS}", f"PRAGMA user_version = {SCHEMA}"):
                run(statement)

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
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            word = next((word for word in REASONS if word in str(error)), "")
            kept = "" if word in ("not a database", "malformed") else "; nothing that was finished is lost"
            raise StoreError(f"{self.path}: {REASONS.get(word, str(error))}{kept}") from error


def _checksum(row: StoredRow) -> str:
    digest = hashlib.sha256()
    for part in row:
        content = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(dict(content), sort_keys=True)
