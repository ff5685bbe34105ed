"""Training steps of a USFA, beside what their products alone would take."""

from collections.abc import Iterator
from dataclasses import replace

from zscout.bfm.recipe import RECIPES, Recipe
from zscout.bfm.training import Trainer
from zscout.bfm.transitions import Transitions
from zscout.bfm.usfa import USFAConfig
from zscout.features import laplacian
from zscout.lab.bench.clock import interleaved
from zscout.lab.bench.machine import seconds_of_products
from zscout.lab.bench.measurement import Row
from zscout.lab.bench.setting import Setting
from zscout.lab.bench.work import actor_flops, psi_flops
from zscout.worlds import open_grid


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
        next(line)  # beyond the one step of the actor
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
    """Forward and, twice as dear, backward through what learns; forward through what tells it the policy or ψ."""
    config: USFAConfig = trainer.online.config
    rows = trainer.recipe.tasks * config.n_states
    psi, actor = (rows * flops for flops in (psi_flops(config, config.n_actions), actor_flops(config)))
    if not config.actor:
        return 4 * psi
    return 3 * actor if trainer.step < trainer.recipe.policy_steps else 3 * psi + actor
