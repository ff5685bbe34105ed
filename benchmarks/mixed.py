"""Point maze: measured ψ that the network corrects for the start: python -m benchmarks.mixed --out FILE.

An atlas gives ψ̄_f(z), the mean over starts of rich features f; the network gives what the start changes:
ψ_f(s,z) = ψ̄_f(z) + Pᵀ(1 − γ)(ψ(s,z) − ψ̄(z)), with f ≈ f̄ + Pᵀφ by regression on visited observations and ψ̄(z) the
mean of the network's ψ over starts. Beside it the default, the atlas alone, and the network's ψ_f alone. Prints and
writes return ÷ the oracle's of each episode, as a sum over tasks, with an interval over tasks.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import tyro
from jaxtyping import Float
from torch import Generator, Tensor

from zscout import METHODS, Method, OnlineTransfer
from zscout.base.files import write_json
from zscout.base.types import Obs
from zscout.lab.arenas.arena import Batch, Tasks
from zscout.lab.arenas.point import PointArena
from zscout.lab.evaluation.monte_carlo import following
from zscout.loop.rollout import Walk
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.atlas.charted import OverAtlas
from zscout.transfer.atlas.charting import chart
from zscout.transfer.offline import least_squares
from zscout.transfer.score.forecast import Forecast
from zscout.transfer.score.problem import Problem

EPISODES, STARTS = 5, 64  # STARTS: for ψ̄ of the network
PART = 16  # runs whose ψ is computed together, for memory
DRAWS = 1_000  # of the bootstrap over tasks


@dataclass(frozen=True, eq=False)
class Mixed:
    """ψ_f(s,z) of the behaviours of an atlas."""

    arena: PointArena
    atlas: Atlas
    measured: bool  # ψ̄_f is measured, else the network's, too

    @cached_property
    def P(self) -> Float[Tensor, "d D"]:
        """Of f ≈ f̄ + Pᵀφ."""
        f = self.atlas.features(self.atlas.sample)
        return least_squares(self.arena.bfm.phi(self.atlas.sample).double(), f - f.mean(0))

    @cached_property
    def base(self) -> Float[Tensor, "N D"]:
        """What is added to the network's (1 − γ)Pᵀψ(s,z)."""
        model, atlas = self.arena.bfm, self.atlas
        starts = self.arena.world.random_states(STARTS, Generator().manual_seed(0)).float()
        mean = torch.stack([self._rate(start[None])[0] for start in starts]).mean(0)
        f, phi = atlas.features(atlas.sample).mean(0), model.phi(atlas.sample).double().mean(0)
        return (atlas.psi if self.measured else f + (mean - phi) @ self.P) - mean @ self.P

    def _rate(self, obs: Float[Tensor, "R o"]) -> Float[Tensor, "R N d"]:
        """(1 − γ)ψ(s,z) of the network."""
        model, z = self.arena.bfm, self.atlas.z
        return (1 - model.gamma) * model.psi(obs.float(), z.expand(len(obs), *z.shape)).double()

    def psi(self, obs: Obs) -> Float[Tensor, "R N D"]:
        """ψ_f at each run's observation."""
        rows = torch.as_tensor(obs)
        return torch.cat([self.base + self._rate(part) @ self.P for part in rows.split(PART)])


@dataclass(frozen=True)
class Row:
    """Returns of each episode ÷ the oracle's."""

    name: str
    noise: float
    ratios: list[tuple[float, float, float]]  # value, low, high


def returns(agent: OnlineTransfer, arena: PointArena, batch: Batch) -> Float[Tensor, "e R"]:
    """The true return of each episode and run."""
    env = arena.environment(batch)
    walk, rewards = Walk(agent, env, seed=0), []
    for _ in range(EPISODES * arena.horizon):
        step = walk.move()
        walk.tell(step, step.reward)
        rewards.append(env.true_reward(step.next_obs))
    return torch.stack(rewards).reshape(EPISODES, arena.horizon, -1).sum(1)


def ratios(own: Float[Tensor, "e R"], oracle: Float[Tensor, "e R"]) -> list[tuple[float, float, float]]:
    """Σ own ÷ Σ oracle, and a 95 % interval over tasks."""
    draws = torch.randint(own.shape[1], (DRAWS, own.shape[1]), generator=Generator().manual_seed(0))
    each = own[:, draws].sum(-1) / oracle[:, draws].sum(-1)
    low, high = each.quantile(torch.tensor([0.025, 0.975]).double(), -1)
    value = own.sum(-1) / oracle.sum(-1)
    return [(float(v), float(a), float(b)) for v, a, b in zip(value, low, high, strict=True)]


def main(
    out: Path,
    kind: str = "tuning",
    seed: int = 41,
    tasks: int = 40,
    behaviours: int = 512,
    starts: int = 6,
    holds: tuple[int, ...] = (5, 15),
    noises: tuple[float, ...] = (0.0,),
) -> None:
    """Measure on named tasks of the point maze.

    Args:
        out: JSON file to write.
        kind: Set of tasks.
        seed: Of the tasks.
        tasks: How many.
        behaviours: Of the atlas.
        starts: Of each behaviour of the atlas.
        holds: Steps for which a z is kept, from 2 on, each tried.
        noises: σ of the rewards seen.
    """
    torch.set_grad_enabled(False)
    began, arena, drawn = time.monotonic(), PointArena(), Tasks(tasks, 1, kind, seed)
    atlas = chart(arena.bfm, arena.world, behaviours=behaviours, starts=starts, steps=arena.horizon, progress=False)
    print(f"{time.monotonic() - began:5.0f} s  {atlas}", flush=True)
    seeds, found = drawn.run_seeds, []
    fitted = arena.vectors(drawn.draw(arena))

    def agent(method: Method, used: Atlas | None = None) -> OnlineTransfer:
        return OnlineTransfer(arena.bfm, method, seed=seeds, runs=len(seeds), atlas=used)

    def default(**settings: Any) -> Method:
        return METHODS["usf-ucb"](dim=arena.bfm.dim, **settings)

    entrants: list[tuple[str, int, Mixed | None]] = [("usf-ucb", 0, None)]
    for hold in holds:
        entrants.append((f"atlas alone, hold {hold}", hold, None))
        entrants.append((f"atlas and network, hold {hold}", hold, Mixed(arena, atlas, measured=True)))
        entrants.append((f"network's ψ_f, hold {hold}", hold, Mixed(arena, atlas, measured=False)))
    for noise in noises:
        batch = Batch(drawn.draw(arena), seeds, noise)
        oracle = returns(agent(following(fitted)), arena, batch)
        for name, hold, mixed in entrants:
            with with_psi(mixed) if mixed else nullcontext():
                own = returns(agent(default(hold=hold), atlas) if hold else agent(default()), arena, batch)
            row = Row(name, noise, ratios(own, oracle))
            found.append(vars(row))
            values = " ".join(f"{value:.2f}" for value, *_ in row.ratios)
            print(f"{time.monotonic() - began:5.0f} s  {name}, σ {noise:g}: {values}", flush=True)
            write_json(out, {"kind": kind, "seed": seed, "tasks": tasks, "atlas": repr(atlas), "rows": found})


@contextmanager
def with_psi(mixed: Mixed) -> Iterator[None]:
    """Agents with an atlas use this ψ."""

    def forecast(_: OverAtlas, problem: Problem) -> Forecast:
        return Forecast(problem.model, problem.obs, mixed.atlas.z.double()).with_psi(mixed.psi(problem.obs))

    with patch.object(OverAtlas, "forecast", forecast):
        yield


if __name__ == "__main__":
    tyro.cli(main)
