"""Ways to recommend, asked the same questions, and what their answers are worth beside the reference's."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Generic, TypeVar

import torch
from torch import Generator, Tensor

from zscout.lab.arena import Ground
from zscout.lab.bench import naive
from zscout.lab.bench.naive import Situation
from zscout.randomness import Streams
from zscout.transfer.problem import Problem
from zscout.transfer.search import Search

Answer = tuple[int, Tensor]  # the number of the question, and z
Q = TypeVar("Q")
PLACES = count(2**40)  # no two calls draw alike: a model may remember the z that it solved lately


class Asked(Generic[Q]):
    """One way, asked the questions in turn; it keeps its answers."""

    def __init__(self, asked: Sequence[Q], recommend: Callable[[Q], Tensor]) -> None:
        self.answers: list[Answer] = []
        self._asked, self._recommend, self._calls = asked, recommend, count()

    def __call__(self) -> None:
        """The next one."""
        number = next(self._calls) % len(self._asked)
        self.answers.append((number, self._recommend(self._asked[number])))


def by_search(search: Search) -> Callable[[Problem], Tensor]:
    """As an agent calls its search."""
    return lambda problem: search(problem, streams(problem))


def streams(problem: Problem) -> Streams:
    """Of each run of the problem its own, others at every call."""
    seeds = torch.arange(problem.radius.numel()).reshape(problem.posterior.runs).to(problem.radius.device)
    return Streams(seeds, next(PLACES))


def by_reference(recommend: Callable[[Situation, Generator], Tensor]) -> Callable[[Situation], Tensor]:
    """With a generator of its own for each call."""
    return lambda now: recommend(now, Generator().manual_seed(next(PLACES)))


def by_the_model(now: Situation, z: Tensor) -> Tensor:
    """Eq. 5 by the model's own ψ."""
    return naive.objective(now, now.model.psi(now.obs, z))


def by_the_truth(ground: Ground) -> Callable[[Situation, Tensor], Tensor]:
    """Eq. 5 by the true ψ of the policies that z stand for."""

    def worth(now: Situation, z: Tensor) -> Tensor:
        psi = ground.yardstick.psi(torch.full((len(z),), now.obs), z.cpu())
        return naive.objective(now, psi.to(now.V.device))

    return worth


def shares(
    asked: Sequence[Situation],
    answers: Mapping[str, Sequence[Answer]],
    reference: str,
    worth: Callable[[Situation, Tensor], Tensor],
) -> dict[str, float]:
    """Of each way the mean over its answers of what they are worth ÷ what the reference's to the same question are.

    As 1 + (its − theirs)/|theirs|, which still says who is better should all be worth less than 0.
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
    """By the model's own ψ and, where that is not the truth, by the truth: fields of a row, for each way."""
    found = {"share": shares(asked, answers, reference, by_the_model)}
    if ground.model is not ground.exact:
        found["true_share"] = shares(asked, answers, reference, by_the_truth(ground))
    return {name: {field: of_way[name] for field, of_way in found.items()} for name in answers}
