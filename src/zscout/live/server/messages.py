"""The messages between page and server: JSON objects, with "do" from the page and "is" from the server."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from zscout.base.files import no_number

SETTINGS = ("noise", "silence", "wait")  # parts of a set-up that can change during a run
FIELDS: Mapping[str, tuple[str, ...]] = {  # every valid message of a page: its "do", and its other fields
    **dict.fromkeys(("reset", "play", "pause", "step", "clear", "export", "behaviour", "clips", "learn"), ()),
    **dict.fromkeys(("speed", *SETTINGS), ("value",)),
    "begin": ("setup",),
    "resume": ("run", "after"),
    "give": ("step", "value"),
    "skip": ("step",),
    "thumb": ("step", "value", "pace"),
    "show": ("z",),
    "prefer": ("number", "better"),
    "paint": ("cells", "value"),
    "task": ("number",),
}
LONGEST = 240  # characters of an error
DEEPEST = 8  # nested lists and objects: twice what any valid message has
NOT_KEPT = "The server no longer has this run."


class MessageError(ValueError):
    """An invalid message, and why."""


class RunLostError(Exception):
    """A run no longer exists, and why, in words for the page."""


@dataclass(frozen=True)
class Reply:
    """A run's answer to a command."""

    messages: Sequence[bytes]  # for the page, in order
    asks: bool = False  # whether the agent wants a reward for the place it is in
    ended: bool = False  # whether the run has reached its last step
    settings: dict[str, Any] = field(default_factory=dict)  # those that can change during a run


def parse(text: str, most_bytes: int) -> tuple[str, dict[str, Any]]:
    """The "do" of a page's message and its fields; raises ``MessageError`` if it is invalid."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most_bytes:
        raise MessageError(f"a message has at most {most_bytes} bytes, got {size}")
    try:
        content = json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise MessageError("a message must be a JSON object") from error
    if not isinstance(content, dict):
        raise MessageError("a message must be a JSON object")
    if _is_deep(content):
        raise MessageError(f"a message has at most {DEEPEST} nested lists and objects")
    do = content.pop("do", None)
    if not isinstance(do, str) or do not in FIELDS:
        raise MessageError(f'"do" must be one of {", ".join(FIELDS)}')
    if set(content) != set(FIELDS[do]):
        raise MessageError(f'"{do}" must have {" and ".join(FIELDS[do]) or "no other field"}')
    return do, content


def encode(content: dict[str, Any]) -> bytes:
    """A message for the page."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def notice(kind: Literal["error", "gone", "notice"], about: object) -> bytes:
    """One line that the page shows as plain text: a refused message, a lost run, or other news."""
    line = " ".join(str(about).split())
    cut = line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
    return encode({"is": kind, "about": cut.encode("utf-8", "replace").decode()})


def _is_deep(content: Any) -> bool:
    level = [content]
    for _ in range(DEEPEST):  # level by level: recursion could overflow
        rows = (list(value.values()) if isinstance(value, dict) else value for value in level)
        level = [value for row in rows for value in row if isinstance(value, dict | list)]
    return bool(level)
