"""Progress bars for long runs that can be stopped and resumed."""

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
    """A bar with the time left; it disappears when done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)


def run_with_bar(specs: "list[Spec]", store: "Store", workers: int, console: Console) -> None:
    """Run what is not stored yet, with a bar and the time left; a stop loses only unfinished chunks."""
    import torch

    from zscout.lab.chunks import run_all

    torch.set_num_threads(1)  # small tensors: more threads are slower
    if damaged := store.drop_damaged(specs):
        console.print(f"{damaged} stored runs are damaged and are run again")
    total, left = len(set(specs)), len(store.missing(specs))
    done = total - left
    if done and left:
        console.print(f"{done:,} of {total:,} runs are already stored", highlight=False)
    with bar_with_time_left(console) as bar:
        task = bar.add_task("running", total=left)
        try:
            for chunk in run_all(specs, store, workers):
                done += len(chunk.answers)
                method = chunk.answers[0].spec.method
                bar.update(task, advance=len(chunk.answers), description=method)
                if not console.is_terminal:  # lines, not a bar, in a log file
                    told = f"{done:,} of {total:,}: {method}, {len(chunk.answers)} runs in {chunk.seconds:.1f} s"
                    console.print(told, highlight=False, soft_wrap=True)
        except KeyboardInterrupt as stop:
            stopped(f"stopped after {done:,} of {total:,} runs; run the same command again to resume", stop)


def outcomes_with_bar(
    entrants: "list[Entrant]", folder: Path, workers: int, console: Console
) -> "dict[Entrant, Outcome]":
    """Run what is not stored yet, report failures, and return the outcome of each entrant."""
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
