"""A live run without a server: set-up, frames compared with the laboratory, commands of a person."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from live_frames import close, frames, messages, side, steps
from simulating import simulate
from toys import Regression
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.ground import Ground
from zscout.lab.arenas.simulation import TaskRuns, simulated
from zscout.lab.arenas.simulation import trace_of as lab_trace
from zscout.live.places.explanation import Explanation, number, place_of
from zscout.live.server.choices import choices
from zscout.live.server.messages import SETTINGS
from zscout.live.session.run import LATE_STEPS, LiveRun
from zscout.live.session.setup import Setup
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.belief.change import ChangeTest
from zscout.worlds.registry import of_kind

USUAL = {"features": "laplacian", "model": "network"}
LEFT, RIGHT = [0, 1, 9, 10], [70, 71, 79, 80]  # corners of the 9×9 grid: top left, bottom right


def begun(most_steps: int = 500, **setup: Any) -> LiveRun:
    return LiveRun(Setup.from_json({**USUAL, **setup}), most_steps)


def everything(run: LiveRun) -> Any:
    """Everything a page can see: set-up, hidden reward, frames, whether it asks, and the file of its steps."""
    told = run.begun("key")
    exported = messages(run.export()) if len(frames(told)) > 1 else None
    return [list(told.messages), told.asks, told.ended, told.settings, exported]


def exported(run: LiveRun) -> dict[str, Any]:
    [answer] = messages(run.export())
    content: dict[str, Any] = answer["content"]
    return content


def ground_of(setup: Setup) -> Ground:
    return GridArena(setup.world, setup.features, setup.model).ground


def task_of(ground: Ground, task: int) -> Tensor:
    return ground.exact.sample_z(1, Generator().manual_seed(task))[0]


# The set-up


@pytest.mark.parametrize(
    "content",
    [
        {},
        {
            "world": "maze",
            "model": "exact",
            "methods": ["greedy", "random"],
            "noise": 0.5,
            "may_change": False,
            "seed": 5,
        },
        {"who": "person", "silence": "zero", "wait": False, "features": "clusters"},
        {"reward": {"task": 0}},
        {"reward": {"task": 999_999}, "noise": 0},
        {"reward": {"table": [0.5, -10, 10] * 27}, "seed": 2**31 - 1},
        {"reward": None, "noise": 5},
    ],
)
def test_a_set_up_survives_json_and_missing_parts_are_defaults(content: dict[str, Any]) -> None:
    setup = Setup.from_json(content)
    written = setup.to_json()
    assert Setup.from_json(json.loads(json.dumps(written))) == setup
    assert written == {**Setup().to_json(), **content}


WRONG: list[tuple[Any, str]] = [  # a set-up, and the name of what is wrong with it
    ([], "object"),
    (None, "object"),
    ("open-grid", "object"),
    ({"wrld": "maze"}, "did you mean world?"),
    ({"task": 3}, "'task'"),
    ({"__proto__": {}}, "'__proto__'"),
    ({"world": "mars"}, "'mars'"),
    ({"world": "../../etc/passwd"}, "world"),
    ({"world": ["maze"]}, "world"),
    ({"features": "waves"}, "'waves'"),
    ({"features": 3}, "feature set 3"),
    ({"model": "os:system"}, "'os:system'"),
    ({"model": None}, "model None"),
    ({"world": "maze", "features": "clusters"}, "clusters in maze"),
    ({"methods": "usf-ucb"}, "methods"),
    ({"methods": []}, "one, or two different ones"),
    ({"methods": ["greedy", "greedy"]}, "one, or two different ones"),
    ({"methods": ["greedy", "random", "thompson"]}, "one, or two different ones"),
    ({"methods": [1]}, "method 1"),
    ({"methods": ["subprocess:run"]}, "'subprocess:run'"),
    ({"methods": ["oracle"]}, "'oracle'"),
    ({"who": "both"}, "'both'"),
    ({"who": ["person"]}, "reward"),
    ({"who": "person", "methods": ["greedy", "random"]}, "one method"),
    ({"who": "person", "reward": {"task": 1}}, "no hidden reward"),
    ({"who": "person", "reward": {"table": [0.0] * 81}}, "no hidden reward"),
    ({"who": "person", "methods": ["lola"]}, "every reward"),
    *(({"noise": bad}, "noise") for bad in (-0.1, 5.1, math.nan, math.inf, 10**400, True, "0.1", None)),
    *(({"may_change": bad}, "may_change") for bad in (1, "yes", None)),
    ({"silence": "shout"}, "'shout'"),
    ({"silence": None}, "silence"),
    *(({"wait": bad}, "wait") for bad in (1, "yes")),
    *(({"seed": bad}, "seed") for bad in (-1, 2**31, 1.0, False)),
    *(({"reward": bad}, "reward") for bad in (3, {}, {"task": 1, "table": [0.0] * 81}, {"seed": 1})),
    *(({"reward": {"task": bad}}, "number of a task") for bad in (10**6, -1, "7")),
    *(({"reward": {"table": bad}}, "table") for bad in ("0" * 81, [], [0.0] * 1_001, [0.0] * 80)),
    *(({"reward": {"table": [*[0.0] * 80, bad]}}, "a reward") for bad in (10.1, math.nan, None, [0.0] * 81)),
]


def test_an_invalid_set_up_is_refused_by_the_name_of_what_is_wrong() -> None:
    for content, name in WRONG:
        with pytest.raises(ValueError, match=re.escape(name)):
            LiveRun(Setup.from_json({**USUAL, **content} if isinstance(content, dict) else content), 10)


@pytest.mark.parametrize("method", [offer["name"] for offer in choices()["methods"]])
def test_every_method_that_is_offered_runs_wherever_it_is_offered(method: str) -> None:
    [offer] = [offer for offer in choices()["methods"] if offer["name"] == method]
    kinds, all_features = ("hidden", "person"), choices()["worlds"][0]["features"]
    for who in kinds if offer["person"] else ("hidden",):
        for features in all_features:
            network = ["open-grid", features] in choices()["networks"]
            for model in ("network", "exact") if network else ("exact",):
                run = begun(who=who, features=features, model=model, methods=[method], seed=3)
                shown = [side(frame) for frame in steps(run, 5)]
                assert [one["told"] for one in shown] == ([0] * 5 if who == "person" else [1, 2, 3, 4, 5])
                assert all(_finite(one) for one in shown)
                assert exported(run)["runs"][0]["method"] == method
    if not offer["person"]:
        with pytest.raises(ValueError, match=method):
            begun(who="person", methods=[method])


def _finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@pytest.mark.parametrize("world", [world["name"] for world in choices()["worlds"] if world["kind"] == "map"])
def test_every_world_runs_with_every_feature_set_and_model_that_is_offered_for_it(world: str) -> None:
    [offer] = [offer for offer in choices()["worlds"] if offer["name"] == world]
    for features in offer["features"]:
        for model in offer["models"]:
            setup = {"world": world, "features": features, "model": model, "reward": {"task": 1}}
            if model == "network" and [world, features] not in choices()["networks"]:
                with pytest.raises(ValueError, match="no network ships"):
                    begun(**setup)
                continue
            for frame in steps(begun(**setup), 3):
                assert len(side(frame)["estimate"]) == len(side(frame)["doubt"]) == len(offer["cells"])
    rows, columns = zip(*offer["cells"], strict=True)
    assert (max(rows) + 1, max(columns) + 1) == (offer["rows"], offer["columns"])
    assert offer["cells"] == sorted(offer["cells"])
    assert len(choices()["networks"]) == sum(len(place.models) for place in of_kind("grid").values())
    assert {*offer["features"]} <= {offer["name"] for offer in choices()["features"]}


# The frames


def test_the_same_set_up_gives_the_same_frames() -> None:
    setup: dict[str, Any] = {"methods": ["thompson", "usf-ucb"], "reward": {"task": 4}, "seed": 9}
    one, other = begun(**setup), begun(**setup)
    assert steps(one, 12) == steps(other, 12)
    assert everything(one) == everything(other)
    assert steps(begun(**{**setup, "seed": 10}), 12) != steps(other, 12)


@pytest.mark.parametrize("method", ["usf-ucb", "thompson", "random", "lola", "opti"])
@pytest.mark.parametrize("may_change", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_run_is_the_one_that_the_laboratory_has_for_that_seed(method: str, may_change: bool) -> None:
    count = 110 if method == "lola" else 60  # longer than a rollout, which ends with a reset
    run = begun(methods=[method], may_change=may_change, noise=0.2, seed=11, reward={"task": 6})
    shown = steps(run, count)
    ground, setup = ground_of(run.setup), run.setup
    agent = OnlineTransfer(ground.model, setup.build(method), seed=[11], runs=1)
    table = ground.exact.features @ task_of(ground, 6)
    rows = list(islice(simulated(agent, TaskRuns(ground.world, table[None], 0.2, agent.seeds)), count))
    taken = run._sides[0].steps
    assert [side(frame)["from"] for frame in shown] == [int(row.obs) for row in rows]
    assert [side(frame)["at"] for frame in shown] == [int(row.next_obs) for row in rows]
    assert [side(frame)["action"] for frame in shown] == [int(row.action) for row in rows]
    trace = lab_trace(agent, task_of(ground, 6)[None], rows)
    assert [step.belief.exploring for step in taken] == trace.exploring.tolist()
    assert torch.allclose(torch.stack([step.z for step in taken]).double(), trace.z[:, 0], atol=1e-9)
    for name in ("z_hat", "best_z", "radius"):
        live = torch.stack([getattr(step.belief, name) for step in taken]).double()
        assert torch.allclose(live, getattr(trace, name)[:, 0], atol=1e-9), name
    assert close([side(frame)["reward"] for frame in shown], trace.reward[:, 0], 12)
    assert [side(frame)["told"] for frame in shown] == list(range(1, count + 1))


def test_maps_are_of_what_is_known_after_the_step() -> None:
    run = begun(model="exact", may_change=False, reward={"task": 2}, seed=1, noise=0.3)
    shown, features = [*frames(run.begun("key")), *steps(run, 30)], GridArena().ground.exact.features
    taken = run._sides[0].steps
    for k, frame in enumerate(shown):
        phi = features[[step.entered for step in taken[:k]]]
        reward = torch.tensor([step.reward for step in taken[:k]], dtype=torch.float64)
        fit = Regression(phi, reward)  # eq. 3, with an intercept
        is_ = side(frame)
        assert frame["step"] == k
        assert close(is_["estimate"], fit.reward(features))
        assert close(is_["doubt"], fit.reward_width(features))
        assert close(is_["eigen"], 1 / torch.linalg.eigvalsh(fit.V), 6)
        assert is_["estimate"][is_["best"]] == max(is_["estimate"])
        if not k:
            assert is_["after"] is is_["from"] is is_["action"] is is_["reward"] is is_["regret"] is None
            continue
        after = features @ taken[k - 1].z.double()
        assert close(is_["after"], after / after.abs().max())
        assert max(map(abs, is_["after"])) == 1


@pytest.mark.parametrize("model", ["network", "exact"])
@pytest.mark.parametrize("method", ["usf-ucb", "random"])
def test_regret_lost_steps_and_worth_are_the_yardsticks(model: str, method: str) -> None:
    run = begun(model=model, methods=[method], may_change=False, reward={"task": 8}, seed=2)
    first, shown = side(frames(run.begun("key"))[0]), [side(frame) for frame in steps(run, 60)]
    ground, seeds = ground_of(run.setup), torch.tensor([2])
    task, yardstick = task_of(ground, 8)[None], ground.yardstick
    built = run.setup.build(method)
    trace = simulate(ground.model, ground.world, task, built, seeds=seeds, steps=60, noise=0.1)
    regret = yardstick.regret(trace)[:, 0]
    assert close([one["regret"] for one in shown], regret)
    assert close([one["lost"] for one in shown], regret.cumsum(0) / yardstick.gap(task), 3)
    settled = torch.cat([trace.best_z[:, 0], trace.final_z])
    worth = yardstick.value(settled, task.expand(61, -1))
    assert close([first["worth"], *(one["worth"] for one in shown)], worth)
    assert [one["mode"] == "wanders" for one in shown] == trace.exploring.tolist()
    assert [one["after"] is None and one["heading"] is None for one in shown] == trace.exploring.tolist()


def test_where_nothing_is_painted_there_is_nothing_to_lose() -> None:
    run = begun()
    for frame in [*frames(run.begun("key")), *steps(run, 5)]:
        assert side(frame)["worth"] is None
        assert side(frame)["lost"] == 0
    [reward] = messages(run.clear())
    assert reward == {"is": "reward", "reward": [0.0] * 81, "expressed": None, "since": 5, "attainable": 0.0}


def test_two_methods_share_the_reward_and_the_seed_and_each_does_what_it_would_do_alone() -> None:
    setup: dict[str, Any] = {"reward": {"task": 3}, "seed": 6}
    both = begun(methods=["usf-ucb", "random"], **setup)
    shown = steps(both, 20)
    for which, method in enumerate(("usf-ucb", "random")):
        alone = steps(begun(methods=[method], **setup), 20)
        assert [side(frame, which) for frame in shown] == [side(frame) for frame in alone]
    assert [run["method"] for run in exported(both)["runs"]] == ["usf-ucb", "random"]


def test_a_run_ends_at_its_last_step() -> None:
    run = begun(most_steps=3, reward={"task": 1})
    assert [run.step().ended for _ in range(3)] == [False, False, True]
    before = everything(run)
    with pytest.raises(ValueError, match="at most 3 steps: reset it"):
        run.step()
    assert everything(run) == before


def test_a_run_that_is_taken_up_again_tells_what_was_missed() -> None:
    run = begun(reward={"task": 1}, seed=4)
    shown = steps(run, 6)
    head, reward, *missed = messages(run.begun("key", resumed=True, after=4))
    assert (head["is"], head["run"], head["resumed"]) == ("begun", "key", True)
    assert reward["reward"] == head["reward"]
    assert missed == shown[4:]
    assert frames(run.begun("key", resumed=True, after=400)) == []
    assert frames(run.begun("key", resumed=True, after=-1))[1:] == shown
    for wrong in (-2, 501, "0", None, 1.0, True, [1]):
        with pytest.raises(ValueError, match="after"):
            run.begun("key", resumed=True, after=wrong)


# A hidden reward


def test_what_is_painted_while_it_runs_is_the_reward_from_then_on() -> None:
    run = begun(noise=0, reward={"task": 1})
    table = torch.tensor(messages(run.begun("key"))[0]["reward"])
    told = run.paint(LEFT, -3)
    table[LEFT] = -3.0
    [reward] = messages(told)
    assert reward["since"] == 0
    assert close(reward["reward"], table)
    for frame in steps(run, 4):
        assert close(side(frame)["reward"], table[side(frame)["at"]])
    run.paint([*range(81)], 2.5)
    [reward] = messages(run.paint(RIGHT, 0))
    assert reward["since"] == 4
    assert reward["reward"] == [0.0 if state in RIGHT else 2.5 for state in range(81)]
    for frame in steps(run, 4):
        assert side(frame)["reward"] == (0.0 if side(frame)["at"] in RIGHT else 2.5)
    run.task(7)
    assert Setup.from_json(run.setup.to_json()).task == 7
    assert close(
        messages(run.begun("key"))[0]["reward"], GridArena().ground.exact.features @ task_of(GridArena().ground, 7)
    )
    run.clear()
    assert [side(frame)["reward"] for frame in steps(run, 2)] == [0, 0]


def test_all_of_a_reward_is_expressed_where_the_features_can_say_it_and_less_where_they_cannot() -> None:
    [said] = messages(begun(model="exact").task(5))
    [spots] = messages(begun(model="exact", features="clusters").paint([40], 5))
    assert said["expressed"] > 0.999
    assert 0 < spots["expressed"] < 0.8


def test_new_noise_applies_from_the_next_step() -> None:
    run, quiet = (begun(noise=0, reward={"task": 2}, methods=["random"], seed=3) for _ in range(2))
    assert run.change("noise", 2).settings["noise"] == 2
    loud = [side(frame)["reward"] for frame in steps(run, 200)]
    still = [side(frame)["reward"] for frame in steps(quiet, 200)]
    spread = torch.tensor(loud) - torch.tensor(still)
    assert 1.7 < float(spread.std()) < 2.3  # ± .1 is one standard error


def test_a_late_skip_is_no_mistake_and_what_is_skipped_teaches_nothing() -> None:
    run = begun(who="person", silence="zero", features="laplacian")
    steps(run, 3)
    run.skip(2)
    run.skip(3)
    told = side(steps(run, 1)[0])["told"]
    assert told == side(steps(run, 1)[0])["told"] - 1  # the next step had no answer and no skip: 0 is learned


def test_a_task_that_may_change_has_a_change_test_if_the_method_can_have_one() -> None:
    assert Setup().build("usf-ucb").change == ChangeTest(evidence=30)
    assert Setup(may_change=False).build("usf-ucb").change is None
    assert Setup().build("lola").change is None
    body = Setup.from_json({"world": "cheetah"})
    assert body.build("usf-ucb").change == ChangeTest()  # by its atlas, which takes eight rewards for one
    assert body.build("greedy").change == ChangeTest(evidence=30)


def test_a_reward_that_moves_is_followed() -> None:
    run = LiveRun(Setup(), 500)
    run.paint(LEFT, 1)
    first = steps(run, 120)
    run.clear()
    run.paint(RIGHT, 1)
    then = steps(run, 120)
    assert sum(side(frame)["at"] in LEFT for frame in first[-20:]) >= 15  # measured: 20, for three seeds
    assert sum(side(frame)["at"] in RIGHT for frame in then[-20:]) >= 15
    assert run._sides[0].agent.changes == 1
    assert side(first[-1])["best"] in LEFT
    assert side(then[-1])["best"] in RIGHT


# A person's reward


def person(**setup: Any) -> LiveRun:
    return begun(**{"who": "person", "features": "clusters", "may_change": False, **setup})


def learned(run: LiveRun, told: Sequence[tuple[int, float]]) -> bool:
    """Whether it has learned exactly these states and rewards."""
    features = ground_of(run.setup).exact.features
    phi, reward = features[[state for state, _ in told]], torch.tensor([reward for _, reward in told]).double()
    fit = Regression(phi, reward)
    is_ = side(frames(run.begun("key"))[-1])
    known = close(is_["estimate"], fit.reward(features))
    return known and is_["told"] == len(told) and close(is_["eigen"], 1 / torch.linalg.eigvalsh(fit.V), 6)


def test_a_persons_reward_is_learned_from_at_once_and_once() -> None:
    run = person()
    [frame] = steps(run, 1)
    assert side(frame)["reward"] is None
    assert run.begun("key").asks
    told = run.give(1, 2)
    [again] = frames(told)
    assert not told.asks
    assert (again["step"], side(again)["reward"], side(again)["told"]) == (1, 2, 1)
    assert learned(run, [(side(frame)["at"], 2)])
    before = everything(run)
    with pytest.raises(ValueError, match="step 1 already has a reward"):
        run.give(1, 3)
    assert everything(run) == before
    steps(run, 1)
    with pytest.raises(ValueError, match="step 1 already has a reward"):
        run.give(1, 3)
    assert learned(run, [(side(frame)["at"], 2)])


def test_a_reward_may_come_late_but_not_very() -> None:
    run = person()
    entered = [side(frame)["at"] for frame in steps(run, LATE_STEPS + 2)]
    with pytest.raises(ValueError, match="step must be from 2 to 7"):
        run.give(1, 1)
    with pytest.raises(ValueError, match="step must be from 2 to 7"):
        run.give(LATE_STEPS + 3, 1)
    told = run.give(2, -1)
    old, newest = frames(told)
    assert (old["step"], side(old)["reward"]) == (2, -1)
    assert (newest["step"], side(newest)["reward"], side(newest)["told"]) == (LATE_STEPS + 2, None, 1)
    assert told.asks  # its present place has no answer
    assert learned(run, [(entered[1], -1)])
    run.give(LATE_STEPS + 2, 4)
    assert learned(run, [(entered[1], -1), (entered[-1], 4)])
    assert frames(run.begun("key"))[2] == old
    with pytest.raises(ValueError, match="step 2 already has a reward"):
        run.give(2, 1)
    assert [run._sides[0].steps[k].reward for k in (1, -1)] == [-1, 4]


@pytest.mark.parametrize("silence", ["nothing", "zero"])
def test_no_answer_means_nothing_or_zero_as_set_up(silence: str) -> None:
    run = person(silence=silence)
    shown = [side(frame) for frame in steps(run, 40)]
    asked = [(one["at"], 0.0) for one in shown[:-1] if one["asks"]]  # the last one may still be answered
    assert learned(run, asked if silence == "zero" else [])
    assert asked
    if silence == "zero":
        assert len(asked) < len(shown) - 1  # it does not ask in known places
    run.change("silence", "nothing" if silence == "zero" else "zero")
    shown += [side(frame) for frame in steps(run, 10)]
    assert learned(run, asked if silence == "zero" else [(one["at"], 0.0) for one in shown[39:-1] if one["asks"]])


def test_it_asks_until_it_knows_the_place() -> None:
    run = person()
    features = ground_of(run.setup).exact.features
    rewarded: list[int] = []
    asked = []
    for step in range(1, 81):
        [frame] = steps(run, 1)
        at = side(frame)["at"]
        fit = Regression(features[rewarded], torch.ones(len(rewarded)).double())
        assert side(frame)["asks"] == (float(fit.reward_width(features[[at]])) > 0.5)
        asked.append(side(frame)["asks"])
        if asked[-1]:
            run.give(step, 1)
            rewarded.append(at)
    assert all(asked[:3])
    assert not all(asked)


def test_a_reward_is_welcome_where_it_did_not_ask() -> None:
    run = person()
    for step in range(1, 200):
        [frame] = steps(run, 1)
        if not side(frame)["asks"]:
            break
        run.give(step, 1)
    told = side(frame)["told"]
    assert not run.begun("key").asks
    [again] = frames(run.give(step, 3))
    assert (side(again)["reward"], side(again)["told"]) == (3, told + 1)


def test_a_skipped_place_is_not_asked_again() -> None:
    run = person()
    steps(run, 1)
    assert run.change("wait", True).asks
    for wrong in (0, 2, "1", None, True):
        with pytest.raises(ValueError, match="step must be"):
            run.skip(wrong)
    told = run.skip(1)
    assert not told.asks
    assert list(told.messages) == []
    assert not run.change("wait", True).asks
    assert not run.begun("key", resumed=True).asks
    assert run.step().asks
    assert learned(run, [])


def test_whether_it_waits_can_be_changed_and_it_still_asks() -> None:
    run = person(wait=True)
    steps(run, 1)
    for value in (False, True):
        told = run.change("wait", value)
        assert told.asks
        assert told.settings == {"noise": 0.1, "silence": "nothing", "wait": value}


def test_every_step_is_exported_with_the_given_and_the_missing_rewards() -> None:
    run = person(seed=8)
    with pytest.raises(ValueError, match="there is no step yet"):
        run.export()
    shown = [side(frame) for frame in steps(run, 3)]
    run.give(2, 1)
    [answer] = messages(run.export())
    assert (answer["is"], answer["name"]) == ("export", "zscout-steps-open-grid.json")
    content = answer["content"]
    assert Setup.from_json(content["setup"]) == run.setup
    [one] = content["runs"]
    assert [step["reward"] for step in one["steps"]] == [None, 1, None]
    for name, key in (("observation", "from"), ("action", "action"), ("entered", "at")):
        assert [step[name] for step in one["steps"]] == [frame[key] for frame in shown]
    for step, recorded in zip(one["steps"], run._sides[0].steps, strict=True):
        assert close(one["followed"][step["z"]], recorded.z, 5)


# What is refused


@pytest.mark.parametrize("who", ["hidden", "person"])
def test_a_refused_call_changes_nothing(who: str) -> None:
    run = begun(who=who, seed=1, silence="zero")
    steps(run, 3)
    before = everything(run)
    huge = 10**400
    numbers: list[Any] = [None, "1", [1], {}, True, math.nan, math.inf, huge, -huge]
    no_cells: list[Any] = [[], {}, "1", None, 1, [[1]], [1, [2]], [1, 81], _nested(64), _nested(65)]
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("paint", {"cells": [1], "value": value}) for value in [*numbers, 10.1, -10.1]),
        *(("paint", {"cells": [value], "value": 1}) for value in [*numbers, -1, 81, 1.0, [[[1]]], 2**63, 2**64 - 1]),
        *(("paint", {"cells": cells, "value": 1}) for cells in no_cells),
        *(("task", {"number": value}) for value in [*numbers, -1, 10**6, 1.0]),
        *(("noise", {"value": value}) for value in [*numbers, -0.1, 5.1]),
        *(("silence", {"value": value}) for value in [*numbers, "zeros"]),
        *(("wait", {"value": value}) for value in [*numbers, "yes", 0] if value is not True),
        *(("give", {"step": 3, "value": value}) for value in [*numbers, 10.1, -10.1]),
        *(("give", {"step": value, "value": 1}) for value in [*numbers, 0, 4, -1, 3.0]),
        *(("skip", {"step": value}) for value in [*numbers, 0, 4, 3.0]),
        *([("clear", {})] if who == "person" else [("give", {"step": 3, "value": 1}), ("skip", {"step": 3})]),
    ]
    for do, fields in calls:
        with pytest.raises(ValueError, match=".") as refused:
            run.change(do, **fields) if do in SETTINGS else getattr(run, do)(**fields)
        assert type(refused.value) is ValueError, (do, fields)
    assert everything(run) == before
    steps(run, 1)


def _nested(depth: int) -> Any:
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    return nested


# Sentences


def test_a_place_is_one_of_nine_parts_of_the_map() -> None:
    for row, rows in ((0, "top"), (4, ""), (8, "bottom")):
        for column, columns in ((0, "left"), (4, ""), (8, "right")):
            place = f"{rows} {columns}".strip() or "middle"
            for size in (9, 15):
                found = place_of((row * (size - 1) // 8, column * (size - 1) // 8), (size, size))
                assert found == (f"{place} side" if place in ("left", "right") else place)


FACTS = Explanation(
    mode="tries",
    place="top right",
    there=False,
    expected=0.5,
    best=0.5,
    possible=1.42,
    least_known=True,
    weighs=True,
    told=7,
    largest=1.0,
    limit=3.0,
)


SAID: list[tuple[dict[str, Any], str]] = [  # in other situations, what must be said
    ({}, "Going to the top right: .* 1.4"),
    ({"limit": 1.0}, "1.0"),
    ({"limit": 1.0, "expected": 1.3, "best": 1.3}, "1.0 expected, not certain"),
    ({"limit": 1.0, "mode": "goes", "expected": 1.3}, "best place it knows, about 1.0"),
    ({"least_known": False}, "0.50 expected, not certain, .* 1.4"),
    ({"possible": 0.5}, "0.50 expected, almost certain"),
    ({"possible": 2.1}, "more than anything so far"),
    ({"there": True}, "Looking around the top right"),
    ({"weighs": False}, "not what looks best now"),
    ({"mode": "begins"}, "Nothing is known"),
    ({"mode": "wanders"}, "at random"),
    ({"mode": "stays", "there": True, "expected": -1.25, "best": -1.2}, "Staying around .* −1.2"),
    ({"mode": "goes", "best": 0.9}, "looked best before, now about 0.50"),
    ({"largest": 0.0, "told": 0}, "no reward yet"),
    ({"largest": 0.0, "mode": "stays"}, "every reward so far was 0, .* knows least"),
    ({"largest": 0.0, "weighs": False}, "every reward so far was 0"),
]


def test_the_sentence_of_each_situation() -> None:
    for changed, said in SAID:
        assert re.search(said, replace(FACTS, **changed).sentence), changed


def test_numbers_have_a_minus_sign_and_there_is_no_minus_zero() -> None:
    values = (0.0, -0.0, -0.004, 0.004, -0.01, 0.94, 0.96, -12.3)
    assert [number(value) for value in values] == ["0", "0", "0", "0", "−0.01", "0.94", "1.0", "−12.3"]


def test_the_sentence_fits_the_mode_and_the_target() -> None:
    run = LiveRun(Setup(), 500)
    run.paint(RIGHT, 1)
    shown = [side(frame) for frame in steps(run, 80)]
    world = GridArena().ground.world
    begins = {
        "tries": ("Going to the ", "Looking around the "),
        "goes": ("Going to the ",),
        "stays": ("Staying around the ",),
    }
    assert {one["mode"] for one in shown} == {"tries", "goes", "stays"}
    for one in shown:
        row, column = world.cells[one["heading"]].tolist()
        place = place_of((row, column), world.shape)
        assert one["says"].startswith(tuple(begin + place for begin in begins[one["mode"]]))
        assert "-" not in one["says"]
        if "best place" in one["says"]:
            assert one["estimate"][one["heading"]] >= max(one["estimate"]) - 0.1


@pytest.mark.parametrize(
    ("cells", "most"),
    [
        ([40], 0.5),  # in the middle: every second step at most
        ([0], 1.0),  # in a corner, and beside a wall, a move into the wall stays
        ([4], 1.0),
        ([40, 41], 1.0),  # two neighbours: back and forth
        ([10, 30], 0.5),
    ],
)
def test_what_can_be_collected_is_the_best_cycle(cells: list[int], most: float) -> None:
    run = LiveRun(Setup(), 10)
    told = json.loads(run.paint(cells, 1).messages[0])
    assert told["attainable"] == most
    exact = ground_of(Setup()).by_state.exact
    table = torch.zeros(81, dtype=torch.float64)
    table[cells] = 1
    nearly = float((1 - exact.gamma) * exact.value(table).max())  # v* (1 − γ) is close to it for γ near 1
    assert nearly == pytest.approx(most, abs=0.03)


def test_no_number_above_the_largest_possible_reward_is_said() -> None:
    run = LiveRun(Setup(noise=1.0), 500)
    run.paint(RIGHT, 1)
    said = [side(frame)["says"] for frame in steps(run, 60)]
    numbers = [float(text.replace("−", "-")) for one in said for text in re.findall(r"−?\d+(?:\.\d+)?", one)]
    assert numbers
    assert max(map(abs, numbers)) <= 1
