"""How much a model of a body holds: returns of random z, of z from a number of labels, and of the best z found.

``python -m benchmarks.body_measures --body cheetah --model FOLDER --out FILE`` measures a model on all tasks of a body.
"""

import hashlib
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from jaxtyping import Float
from torch import Generator, Tensor

from benchmarks.cross_entropy import cross_entropy
from zscout.base.edge import as_size
from zscout.base.files import parse_json, write_json
from zscout.lab.arenas.body import BodyArena
from zscout.lab.evaluation.judging import episode_returns
from zscout.models.fb.model import FB
from zscout.models.files.pretrained import observations_of
from zscout.transfer.offline import fit_task
from zscout.worlds.bodies.physics import body as make_body
from zscout.worlds.bodies.tasks import BodyTask, body_task, body_tasks

LABEL_COUNTS = (50, 150, 500, 1_500, 5_000)  # and all observations that are saved with the model
EPISODES = 10  # of each z, from the same starts
RANDOM = 10  # z of sample_z
# The search for the best z: a task of the cheetah takes about a minute on one core, of the walker five.
POPULATION, ELITE, ROUNDS, SPREAD = 64, 16, 10, 0.7
SEARCH_STARTS, SEARCH_HORIZON = 4, 500  # of a round; new starts in each, since few of them favour lucky z
FINAL_STARTS = 16  # of the whole episodes that choose between the rounds' z


@dataclass(frozen=True)
class BodyMeasures:
    """Mean returns of whole episodes for one task, from the same starts."""

    task: str
    kind: str  # "suite", "benchmark" or "held-out"
    expressed: float  # R² of the reward in φ, over all saved observations
    random_z: float  # mean of ``RANDOM`` z of sample_z
    labels: dict[int, float]  # z from this number of labelled observations
    oracle: float  # z from all
    ceiling: float  # the best z that the search finds by true returns, on other starts


def measure(model: FB, task: BodyTask, observations: Float[Tensor, "n o"], seed: int = 0) -> BodyMeasures:
    """Measures of one task; starts, random z, and the observations to be labelled follow from the seed."""
    world, repeat = task.world, int(model.about.get("repeat", 1))
    rng = Generator().manual_seed(seed)
    starts, random = world.random_states(EPISODES, rng), model.sample_z(RANDOM, rng).cpu()
    observations = observations[torch.randperm(len(observations), generator=rng)]
    rewards = task(observations)
    counts = [*(n for n in LABEL_COUNTS if n < len(observations)), len(observations)]
    fits = [fit_task(model, observations[:n], rewards[:n]) for n in counts]
    fitted = torch.stack([fit.z for fit in fits]).cpu()
    z = torch.cat([random, best_z(model, task, fitted[-1], rng)[None], fitted])
    found = episode_returns(model, world, [task], z[None], starts, BodyArena.horizon, repeat)[0].mean(-1)
    ceiling, *labelled = (round(total, 2) for total in found[RANDOM:].tolist())
    return BodyMeasures(
        task=task.name,
        kind=task.kind,
        expressed=round(fits[-1].expressed, 4),
        random_z=round(float(found[:RANDOM].mean()), 2),
        labels=dict(zip(counts, labelled, strict=True)),
        oracle=labelled[-1],
        ceiling=ceiling,
    )


def best_z(model: FB, task: BodyTask, z: Float[Tensor, " d"], rng: Generator) -> Float[Tensor, " d"]:
    """The cross-entropy method from z, by true returns.

    Of z and of each round's best and mean z, it returns the best one on new starts.
    """

    def returns(tried: Float[Tensor, "1 n d"], starts: int, horizon: int) -> Float[Tensor, "1 n"]:
        drawn = task.world.random_states(starts, rng)
        repeat = int(model.about.get("repeat", 1))
        return episode_returns(model, task.world, [task], tried, drawn, horizon, repeat).mean(-1)

    rounds = cross_entropy(
        lambda tried: returns(tried, SEARCH_STARTS, SEARCH_HORIZON),
        model.project_z,
        z[None],
        rng,
        population=POPULATION,
        elite=ELITE,
        rounds=ROUNDS,
        spread=SPREAD,
    )
    finalists = torch.cat([z[None], *(each for both in rounds for each in both)])
    return finalists[returns(finalists[None], FINAL_STARTS, BodyArena.horizon)[0].argmax()]


def main(
    body: str,
    model: str,
    out: Path,
    tasks: tuple[str, ...] = (),
    seed: int = 0,
    threads: int | None = None,
    device: str = "cpu",
) -> None:
    """Measure a model of a body on its tasks, and write a JSON file; tasks that are in the file are not measured again.

    Args:
        body: Its name, such as walker.
        model: A saved model's name or folder.
        out: The JSON file, written after each task.
        tasks: Names of tasks; by default all of the body.
        seed: Of the starts, of random z, of the observations to be labelled, and of the search.
        threads: Of the physics; by default all cores.
        device: Of the networks.
    """
    try:
        bfm = BodyArena(model, body=body, device=device).bfm
        world, observations = make_body(body, threads=threads), observations_of(model)
        names = [task.name for task in body_tasks(world)]
        wanted = [body_task(world, name) for name in dict.fromkeys(tasks or names)]
        about = _about(bfm, body, as_size(seed, "seed", 0, 2**63 - 1))
        found = _already_in(out, about)
        write_json(out, about | {"tasks": list(found.values())})  # fails now, not after a minute
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"zscout: {' '.join(str(error).split())}", file=sys.stderr)
        raise SystemExit(2) from None
    missing, began = [task for task in wanted if task.name not in found], time.monotonic()
    for done, task in enumerate(missing, 1):
        measured = measure(bfm, task, observations, seed)
        found[task.name] = asdict(measured)
        write_json(out, about | {"tasks": [found[name] for name in names if name in found]})
        each = (time.monotonic() - began) / done
        print(
            f"{done}/{len(missing)} {task.name}: random z {measured.random_z:.0f}, oracle {measured.oracle:.0f}, "
            f"ceiling {measured.ceiling:.0f}; {each:.0f} s a task, {each * (len(missing) - done) / 60:.0f} min left",
            flush=True,
        )


def _about(model: FB, body: str, seed: int) -> dict[str, Any]:
    """What all measures in a file have in common."""
    own = {name: tensor for name, tensor in model.state_dict().items() if name != "prior"}  # measures do not use it
    weights = b"".join(tensor.cpu().numpy().tobytes() for tensor in own.values())
    return {
        "body": body,
        "model": model.about.get("name", ""),
        "weights": hashlib.sha256(weights).hexdigest()[:16],
        "seed": seed,
        "horizon": BodyArena.horizon,
        "episodes": EPISODES,
        "random": RANDOM,
        "population": POPULATION,
        "elite": ELITE,
        "rounds": ROUNDS,
        "spread": SPREAD,
        "search_starts": SEARCH_STARTS,
        "search_horizon": SEARCH_HORIZON,
        "final_starts": FINAL_STARTS,
    }


def _already_in(path: Path, about: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The measures in a file, by task; raises if they are of another model or were made with other settings."""
    if not path.exists():
        return {}
    try:
        content = parse_json(path.read_bytes())
        found = {task["task"]: task for task in content["tasks"]}
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{path} does not hold measures of a body: name another file") from None
    for name, value in about.items():
        if content.get(name) != value:
            raise ValueError(f"{path} holds measures with {name} {content.get(name)}, not {value}: name another file")
    return found


if __name__ == "__main__":
    tyro.cli(main)
