"""zscout bench."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console

from zscout.cli.mistakes import fail
from zscout.cli.options import OutputFile, Quick


@dataclass(frozen=True)
class Bench:
    """Measure speed against plain references in the same run, and that the answers agree."""

    seed: int = 0
    """Decides the task vectors and the rollouts."""
    quick: Quick = False
    """Smaller problems: about ten seconds in all."""
    json: OutputFile = None
    """Also write the table to this file, and make its folder."""

    def run(self, console: Console) -> None:
        """Measure, print one table."""
        from zscout.files import write_json
        from zscout.lab.arena import Arena
        from zscout.lab.bench import MEASUREMENTS
        from zscout.lab.measurement import Measurement
        from zscout.lab.searches import compare_searches
        from zscout.report.tables import bench_table, search_table

        rows: list[Measurement] = []
        with console.status("") as status:
            for number, measure in enumerate(MEASUREMENTS, start=1):
                status.update(f"{number} of {len(MEASUREMENTS)}: {measure.__doc__}")
                rows += measure(seed=self.seed, quick=self.quick)
            arenas = [Arena(features=f, model=m) for m in ("network", "exact") for f in ("clusters", "laplacian")]
            searches: list[dict[str, Any]] = []
            for arena in arenas[:1] if self.quick else arenas:
                status.update(f"searches over z: {arena.features}, {arena.model}")
                searches += [row.to_json() for row in compare_searches(arena, 3 if self.quick else 30, self.seed)]
        console.print(bench_table(rows))
        console.print(search_table(searches))
        if self.json is not None:
            write_json(self.json, {"speed": [row.to_json() for row in rows], "searches": searches})
            console.print(f"wrote {self.json}", highlight=False, soft_wrap=True)
        if wrong := [row.what for row in rows if not row.agrees]:
            fail(f"the answers differ by more than they may: {', '.join(wrong)}", code=1)
