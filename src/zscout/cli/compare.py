"""zscout compare and zscout tune."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from zscout.cli.parts.options import (
    ARENA,
    COMPARED,
    COMPUTING,
    DIFFICULTY,
    FILES,
    InArena,
    Methods,
    OutputFile,
    Quick,
    Settings,
    WithComputing,
    WithDifficulty,
    WithFiles,
    names_of,
    usage_errors,
)
from zscout.cli.parts.output import UsageError, say, writable, writable_folder, write_files
from zscout.cli.parts.progress import outcomes_with_bar

if TYPE_CHECKING:
    from zscout.lab.arenas.arena import Arena, Tasks
    from zscout.lab.compare.comparison import Entrant

FURTHER = 8  # times at most that a grid is extended where a choice is at its edge


@dataclass(frozen=True)
class Compare:
    """Compare methods on the same tasks and seeds, with exact regret (in large and continuous worlds,
    relative to the oracle); stored runs are reused."""

    methods: Methods = COMPARED
    settings: Settings = "auto"
    tasks: int = 100  # Number of tasks (hidden z_r).
    seeds: int = 3  # Number of runs for each task.
    steps: int = 200  # Steps of each run.
    # A method, such as opti: print a second table of each other method against it, paired by run: ratio and
    # difference of lost steps, probability of improvement.
    against: str = ""
    seed: int = 0  # Seed of the tasks and of every run.
    out: Path = Path("out/compare")  # Folder for runs.sqlite, which stores every step of every run.
    quick: Quick = False  # Quick test: five tasks, one seed, at most 50 steps.
    arena: InArena = ARENA
    difficulty: WithDifficulty = DIFFICULTY
    computing: WithComputing = COMPUTING
    files: WithFiles = FILES

    def run(self, console: Console) -> None:
        """Run what is not stored yet, print one table."""
        from zscout.lab.compare.comparison import compare_csv, comparison, episode_cells, paired_cells, ranking_table
        from zscout.lab.compare.tables import TextTable, terminal_table
        from zscout.lab.compare.tuning import about_settings, settings_of_file

        with usage_errors():
            self.files.check()
            writable_folder(self.out)
            workers = self.computing.executor()
            entrants = self._entrants(console)
            methods = [entrant.method for entrant in entrants]
            in_file = settings_of_file(self.settings, entrants[0].arena, methods)
        with workers as executor:
            outcomes = outcomes_with_bar(entrants, self.out, executor, console)
        rows = [
            replace(row, note=about_settings(row.method, row.settings, in_file))
            for row in comparison(list(outcomes.values()), self.against)
        ]
        title = f"{self.arena.title}: {entrants[0].steps} steps"
        tables = [ranking_table("ranking", title, rows)]
        if (episodes := episode_cells(rows))[1]:
            tables.append(TextTable("episodes", f"{title}; episodes", *episodes))
        if self.against:
            tables.append(TextTable("paired", f"{title}; run by run", *paired_cells(rows, self.against)))
        for table in tables:
            console.print(terminal_table(table))
        alike, seen = [], set()
        for row in rows:
            seen.add(row.label)
            if later := [label for label in row.alike if label not in seen]:
                alike.append(f"{row.label} and {' or '.join(later)}")
        if alike:
            say(console, f"No significant difference: {'; '.join(alike)}.")
        found = [outcome.to_json() for outcome in outcomes.values()]
        self.files.write(
            console, tables, {"rows": [row.to_json() for row in rows], "outcomes": found}, compare_csv(rows)
        )

    def _entrants(self, console: Console) -> "list[Entrant]":
        from zscout.lab.arenas.arena import Tasks
        from zscout.lab.compare.comparison import Entrant
        from zscout.lab.compare.tuning import settings_named
        from zscout.transfer.methods import METHODS

        chosen = list(METHODS) if self.methods == "all" else names_of(self.methods)
        if self.against and self.against not in chosen:
            raise UsageError(f"--against {self.against} is not among the methods {', '.join(chosen)}")
        count, seeds = (5, 1) if self.quick else (self.tasks, self.seeds)
        steps = min(self.steps, 50) if self.quick else self.steps
        tasks = Tasks(count, seeds, "report", self.seed)
        arena = self.arena.build(self.computing.device)
        if (most := arena.distinct_tasks) and count > most:
            say(console, f"{self.arena.world} has {most} tasks")
            tasks = Tasks(most, seeds, "report", self.seed)
        settings = settings_named(self.settings, arena)
        rest: dict[str, Any] = {"noise": self.arena.noise, "steps": steps, **vars(self.difficulty)}
        Entrant.of(arena, "oracle", {}, tasks, **rest).check()
        entrants = [Entrant.of(arena, name, settings.get(name, {}), tasks, **rest) for name in chosen]
        kept = runnable(entrants, self.methods == "all", console)
        if self.against and self.against not in [entrant.method for entrant in kept]:
            raise UsageError(f"--against {self.against} cannot run in this arena")
        return kept


@dataclass(frozen=True)
class Tune:
    """Tune each method on separate tasks: 16 settings each, and more where the best is at the edge of its grid;
    compare --settings FILE uses the result."""

    methods: str = "all"  # Comma-separated names, or all.
    # Number of tuning runs, each of another task, which compare never uses. The tasks of a body are a fixed list: its
    # suite's are tuned on the held-out ones, and the other way round, with the same number of runs for each.
    tasks: int = 250
    report: int = 20  # Number of runs to measure the chosen settings on (the first tasks of zscout compare).
    steps: int = 200  # Steps of each run.
    seed: int = 0  # Seed of the tasks and of every run.
    out: Path = Path("out/tune")
    """Folder for settings.json (both choices and every setting tried, by arena) and every run."""
    json: OutputFile = None  # Also write every run of every setting to this file; creates its folder.
    quick: Quick = False  # Quick test: three tasks, two settings for each method, at most 20 steps.
    arena: InArena = ARENA
    computing: WithComputing = COMPUTING

    def run(self, console: Console) -> None:
        """Run what is not stored yet, print the chosen settings."""
        from zscout.lab.compare.comparison import Entrant, comparison, ranking_table
        from zscout.lab.compare.tables import terminal_table
        from zscout.lab.compare.tuning import beyond, candidates, choose, grids_of, merged, record_head, tried_settings

        with usage_errors():
            writable(self.json)
            writable_folder(self.out)
            workers = self.computing.executor()
            count = 3 if self.quick else self.tasks
            report = min(3, self.report) if self.quick else self.report
            arena = self.arena.build(self.computing.device)
            tasks, others = (
                _tasks(source, n, kind, self.seed)
                for source, n, kind in ((arena.tuned_on, count, "tuning"), (arena, report, "report"))
            )
            steps = min(self.steps, 20) if self.quick else self.steps
            names = list(grids_of(arena)) if self.methods == "all" else names_of(self.methods)
            tried = candidates(arena.tuned_on, names, tasks, steps, self.arena.noise, most=2 if self.quick else None)
            if not (tried := runnable(tried, self.methods == "all", console)):
                raise UsageError("no method can be tuned here")
            path = self.out / "settings.json"
            with_new = merged(path, arena, record_head(tried[0]))
        with workers as executor:
            outcomes = list(outcomes_with_bar(tried, self.out, executor, console).values())
            for _ in range(0 if self.quick else FURTHER):
                if not (further := beyond(outcomes)):
                    break
                console.print(f"{len(further)} more settings, because some choices are at the edge of their grid")
                outcomes += outcomes_with_bar(further, self.out, executor, console).values()
            found = tried_settings(outcomes)
            chosen = [(method, settings) for method, both in choose(found).items() for settings in both.values()]
            reported = [Entrant.of(arena, *each, others, noise=self.arena.noise, steps=steps) for each in chosen]
            rows = outcomes_with_bar(list(dict.fromkeys(reported)), self.out, executor, console)
        caption = (
            f"{self.arena.title}: settings chosen on {tasks.count * tasks.seeds} runs of other tasks (fewest lost, and "
            f"fewest lost that settle), measured on {others.count * others.seeds} runs"
        )
        console.print(terminal_table(ranking_table("chosen", caption, comparison(list(rows.values())))))
        write_files(console, (path, with_new(found)))
        write_files(console, (self.json, [outcome.to_json() for outcome in outcomes]))


def _tasks(arena: "Arena", runs: int, kind: str, seed: int) -> "Tasks":
    """Tasks for about this number of runs: one of each task; a fixed list is repeated with several seeds."""
    from zscout.base.edge import as_size
    from zscout.lab.arenas.arena import Tasks

    runs = as_size(runs, "tasks", 1)
    most = arena.distinct_tasks or runs
    return Tasks(min(runs, most), max(1, runs // most), kind, seed)


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
                say(console, f"left out: {entrant.method} ({error})")
            left_out.add(entrant.method)
        else:
            kept.append(entrant)
    return kept
