"""JSON of untrusted files as dataclasses: the annotations are the check."""

import reprlib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin

WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "an object",
    type(None): "null",
}
LONGEST_TEXT = 1_000  # letters
short = reprlib.repr


def parsed(value: Any, kind: Any, name: str) -> Any:
    """The JSON value as an annotation says: a dataclass, a list, or one of several types; raises if it is not.

    A dataclass needs all of its fields and no other. True is no number; a whole number is one.
    """
    if is_dataclass(kind):
        kinds = {field.name: field.type for field in fields(kind)}
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be an object with {', '.join(kinds)}, got {short(value)}")
        for key in sorted(value.keys() ^ kinds.keys()):
            raise ValueError(f"{name} {'lacks the' if key in kinds else 'has the unknown'} key {short(key)}")
        parts = {key: parsed(value[key], kinds[key], f"{name}: {key}") for key in kinds}
        return kind(**parts)  # type: ignore[operator]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Sequence, tuple):
        if not isinstance(value, list):
            raise ValueError(f"{name} must be a list, got {short(value)}")
        part_kind = arguments[0]
        if origin is tuple:
            return tuple(parsed(part, part_kind, name) for part in value)
        if set(map(type, value)) <= set(get_args(part_kind) or (part_kind,)):  # fast path: a list of numbers
            return value
        return [parsed(part, part_kind, name) for part in value]
    allowed = arguments if origin is UnionType else (origin or kind,)
    if type(value) is int and float in allowed and int not in allowed:
        return float(value)
    if type(value) not in allowed:
        raise ValueError(f"{name} must be {' or '.join(WORDS[one] for one in allowed)}, got {short(value)}")
    if type(value) is str and len(value) > LONGEST_TEXT:
        raise ValueError(f"{name} is text of {len(value)} letters, expected at most {LONGEST_TEXT:,}")
    return value
