"""Kernels and training steps beside lower bounds of their time."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from benchmarks import naive
from benchmarks.lower_bounds import (
    LARGEST,
    NUMBER,
    actor_flops,
    bytes_of_distinct_rows,
    copy_timing,
    diameter,
    product_timing,
    psi_flops,
    seconds_of_moves,
    seconds_of_products,
    side,
)
from benchmarks.measurement import Call, Row, Setting, interleaved
from benchmarks.problems import METHOD, batch_problem, label
from zscout.features import laplacian
from zscout.models.usfa.model import USFA, USFAConfig
from zscout.models.usfa.recipe import RECIPES, Recipe
from zscout.models.usfa.training import Trainer
from zscout.models.usfa.transitions import Transitions
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.score.table import TabulatedForecast, table_of
from zscout.worlds import open_grid

CANDIDATES = 10_000
IN_A_ROW = 64  # rewards of a posterior


def floors(setting: Setting) -> Iterator[Row]:
    """Kernels beside lower bounds."""
    yield from _machine(setting)
    yield from _posterior(setting)
    yield _network(setting)
    yield from _bank(setting)
    yield _dynamic_programming(setting)


def _machine(setting: Setting) -> Iterator[Row]:
    """The measured rates of products and copies."""
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
    """Eq. 5 of all z of a table."""
    for model, n in (("exact", 1_000), ("network", setting.of(10_000, 1_000))):
        ground = setting.arena(model, "laplacian").ground
        problem = batch_problem(ground, METHOD, runs=100, steps=10, seed=setting.task_seed)
        table, posterior = table_of(ground.model, n, seed=0), problem.posterior
        ways = {"table": partial(TabulatedForecast(ground.model, problem.obs, table).value_and_width, posterior)}
        timing = interleaved(ways, setting.of(50, 10), device=setting.device)["table"]
        size = bytes_of_distinct_rows(ground.model, n, 0, torch.as_tensor(problem.obs))
        yield Row.of(
            timing,
            group="floors",
            what=f"eq. 5 of a table of {n:,}, 100 runs",
            where=label(setting.arena(model, "laplacian")),
            amount=100,
            unit="runs",
            floor=f"the ψ that differ, read once: {size / 1e6:.2g} MB",
            floor_seconds=seconds_of_moves(size, setting.device),
        )


def _posterior(setting: Setting) -> Iterator[Row]:
    """Posterior updates one after the other, beside V inverted for each."""
    for d, runs in ((256, None), (9, 300)):
        shape, count = (() if runs is None else (runs,)), runs or 1
        rng = Generator().manual_seed(setting.seed)
        phi = torch.randn(IN_A_ROW, *shape, d, generator=rng, dtype=torch.float64).to(setting.device) / d**0.5
        reward = torch.randn(IN_A_ROW, *shape, generator=rng, dtype=torch.float64).to(setting.device)
        prior = TaskPosterior.prior(dim=d, ridge=0.1, runs=shape, device=torch.device(setting.device))
        first = [part[0] if shape else part for part in (prior.V, prior.b)]
        pairs = [part[:, 0] if shape else part for part in (phi, reward)]
        ours, theirs = Call(updates_in_a_row, prior, phi, reward), Call(naive.in_a_row, *first, *pairs)
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
    fresh = iter(exact.sample_z(n * (rounds + 1), setting.seed).split(n))  # the model remembers the last ones
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


def updates_in_a_row(
    posterior: TaskPosterior, phi: Float[Tensor, "m *b d"], reward: Float[Tensor, "*m_and_b"]
) -> TaskPosterior:
    """The posterior after each reward in turn, with the deferred sum V computed at the end."""
    for some_phi, some_reward in zip(phi, reward, strict=True):
        posterior = posterior.update(some_phi, some_reward)
    posterior.tensors()  # computes V
    return posterior


def training(setting: Setting) -> Iterator[Row]:
    """Training a network."""
    robust, paper = RECIPES["robust"], RECIPES["paper"]
    trainers = {
        "robust, the actor learns": _trainer(robust, setting),
        "robust, ψ learns": _trainer(replace(robust, policy_steps=1), setting),
        "paper": _trainer(paper, setting),
    }
    steps = setting.of(5, 2)  # in a call
    lines = {name: trainer.train(every=steps) for name, trainer in trainers.items()}
    for line in lines.values():
        next(line)  # takes the one step of the actor
    timings = interleaved(
        {name: lambda line=line: next(line) for name, line in lines.items()},  # type: ignore[misc]
        setting.of(12, 3),
        device=setting.device,
    )
    for name, timing in timings.items():
        flops = steps * _flops(trainers[name])
        yield Row.of(
            timing,
            group="training",
            what=f"training, {name}",
            where="network, Laplacian",
            amount=steps,
            unit="steps",
            floor=f"its products, {flops / steps / 1e9:.2g} GFLOP a step",
            floor_seconds=seconds_of_products(flops, setting.device),
        )


def _trainer(recipe: Recipe, setting: Setting) -> Trainer:
    world = open_grid()
    places = 2 * world.cells / 8 - 1
    return Trainer(Transitions.of_world(world), laplacian(world), places, recipe, setting.seed, setting.device)


def _flops(trainer: Trainer) -> float:
    """FLOP of a step: forward and backward (twice forward) through what learns, forward through what it learns from."""
    config: USFAConfig = trainer.online.config
    rows = trainer.recipe.tasks * config.n_states
    psi, actor = (rows * flops for flops in (psi_flops(config, config.n_actions), actor_flops(config)))
    if not config.actor:
        return 4 * psi
    return 3 * actor if trainer.step < trainer.recipe.policy_steps else 3 * psi + actor
