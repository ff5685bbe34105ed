"""Errors that say what would work: similar names, missing packages. Does not import torch."""

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


class MissingExtraError(ModuleNotFoundError):
    """An extra of pyproject.toml is not installed; the message says what needs it and how to install it."""

    def __init__(self, needs: str, extra: str) -> None:
        super().__init__(f"{needs}: {how_to_install(extra)}")


def how_to_install(extra: str) -> str:
    """The command that installs an extra: zscout comes as a clone."""
    return f"run pip install -e '.[{extra}]' in your clone of zscout"
