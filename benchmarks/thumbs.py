"""How many late, noisy thumbs it takes to teach a body.

    python -m benchmarks.thumbs

prints a table of results/feedback.md (``--quick`` takes seconds; extra mujoco). A body acts without a pause,
and a simulated person presses a thumb every second: up or down, about the mean reward of the .4 s that ended .4 s ago.
She compares it with the middle of the best and the worst that she has judged so far: P(up) = f + (1 − 2f)/(1 + e⁻ˣ), f
= .2 and x = 8 · (reward − middle) ÷ (best − worst). The agent does not know her delay: it takes a thumb as the mean
reward of the time .2 to 1 s ago.
"""

from collections.abc import Sequence

import torch
import tyro
from jaxtyping import Float
from rich.console import Console
from rich.progress import track
from torch import Generator, Tensor

import zscout
from benchmarks.preferences import Reward, Vectors, progress
from zscout.base.randomness import Streams
from zscout.lab.arenas.body import HELD_OUT, SUITE, BodyArena

FLIPS, LOGITS = 0.2, 8.0  # of the person
LATE, JUDGED, APART = 0.4, 0.4, 1.0  # seconds: her delay, what she judges, from thumb to thumb
DELAY, SPREAD = 0.2, 0.8  # what the agent believes
HOLD = 40  # actions for which the agent keeps a z
EVERY = 10  # thumbs from one evaluation to the next
HEAD = ("body", "tasks", "thumbs until half of the tasks are at .8", "for good", "median value after 0, 50, 100, 150")


def taught(place: Vectors, rewards: Sequence[Reward], thumbs: int, seconds: float) -> Float[Tensor, "K m d"]:
    """For each task the best z after every tenth thumb; all tasks side by side, one endless episode each."""
    arena, runs, rng = place.arena, len(rewards), Generator().manual_seed(0)
    agent = zscout.OnlineTransfer(place.bfm, seed=0, runs=runs)
    credit = zscout.Credit(delay=DELAY / seconds, spread=SPREAD / seconds)
    state, best, step = arena.starts(Streams(torch.arange(runs))), [agent.best_z], 0
    entered: list[Tensor] = []
    judged: list[Tensor] = []
    for thumb in track(range(thumbs), "thumbs", console=Console(stderr=True)):
        for _ in range(round(APART / seconds)):
            obs = arena.observe(state)
            if step % HOLD == 0:
                z = agent.ask(obs)
            state = arena.advance(state, torch.as_tensor(place.bfm.act(obs, z)).float())
            entered = [*entered[-round(1 / seconds) :], arena.observe(state)]
            step += 1
        seen = torch.stack(entered, 1)
        end = seen.shape[1] - round(LATE / seconds)
        part = seen[:, max(0, end - round(JUDGED / seconds)) : max(1, end)]
        judged.append(torch.stack([reward(own).double().mean() for reward, own in zip(rewards, part, strict=True)]))
        agent.credit(seen, likes(torch.stack(judged), rng), credit)
        if (thumb + 1) % EVERY == 0:
            best.append(agent.best_z)
    return torch.stack(best, 1).cpu().double()


def likes(judged: Float[Tensor, "n K"], rng: Generator) -> Float[Tensor, " K"]:
    """Her thumbs, 1 or −1, about the last row."""
    low, high = judged.aminmax(dim=0)
    x = LOGITS * (judged[-1] - (low + high) / 2) / (high - low).clamp(min=1e-9)
    up = FLIPS + (1 - 2 * FLIPS) * torch.sigmoid(x)
    return torch.where(torch.rand(up.shape, generator=rng) < up, 1.0, -1.0).double()


def row(name: str, values: Float[Tensor, "tasks m"]) -> Sequence[str]:
    """For the table."""
    return name, *progress(values, EVERY, (0, 50, 100, 150))


def main(only: tuple[str, ...] = ("walker", "cheetah"), thumbs: int = 150, quick: bool = False) -> None:
    """Count thumbs for all tasks of a body, the held-out ones too."""
    print(" | ".join(HEAD))
    for body in only:
        values = []
        for rewards in (SUITE, HELD_OUT):
            arena = BodyArena(f"{body}-fb", body=body, rewards=rewards)
            place = Vectors(arena, length=50, horizon=300, starts=4)
            tasks = place.rewards(2 if quick else 100)
            best = taught(place, tasks, 10 if quick else thumbs, arena.world.seconds)
            values += [place.value(task, z) for task, z in enumerate(best)]
        print(" | ".join(row(body, torch.stack(values))), flush=True)


if __name__ == "__main__":
    tyro.cli(main)
