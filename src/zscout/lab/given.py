"""What stands in a file that anyone may have written: values of their kind, tables of their shape, or a clear line."""

import reprlib
from dataclasses import fields
from typing import Any

import numpy as np

LARGEST = 1e50  # of any number: sums of squares of values stay finite
NUMBER = (int, float)

short = reprlib.repr


def keys_of(value: Any, wanted: type, what: str) -> None:
    """An object with the fields of a dataclass, all of them and no other."""
    names = [field.name for field in fields(wanted)]
    if not isinstance(value, dict):
        raise ValueError(f"{what} is an object with {', '.join(names)}, got {short(value)}")
    for name in sorted(value.keys() ^ set(names)):
        raise ValueError(f"{what} has no {name}" if name in names else f"{what} has {short(name)}, which is not known")


def list_in(value: Any, name: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {short(value)}")
    return value


def check_kind(value: Any, kinds: tuple[type, ...], name: str) -> None:
    """A value of one of these types."""
    if type(value) not in kinds:  # True is no number
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
        raise ValueError(f"{name} holds {short(value)}, wanted is {' or '.join(words[kind] for kind in kinds)}")
    if type(value) is str and len(value) > 100:
        raise ValueError(f"{name} is text of {len(value)} letters")


def array_in(values: Any, name: str, shape: tuple[int, ...], below: int | None = None) -> np.ndarray:
    """Finite numbers of this shape, or whole ones from 0 on."""
    try:
        array = np.array(values, dtype=np.float64)
    except (ValueError, OverflowError, TypeError):
        raise ValueError(f"{name} must be numbers {list(shape)}, its rows alike and none too large") from None
    if array.shape != shape:
        raise ValueError(f"{name} has shape {list(array.shape)}, wanted is {list(shape)}")
    if not (np.abs(array) <= LARGEST).all():
        raise ValueError(f"{name} holds NaN, inf or a number beyond {LARGEST:g}")
    if below is not None and ((array < 0) | (array >= below)).any():
        outside = array[(array < 0) | (array >= below)][0]
        raise ValueError(f"{name} {outside:g} is outside 0 … {below - 1}")
    return array


def no_number(text: str) -> Any:
    """For NaN and the like, which JSON does not have."""
    raise ValueError(f"it holds {text}, which is no number")
