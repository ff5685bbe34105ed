"""Speed relative to plain implementations in the same run, and to the hardware limit.

    python -m benchmarks.speed --out out/speed

measures the groups in turn and prints one table; when stopped, the rows so far.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.bodies import bodies
from benchmarks.deadlines import deadlines
from benchmarks.exact_answers import solving
from benchmarks.kernels import floors, training
from benchmarks.measurement import Measure, Row, Setting
from benchmarks.recommendations import end_to_end, live, many
from benchmarks.tables_and_figures import bench_table, content_of, write_bench
from zscout.base.edge import known_name
from zscout.base.files import write_json
from zscout.base.hints import MissingExtraError, how_to_install
from zscout.cli.parts.options import OutputFile, Quick, device_named, names_of, usage_errors
from zscout.cli.parts.output import UsageError, fail, say, writable, writable_folder


@dataclass(frozen=True)
class Group:
    """Measurements that belong together."""

    measure: Measure
    seconds: tuple[float, float]  # estimates for a whole and a quick run, for the time left
    extra: str = ""  # of the package, and the module that shows whether it is installed

    @property
    def about(self) -> str:
        """The subject in a few words."""
        return (self.measure.__doc__ or "").rstrip(".")

    @property
    def installed(self) -> bool:
        """Whether the extra that it needs is installed."""
        return not self.extra or find_spec(self.extra) is not None

    def rows(self, setting: Setting) -> Iterator[Row]:
        """The rows as they are measured."""
        return self.measure(setting)


GROUPS: Mapping[str, Group] = MappingProxyType(
    {
        "live": Group(live, (80.0, 16.0)),
        "many": Group(many, (10.0, 5.0)),
        "end-to-end": Group(end_to_end, (35.0, 5.0)),
        "training": Group(training, (13.0, 3.0)),
        "solving": Group(solving, (20.0, 4.0)),
        "floors": Group(floors, (4.0, 3.0)),
        "bodies": Group(bodies, (40.0, 8.0), extra="mujoco"),
        "deadlines": Group(deadlines, (70.0, 6.0)),
    }
)


def chosen(names: Sequence[str]) -> dict[str, Group]:
    """The groups named, or all that can be measured here, in the order of GROUPS."""
    wanted = {known_name(name, GROUPS, "group") for name in names}
    if missing := [name for name in wanted if not GROUPS[name].installed]:
        raise MissingExtraError(f"{missing[0]} needs an extra", GROUPS[missing[0]].extra)
    wanted = wanted or {name for name, group in GROUPS.items() if group.installed}
    return {name: group for name, group in GROUPS.items() if name in wanted}


def measure(groups: Mapping[str, Group], setting: Setting, rows: list[Row], done: list[str], console: Console) -> None:
    """Measure the groups in turn with a progress bar, and add to ``rows`` and ``done`` as they come."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    seconds = {name: group.seconds[setting.quick] for name, group in groups.items()}
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=sum(seconds.values()))
        for name, group in groups.items():
            bar.update(task, description=f"{name}: {group.about}")
            rows.extend(group.rows(setting))
            done.append(name)
            bar.update(task, advance=seconds[name])
            if not console.is_terminal:  # a log file gets lines instead of a bar
                console.print(f"{len(done)} of {len(groups)}: {name}", highlight=False)


@dataclass(frozen=True)
class Speed:
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
        """Measure the groups and print one table; when stopped, print the rows so far."""
        with usage_errors():
            groups = chosen([] if self.only == "all" else names_of(self.only, "--only", "live,many"))
            setting = Setting(self.seed, self.quick, device_named(self.device))
            writable(self.json)
            if self.out is not None:
                writable_folder(self.out)
        if self.only == "all":
            for name in GROUPS.keys() - groups.keys():
                say(console, f"{name} is left out: {how_to_install(GROUPS[name].extra)}")
        rows: list[Row] = []
        done: list[str] = []
        try:
            measure(groups, setting, rows, done, console)
        except KeyboardInterrupt:
            self._tell(rows, setting, console)
            fail(f"stopped: {len(rows)} rows measured, {len(done)} of {len(groups)} groups complete", code=130)
        self._tell(rows, setting, console)
        if wrong := [row.what for row in rows if not row.agrees]:
            fail(f"results differ by more than the tolerance: {', '.join(wrong)}", code=1)

    def _tell(self, rows: Sequence[Row], setting: Setting, console: Console) -> None:
        if not rows:
            return
        console.print(bench_table(rows))
        content, written = content_of(rows, setting), []
        if self.json is not None:
            written.append(write_json(self.json, content))
        if self.out is not None:
            written += write_bench(rows, content, self.out)
        for path in written:
            say(console, f"wrote {path}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure; a user error prints one line and exits with code 2."""
    try:
        tyro.cli(Speed, prog="python -m benchmarks.speed", args=arguments).run(Console(emoji=False, markup=False))
    except (UsageError, OSError) as error:
        fail(str(error), code=2)


if __name__ == "__main__":
    main()
