"""zscout bench."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from zscout.cli.mistakes import UsageError, fail, usage_errors
from zscout.cli.options import OutputFile, Quick, device_named, names_of, writable

if TYPE_CHECKING:
    from zscout.lab.bench.groups import Group
    from zscout.lab.bench.measurement import Line
    from zscout.lab.bench.setting import Setting


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
        """Measure, print one table; a stop prints and writes what was measured until then."""
        from zscout.lab.bench.groups import chosen
        from zscout.lab.bench.setting import Setting

        with usage_errors():
            groups = chosen([] if self.only == "all" else names_of(self.only, "--only", "live,many"))
            setting = Setting(self.seed, self.quick, device_named(self.device))
            if self.out is not None and self.out.exists() and not self.out.is_dir():
                raise UsageError(f"{self.out} is a file; --out names a folder")
            writable(self.json, self.out and self.out / "bench.json")
        lines: list[Line] = []
        done: list[str] = []
        try:
            _measure(groups, setting, lines, done, console)
        except KeyboardInterrupt:
            self._tell(lines, console)
            fail(f"stopped: {len(lines)} rows measured, {len(done)} of {len(groups)} groups whole", code=130)
        self._tell(lines, console)
        if wrong := [line.what for line in lines if not getattr(line, "agrees", True)]:
            fail(f"the answers differ by more than they may: {', '.join(wrong)}", code=1)

    def _tell(self, lines: "list[Line]", console: Console) -> None:
        from zscout.files import write_json
        from zscout.report.tables import bench_table

        if not lines:
            return
        console.print(bench_table(lines))
        content, written = self._content(lines), []
        if self.json is not None:
            written.append(write_json(self.json, content))
        if self.out is not None:
            from zscout.report.bench import write_bench

            written += write_bench(lines, content, self.out)
        for path in written:
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)

    def _content(self, lines: "list[Line]") -> dict[str, Any]:
        import os
        import platform

        import torch

        import zscout
        from zscout.lab.bench.measurement import Row

        about = {
            "version": zscout.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "seed": self.seed,
            "quick": self.quick,
            "device": self.device,
        }
        rows = [line.to_json() for line in lines if isinstance(line, Row)]
        return {"about": about, "rows": rows, "growth": [x.to_json() for x in lines if not isinstance(x, Row)]}


def _measure(
    groups: "dict[str, Group]", setting: "Setting", lines: "list[Line]", done: list[str], console: Console
) -> None:
    """Group after group, with the time left; ``lines`` and ``done`` grow as they come."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    seconds = {name: group.seconds[setting.quick] for name, group in groups.items()}
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=sum(seconds.values()))
        for name, group in groups.items():
            bar.update(task, description=f"{name}: {group.about}")
            lines.extend(group.lines(setting))
            done.append(name)
            bar.update(task, advance=seconds[name])
            if not console.is_terminal:  # a log file wants lines, not a bar
                console.print(f"{len(done)} of {len(groups)}: {name}", highlight=False)
