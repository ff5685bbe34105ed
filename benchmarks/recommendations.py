"""Recommendations beside the plain reference: one at a time, many at once, and in whole comparisons."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count, islice
from typing import Any

import torch
from torch import Generator, Tensor

from benchmarks import naive
from benchmarks.lower_bounds import flops_of, seconds_of_products
from benchmarks.measurement import Row, Setting, Timing, interleaved, one_thread, seconds_of
from benchmarks.naive import Situation
from benchmarks.problems import (
    METHOD,
    NOISE,
    PLACES,
    Answer,
    Recommender,
    batch_problem,
    both_shares,
    by_reference,
    by_search,
    by_the_model,
    forgetting,
    label,
    live_problems,
    problem_of,
    shares,
    situations,
    streams,
)
from benchmarks.shipped import shipped
from reproduction.experiments.searches import SEARCHES
from reproduction.pieces.searches import Gradient
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.simulation import TaskRuns, simulated, trace_of
from zscout.lab.evaluation.exact_evaluation import evaluate_exactly
from zscout.models.files.pretrained import load
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import Method
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import Ellipsoid, Search, Shooting, TableSearch
from zscout.worlds import point_maze

DEFAULT = "the default search"
NAIVE, NAIVE_OPTI, NAIVE_STEP = "naive", "naive opti", "naive, ask and tell"

ARENAS = (("network", "clusters"), ("network", "laplacian"), ("exact", "laplacian"))
TIMES = (1, 8, 25, 60, 120)  # steps before a recommendation
EACH = 5  # calls of a fast way for each call of a slow one
SLOW = (Shooting(10_000), Gradient())
FREE = Gradient(project=False, rate=0.01)  # not measured: the report shows why it is no rival
BATCH_STEPS = 25  # steps before a recommendation
BATCH_SEARCHES = {"network": (DEFAULT, "table of 128"), "exact": (DEFAULT,)}
CANDIDATES = 1_000  # of the reference, as many as the default table has
REFERENCE_STEPS = 2  # steps of the reference in a call
ANSWERS = 2  # to each problem, for the share of the objective
SEEDS = 3  # runs of each task, as in zscout compare
SIZES = {  # runs and steps, whole and quick
    "exact": {METHOD: ((300, 200), (60, 50)), "usf-ucb": ((300, 200), (60, 50))},
    "network": {METHOD: ((99, 100), (21, 20))},
}
_unused = count(1)  # seeds of banks without tables


def live(setting: Setting) -> Iterator[Row]:
    """One recommendation at a time."""
    for model, features in setting.of(ARENAS, ARENAS[1:]):
        arena = setting.arena(model, features)
        searches = list(_searches(arena, setting))
        yield from searches
        yield from _opti(arena, setting)
        (default,) = (row for row in searches if row.what == DEFAULT)
        yield from _whole_steps(arena, setting, default)
    yield from _point_maze(setting)
    yield from shipped(setting)


def searches_for(arena: GridArena, setting: Setting) -> dict[str, Search]:
    """The default and all searches for the model; an exact one has no gradient in z, and its fresh z are naive's."""
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


def _searches(arena: GridArena, setting: Setting) -> Iterator[Row]:
    asked, alone = _problems(arena, METHOD, setting)
    searches, first = searches_for(arena, setting), asked[0]
    for n in (1_000,) if setting.quick and arena.model == "network" else (1_000, 10_000):
        table = TableSearch(n, next(_unused))
        with one_thread():
            seconds = seconds_of(partial(table, first, streams(first)), setting.device)
        what = f"a table of {n:,}, made"
        yield Row.of(Timing((seconds,)), group="live", what=what, where=label(arena), unit="table")
        searches.setdefault(f"table of {n:,}", table)
        searches[f"table of {n:,} alone"] = replace(table, anchors=False)
    asking: dict[str, Recommender[Any]] = {NAIVE: Recommender(alone, by_reference(naive.recommend))}
    asking |= {name: Recommender(asked, by_search(search)) for name, search in searches.items()}
    slow = {name for name in asking if name == NAIVE or searches[name] in SLOW}
    times = {name: 1 if name in slow else EACH for name in asking}
    known = forgetting(arena.ground, asked)
    timings = interleaved(asking, len(asked), times, setting.device, before=known)
    found = both_shares(arena.ground, alone, {name: way.answers for name, way in asking.items()}, NAIVE)
    for name, timing in timings.items():
        row = Row.of(timing, group="live", what=name, where=label(arena), unit="recommendation", **found[name])
        yield row.against(NAIVE, timings[NAIVE])


def _opti(arena: GridArena, setting: Setting) -> Iterator[Row]:
    asked, alone = _problems(arena, "opti", setting)
    asking: dict[str, Recommender[Any]] = {
        NAIVE_OPTI: Recommender(alone, by_reference(naive.recommend_opti)),
        "opti's ellipsoid": Recommender(asked, by_search(Ellipsoid())),
    }
    rounds = setting.of(4, 2) * len(asked)
    timings = interleaved(asking, rounds, EACH, setting.device, before=forgetting(arena.ground, asked))
    answers = {name: way.answers for name, way in asking.items()}
    found = shares(alone, answers, NAIVE_OPTI, naive.opti_objective)
    for name, timing in timings.items():
        row = Row.of(timing, group="live", what=name, where=label(arena), unit="recommendation", share=found[name])
        yield row.against(NAIVE_OPTI, timings[NAIVE_OPTI])


def _whole_steps(arena: GridArena, setting: Setting, default: Row) -> Iterator[Row]:
    """Ask and tell, all work of an agent in a step: by eq. 5 with the default search, and by ``usf-ucb``."""
    ground = arena.ground
    walk = torch.randint(ground.world.n_states, (997,), generator=Generator().manual_seed(setting.seed)).tolist()
    ways: dict[str, Callable[[], object]] = {}
    for method in (METHOD, "usf-ucb"):
        agent = OnlineTransfer(ground.model, method, seed=setting.seed, noise=NOISE)

        def step(agent: OnlineTransfer = agent) -> None:
            agent.ask(walk[agent.t % len(walk)])
            agent.tell(walk[(agent.t + 1) % len(walk)], 1.0)

        ways[f"ask and tell, {method}"] = step
    first = live_problems(ground, METHOD, runs=1, times=(8,), seed=setting.task_seed)[0]
    ways[NAIVE_STEP] = Recommender(situations(first), by_reference(_naive_step))
    times = {name: 1 if name == NAIVE_STEP else 17 for name in ways}
    timings = interleaved(ways, setting.of(10, 3), times, setting.device)
    by_eq_5, by_its_own = (
        Row.of(timings[name], group="live", what=name, where=label(arena), unit="step") for name in list(ways)[:-1]
    )
    by_eq_5 = by_eq_5.against(NAIVE_STEP, timings[NAIVE_STEP])
    yield replace(by_eq_5, share=default.share, true_share=default.true_share)
    yield by_its_own


def _point_maze(setting: Setting) -> Iterator[Row]:
    """Act and tell with the shipped model of vectors: by eq. 5 with the default search, and by ``usf-ucb``."""
    model = load("pointmaze-fb", setting.device)
    walk = point_maze().random_states(997, Generator().manual_seed(setting.seed))
    rewards = (model.phi(walk).double() @ model.sample_z(1, setting.task_seed)[0].double()).tolist()
    places = walk.numpy()  # single observations, as Gymnasium environments give them

    def step(agent: OnlineTransfer) -> None:
        agent.act(places[agent.t % len(places)])
        agent.tell(places[(agent.t + 1) % len(places)], rewards[(agent.t + 1) % len(places)])

    agents = {method: OnlineTransfer(model, method, seed=setting.seed, noise=NOISE) for method in (METHOD, "usf-ucb")}
    asked, search = [], Method().search
    assert callable(search)
    for _ in range(setting.of(4, 2)):
        for _ in range(10):
            step(agents[METHOD])
        asked.append(problem_of(agents[METHOD], places[agents[METHOD].t]))
    alone = [Situation(model, p.obs, p.posterior.V, p.posterior.b, float(p.radius)) for p in asked]
    reference, ours = Recommender(alone, by_reference(_naive_step)), Recommender(asked, by_search(search))
    ways: dict[str, Callable[[], object]] = {f"act and tell, {name}": partial(step, agents[name]) for name in agents}
    ways[NAIVE_STEP] = reference
    timings = interleaved(ways, setting.of(8, 2), {name: 1 if name == NAIVE_STEP else 17 for name in ways})
    while len(ours.answers) < len(reference.answers):
        ours()
    share = shares(alone, {NAIVE: reference.answers, DEFAULT: ours.answers}, NAIVE, by_the_model)[DEFAULT]
    by_eq_5, by_its_own = (
        Row.of(timings[name], group="live", what=name, where="FB, point maze", unit="step") for name in list(ways)[:-1]
    )
    yield replace(by_eq_5, share=share).against(NAIVE_STEP, timings[NAIVE_STEP])
    yield by_its_own


def _naive_step(now: Situation, rng: Generator) -> Tensor:
    """Recommend and learn, with V inverted for each."""
    z = naive.recommend(now, rng)
    naive.learn(now.V, now.b, now.b, 1.0)
    return z


def _problems(arena: GridArena, method: str, setting: Setting) -> tuple[list[Problem], list[Situation]]:
    """The same problems for a search and for the references."""
    runs, times = setting.of((4, TIMES), (3, TIMES[:3]))
    asked = live_problems(arena.ground, method, runs=runs, times=times, seed=setting.task_seed)
    return asked, [situations(problem)[0] for problem in asked]


def many(setting: Setting) -> Iterator[Row]:
    """Many recommendations at once."""
    for runs in (100,) if setting.device == "cpu" else (100, 1_000):
        for model in ("network", "exact"):
            yield from _batch(setting.arena(model, "laplacian"), setting, runs)


def _batch(arena: GridArena, setting: Setting, runs: int) -> Iterator[Row]:
    problem = batch_problem(arena.ground, METHOD, runs=runs, steps=BATCH_STEPS, seed=setting.task_seed)
    alone = situations(problem)[: setting.of(16, 4)]
    searches = {
        name: search for name, search in searches_for(arena, setting).items() if name in BATCH_SEARCHES[arena.model]
    }
    if not setting.quick:
        searches["table of 10,000 alone"] = TableSearch(10_000, anchors=False)
    together = {name: Together(problem, search) for name, search in searches.items()}
    one = Recommender(alone, by_reference(naive.recommend))
    ways: dict[str, Callable[[], object]] = {NAIVE: one, **together}
    known = forgetting(arena.ground, [problem])
    timings = interleaved(ways, len(alone), device=setting.device, before=known)
    answers = {NAIVE: one.answers} | {name: way.answers(len(alone)) for name, way in together.items()}
    found = both_shares(arena.ground, alone, answers, NAIVE)
    for name, way in together.items():
        row = Row.of(
            timings[name],
            group="many",
            what=f"{runs:,} runs at once, {name}",
            where=label(arena),
            amount=runs,
            unit="recommendations",
            **found[name],
        ).against(NAIVE, timings[NAIVE])
        if arena.model == "network":
            flops = flops_of(way)
            seconds = seconds_of_products(flops, setting.device)
            row = replace(row, floor=f"its products, {flops / 1e9:.2g} GFLOP", floor_seconds=seconds)
        yield row


class Together:
    """A search that answers all runs in one call and keeps its answers."""

    def __init__(self, problem: Problem, search: Search) -> None:
        self._problem, self._search = problem, search
        self._z: list[Tensor] = []

    def __call__(self) -> None:
        """Answer all runs once."""
        self._z.append(self._search(self._problem, streams(self._problem)))

    def answers(self, runs: int) -> list[Answer]:
        """All answers to the first ``runs`` runs."""
        return [(number, z[number]) for z in self._z for number in range(runs)]


def end_to_end(setting: Setting) -> Iterator[Row]:
    """Runs with exact regret."""
    for model, sizes in SIZES.items():
        arena = GridArena(model=model)
        worth = _default_shares(arena, setting)
        for method, (whole, quick) in sizes.items():
            runs, steps = setting.of(whole, quick)
            compared = method == METHOD  # by eq. 5, as the reference; other methods have no reference
            row = _comparison(arena, method, runs, steps, setting, compared)
            yield replace(row, **worth) if compared else row  # type: ignore[arg-type]


def _default_shares(arena: GridArena, setting: Setting) -> dict[str, float]:
    """Shares of the default search's answers, beside the reference of ``CANDIDATES`` fresh z."""
    default = Method().search
    assert callable(default)
    problem = batch_problem(arena.ground, METHOD, runs=12, steps=25, seed=setting.task_seed)
    alone = situations(problem)
    ours = [answer for _ in range(ANSWERS) for answer in enumerate(default(problem, streams(problem)))]
    theirs = Recommender(alone, by_reference(partial(naive.recommend, n=CANDIDATES)))
    for _ in range(ANSWERS * len(alone)):
        theirs()
    return both_shares(arena.ground, alone, {"ours": ours, "theirs": theirs.answers}, "theirs")["ours"]


def _comparison(arena: GridArena, method: str, runs: int, steps: int, setting: Setting, compared: bool) -> Row:
    ground = arena.ground
    ground.gap  # noqa: B018, computed once for an arena
    draws = (ground.draw(Tasks(-(-runs // SEEDS), SEEDS, seed=(setting.task_seed + i) % 1_000)) for i in count())
    alone = naive.run(ground, next(draws)[0][0], CANDIDATES, NOISE, Generator().manual_seed(next(PLACES)))

    def together(steps: int = steps) -> Mapping[str, Tensor]:
        tasks, seeds = next(draws)  # fresh at each call: the model remembers the last ones
        agent = OnlineTransfer(ground.model, method, seed=seeds.tolist(), runs=len(tasks))
        env = TaskRuns(ground.world, ground.rewards(tasks, [], outside=0.0), NOISE, seeds)
        taken = list(islice(simulated(agent, env), steps))
        return evaluate_exactly(trace_of(agent, tasks, taken), ground)[0]

    together(2)  # fills the tables of the model

    reference = f"naive, {CANDIDATES:,} z"
    ways: dict[str, Callable[[], object]] = {"together": together}
    if compared:
        ways[reference] = lambda: [next(alone) for _ in range(REFERENCE_STEPS)]
    timings = interleaved(ways, 2, {"together": 1, reference: setting.of(10, 5)}, warm=False)
    row = Row.of(
        timings["together"],
        group="end-to-end",
        what=f"{method}, {runs} runs × {steps} steps, exact regret",
        where=label(arena),
        amount=runs * steps,
        unit="steps",
    )
    return row.against(reference, timings[reference], REFERENCE_STEPS) if compared else row
