"""All that ``zscout bench`` measures, by name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from zscout.edge import known_name
from zscout.lab.bench.end_to_end import end_to_end
from zscout.lab.bench.floors import floors
from zscout.lab.bench.growth import growth
from zscout.lab.bench.large import large
from zscout.lab.bench.live import live
from zscout.lab.bench.many import many
from zscout.lab.bench.measurement import Line
from zscout.lab.bench.setting import Measure, Setting
from zscout.lab.bench.solving import solving
from zscout.lab.bench.start_up import start_up
from zscout.lab.bench.training import training


@dataclass(frozen=True)
class Group:
    """Measurements that belong together."""

    measure: Measure
    seconds: tuple[float, float]  # about, whole and quick: for the time left

    @property
    def about(self) -> str:
        """What it is about, in a few words."""
        return (self.measure.__doc__ or "").rstrip(".")

    def lines(self, setting: Setting) -> Iterator[Line]:
        """One after the other, as they are measured."""
        return self.measure(setting)


GROUPS: Mapping[str, Group] = MappingProxyType(
    {
        "live": Group(live, (70.0, 13.0)),
        "many": Group(many, (10.0, 5.0)),
        "end-to-end": Group(end_to_end, (35.0, 5.0)),
        "training": Group(training, (13.0, 3.0)),
        "solving": Group(solving, (20.0, 4.0)),
        "start-up": Group(start_up, (18.0, 7.0)),
        "floors": Group(floors, (4.0, 3.0)),
        "growth": Group(growth, (30.0, 6.0)),
        "large": Group(large, (40.0, 4.0)),
    }
)


def chosen(names: Sequence[str]) -> dict[str, Group]:
    """Those named, or all, in the order in which they are measured."""
    wanted = {known_name(name, GROUPS, "group") for name in names} or set(GROUPS)
    return {name: group for name, group in GROUPS.items() if name in wanted}
