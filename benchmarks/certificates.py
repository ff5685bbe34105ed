"""How often a certificate breaks its promise, and how many rewards it takes.

    python -m benchmarks.certificates --out results/2026-11-certificates.json

runs agents on the 9×9 grid until the certificate leaves a share of .05, then on a body (``--quick``: in seconds), and
prints the tables of results/2026-11-certificates.md. A promise is broken if the true share at that step, in the state
just entered, is larger: what an optimal policy is worth above the one kept. ``gain`` is checked after ten rewards.
"""

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.progress import track
from torch import Generator, Tensor

from benchmarks.atlas import League, Runs
from benchmarks.certificate_table import DECOY, DENSE, REGION, SHARE, Cell, Certificates, shown
from zscout.base.files import write_json
from zscout.lab.arenas.arena import Batch, Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.simulation import simulated
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import METHODS

DELTA, EVERY = 0.05, 10
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


def main(out: Path, tasks: int = 250, seed: int = 0, body: str = "cheetah", quick: bool = False) -> None:
    """Measure certificates; the file holds every run.

    Args:
        out: The JSON file.
        tasks: One run of each; with networks 100 at most.
        seed: Of tasks and runs.
        body: Three episodes of each of its tasks.
        quick: Five tasks, 50 steps, one episode of 50 steps.
    """
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
