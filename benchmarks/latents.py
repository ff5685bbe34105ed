"""Which of twelve named latents is best for a hidden reward: python -m benchmarks.latents (extra mujoco, ten minutes).

The walker's latents of docs/atlas.md are charted from 8 starts. Run s has the hidden reward of task s mod 12, and
episodes of 300 steps from random starts. A run is right if its best z gets at least .95 of the best latent's reward,
measured from 32 starts. Prints the share of runs that are right after each episode.
"""

from collections.abc import Sequence
from typing import Any

import torch
import tyro
from torch import Generator, Tensor

import zscout
from zscout.models.files.pretrained import observations_of
from zscout.worlds.bodies.physics import body
from zscout.worlds.bodies.tasks import BodyTask, body_task

UPRIGHT = ("stand", "walk", "run", "flip", "walk-backward", "stand-still")
NAMES = (*UPRIGHT, "crouch", "sneak", "lie", "lean-forward", "upside-down", "spin")
STEPS, STARTS, ENOUGH = 300, 32, 0.95


def measured(bfm: Any, walker: Any, z: Tensor, tasks: Sequence[BodyTask], steps: int) -> Tensor:
    """The mean reward of each task [tasks z], over 32 starts."""
    rows, total = z.repeat_interleave(STARTS, 0), torch.zeros(len(tasks), len(z), dtype=torch.float64)
    state = walker.random_states(STARTS, Generator().manual_seed(7)).repeat(len(z), 1)
    for _ in range(steps):
        state, _ = walker.advance(state, torch.as_tensor(bfm.act(walker.observe(state).float(), rows)))
        entered = walker.observe(state)
        total += torch.stack([task(entered).reshape(len(z), STARTS).mean(1) for task in tasks])
    return total / steps


def main(runs: int = 40, episodes: int = 15, noise: float = 0.0, seed: int = 0, quick: bool = False) -> None:
    """Count the runs that find the right latent.

    Args:
        runs: Seeds; the hidden reward of seed s is that of task s mod 12.
        episodes: Of 300 steps.
        noise: σ of the rewards.
        seed: Of the first run and of the chart.
        quick: Two runs, two episodes of 20 steps.
    """
    torch.set_grad_enabled(False)
    runs, episodes, steps = (2, 2, 20) if quick else (runs, episodes, STEPS)
    bfm, labelled = zscout.load("walker-fb"), observations_of("walker-fb")
    walker = body("walker", repeat=bfm.about["repeat"])
    tasks = [body_task(walker, name) for name in NAMES]
    latents = torch.stack([zscout.infer_task(bfm, labelled, task(labelled)) for task in tasks])
    atlas = zscout.chart(bfm, walker, z=latents, starts=8, steps=steps, seed=seed)
    values = measured(bfm, walker, latents, tasks, steps)
    hidden = torch.arange(runs) % len(tasks)
    agent = zscout.OnlineTransfer(bfm, atlas=atlas, seed=seed, runs=runs)
    rng = Generator().manual_seed(seed)
    for episode in range(episodes):
        state = walker.random_states(runs, Generator().manual_seed(1_000 * seed + episode))
        obs = walker.observe(state).float()
        for step in range(steps):
            state, _ = walker.advance(state, torch.as_tensor(bfm.act(obs, agent.ask(obs))))
            obs = walker.observe(state).float()
            reward = torch.stack([tasks[k](own) for k, own in zip(hidden, obs, strict=True)]).double()
            agent.tell(obs, reward + noise * torch.randn(runs, generator=rng).double(), done=step == steps - 1)
        share = values[hidden, atlas.index_of(agent.best_z.float())] / values[hidden].amax(-1)
        wrong = [f"{NAMES[k]} {own:.2f}" for k, own in zip(hidden, share.tolist(), strict=True) if own < ENOUGH]
        print(
            f"episode {episode + 1:2}: {(share >= ENOUGH).double().mean():.1%} right; wrong: {', '.join(wrong) or '–'}"
        )


if __name__ == "__main__":
    tyro.cli(main)
