"""``python -m reproduction``."""

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro
from rich.console import Console

from zscout.cli import explained, run
from zscout.cli.parts.options import Address, Jobs, OutputFile, Quick, Runner, usage_errors
from zscout.cli.parts.output import UsageError, fail, say, writable, writable_folder
from zscout.cli.parts.progress import bar_with_time_left, run_with_bar

if TYPE_CHECKING:
    from reproduction.paper import Runs, Scale
    from reproduction.report.model import Section, Story

PROGRAM = "python -m reproduction"
RESULTS, TIMINGS, REPORT = "results.json", "timings.json", "report.html"


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the paper: run what is not stored yet, check every claim, write figures, tables and report.html."""

    out: Path = Path("out")
    """Folder for report.html, results.json, figures and every run; an interrupted command resumes there."""
    seed: int = 0  # Seed of tasks, noise and random draws; use a new folder for another seed.
    jobs: Jobs = None  # Number of worker processes (default: 2); with --runner ray, of cores (default: all).
    runner: Runner = "local"  # Where runs are computed: local processes, or ray (an extra).
    address: Address = ""  # With --runner ray: a running cluster; without it, one is started on this machine.
    quick: Quick = False
    """Quick test, about a minute on two free cores: most claims, fewer runs; for the others, run it whole."""
    json: OutputFile = None  # Also write results.json to this file; creates its folder.

    def run(self, console: Console) -> None:
        """Run the experiments, check the claims, write the report."""
        import time

        from reproduction.paper import Runs, Scale, specs, story
        from zscout.base.edge import as_size
        from zscout.base.files import write_json
        from zscout.lab.arenas.arena import MOST_SEED
        from zscout.lab.runs.executor import executor_named
        from zscout.lab.runs.store import Store

        began, scale = time.perf_counter(), Scale(self.seed, self.quick)
        with usage_errors():
            as_size(self.seed, "seed", 0, MOST_SEED)
            writable(self.json)
            writable_folder(self.out)
            jobs = min(2, os.cpu_count() or 1) if self.jobs is None and self.runner == "local" else self.jobs
            workers = contextlib.closing(executor_named(self.runner, jobs=jobs, address=self.address))
            self._refuse_another(console)
            needed = specs(scale)
        with Store(self.out) as store:
            with workers as executor:
                run_with_bar(needed, store, executor, console)
            if failed := [why for spec in needed if (why := store.failure(spec))]:
                fail(f"{len(failed)} runs failed: {failed[0]}", code=1)
            ran, runs = time.perf_counter(), Runs(store)
            told, seconds = self._tell(scale, runs, console)
            told_at, whole = time.perf_counter(), story(scale, told)
            self._draw(whole, console)
            results = {"seed": self.seed, "quick": self.quick, **whole.to_json()}
            for path in (self.out / RESULTS, *([self.json] if self.json else [])):
                write_json(path, results)
            timings = {
                "seconds": {
                    "running what was missing": ran - began,
                    "telling": told_at - ran,
                    "drawing": time.perf_counter() - told_at,
                },
                "sections": seconds,
                "tables": {t.name: [list(t.head), *map(list, t.rows)] for s in told for t in s.tables if t.timed},
            }
            write_json(self.out / TIMINGS, timings)
        if self.quick:
            say(console, "Quick test: fewer runs, without claims 10, 11, 14, 15 and 19. Run it whole for these.")
        for claim in whole.claims:
            say(console, f"{claim.number:>4} {claim.verdict:<20} {claim.says}")
        say(console, f"{time.perf_counter() - began:.0f} s; wrote {self.out / REPORT}")

    def _refuse_another(self, console: Console) -> None:
        """Raise if the folder holds the report of another seed or scale; warn if other code made it."""
        from zscout.base.files import read_json
        from zscout.lab.runs.spec import code_digest
        from zscout.lab.runs.store import FILE

        path = self.out / RESULTS
        if not path.exists():
            # A stop between the two writes leaves a report without results: if the runs are there, redo the report.
            if (self.out / REPORT).exists() and not (self.out / FILE).exists():
                raise UsageError(f"{self.out / REPORT} exists without {RESULTS} and {FILE}: name another --out")
            return
        try:
            before = read_json(path)
            made, code = (before["seed"], before["quick"]), before["about"]["code"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} was not written by python -m reproduction: name another --out") from error
        if made != (self.seed, self.quick):
            kind = f"seed {made[0]}{', quick' if made[1] else ''}"
            raise UsageError(f"{self.out} holds the report of {kind}: name another --out, or move it")
        if code != code_digest()[:12]:
            console.print(f"{self.out} was made by other code: runs and report are made again")

    def _draw(self, story: "Story", console: Console) -> None:
        """Write the report, and show which file was written last."""
        from reproduction.report.report import number_of_files, written_files

        with bar_with_time_left(console) as bar:
            task = bar.add_task("drawing", total=number_of_files(story))
            for path in written_files(story, self.out):
                bar.update(task, advance=1, description=f"drawing {path.name}")
                if bar.disable and path.suffix == ".svg":  # lines, not a bar, in a log file
                    say(console, f"drew {path}")

    @staticmethod
    def _tell(scale: "Scale", runs: "Runs", console: Console) -> "tuple[list[Section], dict[str, float]]":
        import time

        from reproduction.paper import experiments, sections

        told: list[Any] = []
        seconds: dict[str, float] = {}
        with bar_with_time_left(console) as bar:
            task, last = bar.add_task("checking claims", total=len(experiments(scale))), time.perf_counter()
            for section in sections(scale, runs):
                told.append(section)
                now = time.perf_counter()
                seconds[section.key], last = now - last, now
                bar.update(task, advance=1, description=section.title)
        return told, seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it; a user error prints one line and exits with code 2."""
    run(_parse, list(sys.argv[1:] if arguments is None else arguments))


def _parse(words: list[str]) -> Reproduce:
    with explained(PROGRAM):
        return tyro.cli(Reproduce, prog=PROGRAM, args=words)


if __name__ == "__main__":
    main()
