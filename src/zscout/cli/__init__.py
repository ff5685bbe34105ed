"""The command line. Heavy imports are deferred until a command runs, so that --help is fast."""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any, TypeAlias, cast, get_args

import tyro
from rich.console import Console

import zscout
from zscout.base.hints import known_name, nearest
from zscout.cli.bench import Bench
from zscout.cli.chart import Chart
from zscout.cli.compare import Compare, Tune
from zscout.cli.export import Export
from zscout.cli.live import Live
from zscout.cli.parts.output import UsageError, fail, silent_without_reader
from zscout.cli.parts.progress import end_in_one_line, signals_stop_it
from zscout.cli.pretrain import Pretrain
from zscout.cli.transfer import Transfer

Command: TypeAlias = Pretrain | Chart | Transfer | Compare | Tune | Bench | Live | Export
COMMANDS: dict[str, type[Command]] = {kind.__name__.lower(): kind for kind in get_args(Command)}
TAKE_ARENA = ("compare", "tune")  # as another name of --world
DESCRIPTION = (
    "Online transfer with Behavioral Foundation Models: find the task vector z from rewards seen while acting. Worlds, "
    "features, trained models, the paper's method, baselines, and exact ground truth.\n\n"
    "Examples: zscout transfer (watch one run); zscout compare --methods usf-ucb,opti --quick; zscout live.\n\n"
    "Each command has its own --help. zscout --version prints the version."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; a user error prints one line and exits with code 2."""
    run(_parse, list(sys.argv[1:] if arguments is None else arguments) or ["--help"])


def run(parse: Callable[[list[str]], Any], words: list[str]) -> None:
    """Run what is parsed from the words; a stop or a user error prints one line."""
    try:
        with signals_stop_it():
            with silent_without_reader():
                if words == ["--version"]:
                    print(f"zscout {zscout.__version__}")
                    return
                command = parse(words)
            if not 0 <= (seed := getattr(command, "seed", 0)) < 2**63:
                raise UsageError(f"--seed must be from 0 to {2**63 - 1}, got {seed}")
            command.run(Console(emoji=False, markup=False))  # names like mine:angry: and a[/b] are not markup
    except (KeyboardInterrupt, UsageError, OSError) as error:
        end_in_one_line(error)


def _parse(words: list[str]) -> Command:
    """Parse with tyro; print its boxed errors as one line."""
    kinds = dict[str, Callable[..., Command]](COMMANDS)
    known = f"{words[0]} " if words[0] in COMMANDS else ""
    with explained(f"zscout {known}".rstrip(), lambda: _unknown_option(words[0], words[1:]) if known else ""):
        if not words[0].startswith("-"):
            known_name(words[0], COMMANDS, "command")
        given = {word.partition("=")[0] for word in words}
        if words[0] in TAKE_ARENA and given >= {"--world", "--arena"}:
            raise ValueError("--world and --arena are the same option: pass one of them")
        if "--data=" in words or ("--data", "") in pairwise(words):
            raise ValueError("--data must be a folder of episodes or a file, got an empty text")
        found = tyro.extras.subcommand_cli_from_dict(kinds, prog="zscout", description=DESCRIPTION, args=words)
        return cast(Command, found)


@contextlib.contextmanager
def explained(program: str, unknown: Callable[[], str] = str) -> Iterator[None]:
    """Print an error of tyro as one line, or that of ``unknown`` if it has one."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            yield
    except ValueError as error:
        fail(str(error), code=2)
    except SystemExit as stop:
        if stop.code != 2:
            raise
        fail(f"{unknown() or _plain(_unboxed(errors.getvalue()))}; see {program} --help", code=2)


def _unknown_option(command: str, words: Sequence[str]) -> str:
    """A message for the first unknown option: a similar one, or the commands that have it."""
    options = {name: _options(kind) for name, kind in COMMANDS.items()}
    for name in TAKE_ARENA:
        options[name].add("arena")
    for word in words:
        option = word.partition("=")[0].replace("_", "-").removeprefix("--")  # dashes would make all names alike
        if not word.startswith("--") or option in options[command] | {"help"}:
            continue
        owners = [f"zscout {name}" for name, known in options.items() if option in known]
        has = f"{' and '.join(owners)} {'has' if len(owners) == 1 else 'have'} it" if owners else ""
        hint = has or nearest(option, options[command], prefix="--").rstrip()
        return f"zscout {command} has no option --{option}{'; ' if hint else ''}{hint}"
    return ""


def _options(kind: type) -> set[str]:
    """The names of a command's options, those in groups included."""
    found = set()
    for one in fields(kind):
        grouped = is_dataclass(one.default)
        found |= _options(type(one.default)) if grouped else {one.name.replace("_", "-")}
    return found


def _plain(error: str) -> str:
    """Python's words about a number as ours; any other error unchanged."""
    found = re.match(r"Error parsing (--\S+): .*(int\(\) with base 10|string to float): (.*)", error)
    if not found:
        return error
    option, kind, given = found.groups()
    return f"{option} must be a {'whole number' if kind.startswith('int') else 'number'}, got {given}"


def _unboxed(box: str) -> str:
    """The text of a box (plain without UTF-8): its first part, and the suggested option if there is one."""
    framed = [line for line in box.splitlines() if line.startswith("│")]
    lines = filter(None, (line.strip("│ ") for line in framed or box.splitlines()[2:]))  # the plain form has a title
    parts = [part.split("\n") for part in re.split(r"\n[─-]{9,}\n", "\n".join(lines))]
    hints = [" ".join(part[:2]) for part in parts[1:] if part[0].startswith(("Perhaps", "Available"))]
    return "; ".join([" ".join(parts[0]), *hints])
