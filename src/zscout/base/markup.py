"""The little markup that texts may have: `code`, **bold**, [links](#within-the-page) and indices as in z_r."""

import html
import re

_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"\*\*(.+?)\*\*")
_INDEX = re.compile(r"((?:(?<!\w)[^\W\d_]|[α-ωΑ-Ω])\u0302?)_(\w{1,3})(?!\w)")  # a letter, perhaps with its hat
_LINK = re.compile(r"\[([^\[\]]+)\]\(#([A-Za-z0-9_-]+)\)")


def to_html(text: str) -> str:
    """Everything escaped, then the markup as elements; nothing inside code is markup."""
    parts = _CODE.split(html.escape(text))
    parts[1::2] = [f"<code>{code}</code>" for code in parts[1::2]]
    parts[::2] = [_prose(part) for part in parts[::2]]
    return "".join(parts)


def _prose(text: str) -> str:
    linked = _LINK.split(text)  # words, what is linked, where to, words, …
    shown = [_INDEX.sub(r"\1<sub>\2</sub>", _BOLD.sub(r"<strong>\1</strong>", part)) for part in linked]
    shown[1::3] = [f'<a href="#{target}">{words}' for words, target in zip(shown[1::3], linked[2::3], strict=True)]
    shown[2::3] = ["</a>"] * len(linked[2::3])
    return "".join(shown)


def plain(text: str) -> str:
    """The same words without the markup."""
    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(r"\1", _BOLD.sub(r"\1", part)) for part in parts[::2]]
    return "".join(parts)
