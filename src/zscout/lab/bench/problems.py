"""Recommendations as they come up in real runs."""

from collections.abc import Callable, Sequence
from itertools import islice

import torch
from torch import Generator, Tensor

from zscout.lab.arena import Ground, Tasks
from zscout.lab.bench.naive import Situation
from zscout.lab.bench.setting import NOISE
from zscout.lab.run import simulated
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.problem import Problem


def questions(ground: Ground, method: str, *, runs: int, times: Sequence[int], seed: int) -> list[Problem]:
    """After so many steps each, of live runs on tasks of the report; of one time all runs, then of the next."""
    found: dict[int, list[Problem]] = {t: [] for t in times}
    tasks, seeds = Tasks(runs, 1, seed=seed).draw(ground.exact)
    for task, own in zip(tasks, seeds.tolist(), strict=True):
        rng = Generator().manual_seed(own)
        agent = OnlineTransfer(ground.model, method, seed=own, noise=NOISE)
        state = int(ground.world.random_states(1, rng))
        for _ in range(max(times)):
            action = torch.as_tensor(ground.model.act(torch.tensor(state), agent.ask(state)))
            state = int(ground.world.step(torch.tensor(state), action.cpu(), rng))
            worth = float(ground.exact.features[state].cpu() @ task)
            agent.tell(state, worth + NOISE * float(torch.randn((), generator=rng)))
            if agent.t in found:
                found[agent.t].append(problem_of(agent, state))
    return [problem for asked in found.values() for problem in asked]


def batch(ground: Ground, method: str, *, runs: int, steps: int, seed: int) -> Problem:
    """What so many runs at once want after some steps."""
    tasks, seeds = Tasks(runs, 1, seed=seed).draw(ground.exact)
    agent = OnlineTransfer(ground.model, method, seed=seeds.tolist(), runs=runs, noise=NOISE)
    worth = tasks @ ground.exact.features.cpu().T
    *_, last = islice(simulated(agent, ground.world, worth, NOISE), steps)
    return problem_of(agent, last.next_obs)


def problem_of(agent: OnlineTransfer, obs: int | Tensor) -> Problem:
    """What it would ask its search for now."""
    return Problem(obs, agent.bfm, agent.posterior, agent.radius, agent.method.acquisition, agent.present_z)


def situations(problem: Problem) -> list[Situation]:
    """Each run of a problem for itself, as plain numbers of its own."""
    posterior, d = problem.posterior, problem.posterior.dim
    V, b = posterior.V.reshape(-1, d, d).clone(), posterior.b.reshape(-1, d).clone()
    obs, radius = torch.as_tensor(problem.obs).flatten().tolist(), problem.radius.flatten().tolist()
    return [Situation(problem.model, *rest) for rest in zip(obs, V, b, radius, strict=True)]


def as_in_a_run(ground: Ground, asked: Sequence[Problem]) -> Callable[[], object]:
    """What to do before a question is asked again: of exact policies a run knows those of its last z, not of its ẑ."""
    last = torch.cat([problem.last.reshape(-1, problem.model.dim) for problem in asked if problem.last is not None])

    def forget() -> None:
        ground.exact.forget()
        ground.exact.policy(last)

    return forget if ground.model is ground.exact else lambda: None
