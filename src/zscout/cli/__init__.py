"""The command line. Heavy imports wait until a command runs, so that help comes at once."""

import contextlib
import io
import re
import sys
from collections.abc import Sequence
from typing import Annotated

import tyro
from rich.console import Console

import zscout
from zscout.cli.bench import Bench
from zscout.cli.compare import Compare, Tune
from zscout.cli.live import Live
from zscout.cli.mistakes import UsageError, fail
from zscout.cli.pretrain import Pretrain
from zscout.cli.reproduce import Reproduce
from zscout.cli.transfer import Transfer

Command = (
    Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
    | Annotated[Pretrain, tyro.conf.subcommand("pretrain")]
    | Annotated[Transfer, tyro.conf.subcommand("transfer")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Tune, tyro.conf.subcommand("tune")]
    | Annotated[Bench, tyro.conf.subcommand("bench")]
    | Annotated[Live, tyro.conf.subcommand("live")]
)

DESCRIPTION = (
    "Online transfer with Behavioral Foundation Models: which task vector z to try next when the reward can only be "
    "seen by trying. Worlds, features, trained models, the paper's method, its rivals, and exact ground truth.\n\n"
    "Each command has its own --help. zscout --version prints the version."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; a user's mistake ends with one line and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"zscout {zscout.__version__}")
        return
    command = _parse(words or ["--help"])
    try:
        if not 0 <= command.seed < 2**63:
            raise UsageError(f"--seed must be from 0 to {2**63 - 1}, came as {command.seed}")
        command.run(Console(emoji=False))  # mine:angry: is a name
    except KeyboardInterrupt:
        fail("stopped; files already written are whole", code=130)
    except (UsageError, OSError) as error:
        fail(str(error) or type(error).__name__, code=2)


def _parse(words: list[str]) -> Reproduce | Pretrain | Compare | Tune | Bench | Transfer | Live:
    """Tyro's parser, its boxed errors folded into one line."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return tyro.cli(Command, prog="zscout", description=DESCRIPTION, args=words)
    except SystemExit as stop:
        if stop.code != 2:
            raise
        known = (
            words[0] if words[0] in ("reproduce", "pretrain", "transfer", "compare", "tune", "bench", "live") else ""
        )
        fail(f"{_unboxed(errors.getvalue())}; see zscout {known}{' ' if known else ''}--help", code=2)


def _unboxed(box: str) -> str:
    """What a box drawn with │ and ─ says: its first part, and the nearest option if it names one."""
    lines = [line.strip("│ \n") for line in box.splitlines() if line.startswith("│")]
    parts = [part.split("\n") for part in re.split(r"\n─+\n", "\n".join(filter(None, lines)))]
    hints = [" ".join(part[:2]) for part in parts[1:] if part[0].startswith(("Perhaps", "Available"))]
    return "; ".join([" ".join(parts[0]), *hints])
