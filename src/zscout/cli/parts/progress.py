"""Long runs: progress bars, and signals that stop them cleanly."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from zscout.base.stopping import Terminated, stop_cleanly
from zscout.cli.parts.output import UsageError, fail, say

TOLD = 1_000_000  # transitions between lines

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from zscout.lab.compare.comparison import Entrant, Outcome
    from zscout.lab.runs.executor import Executor
    from zscout.lab.runs.spec import Spec
    from zscout.lab.runs.store import Store
    from zscout.models.data.dataset import Dataset


@contextlib.contextmanager
def signals_stop_it() -> Iterator[None]:
    """Stop a command cleanly on Ctrl-C or SIGTERM; a second signal stops it at once."""
    stop = stop_cleanly()
    there = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if there}
    kept = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}  # as under nohup
    for number in kept:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def stopped(message: str, stop: KeyboardInterrupt) -> NoReturn:
    """Print a message and exit with the code of the signal."""
    fail(message, code=128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT))


def end_in_one_line(error: BaseException) -> None:
    """Exit with one line at a stop or a user's error; any other error is a bug."""
    if isinstance(error, KeyboardInterrupt):
        stopped("stopped; files already written are complete", error)
    if isinstance(error, UsageError | OSError):
        fail(str(error) or type(error).__name__, code=2)


def bar_with_time_left(console: Console) -> "Progress":
    """A bar with the time left; it disappears when done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = console.is_interactive or console.is_jupyter  # elsewhere it would print an empty line
    return Progress(*columns, console=console, transient=True, disable=not shown)


@contextlib.contextmanager
def following(bar: "Progress", task: "TaskID", done: Callable[[], int]) -> Iterator[None]:
    """Show twice a second how much is done, however long it takes until the next line."""
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(0.5):
            bar.update(task, completed=done())

    bar.update(task, completed=done())
    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def stored_data(console: Console | None, path: Path, folder: Path, layout: str = "") -> "Iterator[Dataset]":
    """Read a folder of episodes into memory-mapped transitions, with a bar, and say what was found.

    If reading or the body raises, the folder is removed unless it was there before, and so are those made for it.
    """
    from zscout.models.data.dataset import Dataset, discard, gather

    console, told = console or Console(quiet=True), 0
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        with bar_with_time_left(console) as bar:
            task = bar.add_task("reading", total=None)
            for done, total, read in gather(path, folder, layout):
                bar.update(task, completed=done, total=total, description=f"reading: {read:,} transitions")
                if bar.disable and read // TOLD > told:  # lines, not a bar, in a log file
                    told = read // TOLD
                    say(console, f"read {read:,} transitions, {done:,} of {total:,} files")
        data = Dataset(folder)
        say(console, str(data.summary))
        yield data
    except BaseException:
        if new:
            discard(folder)
        for made in new:
            with contextlib.suppress(OSError):  # it holds more, or was not made
                made.rmdir()
        raise


def run_with_bar(specs: "list[Spec]", store: "Store", executor: "Executor", console: Console) -> None:
    """Run what is not stored yet, with a bar and the time left; a stop loses only unfinished chunks."""
    import torch

    from zscout.lab.runs.chunks import run_all

    torch.set_num_threads(1)  # small tensors: more threads are slower
    if damaged := store.drop_damaged(specs):
        console.print(f"{damaged} stored runs are damaged and are run again")
    total, left = len(set(specs)), len(store.missing(specs))
    done = total - left
    if done and left:
        say(console, f"{done:,} of {total:,} runs are already stored")
    with bar_with_time_left(console) as bar:
        task = bar.add_task("running", total=left)
        try:
            for chunk in run_all(specs, store, executor):
                done += len(chunk.answers)
                method = chunk.answers[0].spec.method
                bar.update(task, advance=len(chunk.answers), description=method)
                if bar.disable:  # lines, not a bar, in a log file
                    told = f"{done:,} of {total:,}: {method}, {len(chunk.answers)} runs in {chunk.seconds:.1f} s"
                    say(console, told)
        except KeyboardInterrupt as stop:
            stopped(f"stopped after {done:,} of {total:,} runs; run the same command again to resume", stop)


def outcomes_with_bar(
    entrants: "list[Entrant]", folder: Path, executor: "Executor", console: Console
) -> "dict[Entrant, Outcome]":
    """Run what is not stored yet, report failures, and return the outcome of each entrant."""
    from zscout.lab.compare.comparison import Outcome
    from zscout.lab.runs.store import Store

    with Store(folder) as store:
        run_with_bar([spec for entrant in entrants for spec in entrant.specs], store, executor, console)
        outcomes = {entrant: Outcome.of(entrant, store) for entrant in entrants}
    for entrant, outcome in outcomes.items():
        if outcome.failures:
            runs = entrant.tasks.count * entrant.tasks.seeds
            told = f"{entrant.method}: {len(outcome.failures)} of {runs} runs failed, so it is left out: "
            say(console, told + outcome.failures[0])
    if entrants and not any(outcome.tables for outcome in outcomes.values()):
        fail("no method finished all of its runs", code=1)
    return outcomes
