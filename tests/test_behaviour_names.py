"""Behaviours keep their names: in another order each is found by its name, renamed or missing ones are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from test_atlas import PLACES, near, steps_with
from toys import Drift, Drifter
from zscout import Atlas, Behaviours, OnlineTransfer, chart, infer_task
from zscout.base.files import read_headed, write_tensors
from zscout.transfer.atlas import atlas as atlas_module

OTHER = ("south", "north", "west", "east")


def compass(names: Any = tuple(PLACES), places: dict[str, tuple[float, float]] = PLACES) -> Behaviours:
    """Policies that go to a place, in this order."""
    goes_to = names if isinstance(names, dict) else dict(zip(names, names, strict=True))
    policies: dict[str, Callable[[Any], Any]] = {name: partial(towards, places[goes_to[name]]) for name in goes_to}
    return Behaviours(policies, Drift.observation_space, Drift.action_space)


def towards(place: tuple[float, float], obs: Any) -> Any:
    return np.array(place, dtype=np.float32)


@pytest.fixture(scope="module")
def charted() -> Atlas:
    return chart(compass(), Drift(noise=0.02), starts=2, steps=40, progress=False)


RENAMED = {"north": "north", "east": "east", "left": "west", "south": "south"}
MISSING = {"east": "east", "west": "west", "south": "south"}
MORE = {**dict.fromkeys(PLACES, "east"), "nowhere": "east"}


def places_of(behaviours: Behaviours, z: Tensor) -> Any:
    return behaviours.act(np.zeros((*z.shape[:-1], 4)), z)


# Another order


def test_an_atlas_in_another_order_is_right_by_name(charted: Atlas, tmp_path: Path) -> None:
    behaviours, first = compass(OTHER), list(PLACES)
    charted.save(tmp_path)
    for atlas in (charted, Atlas.load(tmp_path), Atlas.load(tmp_path, behaviours)):
        agent = OnlineTransfer(behaviours, atlas=atlas, seed=1)
        assert agent.atlas is not None
        assert [behaviours.name_of(z) for z in agent.atlas.z] == first  # the rows stay where they were
        assert (agent.atlas.digest, agent.atlas.names) == (charted.digest, OTHER)
        assert torch.equal(agent.atlas.psi.float(), charted.psi.float())
        steps_with(agent, near(*PLACES["north"]), 8 * charted.hold)
        assert behaviours.name_of(agent.best_z) == "north"
        best = infer_task(behaviours, charted.sample, near(*PLACES["west"])(charted.sample), atlas=atlas)  # type: ignore[arg-type]
        assert behaviours.name_of(best) == "west"
        translated = agent.atlas
    again = Atlas.load(translated.save(tmp_path / "again"), compass())
    assert torch.equal(again.z, charted.z)


@pytest.mark.parametrize("runs", [None, 3])
@pytest.mark.parametrize("saved_atlas", [False, True])
def test_an_agent_goes_on_by_name_in_another_order(
    runs: int | None, saved_atlas: bool, charted: Atlas, tmp_path: Path
) -> None:
    """In the middle of a hold; what it tried, what it believes and what it follows stay what they were."""
    one, other = compass(), compass(OTHER)
    agent = OnlineTransfer(one, atlas=charted, seed=3, runs=runs)
    obs = torch.randn(60, *([runs] if runs else []), 4, generator=Generator().manual_seed(0)).double()
    reward = near(*PLACES["south"])

    def step(which: OnlineTransfer, behaviours: Behaviours, t: int) -> Any:
        place = places_of(behaviours, which.ask(obs[t]))
        entered = torch.cat([torch.as_tensor(place), torch.as_tensor(place)], -1).double()
        which.tell(entered, reward(entered) if runs else float(reward(entered)))
        return place

    for t in range(5 * charted.hold // 2):
        step(agent, one, t)
    agent.save(tmp_path)
    atlas = Atlas.load(charted.save(tmp_path)) if saved_atlas else charted
    again = OnlineTransfer.load(tmp_path, other, atlas=atlas)
    assert other.name_of(again.best_z) == one.name_of(agent.best_z)
    assert again.present_z is not None
    assert agent.present_z is not None
    assert other.name_of(again.present_z) == one.name_of(agent.present_z)
    for t in range(30, 60):
        np.testing.assert_array_equal(step(again, other, t), step(agent, one, t))
    again.save(tmp_path / "again")  # and back
    back = OnlineTransfer.load(tmp_path / "again", one, atlas=atlas)
    assert torch.equal(back.best_z, agent.best_z)


def test_a_z_of_ones_own_is_followed_by_name_too(charted: Atlas, tmp_path: Path) -> None:
    agent = OnlineTransfer(compass(), atlas=charted)
    agent.follow(np.zeros(4), [0.1, 0.2, 0.9, 0.3])  # not a row of the atlas
    agent.save(tmp_path)
    again = OnlineTransfer.load(tmp_path, compass(OTHER), atlas=charted)
    assert again.present_z is not None
    assert again.present_z.tolist() == [0.3, 0.9, 0.2, 0.1]


def test_many_behaviours_come_back_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The z of many are stored in 8 bits."""
    monkeypatch.setattr(atlas_module, "UNROUNDED_ENTRIES", 4)
    rng = Generator().manual_seed(0)
    atlas = Atlas.from_rollouts(torch.eye(4), torch.randn(4, 30, 4, generator=rng), bfm=compass())
    found = Atlas.load(atlas.save(tmp_path), compass(OTHER))
    assert [compass(OTHER).name_of(z) for z in found.z] == list(PLACES)
    assert found.z.sum() == 4


# Other names


@pytest.mark.parametrize("names", [RENAMED, MISSING, MORE], ids=["renamed", "missing", "more"])
def test_renamed_or_missing_behaviours_are_refused_with_both_lists(
    names: dict[str, str], charted: Atlas, tmp_path: Path
) -> None:
    charted.save(tmp_path)
    OnlineTransfer(compass(), atlas=charted).save(tmp_path)
    model, both = compass(names), f"{', '.join(PLACES)}.*{', '.join(names)}"
    for refused in (
        lambda: OnlineTransfer(model, atlas=charted),
        lambda: OnlineTransfer(model, atlas=Atlas.load(tmp_path)),
        lambda: Atlas.load(tmp_path, model),
        lambda: OnlineTransfer.load(tmp_path, model, atlas=charted),
        lambda: infer_task(model, charted.sample, charted.sample[:, 0], atlas=charted),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=both):
            refused()


def test_an_agent_knows_the_names_where_its_atlas_does_not(charted: Atlas, tmp_path: Path) -> None:
    nameless = replace(charted, names=None)
    agent = OnlineTransfer(compass(), atlas=nameless)
    agent.save(tmp_path)
    OnlineTransfer.load(tmp_path, compass(), atlas=nameless)
    for names in (OTHER, RENAMED):
        with pytest.raises(ValueError, match="east.*west.*north.*south"):
            OnlineTransfer.load(tmp_path, compass(names), atlas=nameless)


def test_an_atlas_of_behaviours_is_no_models(charted: Atlas) -> None:
    class Four(Drifter):
        def __init__(self) -> None:
            super().__init__()
            self.dim = 4

        def sample_z(self, n: int, rng: Generator | int) -> Tensor:
            return torch.ones(n, 4)

    with pytest.raises(ValueError, match="east, west, north, south.*has none"):
        OnlineTransfer(Four(), atlas=charted)


def test_files_from_before_have_no_names_and_are_read(charted: Atlas, tmp_path: Path) -> None:
    agent = OnlineTransfer(compass(), atlas=charted)
    steps_with(agent, near(*PLACES["north"]), 20)
    for path, kind, new, old in (
        (charted.save(tmp_path) / "atlas.safetensors", "atlas", 3, 2),
        (tmp_path / "agent.safetensors", "agent", 12, 11),
    ):
        if kind == "agent":
            agent.save(tmp_path)
        header, tensors = read_headed(path, kind, new)
        assert header.pop("names" if kind == "atlas" else "behaviours") == list(PLACES)
        write_tensors(path, tensors, {kind: json.dumps(header | {"format": old})})
    atlas = Atlas.load(tmp_path, compass())
    assert atlas.names is None
    assert torch.equal(OnlineTransfer.load(tmp_path, compass(), atlas=atlas).best_z, agent.best_z)


# Names of a batch


def test_a_batch_of_z_has_a_name_for_each_row(charted: Atlas) -> None:
    behaviours = compass()
    assert behaviours.name_of(behaviours.z_of("north")) == "north"
    rows = behaviours.sorted_z()[[2, 0, 2]]
    assert behaviours.name_of(rows) == ["north", "east", "north"]
    assert behaviours.name_of(rows[:1]) == ["north"]
    assert behaviours.name_of(rows[:0]) == []
    assert behaviours.name_of(rows.tolist()) == ["north", "east", "north"]
    agent = OnlineTransfer(behaviours, atlas=charted, runs=2)
    assert behaviours.name_of(agent.best_z) == [behaviours.name_of(z) for z in agent.best_z]
