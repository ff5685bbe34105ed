"""Which features of HILP to use: of the state, ξ(s′), or of the transition, ξ(s′) − ξ(s); in the point maze.

    python -m benchmarks.hilp --out FILE

HILP (Park et al. 2024) learns ξ so that −‖ξ(s) − ξ(g)‖ is the value of g as a goal at s. ``FBTrainer`` with B = ξ
trains policies and ψ. Both kinds of features share them: Σγᵏ(ξ(S_{k+1}) − ξ(S_k)) = (1 − γ)ψ(S_0) − ξ(S_0), so the same
policy is best for w as a task of either kind. What differs is the w that rewards lead to.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from jaxtyping import Float, Int
from rich.console import Console
from scipy.sparse.csgraph import shortest_path
from scipy.stats import spearmanr
from torch import Generator, Tensor

import zscout
from zscout.base.files import write_json
from zscout.base.smooth_rewards import random_rewards
from zscout.base.types import Action, Obs, Vectors
from zscout.cli.parts.progress import bar_with_time_left
from zscout.lab.arenas.arena import Batch, Tasks
from zscout.lab.arenas.point import PointArena, task_named
from zscout.lab.arenas.vector import DATA_SEED, LABELS
from zscout.lab.compare.report_model import TextTable
from zscout.lab.compare.statistics import Bootstrap, Estimate
from zscout.lab.evaluation.judging import episode_returns, psi_error
from zscout.lab.evaluation.monte_carlo import following, played
from zscout.loop.rollout import Walk
from zscout.models.fb.data import LENGTH, RUNS, Experience, force_steps, random_forces
from zscout.models.fb.model import FB
from zscout.models.fb.recipe import FBRecipe
from zscout.models.fb.task_prior import OBSERVATIONS, covariance_of_rewards
from zscout.models.fb.training import FBTrainer
from zscout.report.tables import to_markdown
from zscout.transfer.offline import fit_features
from zscout.worlds.points.maze import PointMaze, at_rest
from zscout.worlds.points.tasks import KINDS

EXPECTILE, DISCOUNT = 0.9, 0.98  # of the value of goals; policies have the recipe's γ
RANDOM_GOALS = 0.375  # share of goals from other trajectories, as in HILP's code; the others come later in the same one
RATE, BATCH = 0.5, 512  # of ξ; the rate is relative to the recipe's
STARTS, FEW = 32, 500  # starts of zero-shot episodes; the smaller number of labels


@dataclass(frozen=True)
class Options:
    """What to train and measure."""

    out: Path  # The JSON file.
    tasks: int = 50  # The first of zscout compare, a fifth of each kind; as many random smooth rewards, for R².
    episodes: int = 3  # Of each online run.
    updates: int = 4_000  # Of ξ.
    policy_steps: int = 4_000
    evaluation_steps: int = 1_500
    hidden: int = 128
    seed: int = 0

    @property
    def recipe(self) -> FBRecipe:
        """Of the policies; B is only the network, so that it can be ξ."""
        recipe = FBRecipe(hidden=self.hidden, layers=2, quadratic=False, feature_steps=1)
        return replace(recipe, policy_steps=self.policy_steps, evaluation_steps=self.evaluation_steps)


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Steps t of R runs, and the last step of the episode that each is in."""

    obs: Float[Tensor, "T R 4"]
    next_obs: Float[Tensor, "T R 4"]
    last: Int[Tensor, "T R"]

    @classmethod
    def drawn(cls, world: PointMaze, transitions: int, seed: int) -> "Trajectories":
        """The data of ``FBTrainer``, in order."""
        steps = list(force_steps(world, transitions, Generator().manual_seed(seed), min(RUNS, transitions), LENGTH))
        obs, entered = (torch.stack([getattr(step, name) for step in steps]) for name in ("obs", "next_obs"))
        last = torch.full(obs.shape[:2], len(obs) - 1)
        for t in reversed(range(len(obs) - 1)):
            last[t] = torch.where((obs[t + 1] == entered[t]).all(-1), last[t + 1], t)
        return cls(obs, entered, last)

    def batch(self, n: int, rng: Generator) -> tuple[Tensor, Tensor, Tensor]:
        """s, s′ and a goal: entered a geometric number of steps later in the same episode, or at random."""
        t, other = torch.randint(len(self.last), (2, n), generator=rng)
        run, another = torch.randint(self.last.shape[1], (2, n), generator=rng)
        wait = (torch.rand(n, generator=rng).clamp(min=1e-9).log() / math.log(DISCOUNT)).long()
        later = torch.minimum(t + wait, self.last[t, run])
        random = torch.rand(n, 1, generator=rng) < RANDOM_GOALS
        goal = torch.where(random, self.next_obs[other, another], self.next_obs[later, run])
        return self.obs[t, run], self.next_obs[t, run], goal


def hilbert_loss(value: Float[Tensor, " n"], after: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """The expectile loss of V(s,g) with the target −1 + γV(s′,g); V(g,g) = 0 ends the sum."""
    apart = DISCOUNT * after - 1 - value
    return (torch.where(apart > 0, EXPECTILE, 1 - EXPECTILE) * apart.square()).mean()


def value_of(model: FB, s: Float[Tensor, "n 4"], g: Float[Tensor, "n 4"]) -> Float[Tensor, " n"]:
    """V(s,g) = −‖ξ(s) − ξ(g)‖, with ξ = B."""
    squares: Tensor = (model.backward_of(s) - model.backward_of(g)).square().sum(-1)
    return -squares.clamp(min=1e-6).sqrt()


def train_hilbert(trainer: FBTrainer, data: Trajectories, updates: int, seed: int) -> Iterator[int]:
    """Train B of the online model as ξ; yields the updates so far."""
    rng, learner = Generator().manual_seed(seed), trainer.learner
    for done in range(1, updates + 1):
        learner.set_rates(RATE * (0.5 + 0.5 * math.cos(math.pi * done / updates)))
        s, entered, goal = data.batch(BATCH, rng)
        learner.descend(
            hilbert_loss(value_of(learner.online, s, goal), value_of(learner.target, entered, goal)), "backward_map"
        )
        learner.follow()
        yield done


@torch.no_grad()
def path_correlations(model: FB, world: PointMaze) -> tuple[float, float]:
    """Rank correlations of ‖ξ(s) − ξ(g)‖ and of ‖s − g‖ with the length of the shortest path between cells."""
    grid, n = world.grid, world.grid.n_states
    states, near = at_rest(grid.cells, torch.full((n, 2), 0.5)).float(), np.zeros((n, n))
    near[np.arange(n).repeat(grid.n_actions), grid.successors[..., 0].flatten().numpy()] = 1
    path, places = shortest_path(near, unweighted=True).flatten(), (model.backward_of(states), states)
    found = [float(spearmanr(path, torch.cdist(place, place).flatten().numpy()).statistic) for place in places]
    return found[0], found[1]


class Differences:
    """A model with φ(s′) − φ(s) as its features, the same policies, and (1 − γ)ψ(s;z) − φ(s) as ψ."""

    draws_for_each_run = True

    def __init__(self, model: FB, sample: Experience) -> None:
        self.model, self.dim, self.gamma = model, model.dim, model.gamma
        self.observation_space, self.action_space = model.observation_space, model.action_space
        self.act, self.sample_z, self.sample_z_each = model.act, model.sample_z, model.sample_z_each
        self.project_z, self.phi = model.project_z, model.phi
        obs, entered = sample.obs[:OBSERVATIONS], sample.next_obs[:OBSERVATIONS]
        goals = model.goal_features(entered).double()
        self._prior = covariance_of_rewards(self.phi_of_transition(obs, None, entered).double(), goals)

    def phi_of_transition(self, obs: Obs, action: Action | None, next_obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s′) − φ(s)."""
        return self.phi(next_obs) - self.phi(obs)

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """The mean of the heads."""
        return self.psi_heads(obs, z).mean(-3)

    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """Σγᵏφ(S_{k+1}) − Σγᵏφ(S_k)."""
        return (1 - self.gamma) * self.model.psi_heads(obs, z) - self.phi(obs)[..., None, None, :]

    def task_covariance(self) -> Float[Tensor, "d d"]:
        """The prior over tasks of these features, made as that of the state's."""
        return self._prior


@dataclass(frozen=True)
class Row:
    """One measure of some features, over all tasks and by kind of task."""

    features: str
    measure: str
    kinds: dict[str, Estimate]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return vars(self) | {"kinds": {kind: one.to_json() for kind, one in self.kinds.items()}}


def rows_of(names: Sequence[str]) -> dict[str, list[int]]:
    """The rows of all tasks, and of each kind."""
    rows = {kind: [k for k, name in enumerate(names) if name.startswith(kind)] for kind in KINDS}
    return {"all": list(range(len(names)))} | {kind: some for kind, some in rows.items() if some}


def r_squared(phi: Float[Tensor, "n d"], rewards: Float[Tensor, "n k"], constant: bool) -> Float[Tensor, " k"]:
    """1 − error ÷ variance of least squares, fitted to the first half of the rows and measured on the second."""
    inputs = torch.cat([phi, torch.ones(len(phi), int(constant))], 1).double()
    half, wanted = len(phi) // 2, rewards.double()
    weights = torch.linalg.lstsq(inputs[:half], wanted[:half], driver="gelsd").solution
    missed, held = (wanted - inputs @ weights)[half:], wanted[half:]
    error: Tensor = missed.square().sum(0) / (held - held.mean(0)).square().sum(0).clamp(min=1e-9)
    return 1 - error


def expressed(features: dict[str, Tensor], data: Experience, names: Sequence[str]) -> Iterator[Row]:
    """Mean R² of named and of random smooth rewards, without and with a constant."""
    goals = (data.next_obs - data.next_obs.mean(0)) / data.next_obs.std(0)
    smooth = random_rewards(goals, len(names), Generator().manual_seed(0))
    rewards = torch.cat([torch.stack([task_named(name)(data.next_obs) for name in names], 1), smooth], 1)
    rows = rows_of(names) | {"smooth": list(range(len(names), 2 * len(names)))}
    for name, phi in features.items():
        for constant in (False, True):
            found = r_squared(phi, rewards, constant).numpy()[:, None]
            kinds = {kind: Bootstrap(len(some), 1).mean(found[some]) for kind, some in rows.items()}
            yield Row(name, "R², constant" if constant else "R²", kinds)


def fitted(model: Any, data: Experience, rewards: Sequence[Float[Tensor, " n"]]) -> Float[Tensor, "K d"]:
    """z by least squares on the rewards of these transitions, as a z of the policies' own model."""
    moved = getattr(model, "phi_of_transition", None)
    phi = model.phi(data.next_obs) if moved is None else moved(data.obs, None, data.next_obs)
    z = torch.stack([fit_features(model, phi.double(), labels).z for labels in rewards])
    return z if moved is None else model.to_z(z)


def online(model: Any, batch: Batch, arena: PointArena, returns: list[Tensor], episodes: int) -> Iterator[int]:
    """One run of the default for each task; fills in the returns [R] of each episode, and yields the steps so far."""
    agent = zscout.OnlineTransfer(model, seed=list(batch.seeds), runs=len(batch.seeds), atlas=None)
    walk = Walk(agent, arena.environment(batch), seed=0)
    for done in range(episodes * arena.horizon):
        if done % arena.horizon == 0:
            returns.append(torch.zeros(len(batch.tasks), dtype=torch.float64))
        step = walk.move()
        walk.tell(step, step.reward)
        returns[-1] += torch.as_tensor(step.reward)
        yield done + 1


def measured(what: Options, models: dict[str, tuple[Any, FB]], data: Experience, names: list[str]) -> Iterator[Row]:
    """Zero-shot and online returns, of a model and its policies, ÷ the oracle's from the same starts."""
    arena, steps = PointArena(), what.episodes * PointArena.horizon
    batch, tasks = Batch(names, Tasks(what.tasks, 1).run_seeds), [task_named(name) for name in names]
    starts = arena.world.random_states(STARTS, Generator().manual_seed(1))
    oracle = played(arena, batch, following(arena.vectors(names)), steps).unflatten(0, (what.episodes, -1)).sum(1)
    z = torch.stack([arena.fit(name).z for name in names])
    best = episode_returns(arena.bfm, arena.world, tasks, z[:, None], starts, arena.horizon).mean((1, 2))
    for name, (model, policies) in models.items():
        pairs = {}
        for labels in (FEW, LABELS):
            some = Experience(*(part[:labels] for part in vars(data).values()))
            z = fitted(model, some, [task(some.next_obs) for task in tasks])
            found = episode_returns(policies, arena.world, tasks, z[:, None], starts, arena.horizon).mean((1, 2))
            pairs[f"{labels:,} labels"] = found, best
        returns: list[Tensor] = []
        shown(f"online, {name}", online(model, batch, arena, returns, what.episodes), steps)
        pairs |= {f"episode {k}": pair for k, pair in enumerate(zip(returns, oracle, strict=True), 1)}
        for measure, pair in pairs.items():
            table = torch.stack(pair).double().numpy()[..., None]
            kinds = {kind: Bootstrap(len(some), 1).ratio(*table[:, some]) for kind, some in rows_of(names).items()}
            yield Row(name, measure, kinds)


def shown(name: str, work: Iterator[int], total: int) -> None:
    """Do the work with a bar and the time left; in a log file, lines with the processor time."""
    console, began, told = Console(), time.process_time(), 0
    with bar_with_time_left(console) as bar:
        task = bar.add_task(name, total=total)
        for done in work:
            bar.update(task, completed=done)
            if done * 4 // total > told and bar.disable:
                told, spent = done * 4 // total, time.process_time() - began
                print(
                    f"{name}: {done:,} of {total:,}, {spent:.0f} s, {spent * (total / done - 1):.0f} s left", flush=True
                )


def trained(what: Options, world: PointMaze) -> FB:
    """Policies and ψ of ξ."""
    trainer = FBTrainer(world, what.recipe, what.seed)
    data = Trajectories.drawn(world, trainer.recipe.transitions, what.seed)
    shown("ξ", train_hilbert(trainer, data, what.updates, what.seed), what.updates)
    trainer.step = trainer.recipe.feature_steps  # the features are ready: on with policies
    shown("policies", (line.step for line in trainer.train(100)), trainer.recipe.steps)
    return trainer.model


def main(what: tyro.conf.OmitArgPrefixes[Options]) -> None:
    """Train, measure, print a table and write a file."""
    torch.set_num_threads(1)
    arena = PointArena()
    world, names = arena.world, [str(name) for name in Tasks(what.tasks, 1).draw(arena)]
    data = random_forces(world, 2 * LABELS, Generator().manual_seed(DATA_SEED))
    data = data.shuffled(Generator().manual_seed(DATA_SEED))
    hilp = trained(what, world)
    moved = zscout.calibrated(Differences(hilp, data), (data.obs[:LABELS], None, data.next_obs[:LABELS]))
    xi, before = hilp.backward_of(data.next_obs), hilp.backward_of(data.obs)
    features = {"pointmaze-fb": arena.bfm.phi(data.next_obs), "ξ(s′)": xi}
    features |= {"ξ(s′) − ξ(s)": xi - before, "both": torch.cat([xi, xi - before], 1)}
    models: dict[str, tuple[Any, FB]] = {"pointmaze-fb": (arena.bfm, arena.bfm), "ξ(s′)": (hilp, hilp)}
    models["ξ(s′) − ξ(s)"] = (moved, hilp)
    rows = [*expressed(features, data, names), *measured(what, models, data, names)]
    starts = world.random_states(STARTS, Generator().manual_seed(1))
    checks = dict(zip(("path, ξ", "path, place"), path_correlations(hilp, world), strict=True))
    print(checks := checks | {"error of ψ": psi_error(hilp, starts, world)})
    cells = [[row.features, row.measure, *(f"{one:.2f}" for one in row.kinds.values())] for row in rows]
    print(to_markdown(TextTable("", "", ["features", "measure", *rows[0].kinds], cells)))
    write_json(what.out, {"checks": checks, "rows": [row.to_json() for row in rows]})


if __name__ == "__main__":
    main(tyro.cli(Options))
