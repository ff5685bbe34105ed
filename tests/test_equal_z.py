"""An atlas with the same z several times: these rows are one behaviour."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from test_atlas import DriftWorld, near
from toys import Drifter
from zscout import Atlas, Limit, OnlineTransfer, chart
from zscout.transfer.atlas.atlas import assembled

FEW = torch.tensor([[0.9, 0.0], [0.0, 0.9], [-0.9, 0.0], [0.0, -0.9]])
TWICE = torch.tensor([[0.9, 0.0], [0.0, 0.9], [0.9, -0.0], [-0.9, 0.0], [0.0, 0.9], [0.0, -0.9]])  # FEW in its order
BEST = near(-0.9, 0.0)


def charted(z: Tensor, starts: int = 2) -> Atlas:
    return chart(Drifter(), DriftWorld(), z=z, starts=starts, steps=40, progress=False)


def walked(z: Tensor, starts: int = 2) -> Atlas:
    """From logs of each z."""
    paths: list[Tensor] = []
    for k, place in enumerate(z):
        state, path = DriftWorld().random_states(starts, Generator().manual_seed(k)), []
        for _ in range(40):
            state, _ = DriftWorld().advance(state, place.expand(starts, -1))
            path.append(state)
        paths.extend(torch.stack(path, 1))
    return Atlas.from_rollouts(z.repeat_interleave(starts, 0), paths, bfm=Drifter())


def asked(agent: OnlineTransfer, reward: Callable[[Any], Tensor], steps: int) -> Tensor:
    """The z of each step [steps *b d]."""
    world, runs = DriftWorld(), agent.runs
    state, found = world.random_states(runs[0] if runs else 1, Generator().manual_seed(1)).double(), []
    state = state if runs else state[0]
    for _ in range(steps):
        found.append(agent.ask(state))
        entered, _ = world.advance(state.reshape(-1, 4), found[-1].reshape(-1, 2))
        state = entered.reshape(state.shape)
        cost = (state[..., 1] > 0.5).double() if agent.limits else None
        agent.tell(state, reward(state), cost=cost)
    return torch.stack(found)


@pytest.fixture(params=["chart", "file", "constructor"])
def twice(request: pytest.FixtureRequest, tmp_path: Path) -> Atlas:
    found = charted(TWICE)
    assert torch.signbit(found.z[2, 1]), "-0.0 stays"
    if request.param == "file":
        return Atlas.load(found.save(tmp_path), Drifter())
    if request.param == "constructor":  # measured apart
        return replace(found, psi=found.psi + 0.01 * torch.arange(6).double()[:, None])
    return found


def test_a_copy_is_not_followed_for_ever(twice: Atlas) -> None:
    assert torch.equal(twice.z, TWICE)
    assert twice.index_of(TWICE).tolist() == [0, 1, 0, 3, 1, 5]
    assert torch.equal(twice.psi, twice.psi[[0, 1, 0, 3, 1, 5]]), "measured as one"
    for seed in range(4):
        agent = OnlineTransfer(Drifter(), seed=seed, atlas=twice)
        found = asked(agent, BEST, 6 * twice.hold)
        tried = twice.index_of(found[: 4 * twice.hold : twice.hold].float())
        assert sorted(tried.tolist()) == [0, 1, 3, 5], "each behaviour is tried once"
        assert float(BEST(found[-1])) == 1
        assert float(BEST(agent.best_z)) == 1


def test_logs_of_zeros_of_both_signs_are_of_one_behaviour() -> None:
    found = walked(TWICE)
    assert torch.equal(found.z, FEW)
    assert not torch.signbit(found.z[0, 1]), "the first of each"
    agent = OnlineTransfer(Drifter(), atlas=found)
    assert float(BEST(asked(agent, BEST, 6 * found.hold)[-1])) == 1


def test_equal_rows_are_measured_together() -> None:
    """Two rows with two starts each are one behaviour with four."""
    rng = Generator().manual_seed(0)
    means, rest = torch.randn(12, 5, generator=rng).double(), (torch.zeros(1, 1), torch.ones(4), torch.cos)
    found = assembled(TWICE, torch.arange(6).repeat_interleave(2), means, *rest)
    one = assembled(FEW, torch.tensor([0, 1, 0, 2, 1, 3]).repeat_interleave(2), means, *rest)
    assert torch.equal(found.z, TWICE)
    assert torch.equal(found.psi, one.psi[[0, 1, 0, 2, 1, 3]])
    assert found.start_share == one.start_share


def with_copies(atlas: Atlas) -> Atlas:
    """Every third row comes again: at once, and at the end."""
    rows = torch.arange(len(atlas.z))
    order = torch.cat([rows.repeat_interleave(1 + (rows % 3 == 0)), rows[::3]])
    return replace(atlas, z=atlas.z[order], psi=atlas.psi[order])


@pytest.mark.parametrize("count", [6, 16, 40])
@pytest.mark.parametrize("runs", [None, 3])
def test_copies_change_nothing(count: int, runs: int | None, tmp_path: Path) -> None:
    """Choices, limits, certificates and best z are those of the atlas without copies."""
    atlas = charted(Drifter().sample_z(count, 0).float())
    found = []
    for each, name in ((atlas, "one"), (with_copies(atlas), "copies")):
        agent = OnlineTransfer(Drifter(), seed=1, runs=runs, atlas=each, limit=Limit(at_most=0.3))
        steps = asked(agent, near(0.5, 0.3), 20 * each.hold)
        agent.save(tmp_path / name)
        agent = OnlineTransfer.load(tmp_path / name, Drifter(), atlas=each)
        sure = agent.certificate(0.5)
        last = asked(agent, near(0.5, 0.3), 5 * each.hold)
        found.append([steps, last, agent.best_z, sure.gain, sure.share, sure.better, sure.limits_cost])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
