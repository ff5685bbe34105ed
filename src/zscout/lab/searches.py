"""Which search over z reaches what share of the best known objective, and at what cost."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Generator, Tensor

from zscout.lab.arena import Arena, Ground
from zscout.randomness import Streams
from zscout.transfer.acquisition import Explore
from zscout.transfer.posterior import TaskPosterior
from zscout.transfer.problem import Problem
from zscout.transfer.search import Bank, FixedPoint, Gradient, Search, Shooting

SEARCHES: Mapping[str, Search] = MappingProxyType(
    {
        "random 10,000": Shooting(10_000),
        "random 1,000": Shooting(1_000),
        "random 100": Shooting(100),
        "bank of 1,000": Bank(1_000),
        "gradient, free": Gradient(project=False, rate=0.01),
        "gradient, projected": Gradient(),
        "fixed point, 16 starts, 5 rounds": FixedPoint(16, 5),
        "fixed point, 8 starts, 3 rounds": FixedPoint(8, 3),
    }
)


@dataclass(frozen=True)
class Reached:
    """What a search came to on all problems."""

    model: str
    search: str
    share: float  # of the best known ‖ψ‖_{V⁻¹}, by the model's own ψ
    true_share: float  # the same by the true ψ of the policies that were chosen
    milliseconds: float  # median


def compare_searches(arena: Arena, problems: int = 30, seed: int = 0) -> list[Reached]:
    """Pure exploration (ẑ = 0) from random states, after random walks of 5 to 50 steps."""
    ground, rng = arena.ground, Generator().manual_seed(seed)
    believed: dict[str, list[float]] = {name: [] for name in SEARCHES}
    true: dict[str, list[float]] = {name: [] for name in SEARCHES}
    seconds: dict[str, list[float]] = {name: [] for name in SEARCHES}
    for number in range(problems):
        problem = random_problem(ground, rng)
        for name, search in SEARCHES.items():
            if isinstance(search, Gradient) and arena.model == "exact":
                continue  # dynamic programming has no gradient in z
            if number == 0:
                search(problem, Streams(torch.tensor(seed)))  # tables and caches
            began = time.perf_counter()
            z = search(problem, Streams(torch.tensor((seed + number) % 2**62)))
            seconds[name].append(time.perf_counter() - began)
            believed[name].append(float(problem.scores(problem.forecast(z[None]), Streams(torch.tensor(0)))))
            psi = ground.yardstick.psi(torch.tensor([int(problem.obs)]), z[None].cpu())  # type: ignore[arg-type]
            true[name].append(float(problem.posterior.width(psi.to(z))))
    done = [name for name in SEARCHES if believed[name]]
    most = torch.tensor([believed[name] for name in done]).amax(0)
    most_true = torch.tensor([true[name] for name in done]).amax(0)
    return [
        Reached(
            f"{arena.features}, {arena.model}",
            name,
            float((torch.tensor(believed[name]) / most).mean()),
            float((torch.tensor(true[name]) / most_true).mean()),
            1e3 * float(torch.tensor(seconds[name]).median()),
        )
        for name in done
    ]


def random_problem(ground: Ground, rng: Generator) -> Problem:
    """A state and what a random walk of 5 to 50 steps has taught: pure exploration from there."""
    steps = int(torch.randint(5, 51, (1,), generator=rng))
    state, visited = ground.world.random_states(1, rng), []
    for _ in range(steps):
        action = torch.randint(ground.world.n_actions, (1,), generator=rng)
        state = ground.world.step(state, action, rng)
        visited.append(state)
    phi: Tensor = ground.model.phi(torch.cat(visited)).double()
    posterior = TaskPosterior.prior(dim=ground.model.dim, ridge=1.0).learn(phi, torch.zeros(len(phi)))
    return Problem(int(state), ground.model, posterior, torch.tensor(1.0, dtype=torch.float64), Explore())
