"""README's program on many seeds with rewards scale·r + offset.

    python -m benchmarks.offsets

prints on how many of 40 seeds it ends in the corner, and on how many all actions equal those at offset 0 and scale 1
(a minute). Lost steps by offset: ``zscout compare --methods usf-ucb --offset 10``.
"""

import gymnasium
import torch
import tyro
from jaxtyping import Bool, Int
from torch import Tensor

from zscout.loop.loading import load
from zscout.models.usfa.model import USFA
from zscout.transfer.agent import OnlineTransfer
from zscout.worlds import open_grid

OFFSETS = (-10.0, 0.0, 3.0, 10.0, 100.0)
SCALES = (1e-6, 1e-3, 1e3, 1e6)
STEPS = 100


def corner_runs(
    bfm: USFA, seeds: int, scale: float, offset: float
) -> tuple[Bool[Tensor, " R"], Int[Tensor, "{STEPS} R"]]:
    """Which runs end in the corner, and the actions of all: README's program with the reward scale·r + offset."""
    world, env = open_grid(), gymnasium.make("zscout/OpenGrid-v0")
    corner = (world.cells >= 6).all(1)
    state = torch.tensor([int(env.reset(seed=seed)[0]) for seed in range(seeds)])
    agent, actions = OnlineTransfer(bfm, runs=seeds), []
    for _ in range(STEPS):
        actions.append(torch.as_tensor(agent.act(state)))
        state = world.step(state, actions[-1])
        agent.tell(state, scale * corner[state].double() + offset)
    return corner[state], torch.stack(actions)


def main(seeds: int = 40) -> None:
    """Print the table of offsets and scales."""
    torch.set_num_threads(1)
    print(f"{'model':<16} {'scale':>7} {'offset':>7} {'in the corner':>14} {'same actions':>13}")
    for name in ("grid9-clusters", "grid9-laplacian"):
        bfm = load(name)
        _, plain = corner_runs(bfm, seeds, 1.0, 0.0)
        for scale, offset in (*((1.0, offset) for offset in OFFSETS), *((scale, 0.0) for scale in SCALES)):
            corner, actions = corner_runs(bfm, seeds, scale, offset)
            same = int((actions == plain).all(0).sum())
            found = f"{int(corner.sum())} of {seeds}"
            print(f"{name:<16} {scale:>7g} {offset:>7g} {found:>14} {f'{same} of {seeds}':>13}", flush=True)


if __name__ == "__main__":
    tyro.cli(main, prog="python -m benchmarks.offsets")
