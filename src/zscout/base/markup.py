"""The little markup that texts may have: `code`, **bold**, [links](#within-the-page), z_r, γ^{t+k} and 1e-12."""

import html
import re

_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"\*\*(.+?)\*\*")
_INDEX = re.compile(r"((?:(?<!\w)[^\W\d_]|[α-ωΑ-Ω])\u0302?)_(\w{1,3})(?!\w)")  # a letter, perhaps with its hat
_POWER = re.compile(r"\^\{([^{}]+)\}")
_TEN = re.compile(r"(?<=\d)e(?:\+|(-))0*(\d+)\b")  # of 1.3e-12
_MINUS = re.compile(r"(?<![\w.)])-(?=\.?\d)")  # no hyphen
_LINK = re.compile(r"\[([^\[\]]+)\]\(#([A-Za-z0-9_-]+)\)")


def to_html(text: str) -> str:
    """Everything escaped, then the markup as elements; nothing inside code is markup."""
    parts = _CODE.split(html.escape(text))
    parts[1::2] = [f"<code>{code}</code>" for code in parts[1::2]]
    parts[::2] = [_prose(part) for part in parts[::2]]
    return "".join(parts)


def _prose(text: str) -> str:
    linked = _LINK.split(text)  # words, what is linked, where to, words, …
    shown = [_formulas(_BOLD.sub(r"<strong>\1</strong>", part)) for part in linked]
    shown[1::3] = [f'<a href="#{target}">{words}' for words, target in zip(shown[1::3], linked[2::3], strict=True)]
    shown[2::3] = ["</a>"] * len(linked[2::3])
    return "".join(shown)


def _formulas(text: str) -> str:
    raised = _TEN.sub(r"·10^{\1\2}", _INDEX.sub(r"\1<sub>\2</sub>", text))
    return _MINUS.sub("−", _POWER.sub(r"<sup>\1</sup>", raised))


def plain(text: str) -> str:
    """The same words without the markup."""
    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(r"\1", _BOLD.sub(r"\1", part)) for part in parts[::2]]
    return "".join(parts)
