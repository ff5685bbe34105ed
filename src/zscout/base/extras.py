"""Packages that only some parts need: the extras of pyproject.toml. Does not import torch."""


class MissingExtraError(ModuleNotFoundError):
    """An extra is not installed; the message says what needs it and how to install it."""

    def __init__(self, needs: str, extra: str) -> None:
        super().__init__(f"{needs}: {how_to_install(extra)}")


def how_to_install(extra: str) -> str:
    """The command that installs an extra: zscout comes as a clone."""
    return f"run pip install -e '.[{extra}]' in your clone of zscout"
