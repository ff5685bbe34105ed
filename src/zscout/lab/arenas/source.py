"""A user's object on its way to workers, and what decides it: its values, and the source that defines it."""

import contextlib
import hashlib
import inspect
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

import cloudpickle
import numpy as np
from torch import Tensor

from zscout.transfer.method_json import method_to_json


@dataclass(frozen=True)
class UserObject:
    """A copy of an object for workers: they import what a module defines; what a notebook defines is in the copy."""

    pickled: bytes = field(repr=False, compare=False)
    digest: str  # of its values and source; of the copy if it has no source
    has_source: bool
    places: tuple[str, ...]  # file and line of each class and function from outside zscout

    @classmethod
    def of(cls, thing: Any) -> "UserObject":
        """Copy an object."""
        try:
            pickled = cloudpickle.dumps(thing)
        except Exception as error:
            raise ValueError(f"{thing!r:.80} cannot be copied: {type(error).__name__}: {error}") from error
        digest, places = _decided(thing)
        return cls(pickled, digest or hashlib.sha256(pickled).hexdigest(), digest is not None, places)

    @property
    def value(self) -> Any:
        """The copy; raises where its source is another one than where it was made."""
        return _loaded(self)


@lru_cache(maxsize=32)
def _loaded(it: UserObject) -> Any:
    value = cloudpickle.loads(it.pickled)
    if it.has_source and _decided(value)[0] != it.digest:
        raise ValueError(f"the source is another one here than where the runs began: {', '.join(it.places)}")
    return value


def _decided(thing: Any) -> tuple[str | None, tuple[str, ...]]:
    """The digest of an object's values and source, None without source, and where its source is."""
    places: dict[str, bool] = {}
    try:
        content = json.dumps(_described(thing, places), sort_keys=True)
    except Exception:  # user code: its values cannot be compared
        return None, tuple(places)
    return hashlib.sha256(content.encode()).hexdigest() if all(places.values()) else None, tuple(places)


def _described(thing: Any, places: dict[str, bool]) -> Any:
    """An object as plain values; adds places of source, and whether each is in a file."""

    def each(values: Iterable[Any]) -> list[Any]:
        return [_described(value, places) for value in values]

    if isinstance(thing, np.ndarray | Tensor):
        table = np.ascontiguousarray(thing.detach().cpu().numpy() if isinstance(thing, Tensor) else thing)
        return [str(table.dtype), table.shape, hashlib.sha256(table.tobytes()).hexdigest()]
    if thing is None or (plain := method_to_json(thing)) is not None:
        return None if thing is None else plain
    if isinstance(thing, list | tuple | Iterator):
        return each(thing)
    if isinstance(thing, dict):
        return each(thing.items())
    if isinstance(thing, set | frozenset):
        return sorted(each(thing), key=json.dumps)
    if isinstance(thing, MethodType):
        return each([thing.__func__, thing.__self__])
    if isinstance(thing, FunctionType | type):
        found = [_source(part, getattr(part, "__code__", None)) for part in getattr(thing, "__mro__", [thing])]
        places.update((place, digest is not None) for _, digest, place in found if place)
        names = [[name, digest] for name, digest, _ in found]
        if isinstance(thing, type):
            return names
        cells = [cell.cell_contents for cell in thing.__closure__ or ()]
        return names + each([thing.__defaults__, thing.__kwdefaults__, cells])
    reduced = thing.__reduce_ex__(2)
    return reduced if isinstance(reduced, str) else each(reduced)


@lru_cache(maxsize=1024)  # by object: a file that is edited is another source when it is imported again
def _source(thing: Any, code: CodeType | None) -> tuple[str, str | None, str]:
    """The name of a class or function; of one from outside zscout also its module's digest, and its place."""
    module, found = sys.modules.get(thing.__module__ or ""), None
    with contextlib.suppress(AttributeError):
        found = attrgetter(thing.__qualname__)(module)
    name, top = f"{thing.__module__}.{thing.__qualname__}", str(thing.__module__).partition(".")[0]
    if found is thing and (top == "zscout" or top in sys.stdlib_module_names):
        return name, "", ""
    file, line = getattr(module, "__file__", None) or "", 0
    with contextlib.suppress(OSError, TypeError):
        file, line = (code.co_filename, code.co_firstlineno) if code else (file, inspect.getsourcelines(thing)[1])
    place = "" if "site-packages" in file else f"{Path(file).name}:{line}" if line else name
    if top == "__main__" or (found is not thing and not code and "<locals>" not in name):
        return name, None, place or name
    try:
        return name, digest_of_code(Path(file).read_bytes()).hex(), place
    except (OSError, SyntaxError, ValueError):
        return name, None, place or name


def digest_of_code(source: bytes) -> bytes:
    """Digest of a module's bytecode, names and constants, without line numbers and docstrings."""
    digest = hashlib.sha256()
    _add(compile(source, "", "exec", dont_inherit=True, optimize=2), digest)  # 2: without docstrings
    return digest.digest()


def _add(code: CodeType, digest: "hashlib._Hash") -> None:
    digest.update(code.co_code)
    for part in (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
        digest.update(repr(part).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add(constant, digest)
        else:  # sets print in an order that changes between processes
            ordered = sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant
            digest.update(repr(ordered).encode())
