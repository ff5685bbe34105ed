"""What page and server say to each other: JSON objects, with "do" from the page and "is" from the server."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zscout.files import no_number

FIELDS: Mapping[str, tuple[str, ...]] = {  # all that a page can say; whatever else comes is refused
    "begin": ("setup",),
    "resume": ("run", "after"),
    "reset": (),
    "play": (),
    "pause": (),
    "speed": ("value",),
    "step": (),
    "give": ("step", "value"),
    "skip": ("step",),
    "paint": ("cells", "value"),
    "task": ("number",),
    "clear": (),
    "noise": ("value",),
    "silence": ("value",),
    "wait": ("value",),
    "trace": (),
}
LONGEST_ERROR = 240  # letters
DEEPEST = 8  # lists and objects in each other: twice what any message has


class MessageError(ValueError):
    """A message that cannot be understood, and why."""


class NoRunError(LookupError):
    """There is no run of that key (any more)."""


@dataclass(frozen=True)
class Told:
    """What a message led to."""

    answers: Sequence[bytes]  # for the page, in order
    asks: bool = False  # the agent stands where a reward would teach it something
    ended: bool = False  # as many steps as a run may have
    settings: dict[str, Any] = field(default_factory=dict)  # of those that change while it runs


def understood(text: str, most_bytes: int) -> tuple[str, dict[str, Any]]:
    """What is to be done, and its fields, all of them and no other."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most_bytes:
        raise MessageError(f"a message has at most {most_bytes} bytes, this one has {size}")
    try:
        content = json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise MessageError("a message is a JSON object") from error
    if not isinstance(content, dict):
        raise MessageError("a message is a JSON object")
    if _is_deep(content):
        raise MessageError(f"a message has at most {DEEPEST} lists and objects in each other")
    do = content.pop("do", None)
    if not isinstance(do, str) or do not in FIELDS:
        raise MessageError(f'"do" is one of {", ".join(FIELDS)}')
    if set(content) != set(FIELDS[do]):
        wanted = " and ".join(FIELDS[do]) or "nothing else"
        raise MessageError(f'"{do}" comes with {wanted}')
    return do, content


def message(content: dict[str, Any]) -> bytes:
    """For the page."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def error(about: object) -> bytes:
    """What was refused, in one line; the page shows it as text and nothing else."""
    line = " ".join(str(about).split())
    cut = line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR]}…"
    return message({"is": "error", "about": cut.encode("utf-8", "replace").decode()})


def gone(why: object) -> bytes:
    """A run is lost; the page begins another one."""
    return message({"is": "gone", "about": str(why)})


def notice(about: str) -> bytes:
    """Something that a visitor should know, and need not answer."""
    return message({"is": "notice", "about": about})


def _is_deep(content: Any) -> bool:
    """Level by level: what is too deep for this is too deep for much that comes after."""
    level = [content]
    for _ in range(DEEPEST):
        rows = (list(value.values()) if isinstance(value, dict) else value for value in level)
        level = [value for row in rows for value in row if isinstance(value, dict | list)]
    return bool(level)
