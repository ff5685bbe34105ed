"""The league on grids and in the point maze: tune every rival for what is reported, then report on other tasks.

    python -m benchmarks.league --out FILE --workers 2

Rivals are tuned in each arena with the steps, the noise and the number that are reported, on tuning tasks (``TUNED_ON``
runs of each setting); ends of grids are followed. Rivals of grids that have a stored record use it (250 runs of each
setting). Then every row runs on report tasks with a seed that no choice has seen. ``FILE`` holds every setting tried,
and the numbers of every reported run; ``--have FILE`` resumes. ``benchmarks.league_table`` makes tables of it.
"""

import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import tyro

from benchmarks.variants import factory, switched_off
from zscout.base.files import parse_json, write_json
from zscout.base.processes import WorkerPool
from zscout.lab.arenas.arena import NUMBERS, Arena, Tasks
from zscout.lab.arenas.body import BodyArena
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.patches import DECOY, PATCH, PatchArena
from zscout.lab.arenas.point import POINT_MAZE, PointArena
from zscout.lab.arenas.source import UserObject
from zscout.lab.compare.comparison import DECOYED, EPISODES, Entrant
from zscout.lab.compare.tuning import Settings, beyond_of, choose, grid_of, stored_settings
from zscout.lab.runs.chunks import run_batch
from zscout.lab.runs.spec import Spec
from zscout.transfer.methods import METHODS

TUNED_ON, REPORTED_ON = Tasks(64, 1, "tuning", 39), Tasks(100, 3, "report", 391)
ROUNDS = 4  # in which ends of grids are followed
CHUNK = {"cpu": 100, "cuda": 300}  # runs in one batch
GRACE = 30.0  # seconds for what still runs at the end
OWN = "benchmarks.variants:"

Tried = dict[str, Any]  # mean lost steps and settled runs of a setting
Fixed = tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True)
class Cell:
    """One arena: what is tuned in it, what has stored settings, and what runs as it is."""

    name: str
    arena: Arena
    noise: float = 0.3
    steps: int = 200
    tuned: Mapping[str, Sequence[Settings]] = field(default_factory=dict)
    stored: tuple[str, ...] = ()
    fixed: Fixed = ()
    tuning: Tasks = TUNED_ON
    report: Tasks = REPORTED_ON

    def entrant(self, method: str, settings: Mapping[str, Any], tasks: Tasks) -> Entrant:
        """A method in this arena."""
        return Entrant.of(self.arena, method, settings, tasks, noise=self.noise, steps=self.steps)

    def to_tune(self) -> list[Entrant]:
        """Every setting of its grids."""
        grids = self.tuned.items()
        return [self.entrant(method, settings, self.tuning) for method, grid in grids for settings in grid]

    def as_they_are(self) -> list[Entrant]:
        """Rows that wait for no tuning."""
        chosen = stored_settings(self.arena.key)
        rows = [*self.fixed]
        rows += [(name, settings) for name in self.stored for settings in chosen.get(name, {}).values()]
        return _once(self.entrant(*row, self.report) for row in rows)

    def chosen(self, tried: Mapping[str, Sequence[Tried]]) -> list[Entrant]:
        """Rows with the settings that tuning chose: fewest lost steps, and fewest of those that settle."""
        rows = [(name, settings) for name, both in choose(tried).items() for settings in both.values()]
        return _once(self.entrant(*row, self.report) for row in rows)


def _once(entrants: Iterable[Entrant]) -> list[Entrant]:
    return list(dict.fromkeys(entrants))


PUBLISHED: Fixed = (
    ("usf-ucb", {}),
    ("usf-ucb-paper", {}),
    ("opti-shipped", {}),
    ("opti", {}),
    ("thompson", {}),
    ("thompson", {"scale": 0.01}),
    ("greedy", {}),
    ("lola", {}),
)
REFERENCES: Fixed = (("usf-ucb-norm", {}), ("oracle", {}), ("random", {}), ("exhaustive", {}))
STORED = (
    *(
        "usf-ucb-paper",
        "opti",
        "thompson",
        "greedy",
        "lola",
        "usf-ucb-short",
        "log-det",
        "opti-shipped",
        "optimism",
        "mbie",
    ),
    *("random-z", "unroll", "explore-then-commit"),
)
ON_GRIDS = {
    f"{OWN}paper": grid_of(ridge=[0.1, 0.3, 1.0], beta=[0.3, 1.0, 3.0]),
    f"{OWN}opti": grid_of(ridge=[0.03, 0.1, 0.3], radius=[0.3, 0.5, 0.8, 1.2]),
    f"{OWN}thompson": grid_of(scale=[0.3, 0.6, 1.0, 1.7], hold=[1, 5, 10, 20]),
    f"{OWN}greedy": grid_of(ridge=[0.01, 0.1, 1.0, 10.0]),
}
WITH_NETWORKS = {f"{OWN}raw_paper": grid_of(ridge=[0.09, 0.3, 1.0], beta=[0.3, 1.0, 3.0])}
IN_POINT_MAZE = {
    "usf-ucb-paper": grid_of(ridge=[0.1, 1.0], beta=[0.3, 3.0, 30.0], intercept=[False, True]),
    f"{OWN}paper": grid_of(beta=[0.3, 3.0, 30.0, 300.0]),
    "opti": grid_of(ridge=[1.0, 10.0], radius=[0.1, 0.3, 1.0, 3.0], intercept=[False, True]),
    f"{OWN}opti": grid_of(radius=[0.1, 0.3, 1.0, 3.0]),
    "thompson": grid_of(scale=[0.1, 0.3, 1.0], hold=[1, 10, 35], intercept=[False, True]),
    f"{OWN}thompson": grid_of(scale=[0.1, 0.3, 1.0], hold=[1, 10, 35]),
    "greedy": grid_of(ridge=[0.1, 1.0, 10.0], intercept=[False, True]),
    "lola": grid_of(std=[0.3, 1.0], rate=[0.05, 0.3], horizon=[35, 70]),
}
WITH_PATCHES = {
    "usf-ucb-paper": grid_of(ridge=[0.03, 0.1, 0.3], beta=[0.03, 0.1, 0.3, 1.0]),
    "opti": grid_of(ridge=[0.1, 0.3], radius=[0.1, 0.3, 0.5, 0.8]),
    "thompson": grid_of(scale=[0.1, 0.3, 1.0], hold=[1, 10, 30]),
    "greedy": grid_of(ridge=[0.01, 0.1, 1.0, 10.0]),
}
ABLATED: Fixed = tuple((f"{OWN}{name}", {}) for name in ("no_prior", "no_evidence", "radius_of_nine"))
OUR_GREEDY: Fixed = ((f"{OWN}greedy", {}),)
FROM_LABELS: Fixed = ((f"{OWN}lola_from_labels", {}),)
FEATURES, MODELS = ("clusters", "laplacian"), ("exact", "network")
PRINTED = ("open-grid", "point-maze")  # arenas of README and docs, which run first


def _open_grid(features: str, model: str) -> Cell:
    network = model == "network"
    return Cell(
        f"open-grid-{features}-{model}",
        GridArena("open-grid", features, model),
        tuned=ON_GRIDS | (WITH_NETWORKS if network else {}),
        stored=STORED,
        fixed=PUBLISHED + REFERENCES + (((f"{OWN}raw_default", {}),) if network else ()),
    )


def _point_maze(rewards: str, noise: float) -> Cell:
    name = f"point-maze{'' if rewards == 'named' else '-linear'}-{noise:g}"
    fixed = PUBLISHED + ABLATED + OUR_GREEDY + FROM_LABELS
    return Cell(name, PointArena(rewards=rewards), noise, 350, tuned=IN_POINT_MAZE, fixed=fixed)


CELLS = (
    *(_open_grid(features, model) for model in MODELS for features in FEATURES),
    *(_point_maze(rewards, noise) for rewards in ("named", "linear") for noise in (0.0, 0.3)),
    *(
        Cell(
            f"{world}-laplacian-{model}",
            GridArena(world, "laplacian", model),
            stored=STORED,
            fixed=PUBLISHED + REFERENCES,
        )
        for world in ("four-rooms", "maze")
        for model in MODELS
    ),
    *(
        Cell(kind, PatchArena(rewards=kind), steps=500, tuned=WITH_PATCHES, fixed=PUBLISHED + ABLATED[2:])
        for kind in (PATCH, DECOY)
    ),
)


# Runs


def measured(entrant: Entrant, device: str) -> dict[str, Any]:
    """The numbers of all runs of an entrant; on the processor if the device fails."""
    began = time.perf_counter()
    try:
        found = _numbers(entrant, device)
    except Exception as error:
        if device == "cpu":
            return {"failed": f"{type(error).__name__}: {error}"}
        return measured(entrant, "cpu") | {"fell_back": f"{type(error).__name__}: {error}"}
    return {"runs": found, "seconds": round(time.perf_counter() - began, 2), "device": device}


def _numbers(entrant: Entrant, device: str) -> dict[str, list[float]]:
    specs = replace(entrant, arena=replace(entrant.arena, device=device)).specs  # type: ignore[type-var]
    with torch.no_grad(), switched_off(entrant.method):
        size = CHUNK[device]
        records = [record for at in range(0, len(specs), size) for record in run_batch(_built(specs[at : at + size]))]
    names = [name for name in records[0].numbers if name in (*NUMBERS, DECOYED) or name.startswith(EPISODES)]
    return {name: [float(f"{record.numbers[name]:.5g}") for record in records] for name in names}


def _built(specs: Sequence[Spec]) -> Sequence[Spec]:
    """The specs, with the method itself if it is no name of METHODS."""
    method, first = factory(specs[0].method), specs[0]
    if first.method in METHODS:
        return specs
    task, settings = first.arena.vectors([spec.task for spec in specs]), parse_json(first.settings.encode())
    if "world" in method.settings:  # of an explorer that knows the transitions
        settings["world"] = first.arena.to_json()["world"]
    value = UserObject.of(method(dim=first.arena.bfm.dim, noise=first.noise, task=task, **settings))
    return [replace(spec, value=value) for spec in specs]


def device_for(entrant: Entrant) -> str:
    """A GPU, but for exact models, unless each step solves many z."""
    many = any(word in entrant.method for word in ("opti",))
    exact = isinstance(entrant.arena, GridArena) and entrant.arena.model == "exact"
    return "cuda" if torch.cuda.is_available() and (many or not exact) else "cpu"


class Book:
    """All results so far, by entrant, in a file."""

    def __init__(self, out: Path, have: Path | None, most: int) -> None:
        self.most = most  # entrants that run at once
        self.out, self.found = out, {} if have is None else entries(have)

    def run(self, entrants: Sequence[Entrant], pool: WorkerPool, until: float) -> None:
        """Run what is missing, the slowest first; nothing new begins after ``until``."""
        left = [one for one in _once(entrants) if one not in self.found]
        left.sort(key=lambda one: (one.steps * ("opti" in one.method), one.steps), reverse=True)
        running: dict[Future[dict[str, Any]], Entrant] = {}
        total, written = len(left), time.monotonic()
        while left or running:
            while left and len(running) < self.most and time.monotonic() < until:
                one = left.pop(0)
                running[pool.submit(measured, one, device_for(one))] = one
            if not running:
                break
            if time.monotonic() > until + GRACE:
                break
            for future in wait(running, timeout=5, return_when=FIRST_COMPLETED).done:
                one = running.pop(future)
                self.found[one] = future.result()
            if time.monotonic() > written + 20:
                self.write()
                written = time.monotonic()
                print(f"{total - len(left) - len(running)} of {total}", flush=True)
        self.write()

    def tried(self, cell: Cell) -> dict[str, list[Tried]]:
        """What tuning tried in a cell, by method."""
        return tried_in(self.found, cell)

    def write(self) -> None:
        """Everything so far."""
        entries = [_entry(one, answer) for one, answer in self.found.items()]
        write_json(self.out, {"commit": _commit(), "entries": entries})


def tried_in(found: Mapping[Entrant, Mapping[str, Any]], cell: Cell) -> dict[str, list[Tried]]:
    """What tuning tried in a cell, by method."""
    tried: dict[str, list[Tried]] = {}
    for one, answer in found.items():
        if (one.arena, one.noise, one.tasks) == (cell.arena, cell.noise, cell.tuning) and "runs" in answer:
            lost, settled = answer["runs"]["lost"], answer["runs"]["settled"]
            numbers = {"lost": sum(lost) / len(lost), "settled": int(sum(settled)), "runs": len(lost)}
            tried.setdefault(one.method, []).append({"settings": parse_json(one.settings.encode()), **numbers})
    return tried


def _entry(one: Entrant, answer: Mapping[str, Any]) -> dict[str, Any]:
    runs = answer.get("runs", {})
    if one.tasks.kind == "tuning":  # two numbers of each run say enough
        runs = {name: runs[name] for name in ("lost", "settled") if name in runs}
    about = {name: getattr(one, name) for name in ("method", "noise", "steps")}
    about |= {"arena": one.arena.to_json(), "settings": parse_json(one.settings.encode()), "tasks": vars(one.tasks)}
    return {**about, **answer, "runs": runs} if "runs" in answer else {**about, **answer}


def entries(path: Path) -> dict[Entrant, dict[str, Any]]:
    """The finished entrants in a file of this command."""
    found: dict[Entrant, dict[str, Any]] = {}
    for entry in parse_json(path.read_bytes())["entries"]:
        rest = {name: entry[name] for name in ("noise", "steps")}
        arena, tasks = arena_from_json(entry["arena"]), Tasks(**entry["tasks"])
        one = Entrant.of(arena, entry["method"], entry["settings"], tasks, **rest)
        if "runs" in entry:
            found[one] = {name: entry[name] for name in ("runs", "seconds", "device") if name in entry}
    return found


def arena_from_json(content: Mapping[str, Any]) -> Arena:
    """The inverse of an arena's ``to_json``."""
    named = dict(content)
    place = named.pop("arena", "grid")
    if place == "grid":
        return PatchArena(**named) if "rewards" in named else GridArena(**named)
    return PointArena(**named) if place == POINT_MAZE else BodyArena(**named)


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main(
    out: Path, workers: int = 1, minutes: float = 600.0, have: Path | None = None, only: str = "", quick: bool = False
) -> None:
    """Tune and report all arenas.

    Args:
        out: The JSON file.
        workers: Number of processes.
        minutes: Nothing new begins after this time.
        have: A file of an earlier call: what it holds is not run again.
        only: Arenas whose name contains this.
        quick: Two tasks of 20 steps, two settings of each method: to see whether it runs.
    """
    began, cells = time.monotonic(), [cell for cell in CELLS if only in cell.name]
    if quick:
        tuning, report = replace(TUNED_ON, count=2), replace(REPORTED_ON, count=2, seeds=1)
        cells = [
            replace(
                cell, steps=20, tuning=tuning, report=report, tuned={name: it[:2] for name, it in cell.tuned.items()}
            )
            for cell in cells
        ]
    book, pool, until = Book(out, have, workers + 2), WorkerPool(workers), began + 60 * minutes
    printed = [cell for cell in cells if cell.name.startswith(PRINTED)]
    try:
        for part in (printed, [cell for cell in cells if cell not in printed]):
            book.run([one for cell in part for one in (*cell.to_tune(), *cell.as_they_are())], pool, until)
            for _ in range(0 if quick else ROUNDS):
                tried = [(cell, method, settings) for cell in part for method, settings in beyond_of(book.tried(cell))]
                if not tried or time.monotonic() > until - 15 * minutes:
                    break
                book.run([cell.entrant(method, settings, cell.tuning) for cell, method, settings in tried], pool, until)
            book.run([one for cell in part for one in cell.chosen(book.tried(cell))], pool, until)
    finally:
        pool.terminate()
    failed = [f"{one.arena.key}, {one.label}: {it['failed']}" for one, it in book.found.items() if "failed" in it]
    print("\n".join([f"{len(book.found)} entrants in {time.monotonic() - began:.0f} s", *failed]), flush=True)


if __name__ == "__main__":
    tyro.cli(main)
