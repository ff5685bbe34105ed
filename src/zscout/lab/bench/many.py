"""Many runs at once: what a recommendation costs when a hundred or a thousand are wanted together."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from torch import Tensor

from zscout.lab.arena import Arena
from zscout.lab.bench import naive
from zscout.lab.bench.asking import Answer, Asked, both_shares, by_reference, streams
from zscout.lab.bench.clock import interleaved
from zscout.lab.bench.live import DEFAULT, NAIVE, searches_for
from zscout.lab.bench.machine import flops_of, seconds_of_products
from zscout.lab.bench.measurement import Row
from zscout.lab.bench.problems import as_in_a_run, batch, situations
from zscout.lab.bench.setting import METHOD, Setting, label
from zscout.transfer.problem import Problem
from zscout.transfer.search import Bank, Search

STEPS = 25  # that the runs have behind them
WAYS = {"network": (DEFAULT, "bank of 1,000"), "exact": (DEFAULT,)}


def many(setting: Setting) -> Iterator[Row]:
    """Many recommendations at once."""
    for runs in (100,) if setting.device == "cpu" else (100, 1_000):
        for model in ("network", "exact"):
            yield from _measure(setting.arena(model, "laplacian"), setting, runs)


def _measure(arena: Arena, setting: Setting, runs: int) -> Iterator[Row]:
    problem = batch(arena.ground, METHOD, runs=runs, steps=STEPS, seed=setting.task_seed)
    alone = situations(problem)[: setting.of(16, 4)]
    searches = {name: search for name, search in searches_for(arena, setting).items() if name in WAYS[arena.model]}
    if not setting.quick:
        searches["bank of 10,000, its tables alone"] = Bank(10_000, anchors=False)
    together = {name: Together(problem, search) for name, search in searches.items()}
    one = Asked(alone, by_reference(naive.recommend))
    ways: dict[str, Callable[[], object]] = {NAIVE: one, **together}
    known = as_in_a_run(arena.ground, [problem])
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
    """All runs in one call of a search; the last answers are kept."""

    def __init__(self, problem: Problem, search: Search) -> None:
        self._problem, self._search = problem, search
        self._z: list[Tensor] = []

    def __call__(self) -> None:
        """All of them once."""
        self._z.append(self._search(self._problem, streams(self._problem)))

    def answers(self, runs: int) -> list[Answer]:
        """Of the first so many runs, all that was answered."""
        return [(number, z[number]) for z in self._z for number in range(runs)]
