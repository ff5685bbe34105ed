"""Long work with a bar, the time left, and nothing lost by a stop."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from zscout.cli.mistakes import fail

if TYPE_CHECKING:
    from rich.progress import Progress

    from zscout.lab.compare import Job, Outcome


def bar_with_time_left(console: Console) -> "Progress":
    """A bar that goes when it is done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)


def run_with_bar(jobs: "list[Job]", folder: Path, workers: int, console: Console) -> "dict[Job, Outcome]":
    """Run jobs with a bar and the time left; a stop loses only those that were not done."""
    import torch

    from zscout.lab.compare import run_all

    torch.set_num_threads(1)  # these tensors are small: a second thread costs more than it gives
    outcomes = {}
    with bar_with_time_left(console) as bar:
        task = bar.add_task("running", total=len(jobs))
        try:
            for outcome in run_all(jobs, folder / "runs", workers):
                outcomes[outcome.job] = outcome
                bar.update(task, advance=1, description=outcome.job.method)
                if not console.is_terminal:
                    console.print(f"{len(outcomes)} of {len(jobs)}: {outcome.line()}", highlight=False, soft_wrap=True)
        except KeyboardInterrupt:
            fail(f"stopped after {len(outcomes)} of {len(jobs)}; the same command goes on from there", code=130)
    return outcomes
