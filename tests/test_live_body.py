"""A body on the live page, without a server: compared with the laboratory, the body itself, and regression."""

import json
import math
import re
from itertools import islice, pairwise
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from live_frames import close, frames, messages, side, steps
from zscout.lab.arenas.body import BodyArena
from zscout.lab.arenas.simulation import simulated
from zscout.lab.arenas.vector import VectorRuns
from zscout.live.places.body import LiveBody
from zscout.live.places.explanation import in_words
from zscout.live.server.choices import choices
from zscout.live.server.limits import Limits
from zscout.live.session import offers
from zscout.live.session.late_credit import credited, out_of_reach
from zscout.live.session.run import LiveRun
from zscout.live.session.setup import Setup
from zscout.transfer.agent import OnlineTransfer
from zscout.worlds.bodies.tasks import body_task
from zscout.worlds.registry import PLACES

ARENA = BodyArena("cheetah-fb", body="cheetah")
[OFFER] = [offer for offer in choices()["worlds"] if offer["name"] == "cheetah"]
TASKS = [task["name"] for task in OFFER["tasks"]]
GOALS = [goal["name"] for goal in OFFER["goals"]]
SHOWN = [ARENA.world.goal_names.index(goal.feature) for goal in PLACES["cheetah"].goals]


def begun(most_steps: int = 600, **setup: Any) -> LiveRun:
    return LiveRun(Setup.from_json({"world": "cheetah", **setup}), most_steps)


def table(**weights: float) -> list[float]:
    """A hidden reward by the names of its parts."""
    names = [name.replace("-", "_") for name in (*TASKS, *GOALS)]
    assert weights.keys() <= {*names}
    return [weights.get(name, 0.0) for name in names]


def world() -> LiveBody:
    return cast(LiveBody, Setup.from_json({"world": "cheetah"}).live_world)


# What is offered


def test_a_body_is_a_stage_with_tasks_and_goals_and_has_its_own_defaults() -> None:
    assert (OFFER["kind"], OFFER["missing"], OFFER["horizon"]) == ("stage", "", ARENA.decisions)
    assert {"walk", "run", "walk-backward", "crouch", "spin"} <= {*TASKS}
    assert OFFER["entries"] == len(TASKS) + len(GOALS) == world().entries
    setup = Setup.from_json({"world": "cheetah"})
    assert (setup.features, setup.model, setup.noise, setup.wait) == ("learned", "cheetah-fb", 0.0, False)
    assert Setup.from_json(json.loads(json.dumps(setup.to_json()))) == setup


def test_without_mujoco_the_body_is_listed_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "_installed", lambda package: False)
    [offer] = [offer for offer in choices()["worlds"] if offer["name"] == "cheetah"]
    assert "pip install -e '.[mujoco]'" in offer["missing"]
    with pytest.raises(ValueError, match=re.escape("pip install -e '.[mujoco]'")):
        begun()
    LiveRun(Setup(), 1).step()  # the others work


@pytest.mark.parametrize("method", [one["name"] for one in choices()["methods"]])
def test_every_method_that_is_offered_runs(method: str) -> None:
    [offer] = [offer for offer in choices()["methods"] if offer["name"] == method]
    for who in ("hidden", "person") if offer["person"] else ("hidden",):
        shown = [side(frame) for frame in steps(begun(who=who, methods=[method], seed=3), 3)]
        assert [one["told"] for one in shown] == ([0] * 3 if who == "person" else [1, 2, 3])
        for one in shown:
            assert np.isfinite([*one["ends"], *one["pays"], *(one["goal"] or []), *one["now"]]).all()
            assert not one["asks"]


# The frames


def test_a_run_is_the_one_that_the_laboratory_has_and_its_capsules_are_the_bodys() -> None:
    run = begun(
        methods=["thompson"], may_change=False, noise=0.2, seed=11, reward={"table": table(walk=1.0, height=-0.5)}
    )
    shown = [side(frame) for frame in steps(run, 12)]
    agent = OnlineTransfer(ARENA.bfm, run.setup.build("thompson"), seed=[11], runs=1)
    weights = torch.tensor(table(walk=1.0, height=-0.5), dtype=torch.float64)
    runs = VectorRuns(ARENA, lambda obs: world().reward(weights, obs), 0.2, agent.seeds)
    for one, row in zip(shown, islice(simulated(agent, runs), 12), strict=True):
        assert one["reward"] == pytest.approx(float(row.reward), abs=1e-4)
        ends, _ = ARENA.world.segments(runs.entered[0])
        assert close(one["ends"], ends.flatten(), 3)
        goals = ARENA.world.goal_features(row.next_obs[0])
        assert close(one["now"], goals[SHOWN], 2)


@pytest.fixture
def short_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 actions instead of 500."""
    monkeypatch.setattr(BodyArena, "decisions", property(lambda self: 40))


@pytest.mark.usefixtures("short_episodes")
def test_the_body_moves_a_little_at_each_step_and_starts_anew_with_each_episode() -> None:
    run = begun(methods=["random"], seed=4, reward={"table": table(speed=1.0)})
    shown = [side(frame) for frame in [*frames(run.begun("key")), *steps(run, 43)]]
    assert [(one["episode"], one["decision"]) for one in shown[1:]] == [(1 + t // 40, 1 + t % 40) for t in range(43)]
    for before, one in pairwise(shown[:41]):
        assert 0 < np.abs(np.subtract(one["ends"], before["ends"])).max() < 0.5
    low = np.array([one["ends"] for one in shown])[:, 1::2].min()
    assert low > -0.1  # above the ground
    assert shown[41]["return"] == pytest.approx(shown[41]["reward"], abs=1e-3)
    assert shown[40]["return"] == pytest.approx(sum(one["reward"] for one in shown[1:41]), abs=1e-3)


def test_the_same_set_up_gives_the_same_frames_and_two_methods_do_what_each_does_alone() -> None:
    setup: dict[str, Any] = {"reward": {"task": 3}, "seed": 6}
    both = steps(begun(methods=["greedy", "random"], **setup), 5)
    for which, method in enumerate(("greedy", "random")):
        alone = steps(begun(methods=[method], **setup), 5)
        assert [side(frame, which) for frame in both] == [side(frame) for frame in alone]


# A hidden reward


def test_a_reward_is_the_weighted_sum_of_its_parts() -> None:
    obs, body = world().obs[:300], world()
    parts = [body.reward(row, obs) for row in torch.eye(body.entries, dtype=torch.float64)]
    for name, part in zip(TASKS, parts, strict=False):
        assert close(part, body_task(ARENA.world, name)(obs), 5)
    values = ARENA.world.goal_features(obs).double()
    for index, part in zip(SHOWN, parts[len(TASKS) :], strict=True):
        assert float(part.abs().max()) <= 1
        order = values[:, index].argsort()
        assert bool((part[order].diff() >= 0).all())
        assert float(part.max() - part.min()) > 0.9
    weights = torch.linspace(-1, 1, body.entries, dtype=torch.float64)
    assert torch.allclose(body.reward(weights, obs), torch.stack(parts, -1) @ weights)


def test_the_truth_and_what_can_be_expressed_are_told_with_the_reward() -> None:
    run = begun()
    [constant] = messages(run.clear())
    assert (constant["truth"], constant["expressed"]) == ([0.0] * len(GOALS), None)
    [walk] = messages(run.paint([TASKS.index("walk")], 1))
    assert 0.8 < walk["expressed"] < 1
    assert max(walk["truth"]) == walk["truth"][GOALS.index("speed")] > 0.5
    [low] = messages(begun().paint([len(TASKS) + GOALS.index("height")], -1))
    labels = -ARENA.world.goal_features(world().obs)[:, 0]
    phi = torch.cat([ARENA.bfm.phi(world().obs).double(), torch.ones(len(labels), 1, dtype=torch.float64)], -1)
    clipped = world().reward(torch.tensor(table(height=-1.0), dtype=torch.float64), world().obs)
    missed = clipped - phi @ torch.linalg.lstsq(phi, clipped[:, None]).solution[:, 0]
    assert low["expressed"] == pytest.approx(1 - float(missed.var() / clipped.var()), abs=2e-3)
    assert low["truth"][GOALS.index("height")] < -0.9


def test_a_random_task_has_two_parts_and_the_same_number_the_same_task() -> None:
    seen = {tuple(messages(begun().task(number))[0]["reward"]) for number in (1, 1, 2, 3, 4)}
    assert len(seen) == 4
    assert all(1 <= sum(weight != 0 for weight in one) <= 2 for one in seen)


def test_it_finds_out_that_it_should_run_backward() -> None:
    run = begun(seed=0, reward={"table": table(walk_backward=1.0)})
    last = side(steps(run, 200)[-1])
    assert last["return"] > 35  # 66 when measured, and 110 to 138 with other seeds; a body that does nothing gets 0
    assert "backward" in last["likes"]
    assert last["pays"][GOALS.index("speed")] < -0.25


def test_words_are_of_the_strongest_features() -> None:
    goals = PLACES["cheetah"].goals
    assert in_words(goals, [0.8, -0.3, 0.5, 0.2, -0.9]) == "rolling back (0.9), forward (0.8), upright (0.5)"
    assert in_words(goals, [0.1, -0.2, 0.0, 0.0, 0.0]) == ""


# A person's thumbs


@pytest.mark.parametrize(
    ("step", "pace", "steps"),
    [(50, 20.0, range(30, 47)), (50, 10.0, range(40, 49)), (10, 30.0, range(1, 5)), (9, 0.5, range(9, 10))],
)
def test_a_thumb_is_about_what_was_shown_from_a_second_to_a_fifth_of_one_before(
    step: int, pace: float, steps: range
) -> None:
    assert credited(step, pace) == steps


def test_a_thumb_is_always_about_a_step_that_was_shown_and_never_about_one_out_of_reach() -> None:
    for step in range(1, 80):
        for pace in (0.5, 1, 2.5, 7, 20, Limits.fastest):
            found = credited(step, pace)
            assert len(found) >= 1
            assert 1 <= found[0] <= found[-1] <= step
            assert found[0] > out_of_reach(step, Limits.fastest)


def test_a_thumb_teaches_the_steps_it_is_about_and_each_step_once() -> None:
    run = begun(who="person", silence="nothing", seed=2)
    steps(run, 40)
    credit, newest = messages(run.thumb(40, 1, 20))
    assert (credit["is"], credit["steps"], credit["value"]) == ("credit", [*range(20, 37)], 1)
    assert side(newest)["told"] == 17
    assert messages(run.thumb(40, -1, 20)) == []  # a step keeps its first reward
    steps(run, 10)
    credit, newest = messages(run.thumb(50, -0.5, 10))
    assert credit["steps"] == [*range(40, 49)]
    given = [(20 + k, 1.0) for k in range(17)] + [(40 + k, -0.5) for k in range(9)]
    entered = torch.stack([torch.as_tensor(run._sides[0].steps[step - 1].entered) for step, _ in given])
    taught = OnlineTransfer(ARENA.bfm)
    taught.learn(entered, [value for _, value in given])
    assert close(side(newest)["pays"], world().correlations.of(taught.expected_reward(world().obs)), 2)
    shown = [side(frame)["reward"] for frame in frames(run.begun("key"))]
    assert shown == [None] * 20 + [1] * 17 + [None] * 3 + [-0.5] * 9 + [None] * 2


def test_no_thumb_means_zero_once_none_can_reach_the_step_or_nothing() -> None:
    for silence, told in (("zero", 20), ("nothing", 0)):  # ten at a time
        run = begun(who="person", silence=silence, seed=2)
        shown = steps(run, 80)
        assert side(shown[-1])["told"] == told
        assert [side(frame)["reward"] for frame in frames(run.begun("key"))] == [
            None,
            *[0] * told,
            *[None] * (80 - told),
        ]


@pytest.mark.long
def test_held_thumbs_teach_it_to_go_where_they_want() -> None:
    """Up while it moves backward, down while it moves forward, as a person who looks at the ground would do."""
    found, likes = [], []
    for seed in range(1, 7):
        run = begun(who="person", seed=seed)
        for step in range(1, 241):
            one = side(steps(run, 1)[0])
            if step % 3 == 0 and abs(one["now"][0]) > 0.2:
                run.thumb(step, 1 if one["now"][0] < 0 else -1, 10)
        last = side(frames(run.begun("key"))[-1])
        likes.append(last["likes"])
        found.append(last["pays"][GOALS.index("speed")])
    assert np.mean(found) < -0.15  # −0.41 when measured; a run alone is anything from −0.68 to 0.14
    assert sum("backward" in words for words in likes) >= 2  # 4 when measured


# Two clips


def _way(clip: list[list[float]]) -> float:
    return clip[-1][0] - clip[0][0]


def test_the_better_of_two_clips_teaches_it_what_to_do() -> None:
    run = begun(who="person", seed=0)
    here = side(frames(run.begun("key"))[-1])["ends"]
    for answers in range(1, 9):
        [told] = messages(run.clips())
        assert (told["number"], [len(clip) for clip in told["clips"]]) == (answers, [50, 50])
        assert np.abs(np.subtract([clip[0] for clip in told["clips"]], here)).max() < 0.5  # from where it is
        first, second = told["clips"]
        preferred, frame, *_ = messages(run.prefer(answers, 0 if _way(first) < _way(second) else 1))
        assert preferred == {"is": "preferred", "answers": answers, "done": False}
    assert side(frame)["pays"][GOALS.index("speed")] < -0.1  # −0.20 when measured
    assert "backward" in side(frame)["likes"]
    assert "No reward yet" not in side(steps(run, 1)[0])["says"]


def test_an_answer_is_what_the_agent_is_told_and_no_answer_teaches_nothing() -> None:
    run = begun(who="person", seed=3)
    run.clips()
    assert run._pair is not None
    first, second = run._pair
    alone = OnlineTransfer(ARENA.bfm, run.setup.build("usf-ucb"), seed=3)
    alone.prefer(second.observations, first.observations)
    run.prefer(1, 1)
    assert torch.allclose(run._sides[0].agent.z_hat, alone.z_hat)
    run.clips()
    told, _ = messages(run.prefer(2, None))
    assert told["answers"] == 1
    assert torch.allclose(run._sides[0].agent.z_hat, alone.z_hat)
    [again] = messages(begun(who="person", seed=3).clips())
    assert again["clips"] == [first.ends, second.ends]  # same set-up, same clips


def test_a_run_keeps_a_limited_number_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Limits, "answers", 1)
    run = begun(who="person", seed=3)
    run.clips()
    run.prefer(1, 0)
    with pytest.raises(ValueError, match="1 answers"):
        run.clips()


def test_an_answer_that_is_none_is_refused_and_the_clips_stay() -> None:
    run = begun(who="person", seed=3)
    wrong: list[tuple[Any, Any]] = [(1, 0), (0, 0), (None, 0), ("1", 0)]
    for number, better in wrong:
        with pytest.raises(ValueError, match="no longer shown|number"):
            run.prefer(number, better)
    run.clips()
    before = run._sides[0].agent.z_hat
    for number, better in [(1, 2), (1, -1), (1, "0"), (1, 0.5), (1, [0]), (1, True), (2, 0), (0, 1), (1.0, 0)]:
        with pytest.raises(ValueError, match="."):
            run.prefer(number, better)
    assert torch.equal(run._sides[0].agent.z_hat, before)
    run.prefer(1, 0)
    with pytest.raises(ValueError, match="no longer shown"):
        run.prefer(1, 0)
    for other in (begun(), LiveRun(Setup(who="person"), 10)):
        with pytest.raises(ValueError, match="only"):
            other.clips()


# Do not fall


def test_a_body_that_must_not_fall_keeps_to_behaviours_that_are_rarely_on_the_ground() -> None:
    limit = world().on_feet
    assert limit is not None
    assert limit.cost is not None
    price: dict[bool, float] = {}
    for upright in (False, True):
        agent = begun(upright=upright)._sides[0].agent
        assert agent.atlas is not None
        agent.learn(agent.atlas.sample, body_task(ARENA.world, "upside-down")(agent.atlas.sample))
        price[upright] = float(agent.atlas.values(limit.cost)[agent.atlas.index_of(agent.best_z.float())])
    assert price[True] <= limit.at_most < price[False]


# Saved behaviours


def test_a_behaviour_can_be_saved_and_shown_and_rewards_still_count() -> None:
    run = begun(seed=1, reward={"table": table(walk=1.0)})
    steps(run, 5)
    [saved] = messages(run.behaviour())
    assert (saved["world"], saved["model"], len(saved["z"])) == ("cheetah", "cheetah-fb", ARENA.bfm.dim)
    assert close(saved["z"], run._sides[0].agent.best_z, 5)
    z = ARENA.bfm.sample_z(1, 7)[0]
    [told] = messages(run.show((3 * z).tolist()))
    assert told == {"is": "showing", "showing": True}
    before = run._sides[0].agent.t
    shown = [side(frame) for frame in steps(run, 4)]
    assert {one["mode"] for one in shown} == {"shows"}
    assert "paused" in shown[0]["says"]
    assert shown[-1]["told"] == 9
    assert run._sides[0].agent.t == before  # its time stands still
    for step in run._sides[0].steps[-4:]:
        assert step.shown
        assert np.allclose(step.action, ARENA.bfm.act(step.state, z), atol=1e-5)
    assert messages(run.begun("key"))[0]["showing"]
    run.show(None)
    [frame] = steps(run, 1)
    assert side(frame)["mode"] != "shows"
    assert not messages(run.begun("key"))[0]["showing"]


@pytest.mark.usefixtures("short_episodes")
def test_a_shown_behaviour_goes_on_in_the_next_episode() -> None:
    run = begun(methods=["random"], seed=1)
    steps(run, 35)
    run.show(ARENA.bfm.sample_z(1, 7)[0].tolist())
    shown = [side(frame) for frame in steps(run, 10)]
    assert [one["episode"] for one in shown] == [1] * 5 + [2] * 5
    assert shown[5]["decision"] == 1


def test_every_step_is_exported() -> None:
    run = begun(methods=["greedy", "random"], seed=1, reward={"task": 1})
    shown = steps(run, 3)
    [told] = messages(run.export())
    assert told["name"] == "zscout-steps-cheetah.json"
    content = told["content"]
    assert content["format"] == "zscout-steps-2"
    assert Setup.from_json(content["setup"]) == run.setup
    for which, one in enumerate(content["runs"]):
        assert one["method"] == ("greedy", "random")[which]
        assert [step["reward"] for step in one["steps"]] == [side(frame, which)["reward"] for frame in shown]
        for before, after in pairwise(one["steps"]):
            assert before["entered"] == after["observation"]
        for step, recorded in zip(one["steps"], run._sides[which].steps, strict=True):
            assert close(one["followed"][step["z"]], recorded.z, 5)


def test_a_long_run_keeps_the_last_frames_little_of_each_step_and_everything_of_its_export(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zscout.live.session.run.KEPT_FRAMES", 60)
    monkeypatch.setattr("zscout.live.session.method_run.NEWEST", 40)
    run = begun(methods=["random-z"], may_change=False, seed=1, reward={"task": 1}, most_steps=10)
    shown = steps(run, 150)  # more than on a map
    resumed = frames(run.begun("key", resumed=True))
    assert [frame["step"] for frame in resumed] == [*range(91, 151)]
    assert resumed == shown[-60:]
    assert [frame["step"] for frame in frames(run.begun("key", resumed=True, after=140))] == [*range(141, 151)]
    [told] = messages(run.export())
    [exported] = told["content"]["runs"]
    assert [step["reward"] for step in exported["steps"]] == [side(frame)["reward"] for frame in shown]
    assert len(exported["followed"]) == 15  # a z is held for ten steps
    assert len({id(step.z) for step in run._sides[0].steps[:100]}) == 10
    steps(run, 50)
    with pytest.raises(ValueError, match="at most 200 steps"):
        run.step()


# What is refused


@pytest.mark.parametrize("who", ["hidden", "person"])
def test_a_refused_call_changes_nothing(who: str) -> None:
    run = begun(who=who, seed=1)
    steps(run, 3)
    before = list(run.begun("key").messages)
    z = [0.5] * ARENA.bfm.dim
    broken: list[Any] = [
        [],
        z[1:],
        [*z, 1],
        "z",
        5,
        {},
        [*z[1:], math.nan],
        [*z[1:], 1e4],
        [*z[1:], None],
        [*z[1:], True],
    ]
    broken.append([*z[1:], "1"])
    broken.append([z])
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("show", {"z": value}) for value in broken),
        *(("thumb", {"step": value, "value": 1, "pace": 20}) for value in (0, 4, -1, None, 3.0, "3", True, 10**30)),
        *(("thumb", {"step": 3, "value": value, "pace": 20}) for value in (None, 11, math.nan, "1", [1])),
        *(("thumb", {"step": 3, "value": 1, "pace": value}) for value in (0, 51, -5, None, "20", math.inf, [20])),
        *(("paint", {"cells": value, "value": 1}) for value in ([], None, [-1], [OFFER["entries"]], [0.5])),
        *(("task", {"number": value}) for value in (-1, None, 1.5)),
        *([("clear", {})] if who == "person" else [("thumb", {"step": 3, "value": 1, "pace": 20})]),
    ]
    for do, fields in calls:
        with pytest.raises(ValueError, match="."):
            getattr(run, do)(**fields)
    assert list(run.begun("key").messages) == before
    steps(run, 1)


@pytest.mark.parametrize(
    ("setup", "why"),
    [
        ({"features": "laplacian"}, "no feature set 'laplacian'"),
        ({"model": "exact"}, "no model 'exact'"),
        ({"reward": {"table": [0.0] * 81}}, f"the table has 81 numbers, this world has {OFFER['entries']} parts"),
        ({"methods": ["lola"], "who": "person"}, "needs every reward"),
        ({"methods": ["opti"], "upright": True}, "upright needs a body and the method usf-ucb alone"),
        ({"upright": 1}, "upright must be true or false"),
    ],
)
def test_what_does_not_apply_is_refused_with_the_reason(setup: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        begun(**setup)


def test_what_belongs_to_bodies_is_refused_on_maps_and_by_methods_that_cannot_pause() -> None:
    grid = LiveRun(Setup(who="person"), 10)
    grid.step()
    with pytest.raises(ValueError, match="thumbs over time are for bodies"):
        grid.thumb(1, 1, 20)
    for call in (grid.behaviour, lambda: grid.show(None)):
        with pytest.raises(ValueError, match="of bodies only"):
            call()
    both = begun(methods=["greedy", "lola"])
    with pytest.raises(ValueError, match="lola scores whole rollouts and cannot pause"):
        both.show(ARENA.bfm.sample_z(1, 7)[0].tolist())
    assert side(steps(both, 1)[0])["mode"] != "shows"  # greedy was not paused either


def test_a_constant_estimate_has_no_correlation() -> None:
    flat: Tensor = torch.full((len(world().obs),), 0.3, dtype=torch.float64)
    assert world().correlations.of(flat) == [0.0] * len(GOALS)
