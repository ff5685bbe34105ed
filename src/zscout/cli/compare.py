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
    from zscout.lab.comparison import Entrant
    from zscout.lab.report_model import TextTable


class Usual(str):
    """Marks a default value, to tell it from the same text given by the user."""

    __slots__ = ()


@dataclass(frozen=True)
class RunOptions:
    """Options of simulated runs."""

    world: str = Usual("open-grid")
    """open-grid, four-rooms, maze, or a text file with a map of '#' and '.'."""
    features: str = Usual("laplacian")
    """clusters, laplacian, laplacian-fine, or module:name: your table [S d], or a function of the world."""
    model: str = Usual("exact")
    """exact, network (the shipped one), the name or folder of a saved model, or module:name of your own."""
    steps: int = 200
    """Steps of each run."""
    noise: float = 0.3
    """Standard deviation of the reward noise."""
    jobs: int = 1
    """Number of worker processes."""
    device: str = "cpu"
    """cpu or cuda."""
    seed: int = 0
    """Seed of the tasks and of every run."""

    @property
    def place(self) -> str:
        """World, features and model, for titles of tables."""
        return f"{self.world}, {self.features} features, {self.model} model"


@dataclass(frozen=True)
class Compare(RunOptions):
    """Compare methods on the same tasks and seeds, with exact regret; stored runs are reused."""

    out: Path = Path("out/compare")
    """Folder for runs.sqlite, which stores every step of every run."""
    methods: str = "usf-ucb,usf-ucb-norm,usf-ucb-paper,greedy,random"
    """Comma-separated names, or all; module:name for your own."""
    settings: str = "auto"
    """auto: defaults for usf-ucb and usf-ucb-norm, stored tuned settings for the other methods where this arena has
    them. settling (or tuned): tuned settings for all methods, fewest lost steps among those that settle in 95 % of
    runs. fewest: the same without that condition. default: published settings. Or a JSON file: the one of zscout tune,
    or {"method": {"setting": value}}; methods it does not name run as with auto."""
    tasks: int = 100
    """Number of tasks (hidden z_r)."""
    seeds: int = 3
    """Number of runs for each task."""
    against: str = ""
    """A method, such as opti: print a second table of each other method against it, paired by run: ratio and
    difference of lost steps, probability of improvement."""
    psi_error: float = 0.0
    """Add errors of this relative size to the exact model's ψ; its policies stay optimal."""
    heads: int = 1
    """With --psi-error: number of heads of ψ, each with its own error."""
    outside: float = 0.0
    """Share of the reward's variance over states that the features cannot express."""
    offset: float = 0.0
    """A constant added to every reward; it does not change the best behaviour."""
    traces: Annotated[str, tyro.conf.arg(metavar="FILE[,FILE…]")] = ""
    """Comma-separated files exported by zscout live: run the methods on the same reward, in one table with them."""
    quick: Quick = False
    """Quick test: five tasks, one seed, at most 50 steps."""
    json: OutputFile = None
    """Also write the table, the numbers and the seed of every run to this file; creates its folder."""
    csv: OutputFile = None
    """Also write the table to this file as CSV; creates its folder."""
    markdown: OutputFile = None
    """Also write the table to this file as Markdown; creates its folder."""

    def run(self, console: Console) -> None:
        """Run what is not stored yet, print one table."""
        from zscout.lab.comparison import comparison, paired_cells, ranking_cells
        from zscout.lab.report_model import TextTable
        from zscout.lab.tuning import about_settings, settings_of_file
        from zscout.report.tables import compare_csv, terminal_table

        if self.traces:
            from zscout.cli.traces import compare_traces

            compare_traces(self, console)
            return
        with usage_errors():
            writable(self.json, self.csv, self.markdown)
            entrants = self._entrants(console)
            in_file = settings_of_file(self.settings, entrants[0].arena)
        announce_slow(entrants, self.jobs, console)
        outcomes = outcomes_with_bar(entrants, self.out, self.jobs, console)
        rows = [
            replace(row, note=about_settings(row.method, row.settings, in_file))
            for row in comparison(list(outcomes.values()), self.against)
        ]
        title = f"{self.place}: {entrants[0].steps} steps"
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
        """Write the results to the requested files."""
        from zscout.files import write_bytes, write_json
        from zscout.report.tables import to_markdown

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
        from zscout.lab.arena import Tasks
        from zscout.lab.comparison import Entrant
        from zscout.lab.grid_arena import GridArena
        from zscout.lab.tuning import settings_named
        from zscout.transfer.methods import METHODS

        chosen = list(METHODS) if self.methods == "all" else names_of(self.methods)
        if self.against and self.against not in chosen:
            raise UsageError(f"--against {self.against} is not among the methods {', '.join(chosen)}")
        count, seeds = (5, 1) if self.quick else (self.tasks, self.seeds)
        steps = min(self.steps, 50) if self.quick else self.steps
        tasks = Tasks(count, seeds, "report", self.seed)
        device = device_named(self.device)
        arena = GridArena(str(self.world), str(self.features), str(self.model), self.psi_error, self.heads, device)
        settings = settings_named(self.settings, arena)
        as_size(self.jobs, "jobs", 1)
        rest = {"noise": self.noise, "steps": steps, "outside": self.outside, "offset": self.offset}
        Entrant.of(arena, "oracle", {}, tasks, **rest).check()
        entrants = [Entrant.of(arena, name, settings.get(name, {}), tasks, **rest) for name in chosen]
        kept = runnable(entrants, self.methods == "all", console)
        if self.against and self.against not in [entrant.method for entrant in kept]:
            raise UsageError(f"--against {self.against} cannot run in this arena")
        return kept


@dataclass(frozen=True)
class Tune(RunOptions):
    """Tune each method on separate tasks, with the same budget for each; compare --settings FILE uses the result."""

    out: Path = Path("out/tune")
    """Folder for settings.json (both choices and every setting tried, by arena) and every run."""
    methods: str = "all"
    """Comma-separated names, or all; module:name for your own, with its settings in the list module:name_grid."""
    tasks: int = 250
    """Number of tuning tasks, one run each; compare never uses them."""
    report: int = 20
    """Number of other tasks to measure the chosen settings on (the first tasks of zscout compare)."""
    quick: Quick = False
    """Quick test: three tasks, two settings for each method, at most 20 steps."""
    json: OutputFile = None
    """Also write every run of every setting to this file; creates its folder."""

    def run(self, console: Console) -> None:
        """Run what is not stored yet, print the chosen settings."""
        from zscout.edge import as_size
        from zscout.files import write_json
        from zscout.lab.arena import Tasks
        from zscout.lab.comparison import Entrant, comparison, ranking_cells
        from zscout.lab.grid_arena import GridArena
        from zscout.lab.report_model import TextTable
        from zscout.lab.tuning import GRIDS, beyond, candidates, choose, merged, record_head, tuning_record
        from zscout.report.tables import terminal_table

        with usage_errors():
            writable(self.json)
            count = 3 if self.quick else self.tasks
            report = min(3, self.report) if self.quick else self.report
            tasks, others = (Tasks(n, 1, kind, self.seed) for n, kind in ((count, "tuning"), (report, "report")))
            arena = GridArena(str(self.world), str(self.features), str(self.model), device=device_named(self.device))
            as_size(self.jobs, "jobs", 1)
            steps = min(self.steps, 20) if self.quick else self.steps
            names = list(GRIDS) if self.methods == "all" else names_of(self.methods)
            tried = candidates(arena, names, tasks, steps, self.noise, most=2 if self.quick else None)
            if not (tried := runnable(tried, self.methods == "all", console)):
                raise UsageError("no method can be tuned here")
            path = self.out / "settings.json"
            before = merged(path, arena, record_head(tried[0]))
        announce_slow(tried, self.jobs, console)
        outcomes = list(outcomes_with_bar(tried, self.out, self.jobs, console).values())
        if further := [] if self.quick else beyond(outcomes):
            console.print(f"{len(further)} more settings, because some choices are at the edge of their grid")
            outcomes += outcomes_with_bar(further, self.out, self.jobs, console).values()
        record = tuning_record(outcomes)
        chosen = choose(record["tried"])
        rest = {"noise": self.noise, "steps": steps}
        reported = [
            Entrant.of(arena, method, settings, others, **rest)
            for method, choices in chosen.items()
            for settings in choices.values()
        ]
        found = outcomes_with_bar(list(dict.fromkeys(reported)), self.out, self.jobs, console)
        caption = (
            f"{self.place}: settings chosen on {tasks.count} tuning tasks (fewest lost, and fewest lost that settle), "
            f"measured on {others.count} other tasks"
        )
        console.print(terminal_table(TextTable("chosen", caption, *ranking_cells(comparison(list(found.values()))))))
        write_json(path, before(chosen, record))
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
        if self.json is not None:
            write_json(self.json, [outcome.to_json() for outcome in outcomes])
            console.print(f"wrote {self.json}", highlight=False, soft_wrap=True)


def runnable(entrants: "list[Entrant]", all_methods: bool, console: Console) -> "list[Entrant]":
    """The entrants that can run in this arena; the others raise, or with ``--methods all`` are left out."""
    kept, left_out = [], set()
    for entrant in entrants:
        try:
            entrant.check()
        except ValueError as error:
            if not all_methods:
                named = entrant.method in str(error)
                raise UsageError(f"{error}" if named else f"{entrant.method}: {error}") from error
            if entrant.method not in left_out:
                console.print(f"left out: {entrant.method} ({error})", highlight=False, soft_wrap=True)
            left_out.add(entrant.method)
        else:
            kept.append(entrant)
    return kept


def announce_slow(entrants: "list[Entrant]", jobs: int, console: Console) -> None:
    """Announce rows that take more than a minute, with an estimate."""
    from zscout.lab.chunks import expected_seconds

    by_method: dict[str, tuple[int, int, float]] = {}
    for entrant, (tasks, seconds) in expected_seconds(entrants).items():
        _, runs, total = by_method.get(entrant.method, (0, 0, 0.0))
        by_method[entrant.method] = (tasks, runs + entrant.tasks.count * entrant.tasks.seeds, total + seconds / jobs)
    for method, (tasks, runs, total) in by_method.items():
        if total > 60:
            console.print(
                f"{method}: solves {tasks} tasks per step with the exact model, about {total / 60:.0f} min for "
                f"{runs:,} runs",
                highlight=False,
                soft_wrap=True,
            )
