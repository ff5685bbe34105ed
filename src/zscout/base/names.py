"""Unknown names: errors that suggest similar ones. Does not import torch."""

import difflib
from collections.abc import Collection
from typing import Any


def nearest(name: object, known: Collection[str], most: int = 1, prefix: str = "") -> str:
    """The words "did you mean a or b? " with up to ``most`` similar names, shown with a prefix; empty if none."""
    near = difflib.get_close_matches(str(name), known, n=most, cutoff=0.6)
    return f"did you mean {' or '.join(prefix + one for one in near)}? " if near else ""


def known_name(name: Any, known: Collection[str], what: str, else_: str = "") -> str:
    """The name; raises if it is unknown, and suggests similar names."""
    if isinstance(name, str) and name in known:
        return name
    guess = nearest(name, known, most=2)
    raise ValueError(f"there is no {what} {name!r}: {guess}there are {', '.join(known) or 'none'}{else_}")
