"""zscout compare and zscout tune."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from zscout.cli.mistakes import UsageError, usage_errors
from zscout.cli.options import OutputFile, Quick, device_named, names_of, writable
from zscout.cli.progress import outcomes_with_bar

if TYPE_CHECKING:
    from zscout.lab.compare import Entrant
    from zscout.lab.story import TextTable


class Usual(str):
    """What an option is while it is not given; given, it is any other text, be it the same letters."""

    __slots__ = ()


@dataclass(frozen=True)
class Runs:
    """What decides simulated runs, whatever they are for."""

    features: str = Usual("laplacian")
    """clusters or laplacian."""
    steps: int = 200
    """Rewards that each run sees."""
    noise: float = 0.3
    """Standard deviation of the rewards' noise."""
    jobs: int = 1
    """Processes to share the work."""
    device: str = "cpu"
    """cpu or cuda."""
    seed: int = 0
    """Another number, other tasks and seeds."""


@dataclass(frozen=True)
class Compare(Runs):
    """Compare methods on the same tasks and seeds, with exact regret; what was run before is not run again."""

    out: Path = Path("out/compare")
    """Folder that keeps every run, step by step, in runs.sqlite."""
    world: str = Usual("open-grid")
    """open-grid, four-rooms, maze, or a text file with a map of '#' and '.'."""
    model: str = Usual("exact")
    """exact, network (the one that ships), the name or folder of a saved model, or your own as module:name."""
    methods: str = "usf-ucb,usf-ucb-norm,usf-ucb-paper,greedy,random"
    """Names with commas between, or all; your own as module:name."""
    settings: str = "default"
    """default, tuned (chosen on other tasks), or a file that zscout tune wrote."""
    tasks: int = 100
    """How many hidden z_r."""
    seeds: int = 3
    """How many runs for each of them."""
    against: str = ""
    """Also compare each of the others with this method, run by run: ratio, difference, probability of improvement."""
    psi_error: float = 0.0
    """Make the exact model's ψ wrong by this share of its length, its policies still right."""
    heads: int = 1
    """So many estimates of ψ, each with an error of its own."""
    outside: float = 0.0
    """Share of the reward's variance over states that the features cannot express."""
    traces: Annotated[str, tyro.conf.arg(metavar="FILE[,FILE…]")] = ""
    """Runs that zscout live exported: the methods are run on their very reward, and all stand in one table."""
    quick: Quick = False
    """Five tasks, one seed, at most 50 steps: a first look."""
    json: OutputFile = None
    """Also write the table, every run's numbers and all seeds to this file, and make its folder."""
    csv: OutputFile = None
    """Also write the table to this file as CSV, and make its folder."""
    markdown: OutputFile = None
    """Also write the table to this file as Markdown, and make its folder."""

    def run(self, console: Console) -> None:
        """Run what is missing, print one table."""
        from zscout.lab.compare import comparison, paired_cells, ranking_cells
        from zscout.lab.story import TextTable
        from zscout.report.tables import compare_csv, terminal_table

        if self.traces:
            from zscout.cli.traces import compare_traces

            compare_traces(self, console)
            return
        with usage_errors():
            writable(self.json, self.csv, self.markdown)
            entrants = self._entrants(console)
        outcomes = outcomes_with_bar(entrants, self.out, self.jobs, console)
        rows = comparison(list(outcomes.values()), self.against)
        title = f"{self.world}, {self.features}, {self.model}: {entrants[0].steps} steps"
        tables = [TextTable("ranking", title, *ranking_cells(rows))]
        if self.against:
            tables.append(TextTable("paired", f"{title}; run by run", *paired_cells(rows, self.against)))
        for table in tables:
            console.print(terminal_table(table))
        told, seen = [], set()
        for row in rows:
            seen.add(row.label)
            if later := [label for label in row.alike if label not in seen]:
                told.append(f"{row.label} from {' or '.join(later)}")
        if told:
            console.print(f"These data cannot tell {'; '.join(told)}.", highlight=False, soft_wrap=True)
        content = {
            "rows": [row.to_json() for row in rows],
            "outcomes": [outcome.to_json() for outcome in outcomes.values()],
        }
        self.write(console, tables, content, compare_csv(rows))

    def write(self, console: Console, tables: "Sequence[TextTable]", content: dict[str, Any], csv: str) -> None:
        """What was found, into the files that were asked for."""
        from zscout.files import write_bytes, write_json
        from zscout.report.export import to_markdown

        written = []
        if self.json is not None:
            written.append(write_json(self.json, content))
        if self.csv is not None:
            written.append(write_bytes(self.csv, csv.encode()))
        if self.markdown is not None:
            written.append(write_bytes(self.markdown, "\n".join(map(to_markdown, tables)).encode()))
        for path in written:
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)

    def _entrants(self, console: Console) -> "list[Entrant]":
        from zscout.edge import as_size
        from zscout.lab.arena import Arena, Tasks
        from zscout.lab.compare import Entrant
        from zscout.lab.tuning import settings_named
        from zscout.transfer.methods import METHODS

        chosen = list(METHODS) if self.methods == "all" else names_of(self.methods)
        if self.against and self.against not in chosen:
            raise UsageError(f"--against {self.against} is not among the methods {', '.join(chosen)}")
        count, seeds = (5, 1) if self.quick else (self.tasks, self.seeds)
        steps = min(self.steps, 50) if self.quick else self.steps
        tasks = Tasks(count, seeds, "report", self.seed)
        device = device_named(self.device)
        arena = Arena(str(self.world), str(self.features), str(self.model), self.psi_error, self.heads, device)
        settings = settings_named(self.settings, self.features)
        as_size(self.jobs, "jobs", 1)
        Entrant(arena, "oracle", tasks=tasks, noise=self.noise, steps=steps, outside=self.outside).check()
        entrants = []
        for name in chosen:
            entrant = Entrant.of(
                arena, name, settings.get(name, {}), tasks, noise=self.noise, steps=steps, outside=self.outside
            )
            try:
                entrant.check()
            except ValueError as error:
                if self.methods != "all" or name == self.against:
                    raise
                console.print(f"left out: {name} ({error})", highlight=False, soft_wrap=True)
            else:
                entrants.append(entrant)
        return entrants


@dataclass(frozen=True)
class Tune(Runs):
    """Choose each method's settings on tuning tasks, as many tried for each; compare --settings FILE uses them."""

    out: Path = Path("out/tune")
    """Folder for settings-FEATURES.json and every run."""
    methods: str = "all"
    """Names with commas between, or all."""
    tasks: int = 50
    """How many tuning z_r, which compare never reports on."""
    seeds: int = 1
    """How many runs for each of them."""
    report: int = 20
    """How many other tasks the chosen settings are then reported on, the first of compare's."""
    quick: Quick = False
    """Three tasks, two settings a method, at most 20 steps: a first look."""
    json: OutputFile = None
    """Also write every run of every setting to this file, and make its folder."""

    def run(self, console: Console) -> None:
        """Run what is missing, print what was chosen."""
        from zscout.edge import as_size
        from zscout.files import write_json
        from zscout.lab.arena import Arena, Tasks
        from zscout.lab.compare import comparison, ranking_cells
        from zscout.lab.story import TextTable
        from zscout.lab.tuning import BUDGET, GRIDS, candidates, choose_all, kept_settings, tuning_record
        from zscout.report.tables import terminal_table

        chosen = list(GRIDS) if self.methods == "all" else names_of(self.methods)
        with usage_errors():
            writable(self.json)
            tasks = Tasks(3 if self.quick else self.tasks, self.seeds, "tuning", self.seed)
            arena = Arena(features=str(self.features), device=device_named(self.device))
            as_size(self.jobs, "jobs", 1)
            steps = min(self.steps, 20) if self.quick else self.steps
            tried = candidates(arena, chosen, tasks, steps, self.noise, budget=2 if self.quick else BUDGET)
            for entrant in tried:
                entrant.check()
        outcomes = list(outcomes_with_bar(tried, self.out, self.jobs, console).values())
        best = choose_all(outcomes)
        others = Tasks(3 if self.quick else self.report, self.seeds, "report", self.seed)
        chosen_ones = [replace(outcome.entrant, tasks=others) for outcome in best.values()]
        reported = outcomes_with_bar(chosen_ones, self.out, self.jobs, console)
        for caption, found in (
            (f"chosen on {tasks.count} tuning tasks", list(best.values())),
            (f"the same settings on {others.count} other tasks", list(reported.values())),
        ):
            console.print(terminal_table(TextTable("chosen", caption, *ranking_cells(comparison(found)))))
        path = self.out / f"settings-{self.features}.json"
        kept, record = kept_settings(path, self.features)  # of methods tuned before
        for name, outcome in best.items():
            kept[name] = outcome.settings
            tried_of_it = [other for other in outcomes if other.entrant.method == name]
            record[name] = tuning_record(tried_of_it, others.run_seeds)
        write_json(path, {self.features: kept, "record": record})
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
        if self.json is not None:
            write_json(self.json, [outcome.to_json() for outcome in outcomes])
            console.print(f"wrote {self.json}", highlight=False, soft_wrap=True)
