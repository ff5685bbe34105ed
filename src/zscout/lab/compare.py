"""Methods beside each other on the same tasks and seeds: jobs, what came of each run, and what that says."""

import hashlib
import json
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import zscout
from zscout.edge import as_size, in_range
from zscout.files import write_json
from zscout.lab.arena import Arena, Ground, Tasks
from zscout.lab.run import Trace, simulate
from zscout.transfer.method import Method
from zscout.transfer.methods import factory_named
from zscout.transfer.saving import method_to_json

RUNS_AT_ONCE = 100
FINAL = 20  # the last steps, whose rewards are the final ones


@dataclass(frozen=True)
class Job:
    """One method with its settings in one arena, on tasks and seeds that are the same for every method."""

    arena: Arena
    method: str
    settings: str = "{}"  # JSON: a job can be a key
    tasks: Tasks = field(default_factory=Tasks)
    noise: float = 0.3
    steps: int = 200

    @property
    def digest(self) -> str:
        """Its name: the same world, weights, method and code, the same outcome."""
        ground = self.arena.ground
        method = method_to_json(self.build(ground, torch.ones(1, ground.exact.dim)))
        content = {**asdict(self), "ground": ground.fingerprint, "method": method, "code": code_digest()}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]

    def build(self, ground: Ground, task: Float[Tensor, "R d"]) -> Method:
        """The method; the setting ``exhaustive`` stands for the world's own look-ahead."""
        factory, settings = factory_named(self.method), json.loads(self.settings)
        if self.method == "exhaustive" or settings.pop("exhaustive", False):
            settings["look_ahead"] = ground.world.step
        return factory(dim=ground.exact.dim, noise=self.noise, task=task, **settings)

    def check(self) -> None:
        """Refuse what cannot be run before anything is."""
        as_size(self.steps, "steps", 1)
        in_range(self.noise, "noise", 0.0, math.inf, open_end=True)
        ground, seed = self.arena.ground, torch.zeros(1, dtype=torch.long)
        task = torch.ones(1, ground.exact.dim, dtype=torch.float64)
        method = self.build(ground, task)
        simulate(ground.model, ground.world, task, method, seeds=seed, steps=2, noise=self.noise)

    def run(self) -> "Outcome":
        """All runs, ``RUNS_AT_ONCE`` in a batch."""
        began, ground = time.perf_counter(), self.arena.ground
        tasks, seeds = self.tasks.draw(ground.exact)
        parts: list[dict[str, list[float]]] = []
        for part in torch.arange(len(tasks)).split(RUNS_AT_ONCE):
            trace = simulate(
                ground.model,
                ground.world,
                tasks[part],
                self.build(ground, tasks[part]),
                seeds=seeds[part],
                steps=self.steps,
                noise=self.noise,
            )
            parts.append(_measure(trace, ground, tasks))
        columns = {name: [x for part in parts for x in part[name]] for name in parts[0]}
        return Outcome(self, seconds=time.perf_counter() - began, **columns)


@dataclass(frozen=True)
class Outcome:
    """What came of a job: one number for each run, in the order of its tasks and seeds."""

    job: Job
    lost: list[float]  # lost steps against v*
    lost_own: list[float]  # against the model's own π(·,z_r)
    settled: list[float]  # 1 or 0
    final: list[float]  # reward of the last steps: 0 is the mean state's, 1 the best state's
    error: list[float]  # ‖ẑ_T − z_r‖
    seconds: float

    @property
    def settings(self) -> dict[str, Any]:
        """What was set."""
        found: dict[str, Any] = json.loads(self.job.settings)
        return found

    def line(self) -> str:
        """In a few words."""
        numbers = self.summary()
        return (
            f"{self.job.method} {self.job.settings}: {numbers['lost']:.1f} lost steps, "
            f"{numbers['settled']:.0%} settled ({self.seconds:.0f} s)"
        )

    def summary(self) -> dict[str, Any]:
        """Means, and the standard error of the mean over tasks (seeds of a task are not independent of it)."""
        numbers: dict[str, Any] = {}
        for name in ("lost", "lost_own", "settled", "final", "error"):
            mean, error = mean_and_error(getattr(self, name), self.job.tasks.seeds)
            numbers |= {name: mean, f"{name}_se": error}
        return numbers

    def to_json(self) -> dict[str, Any]:
        """Everything, the settings spelled out."""
        return asdict(self) | {"settings": self.settings, "summary": self.summary()}


def run_all(jobs: Sequence[Job], folder: Path, workers: int = 1) -> Iterator[Outcome]:
    """Outcomes as they are done, in any order, each written to the folder at once; those already there are not run.

    With several workers each is a process of one thread.
    """
    missing = []
    for job in dict.fromkeys(jobs):
        outcome = _stored(job, folder)
        if outcome is None:
            missing.append(job)
        else:
            yield outcome
    for outcome in _run(missing, as_size(workers, "jobs", 1)):
        write_json(folder / f"{outcome.job.digest}.json", asdict(outcome))
        yield outcome


def _stored(job: Job, folder: Path) -> Outcome | None:
    try:
        stored = json.loads((folder / f"{job.digest}.json").read_text())
        return Outcome(**{**stored, "job": job})
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None


def _run(jobs: Sequence[Job], workers: int) -> Iterator[Outcome]:
    if workers == 1 or len(jobs) < 2:
        yield from (job.run() for job in jobs)
        return
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        running = [pool.submit(job.run) for job in jobs]
        try:
            for done in as_completed(running):
                yield done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def comparison(outcomes: Sequence[Outcome], against: str = "") -> list[dict[str, Any]]:
    """One flat row a method, the best first."""
    references = [outcome for outcome in outcomes if outcome.job.method == against]
    rows = []
    for outcome in outcomes:
        row = {"method": outcome.job.method, "settings": outcome.settings, **outcome.summary()}
        if references:
            row |= dict(zip(("ratio", "ratio_low", "ratio_high"), paired_ratio(outcome, references[0]), strict=True))
        rows.append(row | {"runs": len(outcome.lost), "seconds": outcome.seconds})
    return sorted(rows, key=lambda row: row["lost"])


def mean_and_error(numbers: Sequence[float], seeds: int) -> tuple[float, float | None]:
    """The mean, and its standard error with each task's seeds averaged first."""
    tasks = torch.tensor(numbers, dtype=torch.float64).reshape(-1, seeds).mean(1)
    error = float(tasks.std() / math.sqrt(len(tasks))) if len(tasks) > 1 else None  # one task tells nothing of others
    return float(tasks.mean()), error


def paired_ratio(ours: Outcome, theirs: Outcome, draws: int = 10_000) -> tuple[float, float, float]:
    """Mean lost steps of ours ÷ theirs, with a 95 % bootstrap interval over tasks, the same ones for both."""
    seeds = ours.job.tasks.seeds
    a, b = (torch.tensor(outcome.lost, dtype=torch.float64).reshape(-1, seeds).mean(1) for outcome in (ours, theirs))
    pick = torch.randint(len(a), (draws, len(a)), generator=torch.Generator().manual_seed(0))
    ratios = a[pick].mean(1) / b[pick].mean(1)
    low, high = torch.quantile(ratios, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return float(a.mean() / b.mean()), low, high


@cache
def code_digest() -> str:
    """What decides a run besides its names and numbers: the code between a job and its outcome."""
    root = Path(zscout.__file__).parent
    decides = ("bfm", "features", "transfer", "worlds", "edge.py", "randomness.py", "lab/run.py", "lab/metrics.py")
    sources = [path for part in decides for path in sorted((root / part).rglob("*.py")) or [root / part]]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def _measure(trace: Trace, ground: Ground, tasks: Float[Tensor, "N d"]) -> dict[str, list[float]]:
    yardstick = ground.yardstick
    gap, achieved = yardstick.gap(tasks), yardstick.achieved(trace)
    worth = trace.task @ ground.exact.features.T.cpu()  # [R S]
    mean, best = worth.mean(1), worth.amax(1)
    final = worth.gather(1, trace.entered[-FINAL:].T).mean(1)
    return {
        "lost": (yardstick.regret(trace, achieved=achieved).sum(0) / gap).tolist(),
        "lost_own": (yardstick.regret(trace, own=True, achieved=achieved).sum(0) / gap).tolist(),
        "settled": yardstick.settled(trace).double().tolist(),
        "final": ((final - mean) / (best - mean)).tolist(),
        "error": (trace.final_z_hat - trace.task).norm(dim=-1).tolist(),
    }
