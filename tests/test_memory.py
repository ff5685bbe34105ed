"""Memory: what earlier tasks are good for, and that a bad one does no harm."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import Generator

from test_atlas import DriftWorld, atlas, near
from toys import Drifter
from zscout import Atlas, Memory, OnlineTransfer, chart
from zscout.transfer.atlas import memory as memory_module
from zscout.transfer.atlas.memory import as_past

__all__ = ["atlas"]  # the fixture

OLD = {"east": (0.7, 0.0), "north": (0.0, 0.7), "west": (-0.7, 0.0)}


@pytest.fixture
def memory(atlas: Atlas, tmp_path: Path) -> Memory:
    """Three places, learned from many labels."""
    found = Memory(tmp_path / "tasks")
    for name, place in OLD.items():
        agent = OnlineTransfer(Drifter(), atlas=atlas, memory=found)
        agent.learn(atlas.sample[:300], near(*place)(atlas.sample[:300]))
        agent.remember(name)
    return found


def after(atlas: Atlas, memory: Memory | None, place: tuple[float, float], labels: int, runs: int = 30) -> float:
    """The mean reward of best_z after labels of random observations."""
    rng, reward = Generator().manual_seed(3), near(*place)
    agent = OnlineTransfer(Drifter(), runs=runs, atlas=atlas, memory=memory)
    obs = atlas.sample[torch.randint(len(atlas.sample), (runs, labels), generator=rng)]
    agent.learn(obs, reward(obs) + 0.1 * torch.randn(runs, labels, generator=rng).double())
    return float(reward(agent.best_z).mean())


def test_a_known_task_needs_fewer_labels_and_an_unknown_one_not_more(atlas: Atlas, memory: Memory) -> None:
    assert after(atlas, memory, OLD["north"], 6) > after(atlas, None, OLD["north"], 6) + 0.1
    assert after(atlas, memory, (0.2, -0.7), 40) > 0.97 * after(atlas, None, (0.2, -0.7), 40)


def test_the_first_z_is_the_best_of_an_earlier_task(atlas: Atlas, memory: Memory) -> None:
    first = OnlineTransfer(Drifter(), runs=40, atlas=atlas, memory=memory).ask(np.zeros((40, 4)))
    near_old = torch.stack([near(*place)(first) for place in OLD.values()])
    assert (near_old.amax(0) > 0.8).all()
    assert len(first.unique(dim=0)) == len(OLD)


def test_equal_rewards_do_not_keep_it_at_an_earlier_task(atlas: Atlas, memory: Memory) -> None:
    agent = OnlineTransfer(Drifter(), atlas=atlas, memory=memory)
    tried = set()
    for row in atlas.sample[:200].double():
        tried.add(tuple(agent.ask(row).tolist()))
        agent.tell(row, 0.0)
    assert len(tried) > len(OLD)


def test_it_says_what_a_task_resembles(atlas: Atlas, memory: Memory) -> None:
    agent = OnlineTransfer(Drifter(), atlas=atlas, memory=memory)
    agent.learn(atlas.sample[:100], near(-0.6, 0.1)(atlas.sample[:100]))
    assert next(iter(agent.resembles)) == "west"
    assert agent.resembles["west"] > 0.9 > agent.resembles["east"]
    assert OnlineTransfer(Drifter(), atlas=atlas).resembles == {}


def test_an_agent_with_a_memory_goes_on_when_saved_and_its_scale_does_not_matter(
    atlas: Atlas, memory: Memory, tmp_path: Path
) -> None:
    obs = torch.randn(60, 4, generator=Generator().manual_seed(0)).double()
    one, scaled = (OnlineTransfer(Drifter(), seed=3, atlas=atlas, memory=memory) for _ in range(2))
    for t in range(59):
        if t == 30:
            one.save(tmp_path)
            memory.keep("another", atlas, torch.ones(atlas.dim), atlas.z[0])  # of no interest to a saved agent
            one = OnlineTransfer.load(tmp_path, Drifter(), atlas=atlas, memory=memory)
        assert torch.equal(one.ask(obs[t]), scaled.ask(obs[t]))
        one.tell(obs[t + 1], float(obs[t + 1, 0]))
        scaled.tell(obs[t + 1], 32 * float(obs[t + 1, 0]) - 5)
    one.remember("mine")
    assert "mine" in memory.past(atlas).names


def test_what_is_no_memory_is_refused(
    atlas: Atlas, memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = OnlineTransfer(Drifter(), atlas=atlas, memory=memory)
    for wrong, why in (("", "name"), ("new", "no rewards")):
        with pytest.raises(ValueError, match=why):
            agent.remember(wrong)
    with pytest.raises(ValueError, match="run"):
        OnlineTransfer(Drifter(), runs=2, atlas=atlas, memory=memory).remember("new")
    with pytest.raises(ValueError, match="no memory"):
        OnlineTransfer(Drifter(), atlas=atlas).remember("new")
    with pytest.raises(ValueError, match="atlas"):
        OnlineTransfer(Drifter(), memory=memory)
    with pytest.raises(ValueError, match="Memory"):
        OnlineTransfer(Drifter(), atlas=atlas, memory="tasks")  # type: ignore[arg-type]
    agent.save(tmp_path)
    with pytest.raises(ValueError, match="Memory"):
        OnlineTransfer.load(tmp_path, Drifter(), atlas=atlas, memory="tasks")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="evidence"):
        OnlineTransfer(Drifter(), "thompson", atlas=atlas, memory=memory)
    another = chart(Drifter(), DriftWorld(), behaviours=30, starts=2, steps=20, progress=False)
    assert OnlineTransfer(Drifter(), atlas=another, memory=memory).resembles == {}
    with pytest.raises(ValueError, match="another atlas"):
        OnlineTransfer(Drifter(), atlas=another, memory=memory.past(atlas))
    with pytest.raises(ValueError, match="not in the atlas"):
        memory.keep("new", atlas, torch.ones(atlas.dim), torch.tensor([9.0, 9.0]))
    with pytest.raises(ValueError, match="file"):
        Memory(next(memory.folder.glob("*.safetensors")))
    monkeypatch.setattr(memory_module, "LARGEST_FILE", 10)
    with pytest.raises(ValueError, match="bytes"):
        memory.past(atlas)


@pytest.fixture
def rounded(atlas: Atlas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Atlas:
    """The atlas as it is loaded if its tables are large: no z is the same."""
    monkeypatch.setattr("zscout.transfer.atlas.atlas.UNROUNDED_ENTRIES", 100)
    found = Atlas.load(atlas.save(tmp_path / "atlas"), Drifter())
    assert (found.index_of(atlas.z) < 0).all()
    return found


def test_tasks_and_agents_of_an_atlas_fit_it_after_its_z_were_rounded(
    atlas: Atlas, rounded: Atlas, memory: Memory, tmp_path: Path
) -> None:
    exact, past = memory.past(atlas).rows, memory.past(rounded).rows
    assert exact is not None
    assert past is not None
    assert torch.equal(exact, past)
    one = OnlineTransfer(Drifter(), runs=3, atlas=atlas, memory=memory)
    one.act(np.zeros((3, 4)))
    one.save(tmp_path)
    other = OnlineTransfer.load(tmp_path, Drifter(), atlas=rounded)
    assert other.past is not None
    assert other.past.atlas is other.atlas
    for agent in (one, other):
        agent.tell(np.ones((3, 4)), np.ones(3))
    mine, its = one._state.experience, other._state.experience
    assert mine is not None
    assert its is not None
    assert (its.row >= 0).all()
    assert torch.equal(mine.row, its.row)
    assert torch.equal(mine.steps, its.steps)
    assert torch.equal(rounded.index_of(other.ask(np.ones((3, 4))).float()), its.row)  # held


def test_the_earlier_tasks_move_with_the_atlas(atlas: Atlas, memory: Memory) -> None:
    moved = as_past(memory.past(atlas), atlas.to("meta"))
    assert moved is not None
    assert {moved.weights.device.type, moved.best.device.type} == {"meta"}


def with_weights(change: Callable[[torch.Tensor], torch.Tensor], **other: Any) -> Callable[[Path, Atlas], None]:
    """A file like that of a task, with other weights or another header."""

    def write(path: Path, atlas: Atlas) -> None:
        header = {"format": memory_module.FORMAT, "name": "odd", "atlas": atlas.digest, "row": 0} | other
        path.write_bytes(save({"weights": change(torch.ones(atlas.dim))}, metadata={"task": json.dumps(header)}))

    return write


@pytest.mark.parametrize(
    "damage",
    [
        lambda path, _: path.mkdir(),
        lambda path, _: path.write_bytes(b""),
        lambda path, _: path.write_bytes(b"\x40" + bytes(49)),
        lambda path, _: path.write_bytes(save({"weights": torch.ones(3)})),
        with_weights(lambda w: w.to(torch.float8_e4m3fn)),
        with_weights(lambda w: w.to(torch.complex64)),
        with_weights(lambda w: w > 0),
        with_weights(lambda w: w * torch.nan),
        with_weights(lambda w: w * 0),
        with_weights(lambda w: w[1:]),
        with_weights(torch.clone, row=200),
        with_weights(torch.clone, row=-1),
        with_weights(torch.clone, row=True),
        with_weights(torch.clone, name=None),
        with_weights(torch.clone, format=1),
        with_weights(torch.clone, more=1),
    ],
)
def test_a_file_that_holds_no_task_is_named(
    damage: Callable[[Path, Atlas], None], atlas: Atlas, tmp_path: Path
) -> None:
    damage(tmp_path / "odd.task.safetensors", atlas)
    with pytest.raises(ValueError, match=r"odd\.task\.safetensors.*delete it"):
        Memory(tmp_path).past(atlas)


def test_a_file_that_is_gone_is_skipped_and_long_weights_have_length_1(atlas: Atlas, memory: Memory) -> None:
    (memory.folder / "gone.task.safetensors").symlink_to("nowhere")
    with_weights(lambda w: 1e30 * w)(memory.folder / "long.task.safetensors", atlas)
    past = memory.past(atlas)
    assert past.names == ("east", "north", "odd", "west")
    assert torch.allclose(past.weights.norm(dim=1), torch.ones(4).double())
