"""zscout compare and zscout tune."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from zscout.cli.mistakes import UsageError, usage_errors
from zscout.cli.options import JsonFile, Quick, device_named, names_of
from zscout.cli.progress import run_with_bar


@dataclass(frozen=True)
class Runs:
    """What decides simulated runs, whatever they are for."""

    features: str = "laplacian"
    """clusters or laplacian."""
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


@dataclass(frozen=True)
class Compare(Runs):
    """Compare methods on the same tasks and seeds, with exact regret; what was run before is not run again."""

    out: Path = Path("out/compare")
    """Folder that keeps what each run came to."""
    world: str = "open-grid"
    """open-grid, four-rooms, maze, or a text file with a map of '#' and '.'."""
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
    against: str = ""
    """Also say how many times the lost steps of this method each of the others has, paired."""
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

        chosen = list(METHODS) if self.methods == "all" else names_of(self.methods)
        if self.against and self.against not in chosen:
            raise UsageError(f"--against {self.against} is not among the methods {', '.join(chosen)}")
        with usage_errors():
            count, seeds = (5, 1) if self.quick else (self.tasks, self.seeds)
            steps = min(self.steps, 50) if self.quick else self.steps
            tasks = Tasks(count, seeds, "report", self.seed)
            arena = Arena(self.world, self.features, self.model, device_named(self.device))
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
        outcomes = run_with_bar(jobs, self.out, self.jobs, console)
        rows = comparison([outcomes[job] for job in jobs], self.against)
        console.print(compare_table(rows, f"{self.world}, {self.features}, {self.model}: {steps} steps"))
        if self.json is not None:
            write_json(self.json, {"rows": rows, "outcomes": [outcomes[job].to_json() for job in jobs]})
            console.print(f"wrote {self.json}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Tune(Runs):
    """Choose each method's settings on tuning tasks, as many tried for each; compare --settings FILE uses them."""

    out: Path = Path("out/tune")
    """Folder for settings-FEATURES.json and what each run came to."""
    methods: str = "all"
    """Names with commas between, or all."""
    tasks: int = 50
    """How many tuning z_r, which compare never reports on."""
    seeds: int = 1
    """How many runs for each of them."""
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
        from zscout.lab.tuning import BUDGET, GRIDS, choose_all, settings_named, tuning_jobs
        from zscout.report.tables import compare_table

        chosen = list(GRIDS) if self.methods == "all" else names_of(self.methods)
        with usage_errors():
            tasks = Tasks(3 if self.quick else self.tasks, self.seeds, "tuning", self.seed)
            arena = Arena(features=self.features, device=device_named(self.device))
            as_size(self.jobs, "jobs", 1)
            steps = min(self.steps, 20) if self.quick else self.steps
            jobs = tuning_jobs(arena, chosen, tasks, steps, self.noise, budget=2 if self.quick else BUDGET)
            for job in jobs:
                job.check()
        outcomes = run_with_bar(jobs, self.out, self.jobs, console)
        best = choose_all(list(outcomes.values()))
        console.print(compare_table(comparison(list(best.values()), ""), f"chosen on {tasks.count} tuning tasks"))
        path = self.out / f"settings-{self.features}.json"
        kept = settings_named(str(path), self.features) if path.exists() else {}  # of methods tuned before
        content = {self.features: kept | {name: outcome.settings for name, outcome in best.items()}}
        write_json(path, content)
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
        if self.json is not None:
            write_json(self.json, [outcome.to_json() for outcome in outcomes.values()])
            console.print(f"wrote {self.json}", highlight=False, soft_wrap=True)
