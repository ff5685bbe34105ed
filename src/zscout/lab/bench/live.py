"""One live recommendation: its latency by each search, beside the plain reference, and what the answers are worth."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Generator, Tensor

from zscout.lab.arena import Arena
from zscout.lab.bench import naive
from zscout.lab.bench.asking import Asked, both_shares, by_reference, by_search, shares, streams
from zscout.lab.bench.clock import Timing, interleaved, one_thread, seconds_of
from zscout.lab.bench.measurement import Row
from zscout.lab.bench.naive import Situation
from zscout.lab.bench.problems import as_in_a_run, questions, situations
from zscout.lab.bench.setting import METHOD, NOISE, Setting, label
from zscout.lab.searches import SEARCHES
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import Method
from zscout.transfer.problem import Problem
from zscout.transfer.search import Bank, Climb, Ellipsoid, Gradient, Search, Shooting

ARENAS = (("network", "clusters"), ("network", "laplacian"), ("exact", "laplacian"))
TIMES = (1, 8, 25, 60, 120)  # steps after which a recommendation is wanted
DEFAULT = "the default search"
NAIVE, NAIVE_OPTI = "naive", "naive opti"
EACH = 5  # calls of a way for one of a slow way
SLOW = (Shooting(10_000), Gradient())
FREE = Gradient(project=False, rate=0.01)  # no rival: it is there to show why not
_unused = count(1)  # seeds of banks that no table was made for yet


def live(setting: Setting) -> Iterator[Row]:
    """One recommendation at a time."""
    for model, features in setting.of(ARENAS, ARENAS[1:]):
        arena = setting.arena(model, features)
        searches = list(_searches(arena, setting))
        yield from searches
        yield from _opti(arena, setting)
        (default,) = (row for row in searches if row.what == DEFAULT)
        yield from _whole_steps(arena, setting, default)


def searches_for(arena: Arena, setting: Setting) -> dict[str, Search]:
    """The default and all that suit the model: dynamic programming has no gradient in z, and fresh z are naive's."""
    search = Method().search
    assert callable(search)
    found: dict[str, Search] = {DEFAULT: search, **SEARCHES}
    left_out = (Gradient, Shooting) if arena.model == "exact" else ()
    slow = SLOW if setting.quick else ()
    return {
        name: search
        for name, search in found.items()
        if search != FREE and search not in slow and not isinstance(search, left_out)
    }


def _searches(arena: Arena, setting: Setting) -> Iterator[Row]:
    asked, alone = _questions(arena, METHOD, setting)
    searches, first = searches_for(arena, setting), asked[0]
    for n in (1_000,) if setting.quick and arena.model == "network" else (1_000, 10_000):
        bank = Bank(n, next(_unused))
        with one_thread():
            seconds = seconds_of(partial(bank, first, streams(first)), setting.device)
        what = f"tables of a bank of {n:,}, made"
        yield Row.of(Timing((seconds,)), group="live", what=what, where=label(arena), unit="table")
        searches.setdefault(f"bank of {n:,}", bank)
        searches[f"bank of {n:,}, its tables alone"] = replace(bank, anchors=False)
        searches[f"climb from a bank of {n:,}"] = Climb(replace(bank, anchors=False))
    asking: dict[str, Asked[Any]] = {NAIVE: Asked(alone, by_reference(naive.recommend))}
    asking |= {name: Asked(asked, by_search(search)) for name, search in searches.items()}
    slow = {name for name in asking if name == NAIVE or searches[name] in SLOW}
    times = {name: 1 if name in slow else EACH for name in asking}
    known = as_in_a_run(arena.ground, asked)
    timings = interleaved(asking, len(asked), times, setting.device, before=known)
    found = both_shares(arena.ground, alone, {name: way.answers for name, way in asking.items()}, NAIVE)
    for name, timing in timings.items():
        row = Row.of(timing, group="live", what=name, where=label(arena), unit="recommendation", **found[name])
        yield row.against(NAIVE, timings[NAIVE])


def _opti(arena: Arena, setting: Setting) -> Iterator[Row]:
    asked, alone = _questions(arena, "opti", setting)
    asking: dict[str, Asked[Any]] = {
        NAIVE_OPTI: Asked(alone, by_reference(naive.recommend_opti)),
        "opti's ellipsoid": Asked(asked, by_search(Ellipsoid())),
    }
    rounds = setting.of(4, 2) * len(asked)
    timings = interleaved(asking, rounds, EACH, setting.device, before=as_in_a_run(arena.ground, asked))
    answers = {name: way.answers for name, way in asking.items()}
    found = shares(alone, answers, NAIVE_OPTI, naive.opti_objective)
    for name, timing in timings.items():
        row = Row.of(timing, group="live", what=name, where=label(arena), unit="recommendation", share=found[name])
        yield row.against(NAIVE_OPTI, timings[NAIVE_OPTI])


def _whole_steps(arena: Arena, setting: Setting, default: Row) -> Iterator[Row]:
    """Ask and tell: all that an agent does in a step; by eq. 5, with the default search, or by a score of its own."""
    ground = arena.ground
    walk = torch.randint(ground.world.n_states, (997,), generator=Generator().manual_seed(setting.seed)).tolist()
    ways: dict[str, Callable[[], object]] = {}
    for method in (METHOD, "usf-ucb"):
        agent = OnlineTransfer(ground.model, method, seed=setting.seed, noise=NOISE)

        def step(agent: OnlineTransfer = agent) -> None:
            agent.ask(walk[agent.t % len(walk)])
            agent.tell(walk[(agent.t + 1) % len(walk)], 1.0)

        ways[f"ask and tell, {method}"] = step
    first = questions(ground, METHOD, runs=1, times=(8,), seed=setting.task_seed)[0]
    reference = "naive, ask and tell"
    ways[reference] = Asked(situations(first), by_reference(_naive_step))
    times = {name: 1 if name == reference else 17 for name in ways}
    timings = interleaved(ways, setting.of(10, 3), times, setting.device)
    by_eq_5, by_its_own = (
        Row.of(timings[name], group="live", what=name, where=label(arena), unit="step") for name in list(ways)[:-1]
    )
    by_eq_5 = by_eq_5.against(reference, timings[reference])
    yield replace(by_eq_5, share=default.share, true_share=default.true_share)
    yield by_its_own


def _naive_step(now: Situation, rng: Generator) -> Tensor:
    """To recommend and to learn, V inverted for each."""
    z = naive.recommend(now, rng)
    naive.learn(now.V, now.b, now.b, 1.0)
    return z


def _questions(arena: Arena, method: str, setting: Setting) -> tuple[list[Problem], list[Situation]]:
    """The same for a search and for the references."""
    runs, times = setting.of((4, TIMES), (3, TIMES[:3]))
    asked = questions(arena.ground, method, runs=runs, times=times, seed=setting.task_seed)
    return asked, [situations(problem)[0] for problem in asked]
