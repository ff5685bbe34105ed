"""zscout bench."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

import zscout
from zscout.base.hints import how_to_install
from zscout.cli.parts.options import OutputFile, Quick, device_named, names_of, usage_errors
from zscout.cli.parts.output import UsageError, fail, say, writable, writable_folder

if TYPE_CHECKING:
    from benchmarks.measurement import Line, Setting


@dataclass(frozen=True)
class Bench:
    """Measure speed relative to plain implementations in the same run, and relative to the hardware limit."""

    only: str = "all"
    """Comma-separated, or all: live,many,end-to-end,training,solving,start-up,floors,growth,large,bodies,deadlines."""
    seed: int = 0  # Seed of tasks, task vectors and random draws.
    quick: Quick = False  # Smaller problems and fewer repeats: about a minute, more on a busy machine.
    device: str = "cpu"  # cpu, or cuda for live, many, training and floors; the others run on one core.
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Also write bench.json, Markdown tables and figures to this folder."""
    json: OutputFile = None  # Also write all rows to this file; creates its folder.

    def run(self, console: Console) -> None:
        """Measure the groups and print one table; when stopped, print the rows so far."""
        _find_benchmarks()
        from benchmarks.groups import GROUPS, chosen, measure
        from benchmarks.measurement import Setting

        with usage_errors():
            groups = chosen([] if self.only == "all" else names_of(self.only, "--only", "live,many"))
            setting = Setting(self.seed, self.quick, device_named(self.device))
            writable(self.json)
            if self.out is not None:
                writable_folder(self.out)
        if self.only == "all":
            for name in GROUPS.keys() - groups.keys():
                say(console, f"{name} is left out: {how_to_install(GROUPS[name].extra)}")
        lines: list[Line] = []
        done: list[str] = []
        try:
            measure(groups, setting, lines, done, console)
        except KeyboardInterrupt:
            self._tell(lines, setting, console)
            fail(f"stopped: {len(lines)} rows measured, {len(done)} of {len(groups)} groups complete", code=130)
        self._tell(lines, setting, console)
        if wrong := [line.what for line in lines if not getattr(line, "agrees", True)]:
            fail(f"results differ by more than the tolerance: {', '.join(wrong)}", code=1)

    def _tell(self, lines: "list[Line]", setting: "Setting", console: Console) -> None:
        from benchmarks.tables_and_figures import bench_table, content_of, write_bench
        from zscout.base.files import write_json

        if not lines:
            return
        console.print(bench_table(lines))
        content, written = content_of(lines, setting), []
        if self.json is not None:
            written.append(write_json(self.json, content))
        if self.out is not None:
            written += write_bench(lines, content, self.out)
        for path in written:
            say(console, f"wrote {path}")


def _find_benchmarks() -> None:
    """Put the checkout of this package on ``sys.path``; raises if there is none."""
    root = Path(zscout.__file__).parents[2]
    if (root / "benchmarks" / "groups.py").exists() and str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        import benchmarks.groups  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in ("benchmarks", "benchmarks.groups"):
            raise
        raise UsageError(
            "zscout bench needs a checkout of the repository: the benchmarks are not part of the package"
        ) from error
