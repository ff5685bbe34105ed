"""Settings from an untrusted JSON file: every value is checked, and an error says where it stands."""

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Space

from zscout.base.edge import as_size
from zscout.base.files import read_json


class Settings:
    """A JSON object; each member is read as the type that is expected."""

    def __init__(self, given: object, where: str) -> None:
        if not isinstance(given, dict):
            raise ValueError(f"{where} is {type(given).__name__}, expected an object")
        self.given, self.where = given, where

    @classmethod
    def of(cls, path: Path) -> "Settings":
        """The object in a JSON file."""
        return cls(read_json(path), str(path))

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def part(self, name: str) -> "Settings":
        """The object of this name."""
        return Settings(self._value(name, None), f"{self.where}: {name}")

    def size(self, name: str, default: int | None = None, *, low: int = 1, high: int = 100_000) -> int:
        """A whole number."""
        return as_size(self._value(name, default), f"{self.where}: {name}", low, high)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or False."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise ValueError(f"{self.where}: {name} is {_short(value)}, expected true or false")
        return value

    def choice(self, name: str, allowed: tuple[str, ...], default: str | None = None, hint: str = "") -> str:
        """One of the allowed words."""
        value = self._value(name, default)
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"{self.where}: {name} is {_short(value)}, expected {' or '.join(allowed)}{hint}")
        return value

    def words(self, name: str) -> list[str]:
        """A word, or a list of words."""
        value = self._value(name, None)
        given = value if isinstance(value, list) else [value]
        words = [word for word in given if isinstance(word, str)]
        if not words or len(words) != len(given):
            raise ValueError(f"{self.where}: {name} is {_short(value)}, expected a name or a list of names")
        return words

    def space(self) -> Space[Any]:
        """A Box of vectors, or a Dict of them."""
        if self.choice("type", ("Box", "Dict")) == "Box":
            return self._box()
        parts = self.part("spaces")
        if not parts.given:
            raise ValueError(f"{parts.where} is empty")
        return Dict({name: parts.part(name)._box() for name in parts.given})

    def _box(self) -> Box:
        self.choice("type", ("Box",))
        try:
            low, high = (np.array(self._value(name, None), dtype=np.float32) for name in ("low", "high"))
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{self.where}: low and high must be lists of numbers") from None
        if low.ndim != 1 or low.shape != high.shape or not low.size or not bool((low <= high).all()):
            raise ValueError(
                f"{self.where} has bounds of shapes {low.shape} and {high.shape}, expected one vector each, low ≤ high "
                "(build models of images in their project)"
            )
        return Box(low, high, dtype=np.float32)

    def _value(self, name: str, default: object) -> object:
        if name not in self.given and default is None:
            raise ValueError(f"{self.where} lacks the key {name!r}")
        return self.given.get(name, default)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:50]} …"
