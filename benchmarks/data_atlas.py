"""How far an atlas of recorded trajectories is from one that a simulator charted.

    python -m benchmarks.data_atlas --world walker --transitions 200000

The data: the shipped model's behaviours with noise, random controls among them. Both atlases have the same z.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import tyro
from torch import Generator, Tensor

import zscout
from benchmarks.transitions import CPU, Recorder
from zscout.models.data.dataset import Dataset, gather
from zscout.models.fb.body_training import Collector
from zscout.models.fb.buffer import Buffer
from zscout.models.fb.model import FB
from zscout.models.fb.recipe import BodyRecipe
from zscout.transfer.atlas.trajectories import SegmentCharting
from zscout.worlds.bodies.tasks import body_tasks
from zscout.worlds.points.tasks import KINDS, point_tasks
from zscout.worlds.registry import PLACES


@dataclass
class Options:
    """What to measure."""

    world: str = "walker"
    transitions: int = 200_000
    behaviours: int = 128
    steps: int = 100
    starts: int = 6
    random: bool = False  # data under random controls only
    seed: int = 0


def record(what: Options, folder: Path) -> None:
    """The data."""
    place = PLACES[what.world]
    model, recorder = zscout.load(place.model), Recorder(folder, what.transitions)
    assert isinstance(model, FB)
    if place.kind == "point":
        world, rng = place.make(), Generator().manual_seed(what.seed)
        runs = what.transitions // 2 // 70
        state, age = world.random_states(runs, rng), torch.zeros(runs)
        z = model.sample_z(runs, rng)
        while recorder.written < what.transitions:
            noise = torch.randn(runs, 2, generator=rng)
            action = noise if what.random else torch.as_tensor(model.act(state, z)) + 0.2 * noise
            entered, _ = world.advance(state, action.clamp(-1, 1))
            recorder(state, action.clamp(-1, 1), entered, torch.ones(runs, dtype=torch.bool))
            age, new = age + 1, age + 1 >= 70
            state = torch.where(new[:, None], world.random_states(runs, rng), entered)
            z = torch.where(new[:, None], model.sample_z(runs, rng), z)
            age = age.masked_fill(new, 0)
        return
    recipe = replace(BodyRecipe(bodies=64, warm_up=64, hold=100), dim=model.dim, explorers=0.0)
    world = place.make(repeat=model.about.get("repeat", 1))
    buffer = Buffer(100_000, world.observation_space.shape[0], world.action_space.shape[0], 0.0, CPU)
    collector = Collector(world, recipe, buffer, what.seed, CPU, recorder)
    while recorder.written < what.transitions:
        action = collector.choose(model if collector.steps > 10 and not what.random else None)
        collector.step(action, action, None)
        buffer.weigh()


def rewards(name: str) -> dict[str, Callable[[Tensor], Tensor]]:
    """The tasks by name."""
    world = PLACES[name].make()
    if PLACES[name].kind == "point":
        return {f"{kind} {i}": task for kind in KINDS for i, task in enumerate(point_tasks(world, kind, 3, 0))}
    return {task.name: task for task in body_tasks(world)}


def main(what: Options) -> None:
    """Print a table."""
    place = PLACES[what.world]
    model = zscout.load(place.model)
    with TemporaryDirectory() as scratch:
        record(what, Path(scratch, "files"))
        for _ in gather(Path(scratch, "files"), Path(scratch, "data")):
            pass
        data = Dataset(Path(scratch, "data"))
        print(data.summary)
        own = SegmentCharting(
            model, data.trajectories, lambda rows: data.next_obs[rows], behaviours=what.behaviours, steps=what.steps
        )
        for _ in own:
            pass
        found = own.atlas()
    world = place.make(**({"repeat": model.about["repeat"]} if "repeat" in model.about else {}))
    truth = zscout.chart(model, world, z=found.z, starts=what.starts, steps=max(what.steps, 70), progress=False)
    print(f"start share: data {found.start_share:.2f}, simulator {truth.start_share:.2f}")
    rows = []
    print("| task | correlation | mean difference | chosen by data | best | mean of all | share of the gain |")
    for name, task in rewards(what.world).items():
        ours, theirs = found.values(task), truth.values(task)
        together = float(np.corrcoef(ours.numpy(), theirs.numpy())[0, 1])
        chosen, best, mean = theirs[ours.argmax()], theirs.max(), theirs.mean()
        share = float((chosen - mean) / (best - mean))
        rows.append((together, float((ours - theirs).abs().mean()), float(chosen), float(best), float(mean), share))
        print(f"| {name} | " + " | ".join(f"{number:.2f}" for number in rows[-1]) + " |")
    print("| mean | " + " | ".join(f"{number:.2f}" for number in np.mean(rows, 0)) + " |")


if __name__ == "__main__":
    main(tyro.cli(Options))
