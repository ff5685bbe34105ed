"""The groups of ``zscout bench`` by name, and the loop that measures them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.bodies import bodies
from benchmarks.deadlines import deadlines
from benchmarks.exact_answers import solving
from benchmarks.fresh_processes import large, start_up
from benchmarks.growth import growth
from benchmarks.kernels import floors, training
from benchmarks.measurement import Line, Measure, Setting
from benchmarks.recommendations import end_to_end, live, many
from zscout.base.edge import known_name
from zscout.base.hints import MissingExtraError


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

    def lines(self, setting: Setting) -> Iterator[Line]:
        """The rows as they are measured."""
        return self.measure(setting)


GROUPS: Mapping[str, Group] = MappingProxyType(
    {
        "live": Group(live, (80.0, 16.0)),
        "many": Group(many, (10.0, 5.0)),
        "end-to-end": Group(end_to_end, (35.0, 5.0)),
        "training": Group(training, (13.0, 3.0)),
        "solving": Group(solving, (20.0, 4.0)),
        "start-up": Group(start_up, (18.0, 7.0)),
        "floors": Group(floors, (4.0, 3.0)),
        "growth": Group(growth, (30.0, 6.0)),
        "large": Group(large, (40.0, 4.0)),
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


def measure(
    groups: Mapping[str, Group], setting: Setting, lines: list[Line], done: list[str], console: Console
) -> None:
    """Measure the groups in turn with a progress bar, and add to ``lines`` and ``done`` as they come."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    seconds = {name: group.seconds[setting.quick] for name, group in groups.items()}
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=sum(seconds.values()))
        for name, group in groups.items():
            bar.update(task, description=f"{name}: {group.about}")
            lines.extend(group.lines(setting))
            done.append(name)
            bar.update(task, advance=seconds[name])
            if not console.is_terminal:  # a log file gets lines instead of a bar
                console.print(f"{len(done)} of {len(groups)}: {name}", highlight=False)
