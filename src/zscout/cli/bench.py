"""zscout bench."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

import zscout
from zscout.cli.parts.options import OutputFile, Quick
from zscout.cli.parts.output import UsageError


@dataclass(frozen=True)
class Bench:
    """Measure speed relative to plain implementations in the same run, and relative to the hardware limit."""

    only: str = "all"
    """Comma-separated, or all: live,many,end-to-end,training,solving,floors,bodies,deadlines."""
    seed: int = 0  # Seed of tasks, task vectors and random draws.
    quick: Quick = False  # Smaller problems and fewer repeats: about a minute, more on a busy machine.
    device: str = "cpu"  # cpu, or cuda for live, many, training and floors; the others run on one core.
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Also write bench.json, a Markdown table and a figure to this folder."""
    json: OutputFile = None  # Also write all rows to this file; creates its folder.

    def run(self, console: Console) -> None:
        """Run ``benchmarks.speed``."""
        _find_benchmarks()
        from benchmarks.speed import Speed

        Speed(**vars(self)).run(console)


def _find_benchmarks() -> None:
    """Put the checkout of this package on ``sys.path``; raises if there is none."""
    root = Path(zscout.__file__).parents[2]
    if (root / "benchmarks" / "speed.py").exists() and str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        import benchmarks.speed  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in ("benchmarks", "benchmarks.speed"):
            raise
        raise UsageError(
            "zscout bench needs a checkout of the repository: the benchmarks are not part of the package"
        ) from error
