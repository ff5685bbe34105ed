"""A digest of code that ignores comments, docstrings and layout."""

import hashlib
from types import CodeType


def digest_of_code(source: bytes) -> bytes:
    """Of what a module does: its bytecode, names and constants, without line numbers and docstrings."""
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
        else:
            digest.update(repr(_ordered(constant)).encode())


def _ordered(constant: object) -> object:
    """Sets print in an order that changes from process to process."""
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant
