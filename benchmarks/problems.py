"""Recommendation problems from real runs, and what the answers to them are worth beside a reference."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count, islice
from typing import Generic, TypeVar

import torch
from torch import Generator, Tensor

from benchmarks import naive
from benchmarks.naive import Situation
from zscout.base.randomness import Streams
from zscout.base.types import Obs
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.ground import Ground
from zscout.lab.arenas.simulation import TaskRuns, simulated
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import Search

METHOD = "usf-ucb-paper"  # all searches are scored by its objective, eq. 5
NOISE = 0.3
LABELS = {"clusters": "clusters", "laplacian": "Laplacian"}
PLACES = count(2**40)  # places in the random streams: no two calls draw the same z, which a model might remember

Answer = tuple[int, Tensor]  # index of the problem, and z
P = TypeVar("P")


def label(arena: GridArena) -> str:
    """Model and features."""
    return f"{arena.model}, {LABELS[arena.features]}"


def live_problems(ground: Ground, method: str, *, runs: int, times: Sequence[int], seed: int) -> list[Problem]:
    """The problems of single runs on tasks of the report after each of ``times`` steps, ordered by time."""
    found: dict[int, list[Problem]] = {t: [] for t in times}
    tasks, seeds = ground.draw(Tasks(runs, 1, seed=seed))
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


def batch_problem(ground: Ground, method: str, *, runs: int, steps: int, seed: int) -> Problem:
    """The problem of many runs at once after some steps."""
    tasks, seeds = ground.draw(Tasks(runs, 1, seed=seed))
    agent = OnlineTransfer(ground.model, method, seed=seeds.tolist(), runs=runs, noise=NOISE)
    worth = tasks @ ground.exact.features.cpu().T
    *_, last = islice(simulated(agent, TaskRuns(ground.world, worth, NOISE, agent.seeds)), steps)
    return problem_of(agent, last.next_obs)


def problem_of(agent: OnlineTransfer, obs: Obs) -> Problem:
    """The problem that the agent's search gets in this state."""
    return Problem(obs, agent.bfm, agent.posterior, agent.radius, agent.method.acquisition, agent.present_z)


def situations(problem: Problem) -> list[Situation]:
    """Each run of a problem alone, as the references take it."""
    posterior, d = problem.posterior, problem.posterior.dim
    V, b = posterior.V.reshape(-1, d, d).clone(), posterior.b.reshape(-1, d).clone()
    obs, radius = torch.as_tensor(problem.obs).flatten().tolist(), problem.radius.flatten().tolist()
    return [Situation(problem.model, *rest) for rest in zip(obs, V, b, radius, strict=True)]


def forgetting(ground: Ground, asked: Sequence[Problem]) -> Callable[[], object]:
    """A function that resets an exact model to what it remembers in a run: the policies of the last z, not of ẑ."""
    last = torch.cat([problem.last.reshape(-1, problem.model.dim) for problem in asked if problem.last is not None])

    def forget() -> None:
        ground.exact.forget()
        ground.exact.policy(last)

    return forget if ground.model is ground.exact else lambda: None


class Recommender(Generic[P]):
    """One way to recommend that answers the problems in turn and keeps its answers."""

    def __init__(self, asked: Sequence[P], recommend: Callable[[P], Tensor]) -> None:
        self.answers: list[Answer] = []
        self._asked, self._recommend, self._calls = asked, recommend, count()

    def __call__(self) -> None:
        """Answer the next problem."""
        number = next(self._calls) % len(self._asked)
        self.answers.append((number, self._recommend(self._asked[number])))


def by_search(search: Search) -> Callable[[Problem], Tensor]:
    """The search as an agent calls it, with fresh draws at each call."""
    return lambda problem: search(problem, streams(problem))


def streams(problem: Problem) -> Streams:
    """A random stream for each run of the problem, fresh at each call."""
    seeds = torch.arange(problem.radius.numel()).reshape(problem.posterior.runs).to(problem.radius.device)
    return Streams(seeds, next(PLACES))


def by_reference(recommend: Callable[[Situation, Generator], Tensor]) -> Callable[[Situation], Tensor]:
    """A plain reference with a fresh generator at each call."""
    return lambda now: recommend(now, Generator().manual_seed(next(PLACES)))


def by_the_model(now: Situation, z: Tensor) -> Tensor:
    """Eq. 5 by the model's own ψ."""
    return naive.objective(now, now.model.psi(now.obs, z))


def by_the_truth(ground: Ground) -> Callable[[Situation, Tensor], Tensor]:
    """Eq. 5 by the true ψ of the policies of z."""

    def worth(now: Situation, z: Tensor) -> Tensor:
        psi = ground.yardstick.psi(torch.as_tensor(now.obs).expand(len(z)), z.cpu())
        return naive.objective(now, psi.to(now.V.device))

    return worth


def shares(
    asked: Sequence[Situation],
    answers: Mapping[str, Sequence[Answer]],
    reference: str,
    worth: Callable[[Situation, Tensor], Tensor],
) -> dict[str, float]:
    """Mean worth of each way's answers ÷ the worth of the reference's answers to the same problem.

    The share is 1 + (its − theirs)/|theirs|, which orders the ways also where all are worth less than 0.
    """
    found: dict[str, list[Tensor]] = {name: [] for name in answers}
    for number, now in enumerate(asked):
        own = {name: [z for which, z in answers[name] if which == number] for name in answers}
        values = worth(now, torch.stack([z for some in own.values() for z in some]))
        by_way = dict(zip(own, values.split([len(some) for some in own.values()]), strict=True))
        mean = by_way[reference].mean()
        for name, its in by_way.items():
            found[name].append(1 + (its - mean) / mean.abs())
    return {name: float(torch.cat(parts).mean()) for name, parts in found.items()}


def both_shares(
    ground: Ground, asked: Sequence[Situation], answers: Mapping[str, Sequence[Answer]], reference: str
) -> dict[str, dict[str, float]]:
    """The fields ``share`` and, for a learned ψ, ``true_share`` of a row, for each way."""
    found = {"share": shares(asked, answers, reference, by_the_model)}
    if ground.model is not ground.exact:
        found["true_share"] = shares(asked, answers, reference, by_the_truth(ground))
    return {name: {field: of_way[name] for field, of_way in found.items()} for name in answers}
