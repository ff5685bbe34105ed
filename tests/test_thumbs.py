"""The simulated person of benchmarks.thumbs, and what she teaches."""

import pytest
import torch
from torch import Generator

from benchmarks.preferences import Vectors
from benchmarks.thumbs import EVERY, FLIPS, likes, row, taught
from zscout.lab.arenas.body import BodyArena

pytestmark = pytest.mark.long


def test_her_thumbs_follow_the_middle_of_what_she_has_seen() -> None:
    rng = Generator().manual_seed(0)
    seen = torch.tensor([[0.0, 10.0], [1.0, 20.0], [0.9, 11.0]], dtype=torch.float64)  # near the best, near the worst
    thumbs = torch.stack([likes(seen, rng) for _ in range(2_000)])
    assert set(thumbs.unique().tolist()) == {-1.0, 1.0}
    up = (thumbs > 0).double().mean(0)
    assert abs(float(up[0]) - (1 - FLIPS)) < 0.05
    assert abs(float(up[1]) - FLIPS) < 0.05
    first = torch.stack([likes(seen[:1], rng) for _ in range(2_000)])  # nothing to compare with
    assert abs(float((first > 0).double().mean()) - 0.5) < 0.05


def test_a_row_counts_thumbs() -> None:
    values = torch.tensor([[0.0, 0.9, 0.5, 0.9], [0.0, 0.0, 0.9, 0.9], [0.0, 0.0, 0.0, 0.0]])
    name, tasks, first, kept, curve = row("walker", values)
    assert (name, tasks, first, kept, curve) == ("walker", "3", str(2 * EVERY), str(3 * EVERY), "0.00")


def test_every_tenth_thumb_gives_a_z_of_each_task() -> None:
    place = Vectors(BodyArena("walker-fb", body="walker"), length=5, horizon=5, starts=1)
    tasks = place.rewards(2)
    best = taught(place, tasks, EVERY, place.arena.world.seconds)
    assert best.shape == (2, 2, 50)
    assert not torch.equal(best[:, 0], best[:, 1])
    assert not torch.equal(best[0, 1], best[1, 1])
