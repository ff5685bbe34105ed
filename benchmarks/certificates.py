"""How often a certificate breaks its promise, and how many rewards it takes.

    python -m benchmarks.certificates --out results/certificates.json

runs agents on the 9×9 grid until the certificate leaves a share of .05, then on a body (``--quick``: in seconds), and
prints tables; ``--show FILE`` prints those of a file. A promise is broken if the true share at that step, in the state
just entered, is larger: what an optimal policy is worth above the one kept. ``gain`` is checked after ten rewards.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.progress import track
from torch import Generator, Tensor

from benchmarks.atlas import League, Runs
from zscout.base.files import write_json
from zscout.lab.arenas.arena import Batch, Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.simulation import simulated
from zscout.lab.compare.tables import TextTable, to_markdown
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import METHODS

SHARE = 0.05  # at which runs stop
GOOD = 0.9  # of the oracle's return: nearly everything
HEAD = [
    *("reward", "features", "model", "κ", "runs", "certified", "rewards: median", "9 of 10"),
    *("broken", "missing more than half", "`gain` broken at t = 10"),
]
BODY_HEAD = ["task", "return ÷ the oracle's, episode 3", "`share` after it"]
DENSE, REGION, DECOY = "dense", "one region", "a decoy"
DELTA, EVERY = 0.05, 10


@dataclass(frozen=True)
class Cell:
    """What is run: a kind of reward, features, a model and κ."""

    reward: str = DENSE
    features: str = "clusters"
    model: str = "exact"
    kappa: float = 1.6  # the default's


@dataclass(frozen=True)
class Certificates:
    """Where runs stopped, and what was true there."""

    cell: Cell
    rewards: Sequence[float | None]  # until certified; None: not within the run
    share: Sequence[float | None]  # the true share there: (best − kept) ÷ (best − average)
    promised: Sequence[float]  # ``gain`` after ten rewards
    gain: Sequence[float]  # the true gain there: best − kept

    def row(self) -> list[str]:
        """For the table."""
        counts = np.sort([np.inf if count is None else count for count in self.rewards])
        middle, most = (f"{counts[int(q * (len(counts) - 1))]:.0f}".replace("inf", "–") for q in (0.5, 0.9))
        cell = [self.cell.reward, self.cell.features, self.cell.model, f"{self.cell.kappa:g}"]
        return [*cell, str(len(counts)), self.certified, middle, most, self.broken, str(self.far), self.early]

    @property
    def certified(self) -> str:
        """The share of runs that are."""
        return f"{len(self._missing) / len(self.share):.0%}"

    @property
    def broken(self) -> str:
        """Promises with a larger true share."""
        return f"{(self._missing > SHARE).sum()} of {len(self._missing)}"

    @property
    def far(self) -> int:
        """Promises where more than half is missing."""
        return int((self._missing > 0.5).sum())

    @property
    def early(self) -> str:
        """The share of runs with a larger gain after ten rewards than promised."""
        return f"{(np.array(self.gain) > np.array(self.promised) + 1e-9).mean():.0%}"

    @property
    def _missing(self) -> np.ndarray:
        return np.array([share for share in self.share if share is not None])


CELLS = (
    *(Cell(features=name, kappa=kappa) for name in ("clusters", "laplacian") for kappa in (1.6, 3.0)),
    *(Cell(features=name, model="network") for name in ("clusters", "laplacian")),
    *(Cell(reward, kappa=kappa) for reward in (REGION, DECOY) for kappa in (1.6, 3.0)),
)


def certified_runs(cell: Cell, tasks: Tasks, steps: int, noise: float = 0.3) -> Certificates:
    """Runs that are checked every ten steps; a run counts when it is certified first."""
    arena = GridArena("open-grid", cell.features, cell.model)
    exact, yardstick = arena.ground.exact, arena.ground.yardstick
    z_r = exact.project_z(_tasks(cell.reward, arena, tasks))
    hidden, seeds = [tuple(z) for z in z_r.tolist()], tasks.run_seeds
    agent = OnlineTransfer(arena.bfm, METHODS["usf-ucb"](dim=exact.dim, kappa=cell.kappa), seed=seeds, runs=len(seeds))
    best = exact.value(z_r)  # [R S]
    average = (exact.successor_features(exact.sample_z(500, 1)).mean(0) @ z_r.T).T  # [R S]
    found: dict[str, list[Any]] = {"rewards": [None] * len(seeds), "share": [None] * len(seeds)}
    for step in islice(simulated(agent, arena.environment(Batch(hidden, seeds, noise))), steps):
        if agent.t % EVERY:
            continue
        certificate = agent.certificate(DELTA)
        state = torch.as_tensor(step.next_obs)
        kept = (yardstick.psi(state, agent.best_z) * z_r).sum(-1)
        top, middle = (values.gather(1, state[:, None])[:, 0] for values in (best, average))
        if agent.t == EVERY:
            found |= {"promised": certificate.gain.tolist(), "gain": (top - kept).tolist()}
        for run in (certificate.share <= SHARE).nonzero()[:, 0].tolist():
            if found["rewards"][run] is None:
                found["rewards"][run], found["share"][run] = agent.t, float(((top - kept) / (top - middle))[run])
        if None not in found["rewards"]:
            break
    return Certificates(cell, **found)


def _tasks(reward: str, arena: GridArena, tasks: Tasks) -> Tensor:
    """Task vectors: uniform on the sphere, one region, or one region and another that is worth half."""
    if reward == DENSE:
        return arena.vectors(tasks.draw(arena))
    rng = Generator().manual_seed(tasks.seed)
    found = torch.zeros(tasks.count, arena.bfm.dim, dtype=torch.float64)
    for task in found:
        good, decoy = torch.randperm(len(task), generator=rng)[:2].tolist()
        task[decoy] = 0.5 if reward == DECOY else 0.0
        task[good] = 1.0
    return found.repeat_interleave(tasks.seeds, 0)


def on_body(name: str, episodes: int, horizon: int) -> dict[str, Any]:
    """For each task of a body, the return of the last episode ÷ the oracle's, and the certificate's share after it."""
    with TemporaryDirectory() as folder:
        league = League(name, Path(folder) / "returns.json", horizon=horizon)
        runs = len(league.tasks)
        agent = OnlineTransfer(league.model, seed=list(range(runs)), runs=runs)
        league.play([Runs("usf-ucb", (0.0,), agent, runs)], episodes)
    start = league.world.observe(league.one.random_states(runs, Generator().manual_seed(7))).float()
    reached = torch.tensor(league.result["returns"]["usf-ucb"][-1][0]) / league.oracle
    share = agent.certificate(obs=start).share
    return {"body": name, "tasks": list(league.tasks), "reached": reached.tolist(), "share": share.tolist()}


def cells(content: dict[str, Any]) -> dict[Cell, Certificates]:
    """The stored runs of each cell."""
    found = [
        Certificates(Cell(**one["cell"]), **{key: one[key] for key in one if key != "cell"}) for one in content["cells"]
    ]
    return {one.cell: one for one in found}


def shown(content: dict[str, Any]) -> str:
    """The tables of a stored result."""
    body = content["body"]
    rows = zip(body["tasks"], body["reached"], body["share"], strict=True)
    lines = [[f"{body['body']}, {task}", f"{reached:.2f}", f"{share:.2f}"] for task, reached, share in rows]
    grid = TextTable("grid", "", HEAD, [one.row() for one in cells(content).values()])
    return "\n".join(to_markdown(table) for table in (grid, TextTable("body", "", BODY_HEAD, lines)))


def in_words(content: dict[str, Any]) -> str:
    """What the page about certificates says."""
    found, body = cells(content), content["body"]
    clusters, laplacian = (found[Cell(features=name)] for name in ("clusters", "laplacian"))
    networks = [found[Cell(features=name, model="network")].broken for name in ("clusters", "laplacian")]
    wide = [found[Cell(features=name, kappa=3.0)].certified for name in ("clusters", "laplacian")]
    region, decoy = (found[Cell(reward)] for reward in (REGION, DECOY))
    pairs = list(zip(body["reached"], body["share"], strict=True))
    good, poor = ([share for reached, share in pairs if (reached >= GOOD) == kind] for kind in (True, False))
    lines = [
        f"- *Random z_r, 9×9 grid, clusters / Laplacian*: {clusters.broken} / {laplacian.broken} broken where 5 % are",
        f"  allowed, with networks {' / '.join(networks)}. Certified within 400 steps: {clusters.certified} /",
        f"  {laplacian.certified}; {' / '.join(wide)} with `kappa=3`.",
        f"- *Reward in one region / half of it in another, too*: {region.broken} / {decoy.broken} broken,",
        f"  {region.far} / {decoy.far} by more than half; `gain` after ten rewards in {region.early} / {decoy.early}",
        "  of the runs.",
        f"- *An earlier {body['body']}, episode 3*: `share` is {_span(good)} on {len(good)} tasks with",
        f"  {_short(GOOD)} of the oracle's return, {_span(poor)} on {len(poor)} others.",
    ]
    return "\n".join(lines)


def _span(shares: Sequence[float]) -> str:
    return f"{_short(min(shares))} to {_short(max(shares))}"


def _short(number: float) -> str:
    return f"{number:.2g}".replace("0.", ".", 1)


def main(
    out: Path | None = None,
    tasks: int = 250,
    seed: int = 0,
    body: str = "cheetah",
    quick: bool = False,
    show: Path | None = None,
) -> None:
    """Measure certificates; the file holds every run.

    Args:
        out: The JSON file.
        tasks: One run of each; with networks 100 at most.
        seed: Of tasks and runs.
        body: Three episodes of each of its tasks.
        quick: Five tasks, 50 steps, one episode of 50 steps.
        show: Print the tables and words of this file, and measure nothing.
    """
    if show is not None:
        stored = json.loads(show.read_text())
        print(shown(stored), in_words(stored), sep="\n")
        return
    if out is None:
        raise SystemExit("benchmarks.certificates needs --out FILE or --show FILE")
    torch.set_grad_enabled(False)
    command = f"python -m benchmarks.certificates --out {out} --tasks {tasks} --seed {seed}"
    content: dict[str, Any] = {"command": command, "cells": []}
    for cell in track(CELLS, console=Console(stderr=True)):
        count = 5 if quick else min(tasks, 100) if cell.model == "network" else tasks
        found = certified_runs(cell, Tasks(count, 1, seed=seed), 50 if quick else 400)
        content["cells"].append(asdict(found))
        write_json(out, content)
    content["body"] = on_body(body, 1, 50) if quick else on_body(body, 3, 1_000)
    write_json(out, content)
    print(shown(json.loads(out.read_text())))


if __name__ == "__main__":
    tyro.cli(main)
