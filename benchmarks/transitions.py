"""Makes a fixed set of reward-free transitions of a world, for ``zscout pretrain --data``.

    python -m benchmarks.transitions --world walker --transitions 5000000 --updates 16 --device cuda --out walker-data

Bodies act at random; after ``warm_up`` transitions, with ``--updates``, under an exploring FB model that learns on the
way, or with ``--model`` under one that is trained. The point maze has random forces. The files are in the plain layout.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
import tyro
from jaxtyping import Bool, Float
from rich.console import Console
from torch import Generator, Tensor

import zscout
from zscout.base.edge import as_size
from zscout.base.hints import known_name
from zscout.cli.parts.output import UsageError
from zscout.cli.parts.progress import bar_with_time_left
from zscout.lab.training.fb import FBPretraining
from zscout.models.fb.body_training import BodyTrainer, Collector
from zscout.models.fb.buffer import Buffer, check_ramps
from zscout.models.fb.data import RUNS, force_steps
from zscout.models.fb.model import FB
from zscout.models.fb.recipe import BodyRecipe
from zscout.worlds.registry import PLACES, of_kind

CPU = torch.device("cpu")
SHARD = 500_000  # transitions of a file
LENGTH = 70  # decisions of an episode in the point maze


@dataclass(eq=False)
class Recorder:
    """Writes transitions of many bodies in the plain layout, those of a body one after the other."""

    folder: Path
    wanted: int  # transitions
    written: int = 0
    files: int = 0
    _steps: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    _waiting: int = 0

    @property
    def done(self) -> int:
        """Transitions so far."""
        return min(self.written + self._waiting, self.wanted)

    def __call__(
        self, obs: Float[Tensor, "n o"], action: Float[Tensor, "n a"], next_obs: Tensor, good: Bool[Tensor, " n"]
    ) -> None:
        """One step of all bodies; those that are not good are left out."""
        if self.written >= self.wanted:
            return
        self._steps.append(tuple(part.cpu().numpy().copy() for part in (obs, action, next_obs, good)))
        self._waiting += int(good.sum())
        if self._waiting >= min(SHARD, self.wanted - self.written):
            self._flush()

    def _flush(self) -> None:
        obs, action, next_obs, good = (np.stack(part, 1) for part in zip(*self._steps, strict=True))  # [n t …]
        few = slice(self.wanted - self.written)
        arrays = {"obs": obs[good][few], "action": action[good][few], "next_obs": next_obs[good][few]}
        self.folder.mkdir(parents=True, exist_ok=True)
        np.savez(self.folder / f"{self.files:05d}.npz", **arrays, terminated=np.zeros(len(arrays["obs"]), bool))
        self.written, self.files = self.written + len(arrays["obs"]), self.files + 1
        self._steps, self._waiting = [], 0


def collect(
    what: FBPretraining, folder: Path, transitions: int, updates: int, explorer: FB | None = None
) -> Iterator[int]:
    """Yield the transitions so far. ``updates``: of a model that explores, for each step of the bodies.

    With 0 the trained ``explorer`` explores; without one, controls are random.
    """
    as_size(transitions, "transitions", 1)
    as_size(updates, "updates", 0)
    recorder, place = Recorder(folder, transitions), PLACES[what.world]
    if place.kind == "point":
        world, rng = place.make(), Generator().manual_seed(what.seed)
        runs = max(1, min(RUNS, transitions // LENGTH))
        for data in force_steps(world, transitions, rng, runs, LENGTH):
            recorder(data.obs, data.action, data.next_obs, ~data.over)
            yield recorder.done
        return
    recipe = what.build_recipe()
    assert isinstance(recipe, BodyRecipe)
    world, steps = place.make(repeat=recipe.repeat), -(-transitions // recipe.bodies)
    if not updates:
        kept = recipe.bodies if explorer is None else min(recipe.buffer, transitions)
        widths = world.observation_space.shape[0], world.action_space.shape[0]
        buffer = Buffer(kept, *widths, recipe.balance, CPU)
        collector = Collector(world, recipe, buffer, what.seed, CPU, recorder)
        while recorder.written < transitions:
            model = explorer if buffer.added >= recipe.warm_up else None
            if model is not None:
                buffer.weigh()  # z of its goals are drawn from there
            collector.step(action := collector.choose(model), action, model)
            yield recorder.done
        return
    buffered = min(recipe.buffer, transitions)
    recipe = replace(recipe, updates=updates, steps=steps * updates, buffer=max(buffered, recipe.warm_up))
    trainer = BodyTrainer(world, recipe, what.seed, what.device)
    trainer.collector.record = recorder
    for _ in trainer.train(every=updates):
        yield recorder.done
        if recorder.written >= transitions:
            return


@dataclass(frozen=True)
class Options:
    """What to make."""

    out: Path  # Folder for the .npz files; it must not hold any.
    world: str = "walker"  # Or cheetah, quadruped, point-maze.
    transitions: int = 1_000_000
    updates: int = 0  # Of the exploring model, for each step of all bodies; 0: random controls only.
    model: str = ""  # A trained FB model of a body, by name or folder, that explores instead.
    set: tuple[str, ...] = ()  # Changes to the recipe of a body, such as bodies=64.
    seed: int = 0
    device: str = "cpu"


def explorer_of(options: Options, what: FBPretraining) -> tuple[FB, FBPretraining]:
    """The model that explores, and ``what`` with its dim and repeat; one line if it cannot."""
    if options.updates or what.kind != "body" or options.device != "cpu":
        raise UsageError("--model explores with a body, on the CPU, and without --updates")
    try:
        model = zscout.load(options.model)
        held = model.about.get("repeat", 1)
        what = replace(what, changes=(f"dim={model.dim}", f"repeat={held}", *what.changes))
        recipe = what.build_recipe()
        if isinstance(model, FB):
            check_ramps(recipe, len(model.goal_scale))
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    assert isinstance(recipe, BodyRecipe)
    wanted = PLACES[what.world].make().observation_space, recipe.dim, recipe.repeat
    if not isinstance(model, FB) or (model.observation_space, model.dim, held) != wanted:
        raise UsageError(
            f"{options.model} is no FB model of the {what.world} with dim {recipe.dim} and repeat {recipe.repeat}"
        )
    if options.transitions <= recipe.warm_up:
        raise UsageError(
            f"the model explores after warm_up={recipe.warm_up} random transitions: pass more --transitions"
        )
    return model, what


def main(options: Options) -> None:
    """Collect with a progress bar."""
    console, total = Console(), options.transitions
    if any(options.out.glob("*.npz")):
        raise UsageError(f"{options.out} holds data already")
    try:
        known_name(options.world, of_kind("point", "body"), "world")
    except ValueError as error:
        raise UsageError(str(error)) from None
    if PLACES[options.world].kind == "point" and (options.updates or options.set):
        raise UsageError(f"the {options.world} is explored by random forces: --updates and --set apply to bodies only")
    what = FBPretraining(world=options.world, changes=options.set, seed=options.seed, device=options.device)
    explorer, what = explorer_of(options, what) if options.model else (None, what)
    told = 0
    with bar_with_time_left(console) as bar:
        task = bar.add_task("collecting", total=total)
        for done in collect(what, options.out, total, options.updates, explorer):
            bar.update(task, completed=done)
            if bar.disable and done * 10 // total > told:  # lines in a log file
                told = done * 10 // total
                console.print(f"{done:,} of {total:,} transitions")
    recipe = what.build_recipe()
    held = f"--set repeat={recipe.repeat} " if isinstance(recipe, BodyRecipe) else ""
    console.print(f"next: zscout pretrain --world {what.world} --data {options.out} {held}--out DIR")


if __name__ == "__main__":
    main(tyro.cli(Options))
