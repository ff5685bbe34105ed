"""zscout pretrain."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from zscout.cli.mistakes import UsageError, stopped
from zscout.cli.options import OutputFile, Quick, device_named
from zscout.cli.progress import bar_with_time_left


@dataclass(frozen=True)
class Pretrain:
    """Train universal successor features for a world, judge them exactly, save them; resumes if it was begun."""

    out: Path
    """Folder for the model, its log and, while it trains, its checkpoint."""
    world: str = "open-grid"
    """open-grid, four-rooms, maze, or a text file with a map of '#' and '.'."""
    features: str = "laplacian"
    """clusters, laplacian, or your own as module:name: a table, or a function of the world."""
    dim: int = 9
    """How many features; your own features decide this themselves."""
    slip: float = 0.0
    """Probability that a random action is executed instead."""
    recipe: str = "robust"
    """robust, or paper: the paper's own, for comparison."""
    set: tuple[str, ...] = ()
    """Changes to the recipe, such as dropout=0.15 heads=1."""
    walks: int = 0
    """Learn from this many random walks; 0: from every transition of the world."""
    length: int = 1000
    """Steps of each random walk."""
    seed: int = 0
    """Decides the first weights, the task vectors and the walks."""
    patience: int = 20
    """Stop training the policy after this many log lines (of 250 steps) without a better one."""
    keep: str = "value"
    """Which weights to keep, and when to stop: value, those with the best policies; psi, those with the smallest error
    of ψ."""
    device: str = "cpu"
    """cpu or cuda."""
    quick: Quick = False
    """A few hundred steps, to see it work; the model is not to be used."""
    json: OutputFile = None
    """Also write the log and the verdict to this file, and make its folder."""

    def run(self, console: Console) -> None:
        """Train with a progress bar, judge, save."""
        import time

        from zscout.files import write_json
        from zscout.lab.pretraining import Pretraining, Run

        names = ["world", "features", "dim", "slip", "recipe", "walks", "length", "seed"]
        names += ["patience", "keep", "device", "quick"]
        device_named(self.device)
        try:
            run = Run(Pretraining(changes=self.set, **{name: getattr(self, name) for name in names}), self.out)
        except (ValueError, RuntimeError) as error:  # RuntimeError: a device that torch does not know
            raise UsageError(str(error)) from error
        start, trainer = time.perf_counter(), run.trainer
        if run.resumed:
            console.print(f"resuming at step {trainer.step:,} of {trainer.recipe.steps:,}", highlight=False)
        with bar_with_time_left(console) as bar:
            task = bar.add_task("resuming" if run.resumed else "training", total=trainer.recipe.steps)
            bar.update(task, completed=trainer.step)
            try:
                for line in run.train(every=100 if self.quick else 250):
                    verdict = line.verdict
                    told = f"value {verdict.value:.3f}  ψ error {verdict.psi_error:.3f}" if verdict else "training"
                    bar.update(task, completed=line.step, description=told)
                    if not console.is_terminal:  # a log file wants lines, not a bar
                        console.print(f"step {line.step:,} of {trainer.recipe.steps:,}  {told}", highlight=False)
            except KeyboardInterrupt as stop:
                stopped(f"stopped at step {trainer.step}; the same command goes on from its last checkpoint", stop)
        log = run.finish(time.perf_counter() - start)
        final = log["verdict"]
        console.print(
            f"normalised value {final['value']:.4f} (5th percentile {final['value_p5']:.4f}), "
            f"ψ error {final['psi_error']:.4f}, on {final['tasks']:,} held-out z; {log['seconds']:.0f} s",
            highlight=False,
        )
        if self.json is not None:
            write_json(self.json, log)
        console.print(f"wrote {self.out}", highlight=False, soft_wrap=True)
