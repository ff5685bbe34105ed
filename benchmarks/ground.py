"""The fewest steps on the ground that one behaviour has: python -m benchmarks.ground --body-name quadruped --out FILE.

Nothing is learned. The behaviours that cost least by the atlas are followed from the starts of the first episode of
``benchmarks.limits``, and the best of them from the starts of all episodes. The file holds the share of steps on the
ground: of each candidate, in all and without the first fifth of the episode, in which a body gets up; and of the best
one also in each of 50 parts.
"""

from pathlib import Path

import torch
import tyro
from torch import Generator, Tensor

from zscout.base.files import write_json
from zscout.lab.arenas.body import BodyArena
from zscout.transfer.constants import SETTLED
from zscout.worlds.registry import PLACES

PARTS = 50  # of an episode


def main(body_name: str, out: Path, candidates: int = 12, runs: int = 45, episodes: int = 5) -> None:
    """Measure it.

    Args:
        body_name: walker, cheetah or quadruped.
        out: The JSON file.
        candidates: Behaviours that are tried.
        runs: Starts of each episode.
        episodes: Number of episodes.
    """
    arena, fall = BodyArena(f"{body_name}-fb", body=body_name), PLACES[body_name].fall
    atlas, world = arena.bfm.atlas, arena.world
    assert fall is not None
    assert atlas is not None

    def cost(obs: Tensor) -> Tensor:
        return fall.cost(world.goal_features(obs.double()), world.goal_names)

    def followed(starts: Tensor, z: Tensor) -> Tensor:
        """The cost of each step of an episode [runs steps]."""
        states = arena.followed(starts, z, arena.decisions)
        return torch.stack([cost(arena.observe(state)) for state in states], 1)

    starts = torch.cat([world.random_states(runs, Generator().manual_seed(1_000 + k)) for k in range(episodes)])
    prices = atlas.values(cost)
    z = atlas.z[prices.argsort()[:candidates]]
    tried = followed(starts[:runs].repeat_interleave(candidates, 0), z.repeat(runs, 1))
    tried = tried.unflatten(0, (runs, candidates)).mean(0)  # [candidates steps]
    best = int(tried.mean(1).argmin())
    found = followed(starts, z[best].expand(len(starts), -1))
    first = round(SETTLED * arena.decisions)
    shares = {
        "starts": float(cost(arena.observe(starts)).mean()),
        "ground": float(found.mean()),
        "first fifth": float(found[:, :first].mean()),
        "settled": float(found[:, first:].mean()),
    }
    print(f"{body_name}, behaviour {best + 1} of {candidates}: {', '.join(f'{k} {v:.3f}' for k, v in shares.items())}")
    parts = found.mean(0).tensor_split(PARTS)
    each = {
        "by the atlas": prices.sort().values[:candidates].tolist(),
        "candidates": tried.mean(1).tolist(),
        "candidates settled": tried[:, first:].mean(1).tolist(),
    }
    write_json(out, {"body": body_name, **shares, **each, "parts": [float(part.mean()) for part in parts]})


if __name__ == "__main__":
    with torch.inference_mode():
        tyro.cli(main)
