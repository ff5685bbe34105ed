"""Memory: what earlier tasks are good for, and that a bad one does no harm."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Generator

from test_atlas import DriftWorld, atlas, near
from toys import Drifter
from zscout import Atlas, Memory, OnlineTransfer, chart

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


def test_what_is_no_memory_is_refused(atlas: Atlas, memory: Memory, tmp_path: Path) -> None:
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
    with pytest.raises(ValueError, match="evidence"):
        OnlineTransfer(Drifter(), "thompson", atlas=atlas, memory=memory)
    another = chart(Drifter(), DriftWorld(), behaviours=30, starts=2, steps=20, progress=False)
    assert OnlineTransfer(Drifter(), atlas=another, memory=memory).resembles == {}
    file = next(memory.folder.glob("*.safetensors"))
    for content in (b"", file.read_bytes()[:50]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=file.name):
            memory.past(atlas)
    with pytest.raises(ValueError, match="file"):
        Memory(file)
