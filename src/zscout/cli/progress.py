"""Long work with a bar, the time left, and nothing lost by a stop."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from zscout.cli.mistakes import fail, stopped

if TYPE_CHECKING:
    from rich.progress import Progress

    from zscout.lab.comparison import Entrant, Outcome
    from zscout.lab.spec import Spec
    from zscout.lab.store import Store


def bar_with_time_left(console: Console) -> "Progress":
    """A bar that goes when it is done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)


def run_with_bar(specs: "list[Spec]", store: "Store", workers: int, console: Console) -> None:
    """Run what is missing, with a bar and the time left; a stop loses only the chunks that were not done."""
    import torch

    from zscout.lab.chunks import run_all

    torch.set_num_threads(1)  # these tensors are small: a second thread costs more than it gives
    if damaged := store.drop_damaged(specs):
        console.print(f"{damaged} stored runs were changed since they were written: they are run again")
    total, left = len(set(specs)), len(store.missing(specs))
    done = total - left
    if done and left:
        console.print(f"{done:,} of {total:,} runs are there from before", highlight=False)
    with bar_with_time_left(console) as bar:
        task = bar.add_task("running", total=left)
        try:
            for chunk in run_all(specs, store, workers):
                done += len(chunk.answers)
                method = chunk.answers[0].spec.method
                bar.update(task, advance=len(chunk.answers), description=method)
                if not console.is_terminal:  # a log file wants lines, not a bar
                    told = f"{done:,} of {total:,}: {method}, {len(chunk.answers)} runs in {chunk.seconds:.1f} s"
                    console.print(told, highlight=False, soft_wrap=True)
        except KeyboardInterrupt as stop:
            stopped(f"stopped after {done:,} of {total:,} runs; the same command goes on from there", stop)


def outcomes_with_bar(
    entrants: "list[Entrant]", folder: Path, workers: int, console: Console
) -> "dict[Entrant, Outcome]":
    """Run what is missing of all entrants, report what failed, and say what came of each."""
    from zscout.lab.comparison import Outcome
    from zscout.lab.store import Store

    with Store(folder) as store:
        run_with_bar([spec for entrant in entrants for spec in entrant.specs], store, workers, console)
        outcomes = {entrant: Outcome.of(entrant, store) for entrant in entrants}
    for entrant, outcome in outcomes.items():
        if outcome.failures:
            runs = entrant.tasks.count * entrant.tasks.seeds
            told = f"{entrant.method}: {len(outcome.failures)} of {runs} runs failed, so it is left out: "
            console.print(told + outcome.failures[0], highlight=False, soft_wrap=True)
    if entrants and not any(outcome.tables for outcome in outcomes.values()):
        fail("no method finished all of its runs", code=1)
    return outcomes
