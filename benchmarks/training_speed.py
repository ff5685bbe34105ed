"""Speed of FB training in a body: updates and frames a second, and the share of the GPU, against a plain loop.

    python -m benchmarks.training_speed --device cuda --out speed.json

Width and batch are those of ``--set``; every way trains the same model in the same world. *Plain loop*: updates one
kernel at a time, after the physics. *One graph*: an update is one CUDA graph of fused kernels, after the physics.
*Beside*: as ``zscout pretrain`` trains, updates while the physics runs. *Updates alone* has no physics, *physics alone*
no updates.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from zscout.base.files import write_json
from zscout.lab.training.fb import FBPretraining
from zscout.models.fb.body_training import BodyTrainer
from zscout.models.fb.recipe import BodyRecipe
from zscout.worlds.registry import PLACES


@dataclass(frozen=True)
class Options:
    """What to measure."""

    out: Path | None = None  # JSON
    world: str = "walker"  # Or cheetah, quadruped.
    set: tuple[str, ...] = ("hidden=512", "batch=1024", "updates=64")  # Changes to the body's recipe.
    seconds: float = 8.0  # Of each way.
    device: str = "cpu"


class Ways:
    """Ways to train one model, each a function that makes the updates or frames of one control step."""

    def __init__(self, trainer: BodyTrainer) -> None:
        self.trainer, self.online = trainer, trainer.learner.online
        self.plain = lambda: trainer.learner.update(*trainer._rows())
        self.graph = trainer._captured()

    def updates(self, update: Callable[[], torch.Tensor]) -> None:
        """The updates of one control step."""
        with self.trainer.stopwatch.updates():
            for _ in range(self.trainer.recipe.updates):
                self.trainer._set_rates()
                update()

    def physics(self) -> None:
        """One control step of all bodies."""
        action = self.trainer.collector.choose(self.online)
        self.trainer.collector.step(action, action.cpu(), self.online)

    def after(self, update: Callable[[], torch.Tensor]) -> None:
        """Physics, then updates."""
        self.physics()
        self.updates(update)
        if self.trainer.device.type == "cuda":
            torch.cuda.synchronize()

    def beside(self) -> None:
        """Updates while the physics runs."""
        self.trainer.buffer.weigh()
        action = self.trainer.collector.choose(self.online)
        on_cpu = action.cpu()
        self.updates(self.graph)
        self.trainer.collector.step(action, on_cpu, self.online)


def measure(options: Options) -> list[dict[str, float | str]]:
    """Rows: the way, updates/s, frames/s, GPU share."""
    recipe = FBPretraining(world=options.world, changes=options.set).build_recipe()
    assert isinstance(recipe, BodyRecipe)
    trainer = BodyTrainer(PLACES[options.world].make(repeat=recipe.repeat), recipe, 0, options.device)
    trainer._warm_up()
    ways, watch = Ways(trainer), trainer.stopwatch
    rows: list[dict[str, float | str]] = []
    table: tuple[tuple[str, Callable[[], None], int, int], ...] = (
        ("plain loop", lambda: ways.after(ways.plain), 1, 1),
        ("one graph, after the physics", lambda: ways.after(ways.graph), 1, 1),
        ("beside the physics", ways.beside, 1, 1),
        ("updates alone", lambda: ways.updates(ways.graph), 1, 0),
        ("physics alone", ways.physics, 0, 1),
    )
    for name, step, updates, frames in table:
        step()
        busy, began, steps = watch.busy, time.perf_counter(), 0
        while time.perf_counter() - began < options.seconds:
            step()
            steps += 1
            watch.busy  # noqa: B018 — waits for the updates
        spent = time.perf_counter() - began
        row: dict[str, float | str] = {"way": name, "updates/s": updates * steps * recipe.updates / spent}
        rows.append(row | {"frames/s": frames * steps * recipe.bodies / spent, "GPU": (watch.busy - busy) / spent})
        print("  ".join(f"{key} {it:,.2f}" if isinstance(it, float) else f"{it:30}" for key, it in rows[-1].items()))
    return rows


def main(options: Options) -> None:
    """Measure, print, write."""
    rows = measure(options)
    first = float(rows[0]["updates/s"])
    print(f"beside the physics: {float(rows[2]['updates/s']) / first:.2f} times the plain loop's updates a second")
    if options.out is not None:
        write_json(options.out, {"world": options.world, "set": list(options.set), "rows": rows})


if __name__ == "__main__":
    main(tyro.cli(Options))
