"""The atlas: measured consequences of behaviours, and agents that choose by them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Generator, Tensor

import zscout
from benchmarks import detectors, limits
from benchmarks.atlas import League, entrants
from benchmarks.atlas_table import rivals_table, stored, table
from toys import Drift, Drifter
from zscout import FB, METHODS, Atlas, Behaviours, OnlineTransfer, chart
from zscout.base.files import read_headed, write_headed
from zscout.transfer import saving
from zscout.transfer.atlas.atlas import FORMAT, assembled, settling_time
from zscout.transfer.atlas.charting import CHUNK, PARTIAL, Charting
from zscout.transfer.atlas.experience import Experience, ForecastErrors
from zscout.transfer.atlas.features import RichFeatures
from zscout.transfer.belief import feedback, logistic
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.constants import SETTLED, WORTH

PLACES = {"east": (0.9, 0.0), "west": (-0.9, 0.0), "north": (0.0, 0.9), "south": (0.0, -0.9)}


class DriftWorld:
    """Drift, many at once and without noise: states are observations."""

    observation_space, action_space = Drift.observation_space, Drift.action_space

    def random_states(self, n: int, rng: Generator) -> Tensor:
        at = 4 * torch.rand(n, 2, generator=rng) - 2
        return torch.cat([at, at], 1)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        at = Drift.rho * state[:, :2] + (1 - Drift.rho) * action
        return torch.cat([at, state[:, :2]], 1), torch.zeros(len(state), dtype=torch.bool)

    def __repr__(self) -> str:
        return "DriftWorld"


def compass() -> Behaviours:
    policies = {name: (lambda obs, place=place: np.array(place, dtype=np.float32)) for name, place in PLACES.items()}
    return Behaviours(policies)


def near(*place: float) -> Callable[[Any], Tensor]:
    """A reward that is 1 at a place and falls around it: not linear in the position."""
    return lambda obs: torch.exp(-2 * (torch.as_tensor(obs)[..., :2] - torch.tensor(place)).square().sum(-1).double())


@pytest.fixture(scope="module")
def atlas() -> Atlas:
    """200 places in the unit disc: π(·,z) goes to z."""
    angle, size = 2 * np.pi * torch.rand(2, 200, generator=Generator().manual_seed(0))
    z = (size / (2 * np.pi)).sqrt()[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    return chart(Drifter(), DriftWorld(), z=z, starts=3, steps=60, progress=False)


def steps_with(agent: OnlineTransfer, reward: Callable[[Any], Any], steps: int, seed: int = 0) -> list[Tensor]:
    """The z of each step in Drift."""
    env, found = Drift(noise=0.02), []
    obs, _ = env.reset(seed=seed)
    for _ in range(steps):
        found.append(agent.ask(obs))
        obs, *_ = env.step(agent.bfm.act(obs, found[-1]))
        agent.tell(obs, float(reward(obs)))
    return found


# What is measured


def test_psi_is_the_mean_of_the_features_over_what_a_behaviour_visits() -> None:
    rng = Generator().manual_seed(0)
    paths = torch.randn(6, 50, 3, generator=rng)
    found = Atlas.from_rollouts(torch.eye(3).repeat(2, 1), paths, features=lambda obs: torch.as_tensor(obs).double())
    means = paths[:, round(SETTLED * 50) :].double().mean(1)
    psi = (means[:3] + means[3:]) / 2
    assert torch.equal(found.z, torch.eye(3))  # in the order of the logs
    # shrunk towards the mean of all behaviours, and no further than that
    apart, measured = found.psi - found.psi.mean(0), psi - psi.mean(0)
    shares = (apart * measured).sum(1) / measured.square().sum(1)
    assert torch.allclose(apart.mean(0), torch.zeros(3).double(), atol=1e-12)
    assert torch.all((shares > -1e-9) & (shares <= 1 + 1e-9))


def test_shares_of_the_start_and_of_the_behaviour() -> None:
    rng = Generator().manual_seed(0)
    z, row = torch.eye(400), torch.arange(400).repeat_interleave(8)
    by_z, by_start = torch.randn(400, 5, generator=rng).double(), torch.randn(3200, 5, generator=rng).double()
    args = (torch.zeros(1, 1), torch.ones(4), torch.cos)
    shares = [assembled(z, row, a * by_z[row] + b * by_start, *args).start_share for a, b in ((1, 0), (1, 1), (0, 1))]
    assert shares[0] == pytest.approx(0.0, abs=1e-9)
    assert shares[1] == pytest.approx(0.5, abs=0.05)
    assert shares[2] == pytest.approx(1.0, abs=0.05)
    # of pure noise of the starts hardly anything is kept, of pure differences of behaviours everything
    noise = assembled(z, row, by_start, *args).psi
    assert noise.std() < 0.2 * by_start.reshape(400, 8, 5).mean(1).std()
    assert torch.allclose(assembled(z, row, by_z[row], *args).psi, by_z)
    assert assembled(z, torch.arange(400), by_z, *args).start_share == 1  # one start cannot tell


def test_settling_time_is_the_area_of_the_way_there() -> None:
    t = torch.arange(400.0)
    assert settling_time(3 + torch.exp(-t / 20)) == pytest.approx(1 / (1 - np.exp(-1 / 20)), rel=0.01)
    assert settling_time(torch.ones(10), every=5) == 5


def test_values_are_mean_rewards_also_of_rewards_that_are_not_linear(atlas: Atlas) -> None:
    reward = near(0.6, 0.3)
    values, ends = atlas.values(reward), reward(torch.cat([atlas.z, atlas.z], 1))  # it ends at its z, by ρ
    assert np.corrcoef(values, ends)[0, 1] > 0.98
    assert float(reward(atlas.best(reward))) > 0.95 * float(ends.max())
    assert float(reward(zscout.infer_task(Drifter(), atlas.sample, reward(atlas.sample), atlas=atlas))) > 0.9
    linear = zscout.infer_task(Drifter(), atlas.sample, reward(atlas.sample))  # a direction at best
    assert float(reward(atlas.best(reward))) > float(reward(linear)) + 0.05


@pytest.mark.parametrize("kind", ["env", "vector", "batch"])
def test_charts_of_all_kinds_of_environments_agree(kind: str) -> None:
    def make() -> Drift:
        return Drift(noise=0.0)

    env: Any = {
        "env": make,
        "vector": lambda: gymnasium.vector.SyncVectorEnv([make] * 5),
        "batch": DriftWorld,
    }[kind]()
    z = torch.tensor([[0.8, 0.0], [0.0, 0.8], [-0.8, 0.0]])
    found = chart(Drifter(), env, z=z, starts=4, steps=60, progress=False)
    assert torch.equal(found.z, z)
    late = found.features(torch.cat([z, z], 1))  # where each is after 12 steps
    assert torch.allclose(found.psi, late, atol=0.05)
    assert found.start_share < 0.1


def test_a_chart_that_was_stopped_goes_on(tmp_path: Path) -> None:
    def one(folder: Path | None) -> Charting:
        return Charting(Drifter(), DriftWorld(), CHUNK + 30, starts=2, steps=20, folder=folder)

    whole = one(None)
    list(whole)
    first = one(tmp_path)
    for done in first:
        if done > CHUNK * 2 * 20:  # in the second chunk
            break
    assert (tmp_path / PARTIAL).is_file()
    second = one(tmp_path)
    assert second.resumed
    assert next(iter(second)) > CHUNK * 2 * 20
    list(second)
    assert torch.equal(second.atlas().psi, whole.atlas().psi)
    assert not (tmp_path / PARTIAL).exists()
    list(one(tmp_path))
    with pytest.raises(ValueError, match="other"):
        Charting(Drifter(), DriftWorld(), CHUNK + 31, starts=2, steps=20, folder=tmp_path)


# Files


def test_a_saved_atlas_comes_back(atlas: Atlas, tmp_path: Path) -> None:
    found = Atlas.load(atlas.save(tmp_path), Drifter())
    assert torch.equal(found.z, atlas.z)  # small tables are stored as they are
    assert (found.psi - atlas.psi).abs().max() < 0.01 * atlas.psi.abs().max()
    assert (found.start_share, found.settling, found.digest) == (atlas.start_share, atlas.settling, atlas.digest)
    assert found.values(near(0.5, 0.5)).argmax() == atlas.values(near(0.5, 0.5)).argmax()


class Other(Drifter):
    def phi(self, obs: Any) -> Tensor:
        return -super().phi(obs)


def test_what_is_no_atlas_of_this_model_is_refused(atlas: Atlas, tmp_path: Path) -> None:
    file = atlas.save(tmp_path) / "atlas.safetensors"
    whole, (about, tensors) = file.read_bytes(), read_headed(file, "atlas", FORMAT)
    with pytest.raises(ValueError, match="another model"):
        Atlas.load(tmp_path, Other())
    with pytest.raises(ValueError, match="φ"):
        Atlas.load(tmp_path)
    with pytest.raises(ValueError, match="missing"):
        Atlas.load(tmp_path / "nowhere", Drifter())
    changes: list[tuple[dict[str, Any], dict[str, Tensor], str]] = [
        ({"format": FORMAT + 1}, {}, "format"),
        ({"start_share": "much"}, {}, "much"),
        ({"start_share": 1.1}, {}, "invalid"),
        ({"settling": -1.0}, {}, "invalid"),
        ({"settling": 1e300}, {}, "invalid"),
        ({"digest": 3}, {}, "digest"),
        ({"names": [1, 2]}, {}, "names"),
        ({"names": ["a"]}, {}, "names"),
        ({}, {"z": torch.full((200, 2), torch.nan)}, "finite"),
        ({}, {"psi.centre": torch.zeros(3)}, "size"),
        ({}, {"sample": torch.zeros(0, 4, dtype=torch.int8)}, "sample"),
        ({}, {"entries.rates": torch.zeros(4, 7)}, "mat"),
        ({}, {"z": torch.zeros(200, 2).to(torch.float8_e4m3fn)}, "F8"),
    ]
    for words, parts, why in changes:
        write_headed(file, "atlas", about | words, tensors | parts)  # with a checksum of the change
        with pytest.raises(ValueError, match=f"atlas.*{why}"):
            Atlas.load(tmp_path, Drifter())
    for content in (b"", b"\x80\x04.", whole[: len(whole) // 2]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="atlas"):
            Atlas.load(tmp_path, Drifter())


@pytest.fixture(scope="module")
def saved(atlas: Atlas, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of an atlas and of an agent."""
    folder = tmp_path_factory.mktemp("saved")
    agent = OnlineTransfer(Drifter(), atlas=atlas, limit=zscout.Limit(at_most=0.5, cost=near(0.0, 0.0)))
    steps_with(agent, near(0.5, 0.5), 20)
    agent.save(folder)
    atlas.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def loaded(name: str, atlas: Atlas, folder: Path) -> object:
    if name.startswith("atlas"):
        return Atlas.load(folder, Drifter())
    return OnlineTransfer.load(folder, Drifter(), atlas=atlas, limit=zscout.Limit(at_most=0.5, cost=near(0.0, 0.0)))


@pytest.mark.parametrize("name", ["atlas.safetensors", "agent.safetensors"])
def test_a_file_with_a_byte_changed_is_refused(
    name: str, atlas: Atlas, saved: dict[str, bytes], tmp_path: Path
) -> None:
    """At 200 places, all over the header and the tensors."""
    whole, rng = saved[name], np.random.default_rng(0)
    (tmp_path / name).write_bytes(whole)
    loaded(name, atlas, tmp_path)
    words = 8 + int.from_bytes(whole[:8], "little")
    for place in [*rng.integers(words, size=100), *rng.integers(words, len(whole), 100)]:
        if whole[place : place + 1] == b" ":  # filling
            continue
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.integers(8)
        (tmp_path / name).write_bytes(changed)
        with pytest.raises(ValueError, match="cannot"):
            loaded(name, atlas, tmp_path)


@pytest.mark.parametrize("name", ["atlas.safetensors", "agent.safetensors"])
def test_a_file_with_a_field_or_a_tensor_changed_is_refused(
    name: str, atlas: Atlas, saved: dict[str, bytes], tmp_path: Path
) -> None:
    """Each of them, to what is in its range, too; and a file without its checksum."""
    file = tmp_path / name
    file.write_bytes(saved[name])
    kind, tensors = name.partition(".")[0], load_file(file)
    with safe_open(file, framework="pt") as opened:
        header = json.loads(opened.metadata()[kind])
    changes: list[tuple[dict[str, Any], dict[str, Tensor]]] = [
        *(({key: 0.5}, {}) for key in header),
        *(({}, {key: torch.zeros_like(tensor)}) for key, tensor in tensors.items() if tensor.any()),
        ({"more": 1}, {}),
        ({}, {"more": torch.zeros(1)}),
    ]
    for words, parts in changes:
        save_file(tensors | parts, file, {kind: json.dumps(header | words)})
        with pytest.raises(ValueError, match="cannot"):
            loaded(name, atlas, tmp_path)
    del header["checksum"]
    save_file(tensors, file, {kind: json.dumps(header)})
    with pytest.raises(ValueError, match="changed after it was written"):
        loaded(name, atlas, tmp_path)


def test_an_atlas_of_the_last_release_has_no_checksum_and_its_ranges_are_checked(atlas: Atlas, tmp_path: Path) -> None:
    file = atlas.save(tmp_path) / "atlas.safetensors"
    about, tensors = read_headed(file, "atlas", FORMAT)
    before = {key: value for key, value in about.items() if key != "names"} | {"format": 2}
    save_file(tensors, file, {"atlas": json.dumps(before)})
    found = Atlas.load(tmp_path, Drifter())
    assert (found.digest, found.settling, found.names) == (atlas.digest, atlas.settling, None)
    assert torch.equal(found.psi, Atlas.load(atlas.save(tmp_path / "new"), Drifter()).psi)
    changes: list[tuple[dict[str, Any], dict[str, Tensor], str]] = [
        ({"settling": 1e300}, {}, "numbers are invalid"),
        ({"start_share": -0.1}, {}, "numbers are invalid"),
        ({"format": 1}, {}, "unknown format"),
        ({}, {"psi": torch.zeros_like(tensors["psi"])}, "the same for all"),
    ]
    for words, parts, why in changes:
        save_file(tensors | parts, file, {"atlas": json.dumps(before | words)})
        with pytest.raises(ValueError, match=why):
            Atlas.load(tmp_path, Drifter())


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"starts": 0}, "starts"),
        ({"steps": 3}, "steps"),
        ({"behaviours": 0}, "behaviours"),
        ({"z": torch.zeros(3)}, "z has"),
        ({"z": torch.full((1, 2), torch.nan)}, "z holds NaN"),
        ({"seed": -1}, "seed"),
        ({"device": "meta"}, "meta"),
        ({"folder": __file__}, "file"),
        ({"features": lambda obs: obs * torch.nan}, "NaN"),
        ({"features": lambda obs: obs[0]}, "shape"),
    ],
)
def test_bad_settings_of_a_chart_are_refused(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        chart(Drifter(), DriftWorld(), progress=False, **options)


class Pictures(Drift):
    observation_space = gymnasium.spaces.Box(0, 1, (2, 2))


def test_only_vectors_are_charted_and_a_refusal_leaves_the_behaviours_as_they_were() -> None:
    for wrong, why in ((Pictures(), "Flatten"), (gymnasium.make("FrozenLake-v1"), "Flatten"), (None, "NoneType")):
        with pytest.raises(ValueError, match=why):
            chart(Behaviours({"stay": lambda obs: 0}), wrong, progress=False)  # type: ignore[arg-type]
    two = {"left": lambda obs: 0, "right": lambda obs: 1}
    found = chart(Behaviours(two), gymnasium.make("CartPole-v1"), starts=2, steps=20, progress=False)
    assert len(found.z) == 2
    disabled = gymnasium.vector.SyncVectorEnv([Drift], autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED)
    with pytest.raises(ValueError, match="reset"):
        chart(Drifter(), disabled, progress=False)


def test_logs_that_do_not_match_are_refused() -> None:
    for z, paths in ((torch.eye(2), [torch.zeros(3, 1)]), (torch.eye(1), []), (torch.eye(1), [torch.zeros(0, 2)])):
        with pytest.raises(ValueError, match="z has|path"):
            Atlas.from_rollouts(z, paths)
    with pytest.raises(ValueError, match="NaN"):
        Atlas.from_rollouts(torch.eye(1), [torch.full((4, 2), torch.nan)])


# Agents


def test_the_default_finds_a_reward_that_is_not_linear(atlas: Atlas) -> None:
    reward = near(0.5, -0.4)
    best = [OnlineTransfer(Drifter(), seed=seed, atlas=atlas) for seed in range(5)]
    for seed, agent in enumerate(best):
        steps_with(agent, reward, 150, seed)
    assert np.mean([float(reward(agent.best_z)) for agent in best]) > 0.85


def test_named_policies_without_features_are_enough() -> None:
    behaviours = compass()
    found = chart(behaviours, Drift(noise=0.02), starts=2, steps=40, progress=False)
    for name, place in PLACES.items():
        agent = OnlineTransfer(behaviours, atlas=found, seed=1)
        steps_with(agent, near(*place), 8 * found.hold)
        assert behaviours.name_of(agent.best_z) == name
    with pytest.raises(ValueError, match="phi"):
        OnlineTransfer(behaviours)
    with pytest.raises(ValueError, match="other|another"):
        OnlineTransfer(Drifter(), atlas=found)


def test_behaviours_by_number_and_what_they_refuse() -> None:
    numbered = Behaviours(lambda obs, k: np.array([k, 0]), Drift.observation_space, Drift.action_space, n=3)
    obs = np.zeros((2, 4))
    assert np.array_equal(np.asarray(numbered.act(obs, numbered.sorted_z()[[2, 1]])), [[2, 0], [1, 0]])
    assert numbered.project_z([0.1, 0.5, 0.2]).tolist() == [0, 1, 0]
    for wrong, why in (({}, "names"), ({"a": 3}, "callables"), (3, "int")):
        with pytest.raises(ValueError, match=why):
            Behaviours(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="observation_space"):
        Behaviours({"a": lambda obs: obs}).observation_space  # noqa: B018
    with pytest.raises(ValueError, match="soutth"):
        compass().z_of("soutth")


@pytest.mark.parametrize("name", ["usf-ucb", "thompson", "greedy"])
def test_scale_and_offset_of_the_reward_change_no_action(atlas: Atlas, name: str) -> None:
    reward = near(0.5, 0.2)
    method = METHODS[name](dim=2) if name == "usf-ucb" else replace(METHODS[name](dim=2, intercept=True), hold=5)
    agents = [OnlineTransfer(Drifter(), "usf-ucb" if name == "usf-ucb" else method, atlas=atlas) for _ in range(2)]
    z = steps_with(agents[0], reward, 60)
    scaled = steps_with(agents[1], lambda obs: 32 * reward(obs) - 5, 60)
    assert all(torch.equal(one, other) for one, other in zip(z, scaled, strict=True))


def test_a_run_alone_is_the_same_run_in_a_batch(atlas: Atlas) -> None:
    obs = torch.randn(40, 3, 4, generator=Generator().manual_seed(0)).double()
    rewards = obs[..., 0] * torch.tensor([1.0, -2.0, 5.0]) + obs[..., 1] ** 2
    many = OnlineTransfer(Drifter(), seed=7, runs=3, atlas=atlas)
    alone = [OnlineTransfer(Drifter(), seed=7 + k, atlas=atlas) for k in range(3)]
    for t in range(39):
        z = many.ask(obs[t])
        for k, agent in enumerate(alone):
            assert torch.equal(agent.ask(obs[t, k]), z[k])
            agent.tell(obs[t + 1, k], float(rewards[t + 1, k]), done=t == 20)
        many.tell(obs[t + 1], rewards[t + 1], done=t == 20)
    assert torch.equal(many.best_z, torch.stack([agent.best_z for agent in alone]))


def test_a_saved_agent_goes_on_the_same(atlas: Atlas, tmp_path: Path) -> None:
    agent = OnlineTransfer(Drifter(), seed=3, atlas=atlas)
    steps_with(agent, near(0.5, 0.5), 47)
    agent.save(tmp_path)
    restored = OnlineTransfer.load(tmp_path, Drifter(), atlas=atlas)
    assert torch.equal(restored.best_z, agent.best_z)
    one, other = (steps_with(each, near(0.5, 0.5), 40, seed=1) for each in (agent, restored))
    assert torch.equal(torch.stack(one), torch.stack(other))
    another = chart(Drifter(), DriftWorld(), behaviours=30, starts=2, steps=20, progress=False)
    for wrong in (None, another):
        with pytest.raises(ValueError, match="atlas"):
            OnlineTransfer.load(tmp_path, Drifter(), atlas=wrong)


def test_all_kinds_of_feedback_work_with_an_atlas(atlas: Atlas) -> None:
    agent = OnlineTransfer(Drifter(), atlas=atlas)
    reward, sample = near(0.7, 0.0), atlas.sample
    assert agent.wants_reward(sample[0])
    agent.learn(sample[:200], reward(sample[:200]))
    assert float(reward(agent.best_z)) > 0.8
    assert float(agent.fit.r2) > 0.9
    assert not agent.wants_reward(sample[0])
    steps_with(agent, reward, 20)
    assert 0 <= float(agent.certificate().share) <= 1
    agent.credit(sample[:5], 0.3, zscout.Credit(delay=1, spread=2))
    judged = OnlineTransfer(Drifter(), atlas=atlas)
    for k in range(0, 80, 2):
        clips = sorted(sample[k : k + 2, None], key=lambda clip: float(reward(clip).mean()))
        judged.prefer(clips[1], clips[0])
    assert float(reward(judged.best_z)) > 0.6
    assert zscout.most_telling(judged, list(sample[:6, None])) != (0, 0)
    judged.ask(sample[0].numpy())
    before = judged.best_z
    with pytest.raises(ValueError, match="NaN"):
        judged.tell(sample[1].numpy(), float("nan"))
    assert torch.equal(judged.best_z, before)


def test_answers_are_mixed_with_rewards_when_a_z_is_chosen(atlas: Atlas, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time costs .1 s after 100 answers."""
    mixed: list[int] = []
    answered = logistic.answered

    def noted(*rest: Any) -> Any:
        mixed.append(agent.t)
        return answered(*rest)

    monkeypatch.setattr(feedback, "answered", noted)
    agent = OnlineTransfer(Drifter(), atlas=replace(atlas, settling=10.0))  # a z is kept for five steps
    for k in range(0, 20, 2):
        agent.prefer(atlas.sample[k : k + 1], atlas.sample[k + 1 : k + 2])
    mixed.clear()
    steps_with(agent, near(0.5, 0.5), 12)
    assert mixed == [0, 5, 10]
    agent.z_hat, agent.best_z, agent.preferences  # noqa: B018
    assert mixed == [0, 5, 10, 12]


def test_own_experience_adds_to_the_atlas() -> None:
    charted = torch.randn(5, 3, generator=Generator().manual_seed(0)).double()
    both = torch.ones(2, dtype=torch.bool)
    seen = Experience.none((2,), charted).changed_to(torch.tensor([1, 4]), both)
    ones = torch.ones(2, 3).double()
    for _ in range(3):
        seen = seen.plus(ones)
    seen = seen.changed_to(torch.tensor([2, -1]), both).plus(5 * ones).changed_to(torch.tensor([1, 4]), both).plus(ones)
    seen = seen.changed_to(torch.tensor([0, 0]), both)
    tried = {
        (run, int(row)): psi for run in (0, 1) for row, psi in zip(seen.tried[run], seen.psi(charted)[run], strict=True)
    }
    assert torch.allclose(tried[0, 1], (WORTH * charted[1] + 4) / (WORTH + 4))
    assert torch.allclose(tried[0, 2], (WORTH * charted[2] + 5) / (WORTH + 1))
    assert torch.allclose(tried[1, 4], (WORTH * charted[4] + 4) / (WORTH + 4))
    assert (1, 2) not in tried  # a z that is not in the atlas leaves no trace


@pytest.mark.parametrize("runs", [(), (3,)])
def test_forecast_errors_are_the_noise_where_rewards_are_linear_and_more_elsewhere(runs: tuple[int, ...]) -> None:
    rng, all_runs = Generator().manual_seed(0), torch.ones(runs, dtype=torch.bool)
    for places, bend in ((60, 0.0), (6, 3.0)):
        belief = TaskPosterior.prior(dim=8, ridge=0.1, noise=None, intercept=True, runs=runs)
        errors, task = ForecastErrors.none(belief), 0.6 * torch.randn(8, generator=rng).double()
        assert (errors.misfit(belief) == 0).all()
        for _ in range(places):
            errors = errors.after_choice(belief, all_runs)
            place = torch.randn(*runs, 8, generator=rng).double()
            for _ in range(80 if bend else 8):
                phi = place + 0.1 * torch.randn(*runs, 8, generator=rng).double()
                noise = 0.2 * torch.randn(runs, generator=rng).double()
                belief = belief.update(phi, phi @ task + bend * phi[..., 0].square() + noise + 5.0)
        found = errors.misfit(belief)
        assert (errors.anew(all_runs).misfit(belief) == 0).all()
        if bend:
            assert (found > 2 * belief.noise).all(), "features that fit what was seen are wrong elsewhere"
        else:
            assert ((found > 0.08) & (found < 0.5)).all(), "the noise is .2"


def test_a_saved_agent_with_an_own_piece_is_loaded_with_its_method(atlas: Atlas, tmp_path: Path) -> None:
    method = replace(METHODS["usf-ucb"](dim=2), confidence=lambda t, posterior: torch.tensor(0.5))
    agent = OnlineTransfer(Drifter(), method, atlas=atlas)
    steps_with(agent, near(0.5, 0.5), 20)
    agent.save(tmp_path)
    other = OnlineTransfer.load(tmp_path, Drifter(), method=method, atlas=atlas)
    assert torch.equal(other.best_z, agent.best_z)
    OnlineTransfer(Drifter(), atlas=atlas).save(tmp_path)
    OnlineTransfer.load(tmp_path, Drifter(), method=METHODS["usf-ucb"](dim=2), atlas=atlas)


def test_which_atlas_an_agent_uses(atlas: Atlas) -> None:
    model: Any = Drifter()
    model.atlas = atlas
    assert OnlineTransfer(model).atlas is not None
    assert OnlineTransfer(model, atlas=None).atlas is None
    assert OnlineTransfer(model, "opti").atlas is None
    model.atlas = replace(atlas, start_share=0.6)
    assert OnlineTransfer(model).atlas is None
    assert OnlineTransfer(model, atlas=model.atlas).atlas is not None
    for wrong in ("mine", 3):
        with pytest.raises(ValueError, match="atlas"):
            OnlineTransfer(model, atlas=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bank"):
        OnlineTransfer(model, atlas=atlas, bank=atlas.z[:2])
    for name in ("lola", "random", "random-z"):
        with pytest.raises(ValueError, match="atlas"):
            OnlineTransfer(model, name, atlas=atlas)
    agent = OnlineTransfer(model, atlas=atlas)
    agent.follow(np.zeros(4), [0.123, 0.4])  # a z of one's own teaches rewards, too
    agent.tell(np.ones(4), 1.0)
    assert agent.t == 1


def test_asking_again_gives_the_same_z_and_counts_once(atlas: Atlas) -> None:
    agent = OnlineTransfer(Drifter(), atlas=atlas)
    for t in range(5 * atlas.hold):
        obs = np.full(4, 0.1 * t)
        z = [agent.ask(obs) for _ in range(3)]
        assert torch.equal(z[0], z[1])
        assert torch.equal(z[0], z[2])
        agent.tell(obs, float(t % 3))
    for _ in range(3):
        agent.follow(obs, atlas.z[7])
        agent.tell(obs, 1.0)
    assert agent._state.experience is not None
    assert int(agent._state.experience.row) == 7
    assert int(agent._state.experience.steps) == 3


def test_a_saved_agent_finds_the_saved_atlas_and_refuses_a_wrong_experience(atlas: Atlas, tmp_path: Path) -> None:
    agent = OnlineTransfer(Drifter(), atlas=atlas)
    steps_with(agent, near(0.5, 0.5), 30)
    agent.save(tmp_path)
    OnlineTransfer.load(tmp_path, Drifter(), atlas=Atlas.load(atlas.save(tmp_path), Drifter()))
    file = tmp_path / "agent.safetensors"
    header, tensors = read_headed(file, "agent", saving.FORMAT)
    for name, value in (("tried", 200), ("row", -2), ("counts", -1.0)):
        key = f"experience.{name}"
        write_headed(file, "agent", header, tensors | {key: torch.full_like(tensors[key], value)})
        with pytest.raises(ValueError, match="experience"):
            OnlineTransfer.load(tmp_path, Drifter(), atlas=atlas)


@pytest.mark.parametrize("name", ["walker", "cheetah", "quadruped"])
def test_shipped_bodies_have_a_steady_atlas(name: str) -> None:
    model = cast(Any, zscout.load(f"{name}-fb"))
    folder = Path(zscout.__file__).parent / "models" / "shipped" / f"{name}-fb"
    assert (folder / "atlas.safetensors").stat().st_size < 2**20
    assert read_headed(folder / "atlas.safetensors", "atlas", FORMAT)[0]["format"] == FORMAT  # with a checksum
    assert model.atlas.is_steady
    assert len(model.atlas.z) == 2048
    used: Any = OnlineTransfer(model).atlas
    assert used is model.atlas
    assert torch.allclose(used.z.norm(dim=1), torch.tensor(model.dim**0.5), rtol=1e-4)


def test_the_documented_table_is_of_the_stored_returns() -> None:
    root = Path(__file__).parents[1]
    text = (root / "docs" / "atlas.md").read_text()
    assert table(stored([root / "results" / "atlas.json"])) in text
    log, played = (root / "results" / "atlas.md").read_text(), stored([root / "results" / "rivals.json"])
    for bodies in (("cheetah",), ("walker", "quadruped")):
        assert rivals_table([result for result in played if result["body"] in bodies]) in log


def test_limits_and_detectors_are_in_tables() -> None:
    runs = {"return": [[[9.0, 0.0]], [[8.0, 5.0]]], "ground": [[[0.1, 0.3]], [[0.1, 0.3]]]}
    kept = {"body": "walker", "scale": {"torso": 1.5}, "can": [True, False], "oracle": [10.0, 10.0], "at_most": 0.2}
    row = limits.table([kept | {"runs": {"no limit": runs | {"settled": runs["ground"]}}}]).splitlines()[-1]
    assert row == "| walker, torso × 1.5, 2 episode: no limit | .2 | .200 | .65 | .80 | .50 |"
    asked = {"oracle": [10.0, 10.0], "runs": {"every": {"return": runs["return"], "answers": [[[5, 5]], [[9, 9]]]}}}
    assert detectors.table(asked).splitlines()[-1] == "| every | .00 / 5 | .50 / 9 | 0 | .50 |"


def test_the_benchmark_of_bodies_plays_all_its_entrants(tmp_path: Path) -> None:
    chosen = [*entrants("default", "cheetah"), *entrants("rivals", "cheetah")]
    with torch.no_grad():
        league = League("cheetah", tmp_path / "f.json", named=("crouch", "stand-still"), horizon=8)
        league.run(chosen, seeds=1, episodes=2)
    found = json.loads((tmp_path / "f.json").read_text())
    assert len(found["returns"]) == sum(len(one.noises) for one in chosen)
    for returns in found["returns"].values():
        assert torch.tensor(returns).shape == (2, 1, 2)
        assert torch.tensor(returns).abs().sum() > 0


def test_goal_features_are_computed_once_unless_phi_is_of_another_class() -> None:
    """φ of the goal features is φ of the observation, bit for bit; a subclass with its own φ is asked for that."""

    class Doubled(FB):
        def phi(self, obs: Any) -> Tensor:
            return 2 * super().phi(obs)

    model = zscout.load("walker-fb")
    assert isinstance(model, FB)
    obs = torch.randn(64, *model.observation_space.shape, generator=Generator().manual_seed(0))
    once = RichFeatures.of(model, obs)
    assert once.phi_of_goals is not None
    assert torch.equal(once(obs), replace(once, phi_of_goals=None)(obs))
    assert not RichFeatures.of(FB(model.config), obs)(obs).requires_grad
    halved = OnlineTransfer(zscout.load("walker-fb").half())
    halved.act(obs[0].numpy())
    halved.tell(obs[1].numpy(), 1.0)
    other = RichFeatures.of(Doubled(model.config), obs)
    assert other.goal_features is not None
    assert other.phi_of_goals is None


@pytest.mark.parametrize("short", [[], [1], [1, 2, 2, 5], [60]])
def test_a_log_that_is_too_short_to_settle_does_not_set_the_hold(short: list[int]) -> None:
    rng, lengths = Generator().manual_seed(0), [400] * 9 + short
    paths = [torch.exp(-torch.arange(n) / 44.0)[:, None] * (1 + torch.rand(3, generator=rng)) for n in lengths]
    found = Atlas.from_rollouts(torch.eye(len(paths)), paths, features=lambda obs: obs)
    assert found.hold in (10, 11, 12)
