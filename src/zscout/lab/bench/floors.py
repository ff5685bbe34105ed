"""The kernels that everything waits for, beside what their products or their bytes alone would take."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Generator

from zscout.bfm.usfa import USFA
from zscout.lab.bench import naive
from zscout.lab.bench.clock import Kept, interleaved
from zscout.lab.bench.machine import LARGEST, copy_timing, product_timing, seconds_of_moves, seconds_of_products, side
from zscout.lab.bench.measurement import Row
from zscout.lab.bench.problems import batch
from zscout.lab.bench.setting import METHOD, Setting, label
from zscout.lab.bench.updates import IN_A_ROW, in_a_row
from zscout.lab.bench.work import NUMBER, actor_flops, bytes_of_distinct_rows, diameter, psi_flops
from zscout.transfer.bank import table_of
from zscout.transfer.posterior import TaskPosterior

CANDIDATES = 10_000


def floors(setting: Setting) -> Iterator[Row]:
    """Kernels and what they cannot be under."""
    yield from _machine(setting)
    yield from _posterior(setting)
    yield _network(setting)
    yield from _bank(setting)
    yield _dynamic_programming(setting)


def _machine(setting: Setting) -> Iterator[Row]:
    """The two rates themselves."""
    device, n = setting.device, side(setting.device)
    for dtype in ("float32", "float64"):
        timing = product_timing(dtype, device)
        yield Row.of(timing, group="floors", what=f"{dtype} product, {n:,}³", amount=2 * n**3, unit="FLOP")
    for size, name in ((LARGEST, "memory"), (2**19, "cache")):
        timing, copies = copy_timing(size, device)
        yield Row.of(timing, group="floors", what=f"copy in {name}", amount=size * copies, unit="bytes")


def _network(setting: Setting) -> Row:
    model = setting.arena("network", "laplacian").ground.model
    assert isinstance(model, USFA)
    z = model.sample_z(CANDIDATES, setting.seed)
    timing = interleaved({"psi": lambda: model.psi(40, z)}, setting.of(12, 4), device=setting.device)["psi"]
    flops = CANDIDATES * (psi_flops(model.config) + actor_flops(model.config))
    return Row.of(
        timing,
        group="floors",
        what="ψ of 10,000 z",
        where="network, Laplacian",
        amount=CANDIDATES,
        unit="z",
        floor=f"its products, {flops / 1e9:.2g} GFLOP",
        floor_seconds=seconds_of_products(flops, setting.device),
    )


def _bank(setting: Setting) -> Iterator[Row]:
    """Scores of what a bank holds: few z that differ, or very many."""
    for model, n in (("exact", 1_000), ("network", setting.of(10_000, 1_000))):
        ground = setting.arena(model, "laplacian").ground
        problem = batch(ground, METHOD, runs=100, steps=10, seed=setting.task_seed)
        table, posterior = table_of(ground.model, n, seed=0), problem.posterior
        ways = {"bank": partial(table.forecast(ground.model, problem.obs).value_and_width, posterior)}
        timing = interleaved(ways, setting.of(50, 10), device=setting.device)["bank"]
        size = bytes_of_distinct_rows(ground.model, n, 0, torch.as_tensor(problem.obs))
        yield Row.of(
            timing,
            group="floors",
            what=f"eq. 5 of a bank of {n:,}, 100 runs",
            where=label(setting.arena(model, "laplacian")),
            amount=100,
            unit="runs",
            floor=f"the ψ that differ, read once: {size / 1e6:.2g} MB",
            floor_seconds=seconds_of_moves(size, setting.device),
        )


def _posterior(setting: Setting) -> Iterator[Row]:
    """Rewards one after the other, beside inverting V anew for each."""
    for d, runs in ((256, None), (9, 300)):
        shape, count = (() if runs is None else (runs,)), runs or 1
        rng = Generator().manual_seed(setting.seed)
        phi = torch.randn(IN_A_ROW, *shape, d, generator=rng, dtype=torch.float64).to(setting.device) / d**0.5
        reward = torch.randn(IN_A_ROW, *shape, generator=rng, dtype=torch.float64).to(setting.device)
        prior = TaskPosterior.prior(dim=d, ridge=0.1, runs=shape, device=torch.device(setting.device))
        first = [part[0] if shape else part for part in (prior.V, prior.b)]
        pairs = [part[:, 0] if shape else part for part in (phi, reward)]
        ours, theirs = Kept(in_a_row, prior, phi, reward), Kept(naive.in_a_row, *first, *pairs)
        timings = interleaved({"ours": ours, "theirs": theirs}, setting.of(12, 4), device=setting.device)
        z_hat = ours.answer.z_hat[0] if shape else ours.answer.z_hat
        size = 3 * d * d * NUMBER * count
        row = Row.of(
            timings["ours"],
            group="floors",
            what=f"posterior updates, d = {d}" + ("" if runs is None else f", {runs} runs"),
            amount=IN_A_ROW * count,
            unit="updates",
            difference="|ẑ − theirs|",
            largest=float((z_hat - theirs.answer).abs().max()),
            limit=1e-8,
            floor=f"the factor of V⁻¹, read twice and written once each time: {size / 1e6:.2g} MB",
            floor_seconds=seconds_of_moves(IN_A_ROW * size, setting.device, at_once=size),
        )
        yield row.against("naive: V inverted", timings["theirs"], IN_A_ROW)


def _dynamic_programming(setting: Setting) -> Row:
    exact = setting.arena("exact", "laplacian").ground.exact
    n, rounds = 10_000, setting.of(4, 2)
    fresh = iter(exact.sample_z(n * (rounds + 1), setting.seed).split(n))  # those solved lately would be known
    timing = interleaved({"solve": lambda: exact.policy(next(fresh))}, rounds, device=setting.device)["solve"]
    sweeps, numbers = diameter(exact.world), n * exact.world.n_states
    size = 3 * NUMBER // 2 * numbers * sweeps  # in single precision
    return Row.of(
        timing,
        group="floors",
        what="π* of 10,000 z",
        where="exact, Laplacian",
        amount=n,
        unit="z",
        floor=f"{sweeps} sweeps over v and r: {size / 1e6:.0f} MB",
        floor_seconds=seconds_of_moves(size, setting.device, at_once=2**20),
    )
