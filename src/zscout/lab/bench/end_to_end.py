"""Whole comparisons: runs in one tensor and their exact regret, environment steps a second on one core."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count

from torch import Generator, Tensor

from zscout.lab.arena import Arena, Tasks
from zscout.lab.bench import naive
from zscout.lab.bench.asking import PLACES, Asked, both_shares, by_reference, streams
from zscout.lab.bench.clock import interleaved
from zscout.lab.bench.measurement import Row
from zscout.lab.bench.problems import batch, situations
from zscout.lab.bench.setting import METHOD, NOISE, Setting, label
from zscout.lab.measure import measured
from zscout.lab.run import simulate
from zscout.transfer.methods import Method

CANDIDATES = 1_000  # on both sides: the bank has as many
ALONE = 2  # steps of the reference in a call
ANSWERS = 2  # to each question, to see what they are worth
SEEDS = 3  # runs of each task, as in zscout compare
SIZES = {  # runs and steps, whole and quick
    "exact": {METHOD: ((300, 200), (60, 50)), "usf-ucb": ((300, 200), (60, 50))},
    "network": {METHOD: ((99, 100), (21, 20))},
}


def end_to_end(setting: Setting) -> Iterator[Row]:
    """Runs with exact regret."""
    for model, sizes in SIZES.items():
        arena = Arena(model=model)
        worth = _worth(arena, setting)
        for method, (whole, quick) in sizes.items():
            runs, steps = setting.of(whole, quick)
            compared = method == METHOD  # the reference's own objective; others are compared with nothing
            row = _measure(arena, method, runs, steps, setting, compared)
            yield replace(row, **worth) if compared else row  # type: ignore[arg-type]


def _worth(arena: Arena, setting: Setting) -> dict[str, float]:
    """Of the default search's answers beside those to as many fresh z as the reference draws."""
    default = Method().search
    assert callable(default)
    problem = batch(arena.ground, METHOD, runs=12, steps=25, seed=setting.task_seed)
    alone = situations(problem)
    ours = [answer for _ in range(ANSWERS) for answer in enumerate(default(problem, streams(problem)))]
    theirs = Asked(alone, by_reference(partial(naive.recommend, n=CANDIDATES)))
    for _ in range(ANSWERS * len(alone)):
        theirs()
    return both_shares(arena.ground, alone, {"ours": ours, "theirs": theirs.answers}, "theirs")["ours"]


def _measure(arena: Arena, method: str, runs: int, steps: int, setting: Setting, compared: bool) -> Row:
    ground = arena.ground
    ground.gap  # noqa: B018, made once for an arena
    draws = (Tasks(-(-runs // SEEDS), SEEDS, seed=(setting.task_seed + i) % 1_000).draw(ground.exact) for i in count())
    alone = naive.run(ground, next(draws)[0][0], CANDIDATES, NOISE, Generator().manual_seed(next(PLACES)))

    def together(steps: int = steps) -> dict[str, Tensor]:
        tasks, seeds = next(draws)  # others every time: those solved lately would be known
        trace = simulate(ground.model, ground.world, tasks, method, seeds=seeds, steps=steps, noise=NOISE)
        return measured(trace, ground)[0]

    together(2)  # tables, once for a model

    reference = f"naive, {CANDIDATES:,} z"
    ways: dict[str, Callable[[], object]] = {"together": together}
    if compared:
        ways[reference] = lambda: [next(alone) for _ in range(ALONE)]
    timings = interleaved(ways, 2, {"together": 1, reference: setting.of(10, 5)}, warm=False)
    row = Row.of(
        timings["together"],
        group="end-to-end",
        what=f"{method}, {runs} runs × {steps} steps, exact regret",
        where=label(arena),
        amount=runs * steps,
        unit="steps",
    )
    return row.against(reference, timings[reference], ALONE) if compared else row
