"""The command line. Heavy imports wait until a command runs, so that help comes at once."""

import contextlib
import io
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import tyro
from rich.console import Console

import zscout

if TYPE_CHECKING:
    from zscout.lab.compare import Job, Outcome


class UsageError(ValueError):
    """What a user can mend; anything else that goes wrong is ours, and shows its traceback."""


JsonFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
Quick = tyro.conf.FlagCreatePairsOff[bool]


@dataclass(frozen=True)
class Reproduce:
    """Compute and draw the paper's figures: so far features, policies (in three worlds) and training."""

    out: Path = Path("out")
    """Folder for the results; made when it is not there."""
    seed: int = 0
    """Decides the random task vectors and where the trajectories start."""
    quick: Quick = False
    """Only the paper's own world, for a first look."""
    json: JsonFile = None
    """Also write every number that is drawn to this file, and make its folder."""

    def run(self, console: Console) -> None:
        """Compute, draw, say where."""
        from rich.progress import track

        from zscout.files import write_json
        from zscout.lab.paper import FIGURES, training_figure
        from zscout.lab.stored import stored_trainings
        from zscout.report.figures import draw_curves, draw_panels, save_figure

        figures = FIGURES[:1] if self.quick else FIGURES
        numbers: list[dict[str, Any]] = []
        written: list[Path] = []
        curves = training_figure(stored_trainings())
        numbers.append(curves.to_json())
        written += save_figure(draw_curves(curves), self.out / "figures", curves.name)
        for figure in track(figures, "Features and trajectories", console=console, transient=True):
            table = figure.compute(self.seed)
            numbers.append(table.to_json())
            written += save_figure(draw_panels(table), self.out / "figures", table.name)
        if self.json is not None:
            written.append(write_json(self.json, {"seed": self.seed, "figures": numbers}))
        for path in written:
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Pretrain:
    """Train universal successor features for a world, judge them exactly, save them; resumes if it was begun."""

    out: Path
    """Folder for the model, its log and, while it trains, its checkpoint."""
    world: str = "open-grid"
    """open-grid, four-rooms, maze, or a text file with a map of '#' and '.'."""
    features: str = "laplacian"
    """clusters or laplacian."""
    dim: int = 9
    """How many features."""
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
    """Train the policy no further when its value has not risen for so many lines of the log (of 250 steps)."""
    device: str = "cpu"
    """cpu or cuda."""
    quick: Quick = False
    """A few hundred steps, to see it work; the model is not to be used."""
    json: JsonFile = None
    """Also write the log and the verdict to this file, and make its folder."""

    def run(self, console: Console) -> None:
        """Train with a progress bar, judge, save."""
        import time

        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from zscout.files import write_json
        from zscout.lab.pretraining import Pretraining, Run

        names = ("world", "features", "dim", "slip", "recipe", "walks", "length", "seed", "patience", "device", "quick")
        _device(self.device)
        try:
            run = Run(Pretraining(changes=self.set, **{name: getattr(self, name) for name in names}), self.out)
        except (ValueError, RuntimeError) as error:  # RuntimeError: a device that torch does not know
            raise UsageError(str(error)) from error
        start, trainer = time.perf_counter(), run.trainer
        if run.resumed:
            console.print(f"resuming at step {trainer.step:,} of {trainer.recipe.steps:,}", highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("resuming" if run.resumed else "training", total=trainer.recipe.steps)
            bar.update(task, completed=trainer.step)
            try:
                for line in run.train(every=100 if self.quick else 250):
                    verdict = line.verdict
                    told = f"value {verdict.value:.3f}  ψ error {verdict.psi_error:.3f}" if verdict else "training"
                    bar.update(task, completed=line.step, description=told)
                    if not console.is_terminal:  # a log file wants lines, not a bar
                        console.print(f"step {line.step:,} of {trainer.recipe.steps:,}  {told}", highlight=False)
            except KeyboardInterrupt:
                _fail(f"stopped at step {trainer.step}; the same command goes on from its last checkpoint", code=130)
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


@dataclass(frozen=True)
class Compare:
    """Compare methods on the same tasks and seeds, with exact regret; what was run before is not run again."""

    out: Path = Path("out/compare")
    """Folder that keeps what each run came to."""
    world: str = "open-grid"
    """open-grid, four-rooms, maze, or a text file with a map of '#' and '.'."""
    features: str = "laplacian"
    """clusters or laplacian."""
    model: str = "exact"
    """exact, network (the one that ships), or the name or folder of a saved model."""
    methods: str = "usf-ucb,usf-ucb-norm,usf-ucb-paper,greedy,random"
    """Names with commas between, or all."""
    settings: str = "default"
    """default, tuned (chosen on other tasks), or a file that zscout tune wrote."""
    tasks: int = 100
    """How many hidden z_r."""
    seeds: int = 3
    """How many runs for each of them."""
    steps: int = 200
    """Rewards that each run sees."""
    noise: float = 0.3
    """Standard deviation of the rewards' noise."""
    against: str = ""
    """Also say how many times the lost steps of this method each of the others has, paired."""
    jobs: int = 1
    """Processes to share the work."""
    device: str = "cpu"
    """cpu or cuda."""
    seed: int = 0
    """Another number, other tasks and seeds."""
    quick: Quick = False
    """Five tasks, one seed, at most 50 steps: a first look."""
    json: JsonFile = None
    """Also write every run's numbers to this file, and make its folder."""

    def run(self, console: Console) -> None:
        """Run what is missing, print one table."""
        from zscout.edge import as_size
        from zscout.files import write_json
        from zscout.lab.arena import Arena, Tasks
        from zscout.lab.compare import comparison
        from zscout.lab.tuning import job_of, settings_named
        from zscout.report.tables import compare_table
        from zscout.transfer.methods import METHODS

        chosen = list(METHODS) if self.methods == "all" else _names(self.methods)
        if self.against and self.against not in chosen:
            raise UsageError(f"--against {self.against} is not among the methods {', '.join(chosen)}")
        with _usage_errors():
            count, seeds = (5, 1) if self.quick else (self.tasks, self.seeds)
            steps = min(self.steps, 50) if self.quick else self.steps
            tasks = Tasks(count, seeds, "report", self.seed)
            arena = Arena(self.world, self.features, self.model, _device(self.device))
            settings = settings_named(self.settings, self.features)
            as_size(self.jobs, "jobs", 1)
            jobs = []
            for name in chosen:
                job = job_of(arena, name, settings.get(name, {}), tasks, self.noise, steps)
                try:
                    job.check()
                except ValueError as error:
                    if self.methods != "all" or name == self.against:
                        raise
                    console.print(f"left out: {name} ({error})", highlight=False, soft_wrap=True)
                else:
                    jobs.append(job)
        outcomes = _with_bar(jobs, self.out, self.jobs, console)
        rows = comparison([outcomes[job] for job in jobs], self.against)
        console.print(compare_table(rows, f"{self.world}, {self.features}, {self.model}: {steps} steps"))
        if self.json is not None:
            write_json(self.json, {"rows": rows, "outcomes": [outcomes[job].to_json() for job in jobs]})
            console.print(f"wrote {self.json}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Tune:
    """Choose each method's settings on tuning tasks, as many tried for each; compare --settings FILE uses them."""

    out: Path = Path("out/tune")
    """Folder for settings-FEATURES.json and what each run came to."""
    features: str = "laplacian"
    """clusters or laplacian."""
    methods: str = "all"
    """Names with commas between, or all."""
    tasks: int = 50
    """How many tuning z_r, which compare never reports on."""
    seeds: int = 1
    """How many runs for each of them."""
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
    quick: Quick = False
    """Three tasks, two settings a method, at most 20 steps: a first look."""
    json: JsonFile = None
    """Also write the outcome of every setting to this file, and make its folder."""

    def run(self, console: Console) -> None:
        """Run what is missing, print what was chosen."""
        from zscout.edge import as_size
        from zscout.files import write_json
        from zscout.lab.arena import Arena, Tasks
        from zscout.lab.compare import comparison
        from zscout.lab.tuning import BUDGET, GRIDS, choose_all, tuning_jobs
        from zscout.report.tables import compare_table

        chosen = list(GRIDS) if self.methods == "all" else _names(self.methods)
        with _usage_errors():
            tasks = Tasks(3 if self.quick else self.tasks, self.seeds, "tuning", self.seed)
            arena = Arena(features=self.features, device=_device(self.device))
            as_size(self.jobs, "jobs", 1)
            steps = min(self.steps, 20) if self.quick else self.steps
            jobs = tuning_jobs(arena, chosen, tasks, steps, self.noise, budget=2 if self.quick else BUDGET)
            for job in jobs:
                job.check()
        outcomes = _with_bar(jobs, self.out, self.jobs, console)
        best = choose_all(list(outcomes.values()))
        console.print(compare_table(comparison(list(best.values()), ""), f"chosen on {tasks.count} tuning tasks"))
        content = {self.features: {name: outcome.settings for name, outcome in best.items()}}
        path = write_json(self.out / f"settings-{self.features}.json", content)
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
        if self.json is not None:
            write_json(self.json, [outcome.to_json() for outcome in outcomes.values()])
            console.print(f"wrote {self.json}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Bench:
    """Measure speed against plain references in the same run, and that the answers agree."""

    seed: int = 0
    """Decides the task vectors and the rollouts."""
    quick: Quick = False
    """Smaller problems: about ten seconds in all."""
    json: JsonFile = None
    """Also write the table to this file, and make its folder."""

    def run(self, console: Console) -> None:
        """Measure, print one table."""
        from zscout.files import write_json
        from zscout.lab.arena import Arena
        from zscout.lab.bench import MEASUREMENTS
        from zscout.lab.measurement import Measurement
        from zscout.lab.searches import compare_searches
        from zscout.report.tables import bench_table, search_table

        rows: list[Measurement] = []
        with console.status("") as status:
            for number, measure in enumerate(MEASUREMENTS, start=1):
                status.update(f"{number} of {len(MEASUREMENTS)}: {measure.__doc__}")
                rows += measure(seed=self.seed, quick=self.quick)
            arenas = [Arena(features=f, model=m) for m in ("network", "exact") for f in ("clusters", "laplacian")]
            searches: list[dict[str, Any]] = []
            for arena in arenas[:1] if self.quick else arenas:
                status.update(f"searches over z: {arena.features}, {arena.model}")
                searches += [row.to_json() for row in compare_searches(arena, 3 if self.quick else 30, self.seed)]
        console.print(bench_table(rows))
        console.print(search_table(searches))
        if self.json is not None:
            write_json(self.json, {"speed": [row.to_json() for row in rows], "searches": searches})
            console.print(f"wrote {self.json}", highlight=False, soft_wrap=True)
        if wrong := [row.what for row in rows if not row.agrees]:
            _fail(f"the answers differ by more than they may: {', '.join(wrong)}", code=1)


Command = (
    Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
    | Annotated[Pretrain, tyro.conf.subcommand("pretrain")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Tune, tyro.conf.subcommand("tune")]
    | Annotated[Bench, tyro.conf.subcommand("bench")]
)

DESCRIPTION = (
    "Online transfer with Behavioral Foundation Models: which task vector z to try next when the reward can only be "
    "seen by trying. Worlds, features, trained models, the paper's method, its rivals, and exact ground truth.\n\n"
    "Each command has its own --help. zscout --version prints the version."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; a user's mistake ends with one line and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"zscout {zscout.__version__}")
        return
    command = _parse(words or ["--help"])
    try:
        if not 0 <= command.seed < 2**63:
            raise UsageError(f"--seed must be from 0 to {2**63 - 1}, came as {command.seed}")
        command.run(Console())
    except KeyboardInterrupt:
        _fail("stopped; files already written are whole", code=130)
    except (UsageError, OSError) as error:
        _fail(str(error) or type(error).__name__, code=2)


def _with_bar(jobs: "list[Job]", folder: Path, workers: int, console: Console) -> "dict[Job, Outcome]":
    """Run jobs with a bar and the time left; a stop loses only those that were not done."""
    import torch
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from zscout.lab.compare import run_all

    torch.set_num_threads(1)  # these tensors are small: a second thread costs more than it gives
    outcomes = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("running", total=len(jobs))
        try:
            for outcome in run_all(jobs, folder / "runs", workers):
                outcomes[outcome.job] = outcome
                bar.update(task, advance=1, description=outcome.job.method)
                if not console.is_terminal:
                    console.print(f"{len(outcomes)} of {len(jobs)}: {outcome.line()}", highlight=False, soft_wrap=True)
        except KeyboardInterrupt:
            _fail(f"stopped after {len(outcomes)} of {len(jobs)}; the same command goes on from there", code=130)
    return outcomes


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("--methods names no method; write for example usf-ucb,opti, or all")
    return names


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    """What is refused while a command is set up is the user's to mend."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def _device(name: str) -> str:
    import torch

    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device here; leave --device out, or write --device cpu")
    try:
        torch.empty(0, dtype=torch.float64, device=name)
    except (RuntimeError, NotImplementedError, AssertionError, TypeError) as error:
        raise UsageError(f"--device {name}: {str(error).splitlines()[0]}") from error
    return name


def _parse(words: list[str]) -> Reproduce | Pretrain | Compare | Tune | Bench:
    """Tyro's parser, its boxed errors folded into one line."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return tyro.cli(Command, prog="zscout", description=DESCRIPTION, args=words)
    except SystemExit as stop:
        if stop.code != 2:
            raise
        known = words[0] if words[0] in ("reproduce", "pretrain", "compare", "tune", "bench") else ""
        _fail(f"{_unboxed(errors.getvalue())}; see zscout {known}{' ' if known else ''}--help", code=2)


def _unboxed(box: str) -> str:
    """What a box drawn with │ and ─ says: its first part, and the nearest option if it names one."""
    lines = [line.strip("│ \n") for line in box.splitlines() if line.startswith("│")]
    parts = [part.split("\n") for part in re.split(r"\n─+\n", "\n".join(filter(None, lines)))]
    hints = [" ".join(part[:2]) for part in parts[1:] if part[0].startswith(("Perhaps", "Available"))]
    return "; ".join([" ".join(parts[0]), *hints])


def _fail(message: str, code: int) -> NoReturn:
    print(f"zscout: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)
