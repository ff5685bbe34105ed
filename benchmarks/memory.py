"""Tasks in a row, with and without a memory: python -m benchmarks.memory --out FILE.

Twenty tasks of the walker: ten named ones, then ten that vary posture and speed, drawn by a seed; then five of the
named ones again. Entrants: no memory; a memory that grows from task to task, by the first run of each; and one of ten
random smooth rewards, which the tasks do not resemble. Each task is one episode of 1,000 control steps, every reward is
seen. Every 10 actions: is ``best_z`` worth .9 of the oracle's z? What a z is worth is measured beforehand, by following
all z of the atlas from other starts. The file holds the labels until it is, for good (all if never), and the returns,
of each entrant, task and seed. ``table`` makes the table in the log.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Generator, Tensor

import zscout
from benchmarks.atlas import RandomTasks
from zscout import Memory, OnlineTransfer
from zscout.base.files import write_json
from zscout.models.files.pretrained import observations_of
from zscout.transfer.constants import SETTLED
from zscout.worlds.bodies.goals import HEIGHT, SPEED
from zscout.worlds.bodies.physics import Body, body
from zscout.worlds.bodies.tasks import body_task, tolerance

Reward = Callable[[Tensor], Tensor]
NAMED = (
    "stand",
    "walk",
    "run",
    "walk-backward",
    "run-backward",
    "stand-still",
    "jog",
    "slow-backward",
    "crouch",
    "sneak",
)
ENOUGH, EVERY, STEPS, AGAIN = 0.9, 10, 1_000, 5
ENTRANTS = ("no memory", "memory", "unrelated memory")


def varied(world: Body, count: int, seed: int) -> dict[str, Reward]:
    """Tasks that ask for a height of the torso and a speed."""
    rng = Generator().manual_seed(seed)

    def one(height: float, speed: float) -> Reward:
        def reward(obs: Tensor) -> Tensor:
            goals = world.goal_features(obs)
            stands = tolerance(goals[..., HEIGHT], height - 0.1, height + 0.1, margin=0.5)
            return stands * (1 + 5 * tolerance(goals[..., SPEED], speed, speed, margin=1.0)) / 6

        return reward

    draws = torch.rand(count, 2, generator=rng).tolist()
    each = [(0.7 + 0.6 * high, -2.0 + 5.0 * fast) for high, fast in draws]
    return {f"height {height:.2f}, speed {speed:.1f}": one(height, speed) for height, speed in each}


def worth(model: Any, world: Body, tasks: list[Reward], z: Tensor, starts: int, steps: int) -> Tensor:
    """The mean reward [n tasks] of each z once it has settled, from starts that no chart has seen."""
    state = world.random_states(starts, Generator().manual_seed(77)).repeat(len(z), 1)
    rows, found, late = z.repeat_interleave(starts, 0).to(model.device), torch.zeros(()), round(SETTLED * steps)
    for t in range(steps):
        obs = world.observe(state).float()
        state, _ = world.advance(state, torch.as_tensor(model.act(obs.to(model.device), rows)).cpu())
        if t >= late:
            entered = world.observe(state).float()
            found = found + torch.stack([task(entered).double() for task in tasks], 1) / (steps - late)
    mean: Tensor = found.unflatten(0, (len(z), starts)).mean(1)
    return mean


def main(
    out: Path,
    seeds: int = 10,
    tasks: int = 20,
    starts: int = 4,
    steps: int = 300,
    noise: float = 0.0,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    minutes: float = 600.0,
) -> None:
    """Run all entrants on all tasks.

    Args:
        out: The JSON file.
        seeds: Runs of each entrant on each task.
        tasks: How many, half of them named.
        starts: From which each z is followed to measure what it is worth.
        steps: For which each z is followed.
        noise: Of the rewards.
        seed: Of the varied tasks.
        device: Of the network and the agents.
        threads: Of the physics.
        minutes: Stop after the task that ends later than this.
    """
    torch.set_grad_enabled(False)
    began = time.monotonic()
    model: Any = zscout.load("walker-fb")
    observations = observations_of("walker-fb")
    world = body("walker", repeat=model.about["repeat"], threads=threads)
    row: dict[str, Reward] = {name: body_task(world, name) for name in NAMED[: tasks // 2]}
    row |= varied(world, tasks - len(row), seed)
    row |= {f"{name}, again": row[name] for name in NAMED[: min(AGAIN, tasks // 2)]}
    unrelated = RandomTasks.of(model, observations, 10, 901).named()
    oracle = [zscout.infer_task(model, observations, task(observations)) for task in row.values()]
    model = model.to(device)
    atlas = model.atlas
    with tempfile.TemporaryDirectory() as folder:
        memories = {"memory": Memory(Path(folder, "own")), "unrelated memory": Memory(Path(folder, "unrelated"))}
        for name, reward in unrelated.items():
            agent = OnlineTransfer(model, atlas=atlas, memory=memories["unrelated memory"])
            agent.learn(atlas.sample, reward(atlas.sample))
            agent.remember(name)
        z = torch.cat([atlas.z.cpu(), torch.stack(oracle).float()])
        values = worth(model, world, list(row.values()), z, starts, steps)
        best = values[len(atlas.z) :].diagonal()
        result: dict[str, Any] = {"tasks": list(row), "labels": {}, "returns": {}, "noise": noise}
        for number, (name, reward) in enumerate(row.items()):
            enough = values[: len(atlas.z), number] >= ENOUGH * best[number]
            agents = [OnlineTransfer(model, runs=seeds, atlas=atlas, memory=memories.get(one)) for one in ENTRANTS]
            labels, returns = run(model, world, agents, reward, enough.to(device), number, noise)
            agents[1].remember(name, run=0)
            for k, one in enumerate(ENTRANTS):
                result["labels"].setdefault(one, []).append(labels[k].tolist())
                result["returns"].setdefault(one, []).append(returns[k].tolist())
            like = {
                old: round(float(torch.as_tensor(value).mean()), 2)
                for old, value in list(agents[1].resembles.items())[:1]
            }
            print(
                f"{time.monotonic() - began:5.0f} s  {name:24} labels "
                + ", ".join(f"{one} {labels[k].median():.0f}" for k, one in enumerate(ENTRANTS))
                + f"; returns {', '.join(f'{x:.0f}' for x in returns.mean(1))}; like {like}",
                flush=True,
            )
            write_json(out, result)
            if time.monotonic() - began > 60 * minutes:
                break
    print(table(result))


def table(found: dict[str, Any]) -> str:
    """Rows of the docs: labels, the mean over tasks of medians over runs, and returns ÷ those without a memory."""
    kinds: dict[str, list[int]] = {"named": [], "varied": [], "again": []}
    for number, name in enumerate(found["tasks"][: len(found["labels"][ENTRANTS[0]])]):
        kinds["again" if name.endswith("again") else "named" if name in NAMED else "varied"].append(number)
    kinds = {kind: rows for kind, rows in kinds.items() if rows}
    lines = [f"|  | {' | '.join(kinds)} |", "|---" * (1 + len(kinds)) + "|"]
    without = torch.tensor(found["returns"][ENTRANTS[0]]).mean(1)
    for one in ENTRANTS:
        labels, returns = torch.tensor(found["labels"][one]), torch.tensor(found["returns"][one]).mean(1)
        cells = []
        for rows in kinds.values():
            ratio = returns[rows].sum() / without[rows].sum()
            cells.append(f"{labels[rows].median(1).values.mean():.0f} labels, return × {ratio:.2f}")
        lines.append(f"| {one} | {' | '.join(cells)} |".replace(" 0.", " ."))
    return "\n".join(lines)


def run(
    model: Any, world: Body, agents: list[OnlineTransfer], reward: Reward, enough: Tensor, number: int, noise: float
) -> tuple[Tensor, Tensor]:
    """Labels until best_z is worth enough, for good, and returns, [entrants seeds]."""
    seeds, rng = agents[0].runs[0], Generator().manual_seed(number)
    state = world.random_states(seeds, rng).repeat(len(agents), 1)
    obs = world.observe(state).float().to(model.device)
    labels, total = torch.zeros(len(agents), seeds), torch.zeros(len(agents), seeds).double()
    for t in range(STEPS // world.repeat):
        z = torch.cat([agent.ask(own) for agent, own in zip(agents, obs.split(seeds), strict=True)])
        state, _ = world.advance(state, torch.as_tensor(model.act(obs, z)).cpu())
        entered = world.observe(state).float()
        paid = reward(entered).double().reshape(len(agents), seeds)
        total, obs = total + paid * world.repeat, entered.to(model.device)
        seen = paid + noise * torch.randn(seeds, generator=rng).double()
        for agent, own, given in zip(agents, obs.split(seeds), seen, strict=True):
            agent.tell(own, given.to(model.device))
        if t % EVERY == EVERY - 1:
            for k, agent in enumerate(agents):
                assert agent.atlas is not None
                good = enough[agent.atlas.index_of(agent.best_z.float())]
                labels[k] = torch.where(good.cpu(), labels[k], t + 1.0)
    return labels, total


if __name__ == "__main__":
    tyro.cli(main)
