"""How good an FB model of a body is: zero-shot returns of episodes of the control suite."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.lab.evaluation.returns import episode_returns
from zscout.models.fb.model import FB
from zscout.transfer.offline import fit_task
from zscout.worlds.bodies.body import body
from zscout.worlds.bodies.tasks import body_tasks

HORIZON = 1_000  # control steps of an episode
LABELS = 50_000  # observations whose rewards decide z


@dataclass(frozen=True)
class BodyVerdict:
    """Mean zero-shot returns of an episode, and the R² of each reward in φ."""

    returns: dict[str, float]
    expressed: dict[str, float]
    episodes: int
    horizon: int  # control steps of an episode


def judge_body(
    model: FB,
    name: str,
    observations: Float[Tensor, "n o"],
    *,
    repeat: int = 1,
    episodes: int = 10,
    horizon: int = HORIZON,
    seed: int = 0,
) -> BodyVerdict:
    """Zero-shot returns on the suite's and the benchmark's tasks, z from up to 50,000 labelled observations."""
    world = body(name)
    tasks = [task for task in body_tasks(world) if task.kind != "held-out"]
    fits = [fit_task(model, observations[:LABELS], task(observations[:LABELS])) for task in tasks]
    z = torch.stack([fit.z for fit in fits])
    starts = world.random_states(episodes, Generator().manual_seed(seed))
    found = episode_returns(model, world, tasks, z[:, None], starts, horizon, repeat)[:, 0].mean(1)
    names = [task.name for task in tasks]
    expressed = {name: round(fit.expressed, 4) for name, fit in zip(names, fits, strict=True)}
    rounded = dict(zip(names, [round(r, 2) for r in found.tolist()], strict=True))
    return BodyVerdict(rounded, expressed, episodes, horizon)
