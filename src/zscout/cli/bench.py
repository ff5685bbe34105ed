"""zscout bench."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

import zscout
from zscout.cli.mistakes import UsageError, fail, usage_errors
from zscout.cli.options import OutputFile, Quick, device_named, names_of, writable

if TYPE_CHECKING:
    from benchmarks.measurement import Line, Setting

NO_CHECKOUT = "zscout bench needs a checkout of the repository: the benchmarks are not part of the package"


@dataclass(frozen=True)
class Bench:
    """Measure speed: ratios within one run to plain references, at least as good as these, and distances to floors."""

    only: str = "all"
    """Names with commas between, or all: live,many,end-to-end,training,solving,start-up,floors,growth,large."""
    seed: int = 0
    """Decides tasks, task vectors and draws."""
    quick: Quick = False
    """Smaller problems and fewer repeats: about a minute in all, more on a busy machine."""
    device: str = "cpu"
    """cpu, or cuda for what live, many, training and floors measure; the rest stays on one core."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Also write bench.json, the tables as Markdown and the figures to this folder."""
    json: OutputFile = None
    """Also write every row to this file, and make its folder."""

    def run(self, console: Console) -> None:
        """Measure the groups and print one table; after a stop, what was measured so far."""
        _find_benchmarks()
        from benchmarks.groups import chosen, measure
        from benchmarks.measurement import Setting

        with usage_errors():
            groups = chosen([] if self.only == "all" else names_of(self.only, "--only", "live,many"))
            setting = Setting(self.seed, self.quick, device_named(self.device))
            if self.out is not None and self.out.exists() and not self.out.is_dir():
                raise UsageError(f"{self.out} is a file; --out names a folder")
            writable(self.json, self.out and self.out / "bench.json")
        lines: list[Line] = []
        done: list[str] = []
        try:
            measure(groups, setting, lines, done, console)
        except KeyboardInterrupt:
            self._tell(lines, setting, console)
            fail(f"stopped: {len(lines)} rows measured, {len(done)} of {len(groups)} groups whole", code=130)
        self._tell(lines, setting, console)
        if wrong := [line.what for line in lines if not getattr(line, "agrees", True)]:
            fail(f"the answers differ by more than they may: {', '.join(wrong)}", code=1)

    def _tell(self, lines: "list[Line]", setting: "Setting", console: Console) -> None:
        from benchmarks.tables_and_figures import bench_table, content_of, write_bench
        from zscout.files import write_json

        if not lines:
            return
        console.print(bench_table(lines))
        content, written = content_of(lines, setting), []
        if self.json is not None:
            written.append(write_json(self.json, content))
        if self.out is not None:
            written += write_bench(lines, content, self.out)
        for path in written:
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def _find_benchmarks() -> None:
    """Put the checkout of this package on ``sys.path``, or refuse where there is none."""
    root = Path(zscout.__file__).parents[2]
    if (root / "benchmarks" / "groups.py").exists() and str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        import benchmarks.groups  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in ("benchmarks", "benchmarks.groups"):
            raise
        raise UsageError(NO_CHECKOUT) from error
