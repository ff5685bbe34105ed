"""Returns of agents with and without an atlas on a body's tasks: python -m benchmarks.atlas --body walker --out FILE.

Ten episodes of 1,000 control steps, all runs at once. Methods have the same starts and the same noise. The file holds
the return of every run, task and episode, and is written after each episode.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Generator, Tensor

import zscout
from zscout import METHODS, Atlas, OnlineTransfer
from zscout.base.files import write_json
from zscout.base.smooth_rewards import SmoothRewards
from zscout.lab.evaluation.body_judging import episode_returns
from zscout.models.files.pretrained import observations_of
from zscout.transfer.offline import fit_task
from zscout.worlds.bodies.body import Body, body
from zscout.worlds.bodies.tasks import body_tasks

RANDOM_TASKS, RANDOM_SEED = 40, 901  # smooth bumps that no choice has seen
Reward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Entrant:
    """A method, with or without an atlas, at a noise."""

    name: str
    seeds: int
    noise: float = 0.0
    atlas: bool = True
    method: str = "usf-ucb"
    settings: tuple[tuple[str, Any], ...] = ()

    def agent(self, model: Any, atlas: Atlas, runs: int) -> OnlineTransfer:
        """The agent of all runs; a rival with the atlas keeps its z as long as the default does."""
        used = atlas if self.atlas else None
        if self.method == "usf-ucb":
            return OnlineTransfer(model, seed=0, runs=runs, atlas=used)
        method = METHODS[self.method](dim=model.dim, **dict(self.settings))
        method = replace(method, hold=atlas.hold) if self.atlas else method
        return OnlineTransfer(model, method, seed=0, runs=runs, atlas=used)


def entrants(seeds: int, few: int) -> list[Entrant]:
    """The default with more runs than the others."""
    opti, thompson = (("radius", 1.0), ("intercept", True)), (("intercept", True),)
    return [
        Entrant("usf-ucb", seeds),
        Entrant("usf-ucb, noise .3", seeds, 0.3),
        Entrant("usf-ucb without atlas", few, atlas=False),
        Entrant("opti, radius 1", few, atlas=False, method="opti", settings=opti),
        Entrant("opti, radius 1, atlas", few, method="opti", settings=opti),
        Entrant("thompson", few, atlas=False, method="thompson", settings=thompson),
        Entrant("thompson, atlas", few, method="thompson", settings=thompson),
        Entrant("greedy, atlas", few, method="greedy", settings=thompson),
    ]


def random_tasks(model: Any, observations: Tensor) -> dict[str, Reward]:
    """Bumps of the goal features, in units of their spread over the observations."""
    goals = model.goal_features(observations).double()
    mean, spread = goals.mean(0), goals.std(0).clamp(min=1e-6)
    drawn = SmoothRewards.drawn((goals - mean) / spread, 2 * RANDOM_TASKS, Generator().manual_seed(RANDOM_SEED))

    def one(number: int) -> Reward:
        return lambda obs: drawn((model.goal_features(obs).double() - mean.to(obs)) / spread.to(obs))[..., -number]

    return {f"random-{number}": one(number) for number in range(1, RANDOM_TASKS + 1)}


def main(
    body_name: str,
    out: Path,
    atlas: Path | None = None,
    episodes: int = 10,
    seeds: int = 10,
    few: int = 3,
    only: tuple[str, ...] = (),
    named: tuple[str, ...] = (),
    random: bool = False,
    device: str = "cpu",
    threads: int | None = None,
    minutes: float = 600.0,
) -> None:
    """Run all entrants.

    Args:
        body_name: walker, cheetah or quadruped.
        out: The JSON file.
        atlas: A folder with an atlas; by default the model's own.
        episodes: Of each run.
        seeds: Runs of the default on each task.
        few: Runs of the others on each task.
        only: Names of entrants; by default all.
        named: Names of tasks; by default all of the body.
        random: Random smooth rewards instead of the named tasks.
        device: Of the networks and the agents.
        threads: Of the physics.
        minutes: Stop after the episode that ends later than this.
    """
    torch.set_grad_enabled(False)
    began = time.monotonic()
    model: Any = zscout.load(f"{body_name}-fb")
    observations = observations_of(f"{body_name}-fb")
    repeat = int(model.about.get("repeat", 1))
    one, world = body(body_name, threads=threads), body(body_name, repeat=repeat, threads=threads)
    tasks: dict[str, Reward] = {task.name: task for task in body_tasks(one)}
    kinds = {task.name: task.kind for task in body_tasks(one)}
    if random:
        tasks = random_tasks(model, observations)
        kinds = dict.fromkeys(tasks, "random")
    names = list(named or tasks)
    tasks = {name: tasks[name] for name in names}
    z = torch.stack([fit_task(model, observations, tasks[name](observations)).z for name in names]).float()
    model = model.to(device)
    chart = Atlas.load(atlas, model) if atlas else model.atlas
    zero = torch.stack([chart.best(tasks[name]) for name in names]).cpu()
    both = torch.stack([z, zero], 1)
    rewards: list[Any] = [lambda obs, action, own=tasks[name]: own(obs) for name in names]
    starts = one.random_states(10, Generator().manual_seed(7))
    found = episode_returns(model, one, rewards, both, starts, repeat).mean(-1)
    result: dict[str, Any] = {
        "body": body_name,
        "atlas": repr(chart),
        "hold": chart.hold,
        "tasks": names,
        "kinds": [kinds[name] for name in names],
        "oracle": found[:, 0].tolist(),
        "zero_shot_by_atlas": found[:, 1].tolist(),
        "returns": {},
    }
    print(f"oracle {found[:, 0].mean():.0f}, best z of the atlas {found[:, 1].mean():.0f}; {chart}", flush=True)
    chosen = [entrant for entrant in entrants(seeds, few) if not only or entrant.name in only]
    runs = [Runs(entrant, entrant.agent(model, chart, len(names) * entrant.seeds), tasks) for entrant in chosen]
    for episode in range(episodes):
        _episode(runs, model, one, world, episode)
        result["returns"] = {run.entrant.name: run.returns for run in runs}  # [episodes seeds tasks]
        write_json(out, result)
        oracle = found[:, 0]
        for run in runs:
            mean = torch.tensor(run.returns[-1]).mean(0)
            ratio = mean / oracle
            print(
                f"{time.monotonic() - began:5.0f} s  episode {episode + 1:2}  {run.entrant.name:24} "
                f"pooled {mean.sum() / oracle.sum():.2f}, mean over tasks {ratio.mean():.2f}, worst {ratio.min():.2f}",
                flush=True,
            )
        if time.monotonic() - began > 60 * minutes:
            break


class Runs:
    """All runs of an entrant: seeds × tasks."""

    def __init__(self, entrant: Entrant, agent: OnlineTransfer, tasks: dict[str, Reward]) -> None:
        self.entrant, self.agent, self.tasks = entrant, agent, list(tasks.values())
        self.count = entrant.seeds * len(tasks)
        self.returns: list[list[list[float]]] = []
        self._noise = Generator().manual_seed(11)

    def reward(self, obs: Tensor) -> Tensor:
        """The true rewards, [seeds tasks]."""
        each = obs.reshape(self.entrant.seeds, len(self.tasks), -1)
        return torch.stack([task(each[:, k]) for k, task in enumerate(self.tasks)], 1).double()

    def noise(self) -> Tensor:
        """The noise of one step."""
        return self.entrant.noise * torch.randn(self.count, generator=self._noise, dtype=torch.float64)


def _episode(runs: list[Runs], model: Any, one: Body, world: Body, episode: int) -> None:
    largest = max(run.count for run in runs)
    starts = one.random_states(largest, Generator().manual_seed(1_000 + episode))
    state = torch.cat([starts[: run.count] for run in runs])
    sizes, device, repeat = [run.count for run in runs], model.device, world.repeat
    totals: list[Any] = [0.0] * len(runs)
    steps = 1_000 // repeat
    obs = world.observe(state).float().to(device)
    for t in range(steps):
        z = torch.cat([run.agent.ask(own) for run, own in zip(runs, obs.split(sizes), strict=True)])
        state, _ = world.advance(state, torch.as_tensor(model.act(obs, z)).cpu())
        obs = world.observe(state).float().to(device)
        for number, (run, own) in enumerate(zip(runs, obs.split(sizes), strict=True)):
            reward = run.reward(own)
            totals[number] = totals[number] + reward * repeat
            run.agent.tell(own, reward.flatten() + run.noise().to(reward), done=t == steps - 1)
    for run, total in zip(runs, totals, strict=True):
        run.returns.append(total.tolist())


if __name__ == "__main__":
    tyro.cli(main)
