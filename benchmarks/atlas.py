"""Returns of agents on a body's tasks, with or without an atlas: python -m benchmarks.atlas --body-name walker --out F.

Ten episodes of 1,000 control steps, all runs at once. Entrants have the same starts and the same noise. The file holds
the return of every run, task and episode, and is written after each episode. ``--entrants-of`` names groups:

- ``default``: usf-ucb, without noise and with noise .3.
- ``rivals``: OpTI and Thompson as published, and tuned; greedy.
- ``tuning``: more settings of rivals, to be tried on random rewards (``--random 1 --seeds 1``).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from rich.console import Console
from rich.progress import track
from torch import Generator, Tensor

import zscout
from zscout import METHODS, Atlas, OnlineTransfer
from zscout.base.files import write_json
from zscout.base.smooth_rewards import SmoothRewards
from zscout.cli.parts.options import usage_errors
from zscout.lab.arenas.body import BodyArena
from zscout.lab.evaluation.judging import episode_returns
from zscout.models.files.pretrained import observations_of
from zscout.transfer.offline import fit_task
from zscout.worlds.bodies.physics import body
from zscout.worlds.bodies.tasks import body_tasks

NOISES = (0.0, 0.3)
Reward = Callable[[Tensor], Tensor]
Group = Literal["default", "rivals", "tuning"]


@dataclass(frozen=True)
class Entrant:
    """A method, with or without an atlas; ``regression``: λ by evidence, and the model's prior without an atlas."""

    name: str
    atlas: bool = True
    method: str = "usf-ucb"
    settings: tuple[tuple[str, Any], ...] = ()
    regression: bool = False
    noises: tuple[float, ...] = NOISES

    def agent(self, model: Any, atlas: Atlas, runs: int) -> OnlineTransfer:
        """The agent of all runs; a rival with the atlas keeps its z as long as the default does."""
        used = atlas if self.atlas else None
        method = METHODS[self.method](dim=model.dim, **dict(self.settings))
        if self.method != "usf-ucb" and self.atlas:
            method = replace(method, hold=atlas.hold, prior="evidence" if self.regression else "ridge")
        elif self.regression:
            method = replace(method, prior="model")
        seeds = [*range(runs // len(self.noises))] * len(self.noises)
        return OnlineTransfer(model, method, seed=seeds, runs=runs, atlas=used)


def entrants(group: Group, body_name: str) -> list[Entrant]:
    """All entrants of a group."""
    if group == "rivals":
        return rivals(body_name)
    return [Entrant("usf-ucb")] if group == "default" else tuning()


def tuning() -> list[Entrant]:
    """The settings of rivals that were tried; all fit a constant."""
    network, charted = [], []
    for ridge, radius in ((1.0, 0.1), (1.0, 0.3), (1.0, 1.0), (1.0, 3.0), (1.0, 10.0), (0.1, 1.0), (10.0, 1.0)):
        network.append(rival("opti", radius=radius, ridge=ridge))
    network += [rival("opti", radius=radius, regression=True) for radius in (0.3, 1.0, 3.0)]
    for scale, hold in ((0.1, 1), (0.3, 1), (1.0, 1), (1.0, 25)):
        network.append(rival("thompson", scale=scale, hold=hold))
        network.append(rival("thompson", scale=scale, hold=hold, regression=True))
    for regression in (False, True):
        charted += [rival("opti", radius=radius, atlas=True, regression=regression) for radius in (0.1, 0.3, 1.0, 3.0)]
        charted += [rival("thompson", scale=scale, atlas=True, regression=regression) for scale in (0.3, 1.0)]
    return [*network, *charted, rival("greedy", atlas=True, regression=True)]


def rival(method: str, *, atlas: bool = False, regression: bool = False, **settings: Any) -> Entrant:
    """A rival with a constant, named by its settings."""
    words = [method, *(f"{name} {value:g}".replace("0.", ".") for name, value in settings.items())]
    words += ["our regression"] * regression + ["atlas"] * atlas
    return Entrant(", ".join(words), atlas, method, (*settings.items(), ("intercept", True)), regression)


# The best of ``tuning()`` on random rewards, by body and noise: radius of OpTI and its λ, scale of Thompson and its
# hold; with the network's ψ, with our regression too, with the atlas, with both (results/atlas.md).
TUNED: dict[tuple[str, float], tuple[tuple[float, ...], ...]] = {
    ("walker", 0.0): ((0.3, 1), (0.3,), (0.3,), (0.1,), (0.1, 1), (1, 25), (0.3,), (0.3,)),
    ("walker", 0.3): ((1, 10), (1,), (0.3,), (0.3,), (1, 25), (1, 25), (0.3,), (0.3,)),
    ("cheetah", 0.0): ((0.1, 1), (0.3,), (0.1,), (0.1,), (1, 1), (0.3, 1), (0.3,), (0.3,)),
    ("cheetah", 0.3): ((1, 1), (1,), (0.3,), (0.3,), (1, 1), (0.3, 1), (0.3,), (0.3,)),
    ("quadruped", 0.0): ((0.3, 1), (0.3,), (0.3,), (0.1,), (1, 25), (0.3, 1), (1,), (0.3,)),
    ("quadruped", 0.3): ((1, 10), (0.3,), (0.1,), (0.1,), (0.3, 1), (0.3, 1), (0.3,), (0.3,)),
}


def rivals(body_name: str) -> list[Entrant]:
    """Rivals as published, and tuned for each noise."""
    found = [
        Entrant("opti-shipped", atlas=False, method="opti-shipped"),
        Entrant("thompson, scale .01", atlas=False, method="thompson", settings=(("scale", 0.01),)),
        rival("greedy", atlas=True, regression=True),
    ]
    for noise in NOISES:
        for k, numbers in enumerate(TUNED[body_name, noise]):
            regression, atlas = bool(k % 2), k % 4 >= 2
            method, names = ("opti", ("radius", "ridge")) if k < 4 else ("thompson", ("scale", "hold"))
            chosen = dict(zip(names, numbers, strict=False))
            found.append(replace(rival(method, atlas=atlas, regression=regression, **chosen), noises=(noise,)))
    return found


@dataclass(frozen=True, eq=False)
class RandomTasks:
    """Bumps of a model's goal features, in units of their spread over the observations."""

    model: Any
    mean: Tensor
    spread: Tensor
    drawn: SmoothRewards
    count: int

    @classmethod
    def of(cls, model: Any, observations: Tensor, count: int, seed: int) -> "RandomTasks":
        """The last of twice as many, which are bumps; the first quarter are ramps."""
        goals = model.goal_features(observations).double()
        mean, spread = goals.mean(0), goals.std(0).clamp(min=1e-6)
        drawn = SmoothRewards.drawn((goals - mean) / spread, 2 * count, Generator().manual_seed(seed))
        return cls(model, mean, spread, drawn, count)

    def all(self, obs: Tensor) -> Tensor:
        """The rewards [n tasks] of observations [n o]."""
        goals = self.model.goal_features(obs.to(self.model.device)).to(self.mean)
        last: Tensor = self.drawn((goals - self.mean) / self.spread).flip(-1)[..., : self.count]
        return last.to(obs.device)

    def each(self, obs: Tensor) -> Tensor:
        """The rewards [n tasks] of observations [n tasks o], one observation for each task."""
        every: Tensor = self.all(obs.flatten(0, 1)).unflatten(0, obs.shape[:2])
        return every.diagonal(dim1=1, dim2=2)

    def named(self) -> dict[str, Reward]:
        """Each of them."""

        def one(number: int) -> Reward:
            return lambda obs: self.all(obs)[..., number]

        return {f"random-{number + 1}": one(number) for number in range(self.count)}


@dataclass(frozen=True, kw_only=True)
class BodyOptions:
    """Options that the leagues of a body share."""

    body_name: str  # walker, cheetah or quadruped.
    out: Path  # The JSON file.
    episodes: int = 10  # Of each run.
    seeds: int = 10  # Runs of each entrant on each task.
    named: tuple[str, ...] = ()  # Names of tasks; by default all of the body.
    random: int | None = None  # Random smooth rewards with this seed instead; no choice was made on 901.
    tasks_drawn: int = 40  # Number of random rewards.
    device: str = "cpu"  # Of the networks and the agents.
    threads: int | None = None  # Of the physics.
    minutes: float = 600.0  # Stop after the episode that ends later than this.

    @property
    def of_league(self) -> dict[str, Any]:
        """Those of a League."""
        drawn = {"named": self.named, "random": self.random, "drawn": self.tasks_drawn}
        return {"body_name": self.body_name, "out": self.out, "device": self.device, "threads": self.threads, **drawn}


def main(
    options: tyro.conf.OmitArgPrefixes[BodyOptions],
    entrants_of: tuple[Group, ...] = ("default",),
    atlas: Path | None = None,
    only: str = "",
) -> None:
    """Run all entrants.

    Args:
        options: Shared ones.
        entrants_of: Groups of entrants.
        atlas: A folder with an atlas; by default the model's own.
        only: Entrants whose name contains this.
    """
    torch.set_grad_enabled(False)
    of_body = [entrant for group in entrants_of for entrant in entrants(group, options.body_name)]
    chosen = [entrant for entrant in of_body if only in entrant.name]
    League(atlas=atlas, **options.of_league).run(chosen, options.seeds, options.episodes, options.minutes)


class League:
    """A body's tasks with the oracle's returns, and the runs of all entrants."""

    def __init__(
        self,
        body_name: str,
        out: Path,
        atlas: Path | Atlas | None = None,
        named: tuple[str, ...] = (),
        random: int | None = None,
        drawn: int = 40,
        device: str = "cpu",
        threads: int | None = None,
        horizon: int = BodyArena.horizon,
    ) -> None:
        self.began, self.out, self.horizon = time.monotonic(), out, horizon
        model: Any = zscout.load(f"{body_name}-fb")
        observations = observations_of(f"{body_name}-fb")
        repeat = int(model.about.get("repeat", 1))
        self.one, self.world = body(body_name, threads=threads), body(body_name, repeat=repeat, threads=threads)
        tasks: dict[str, Reward] = {task.name: task for task in body_tasks(self.one)}
        kinds = {task.name: task.kind for task in body_tasks(self.one)}
        self.random = None if random is None else RandomTasks.of(model, observations, drawn, random)
        if self.random is not None:
            tasks = self.random.named()
            kinds = dict.fromkeys(tasks, "random")
        self.tasks = {name: tasks[name] for name in named or tasks}
        z = torch.stack([fit_task(model, observations, task(observations)).z for task in self.tasks.values()]).float()
        self.model = model.to(device)
        with usage_errors():
            self.atlas = Atlas.load(atlas, self.model) if isinstance(atlas, Path) else atlas or self.model.atlas
        zero = torch.stack([self.atlas.best(task) for task in self.tasks.values()]).cpu()
        rewards: list[Any] = list(self.tasks.values())
        starts = self.one.random_states(10, Generator().manual_seed(7))
        both = torch.stack([z, zero], 1)
        print(f"{body_name}: the oracle's returns of {len(rewards)} tasks", flush=True)
        own = episode_returns(self.model, self.one, rewards, both, starts, horizon, repeat)
        self.oracle, by_atlas = own.mean(-1).mT
        self.result: dict[str, Any] = {
            "body": body_name,
            "atlas": repr(self.atlas),
            "hold": self.atlas.hold,
            "tasks": list(self.tasks),
            "kinds": [kinds[name] for name in self.tasks],
            "oracle": self.oracle.tolist(),
            "zero_shot_by_atlas": by_atlas.tolist(),
            "returns": {},
        }
        print(f"oracle {self.oracle.mean():.0f}, best z of the atlas {by_atlas.mean():.0f}; {self.atlas}", flush=True)

    def run(self, chosen: list[Entrant], seeds: int, episodes: int, minutes: float = 600.0) -> None:
        """All episodes of all entrants."""
        each = len(self.tasks) * seeds
        self.play(
            [
                Runs(one.name, one.noises, one.agent(self.model, self.atlas, each * len(one.noises)), each)
                for one in chosen
            ],
            episodes,
            minutes,
        )

    def play(self, runs: "list[Runs]", episodes: int, minutes: float = 600.0) -> None:
        """All episodes of all agents."""
        returns = self.result["returns"]
        for episode in range(episodes):
            for title, mean in self._episode(runs, episode).items():  # [seeds tasks]
                returns.setdefault(title, []).append(mean.tolist())
                ratio = mean.mean(0) / self.oracle
                pooled = mean.mean(0).sum() / self.oracle.sum()
                print(
                    f"{time.monotonic() - self.began:5.0f} s  episode {episode + 1:2}  {title:40} "
                    f"pooled {pooled:.2f}, mean {ratio.mean():.2f}, worst {ratio.min():.2f}",
                    flush=True,
                )
            write_json(self.out, self.result)
            if time.monotonic() - self.began > 60 * minutes:
                break

    def _episode(self, runs: "list[Runs]", episode: int) -> dict[str, Tensor]:
        model, world, tasks = self.model, self.world, len(self.tasks)
        largest = max(run.each for run in runs)
        starts = self.one.random_states(largest, Generator().manual_seed(1_000 + episode))
        state = torch.cat([starts[: run.each] for run in runs for _ in run.noises])
        sizes, device, repeat = [run.each * len(run.noises) for run in runs], model.device, world.repeat
        total: Any = 0.0
        steps = self.horizon // repeat
        obs = world.observe(state).float().to(device)
        for t in counted(steps, f"episode {episode + 1}"):
            z = torch.cat([run.agent.ask(own) for run, own in zip(runs, obs.split(sizes), strict=True)])
            state, _ = world.advance(state, torch.as_tensor(model.act(obs, z)).cpu())
            entered = world.observe(state).float()
            reward, obs = self._rewards(entered.reshape(-1, tasks, entered.shape[-1])), entered.to(device)
            total = total + reward * repeat
            for run, own, paid in zip(runs, obs.split(sizes), reward.flatten().split(sizes), strict=True):
                run.agent.tell(own, paid + run.noise_of_step(), done=t == steps - 1)
        found: dict[str, Tensor] = {}
        for run, own in zip(runs, total.flatten().split(sizes), strict=True):
            each = own.reshape(len(run.noises), -1, tasks)
            found |= dict(zip(run.titles, each, strict=True))
        return found

    def _rewards(self, obs: Tensor) -> Tensor:
        """The true rewards [n tasks] of observations [n tasks o], one observation for each task."""
        if self.random is not None and len(self.tasks) == self.random.count:
            return self.random.each(obs).double()
        return torch.stack([task(obs[:, k]) for k, task in enumerate(self.tasks.values())], 1).double()


def counted(steps: int, what: str) -> Iterable[int]:
    """The numbers of the steps, in a terminal with a bar and the time left."""
    console = Console(stderr=True)
    return track(range(steps), what, console=console, transient=True, disable=not console.is_interactive)


class Runs:
    """All runs of an agent: noises × seeds × tasks."""

    def __init__(self, name: str, noises: tuple[float, ...], agent: OnlineTransfer, each: int) -> None:
        self.noises, self.agent, self.each = noises, agent, each  # ``each``: runs of one noise
        self.titles = [f"{name}, noise {noise:g}".replace("0.", ".") if noise else name for noise in noises]
        self._rng = Generator().manual_seed(11)

    def noise_of_step(self) -> Tensor:
        """The noise of one step, the same draws for every size of noise."""
        drawn = torch.randn(self.each, generator=self._rng, dtype=torch.float64)
        return torch.cat([noise * drawn for noise in self.noises])


if __name__ == "__main__":
    tyro.cli(main)
