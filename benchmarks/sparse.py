"""A reward of 1 within .2 of a place and 0 elsewhere: who comes back and stays? ``python -m benchmarks.sparse``.

A point in the square [−1, 1]² moves at most .1 a step. The model is made by hand: φ are bumps or waves of the place,
π(·,z) walks straight to where φ·z is highest, and ψ is summed along the way. Each run has its own hidden place, and
three episodes of 100 steps from random starts. A run *stays* if it has the reward in all of the last 20 steps of an
episode. Two minutes of processor time; results/default.md has the table.
"""

import math
from typing import Any, Literal

import torch
import tyro
from gymnasium.spaces import Box
from torch import Generator, Tensor
from torch.nn.functional import normalize

import zscout

NEAR, SPEED, WIDTH, LAST = 0.2, 0.1, 0.25, 20
STEPS = math.ceil(math.sqrt(8) / SPEED)  # from corner to corner
Kind = Literal["bumps", "waves"]


def lattice(n: int) -> Tensor:
    """n × n places of the square [n² 2]."""
    line = torch.linspace(-1, 1, n)
    return torch.cartesian_prod(line, line)


def walked(place: Tensor, goal: Tensor) -> Tensor:
    """One step towards the goal."""
    apart = goal - place
    moved: Tensor = place + apart * (SPEED / apart.norm(dim=-1, keepdim=True).clamp(min=SPEED))
    return moved


class PointMass:
    """The hand-made model, and its world in batches."""

    gamma, draws_for_each_run = 0.95, False
    observation_space, action_space = Box(-1.0, 1.0, (2,)), Box(-1.0, 1.0, (2,))

    def __init__(self, kind: Kind = "bumps", dim: int = 49) -> None:
        self.kind, self.dim, self.goals = kind, dim, lattice(21)
        rng = Generator().manual_seed(0)
        self.line, self.rates = torch.linspace(-1, 1, math.isqrt(dim)), 4 * torch.randn(2, dim, generator=rng)
        self.phases = 2 * math.pi * torch.rand(dim, generator=rng)
        self.at_goals = self.phi(self.goals)

    def phi(self, obs: Any) -> Tensor:
        """Features of places [*b 2]."""
        place = torch.as_tensor(obs).float()
        if self.kind == "waves":
            return math.sqrt(2) * (place @ self.rates + self.phases).cos()
        across, along = (-(place[..., None] - self.line).square() / (2 * WIDTH**2)).exp().unbind(-2)
        return math.sqrt(self.dim) / 2 * (across[..., None] * along[..., None, :]).flatten(-2)

    def goal(self, z: Any) -> Tensor:
        """Where φ·z is highest [*b 2]."""
        return self.goals[(torch.as_tensor(z).float() @ self.at_goals.mT).argmax(-1)]

    def psi(self, obs: Any, z: Any) -> Tensor:
        """Σγᵏφ along the way, and at the goal for ever."""
        goal = self.goal(z)[..., None, :]
        start = torch.as_tensor(obs).float()[..., None, None, :]
        way, k = goal - start, torch.arange(STEPS)
        share = (SPEED * (k[:, None] + 1) / way.norm(dim=-1, keepdim=True).clamp(min=1e-6)).clamp(max=1)
        weight = self.gamma**k
        weight[-1] /= 1 - self.gamma
        return (weight[:, None] * self.phi(start + share * way)).sum(-2)

    def act(self, obs: Any, z: Any, rng: Any = None) -> Any:
        """The step towards the goal, as a share of the speed."""
        place = torch.as_tensor(obs).float()
        action = (walked(place, self.goal(z)) - place) / SPEED
        return action if isinstance(obs, Tensor) else action.numpy()

    def sample_z(self, n: int, rng: Generator | int) -> Tensor:
        """Uniform on the sphere of radius √d."""
        rng = rng if isinstance(rng, Generator) else Generator().manual_seed(rng)
        return self.project_z(torch.randn(n, self.dim, generator=rng))

    def project_z(self, z: Any) -> Tensor:
        """On the sphere of radius √d."""
        z = torch.as_tensor(z).float()
        return math.sqrt(self.dim) * normalize(torch.where((z != 0).any(-1, keepdim=True), z, 1.0), dim=-1)

    def random_states(self, n: int, rng: Generator) -> Tensor:
        """Starts of episodes."""
        return 2 * torch.rand(n, 2, generator=rng) - 1

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """The next places; no episode terminates."""
        return (state + SPEED * action).clamp(-1, 1), torch.zeros(len(state), dtype=torch.bool)


def run(
    model: PointMass, runs: int, episodes: int, steps: int, noise: float, seed: int, atlas: zscout.Atlas | None
) -> None:
    """Print, for each episode, how many runs met the place, and how many stayed there."""
    rng = Generator().manual_seed(seed)
    place = model.random_states(runs, rng)
    agent = zscout.OnlineTransfer(model, seed=seed, runs=runs, atlas=atlas)
    met = torch.zeros(runs, dtype=torch.bool)
    for episode in range(episodes):
        state, rewards = model.random_states(runs, rng), []
        for step in range(steps):
            state, _ = model.advance(state, model.act(state, agent.ask(state)))
            rewards.append(((state - place).norm(dim=-1) <= NEAR).double())
            seen = rewards[-1] + noise * torch.randn(runs, generator=rng, dtype=torch.float64)
            agent.tell(state, seen, done=step == steps - 1)
        got = torch.stack(rewards)
        met, stays = met | got.any(0), got[-LAST:].all(0)
        share, fit = agent.certificate(obs=state).share, agent.fit.r2
        leads = (model.goal(agent.best_z) - place).norm(dim=-1) <= NEAR
        lost = [
            f"{run} ({'met' if met[run] else 'never'}, share {share[run]:.2f}, fit {fit[run]:.2f})"
            for run in (~leads).nonzero()[:, 0].tolist()
        ]
        print(
            f"  {episode + 1}: {met.sum()} of {runs} met it, {stays.sum()} stay, best z leads there in {leads.sum()}, "
            f"share {share[leads].mean():.2f}; in others: {', '.join(lost) or '–'}"
        )


@torch.no_grad()
def main(
    runs: int = 40, episodes: int = 3, steps: int = 100, noise: float = 0.0, seed: int = 0, quick: bool = False
) -> None:
    """Count the runs that stay, with and without an atlas, for both kinds of features."""
    runs, episodes, steps = (3, 2, 30) if quick else (runs, episodes, steps)
    kinds: tuple[Kind, ...] = ("bumps", "waves")
    for kind in kinds:
        model = PointMass(kind)
        atlas = zscout.chart(model, model, behaviours=64 if quick else 1024, steps=steps, progress=False)
        for used in (None, atlas):
            print(f"{kind}, {'ψ' if used is None else used}")
            run(model, runs, episodes, steps, noise, seed, used)


if __name__ == "__main__":
    tyro.cli(main)
