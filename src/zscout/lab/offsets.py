"""What a constant in the reward, or its unit, changes: README's program again and again, by offset and by scale.

    python -m zscout.lab.offsets

prints on how many of 40 seeds it ends in the corner, and whether every action is the one at offset 0 and scale 1
(five minutes). Lost steps by offset: ``zscout compare --methods usf-ucb --offset 10``.
"""

import gymnasium
import torch
import tyro

from zscout.bfm.pretrained import load
from zscout.bfm.usfa import USFA
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.rollout import rollout

OFFSETS = (-10.0, 0.0, 3.0, 10.0, 100.0)
SCALES = (1e-6, 1e-3, 1e3, 1e6)


def corner_run(bfm: USFA, seed: int, scale: float, offset: float, steps: int = 100) -> tuple[bool, list[int]]:
    """README's program with the reward scale·r + offset: whether it ends in the corner, and its actions."""

    def in_the_last_corner(state: int) -> float:
        return float(state // 9 >= 6 and state % 9 >= 6)

    env = gymnasium.make("zscout/OpenGrid-v0", reward=lambda state: scale * in_the_last_corner(state) + offset)
    taken = list(rollout(OnlineTransfer(bfm, seed=seed), env, steps, seed=seed))
    return in_the_last_corner(int(taken[-1].next_obs)) == 1, [int(step.action) for step in taken]  # type: ignore[arg-type]


def main(seeds: int = 40) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print(f"{'model':<16} {'scale':>7} {'offset':>7} {'in the corner':>14} {'same actions':>13}")
    for name in ("grid9-clusters", "grid9-laplacian"):
        bfm = load(name)
        plain = [corner_run(bfm, seed, 1.0, 0.0) for seed in range(seeds)]
        for scale, offset in (*((1.0, offset) for offset in OFFSETS), *((scale, 0.0) for scale in SCALES)):
            runs = [corner_run(bfm, seed, scale, offset) for seed in range(seeds)]
            found = sum(corner for corner, _ in runs)
            same = sum(actions == before for (_, actions), (_, before) in zip(runs, plain, strict=True))
            print(f"{name:<16} {scale:>7g} {offset:>7g} {found:>8} of {seeds:<3} {same:>7} of {seeds:<3}", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
