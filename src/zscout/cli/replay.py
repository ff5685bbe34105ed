"""zscout replay: recorded runs next to methods on the same reward."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from zscout.cli.parts.options import (
    COMPARED,
    FILES,
    Methods,
    Quick,
    Settings,
    WithFiles,
    device_named,
    names_of,
    usage_errors,
)
from zscout.cli.parts.output import UsageError, say
from zscout.cli.parts.progress import bar_with_time_left

if TYPE_CHECKING:
    from zscout.lab.compare.trace_comparison import MeasuredRuns, TraceComparison
    from zscout.lab.runs.spec import Spec

KNOWN = "Intervals are over a method's runs; one reward is not enough to rank methods."
UNKNOWN = "The rewards came from a person, so the task is unknown: no regret, and no new runs of methods."


@dataclass(frozen=True)
class Replay:
    """Run methods on the hidden reward of runs that zscout live recorded, in one table with them."""

    traces: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE [FILE ...]")] = ()
    """Files exported by the page: runs with the same reward."""
    methods: Methods = COMPARED
    settings: Settings = "auto"
    seeds: int = 3  # Number of runs for each method.
    device: str = "cpu"  # cpu or cuda.
    quick: Quick = False  # Quick test: one seed.
    files: WithFiles = FILES

    def run(self, console: Console) -> None:
        """Print one table and write it to the requested files."""
        from zscout.lab.compare.comparison import compare_csv, one_reward_table
        from zscout.lab.compare.tables import TextTable, terminal_table, to_csv
        from zscout.lab.compare.trace_comparison import TraceComparison, rows_of
        from zscout.lab.compare.tuning import about_settings, settings_of_file

        with usage_errors():
            self.files.check()
            if not self.traces:
                raise UsageError("name the files that zscout live exported, for example zscout replay run.json")
            traces = TraceComparison.read(self.traces, device_named(self.device))
            specs = [] if traces.by_person else self._specs(traces, console)
            methods = [spec.method for spec in specs]
            in_file = {} if traces.by_person else settings_of_file(self.settings, traces.arena, methods)
        content: dict[str, Any] = {"traces": list(traces.files), "reward": traces.first.who}
        if traces.by_person:
            content["rows"] = runs = traces.person_runs()
            lines = [
                [it["method"], f"{it['steps']}", f"{it['told']}", "" if it["mean"] is None else f"{it['mean']:.3f}"]
                for it in runs
            ]
            table = TextTable("person", _title(traces), ["method", "steps", "rewards told", "mean reward"], lines)
            csv = to_csv(table)
        else:
            found = [*traces.recorded(), *self._afresh(traces, specs, console)]
            fresh = {spec.method for spec in specs}
            rows = [
                replace(row, note=about_settings(row.method, row.settings, in_file)) if row.method in fresh else row
                for row in rows_of(found)
            ]
            table = one_reward_table("traces", _title(traces), rows)
            content |= {"rows": [row.to_json() for row in rows], "runs": [runs.to_json() for runs in found]}
            csv = compare_csv(rows)
        console.print(terminal_table(table))
        say(console, UNKNOWN if traces.by_person else KNOWN)
        self.files.write(console, [table], content, csv)

    def _specs(self, traces: "TraceComparison", console: Console) -> "list[Spec]":
        from zscout.base.edge import as_size
        from zscout.lab.compare.tuning import settings_named
        from zscout.transfer.methods import METHODS

        as_size(self.seeds, "seeds", 1, 1_000)
        chosen = list(METHODS) if self.methods == "all" else names_of(self.methods)
        settings = settings_named(self.settings, traces.arena)
        specs = []
        for name in chosen:
            try:
                specs.append(traces.spec(name, settings.get(name, {})))
            except ValueError as error:
                if self.methods != "all":
                    raise
                say(console, f"left out: {name} ({error})")
        return specs

    def _afresh(self, traces: "TraceComparison", specs: "list[Spec]", console: Console) -> "list[MeasuredRuns]":
        import torch

        torch.set_num_threads(1)  # small tensors: more threads are slower
        found = []
        with bar_with_time_left(console) as bar:
            work = bar.add_task("running", total=len(specs))
            for spec in specs:
                bar.update(work, description=spec.method)
                found.append(traces.afresh(spec, 1 if self.quick else self.seeds))
                bar.advance(work)
        return found


def _title(traces: "TraceComparison") -> str:
    file = traces.first
    words = [f"{file.world}, {file.features}, {file.model}: {file.steps} steps"]
    if file.who == "hidden":
        words.append(f"noise {file.noise:g}")
        if repainted := sorted({painting.since for painting in file.rewards if 0 < painting.since < file.steps}):
            many = len(repainted) > 3
            words.append(f"repainted {f'{len(repainted)} times' if many else f'at step {str(repainted)[1:-1]}'}")
    if file.memory is not None:
        words.append(f"memory of about {file.memory} steps")
    return "; ".join(words)
