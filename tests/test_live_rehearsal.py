"""A body that knows when it is done: behaviours tried out in the simulator, words about it, and no more questions."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from live_frames import close, frames, messages, side, steps
from zscout.base.randomness import Streams
from zscout.lab.arenas.body import BodyArena
from zscout.live.session import rehearsal
from zscout.live.session.rehearsal import Rehearsals, rehearsed
from zscout.live.session.run import LiveRun
from zscout.live.session.setup import Setup
from zscout.transfer.agent import OnlineTransfer
from zscout.watch.progress import CERTIFICATES, DONE_BELOW, Certificates, Progress
from zscout.worlds.bodies.tasks import body_task

ARENA = BodyArena("cheetah-fb", body="cheetah")
EVERY = 30  # labels from one rehearsal to the next, where nothing is simulated


def taught(task: str, labels: int) -> OnlineTransfer:
    """An agent that knows the reward of some saved observations."""
    agent, obs = OnlineTransfer(ARENA.bfm), ARENA.observations(labels, 0)
    agent.learn(obs, body_task(ARENA.world, task)(obs).double())
    return agent


def test_little_is_left_when_the_task_is_known_and_much_when_it_is_not() -> None:
    state = ARENA.starts(Streams(torch.tensor([0])))
    for task in ("walk-backward", "crouch"):
        lefts = []
        for labels in (5_000, 5):
            certificates = Certificates(taught(task, labels))
            certificates.add(ARENA.observe(state)[0])
            assert certificates.progress.left is not None
            lefts.append(certificates.progress.left)
        assert lefts[0] < 0.2 < 0.4 < lefts[1] <= 1


def test_a_learned_psi_without_an_atlas_says_nothing_about_what_is_left() -> None:
    agent = OnlineTransfer(ARENA.bfm, atlas=None)
    certificates = Certificates(agent)
    certificates.add(ARENA.observe(ARENA.starts(Streams(torch.tensor([0]))))[0])
    assert certificates.progress == Progress()


def test_it_is_in_words() -> None:
    assert "not known yet" in Progress().in_words(person=True)
    assert "42 %" in Progress(0.424).in_words(person=False)
    assert "feel" in Progress(0.4, felt=False).in_words(person=True)
    phases = [Progress(), Progress(0.9), Progress(0.2), Progress(0.1), Progress(0.1, sure=True)]
    assert [one.phase for one in phases] == ["learning", "learning", "fine-tuning", "fine-tuning", "done"]
    assert Progress(0.1, felt=False).phase == "learning"


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What each certificate says: the last of these; rehearsals are short."""
    shares = [0.0]
    monkeypatch.setattr(OnlineTransfer, "certificate", lambda *_, **__: SimpleNamespace(share=shares[-1]))
    for name, number in (("LABELS_APART", EVERY), ("ACTIONS", 1), ("STARTING", 0)):
        monkeypatch.setattr(rehearsal, name, number)
    return shares


def start() -> tuple[Tensor, Tensor]:
    """A state and its observation."""
    states = ARENA.starts(Streams(torch.tensor([0])))
    return states[0], ARENA.observe(states)[0]


def test_it_is_sure_after_some_certificates_in_a_row_and_no_longer_when_they_find_more(found: list[float]) -> None:
    agent = taught("crouch", 500)
    rehearsals, (state, obs) = Rehearsals(ARENA, agent), start()
    for number in range(1, CERTIFICATES + 1):
        assert not rehearsals.progress.sure
        rehearsals.go_on(EVERY * number - 1, state, obs, 2)  # not due yet
        assert (rehearsals.progress.left is None) == (number == 1)
        rehearsals.go_on(EVERY * number, state, obs, 2)
    assert rehearsals.progress == Progress(0.0, sure=True, felt=True)
    found.append(4.1 * DONE_BELOW)
    rehearsals.go_on(EVERY * (CERTIFICATES + 1), state, obs, 2)
    assert not rehearsals.progress.sure
    assert rehearsals.progress.left == pytest.approx(4.1 * DONE_BELOW / 4)
    rehearsals.start_anew()
    assert rehearsals.progress == Progress()


def test_what_the_features_cannot_tell_is_not_felt_and_then_it_is_never_sure(found: list[float]) -> None:
    state, obs = start()
    for felt in (True, False):
        agent, seen = OnlineTransfer(ARENA.bfm), ARENA.observations(2_000, 0)
        coins = torch.rand(len(seen), generator=torch.Generator().manual_seed(0)).double().round()
        agent.learn(seen, body_task(ARENA.world, "walk")(seen).double() if felt else coins)
        rehearsals = Rehearsals(ARENA, agent)
        for number in range(1, CERTIFICATES + 1):
            rehearsals.go_on(EVERY * number, state, obs, 2)
        assert (rehearsals.progress.felt, rehearsals.progress.sure) == (felt, felt)


def test_a_ghost_is_the_behaviour_to_keep_as_it_was_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Few actions: a batch of another size rounds differently, and a body that touches the ground amplifies it.
    for name, number in (("LABELS_APART", 8), ("ACTIONS", 12), ("STARTING", 4)):
        monkeypatch.setattr(rehearsal, name, number)
    run = LiveRun(Setup.from_json({"world": "cheetah", "seed": 3, "reward": {"task": 2}, "methods": ["greedy"]}), 600)
    side = run._sides[0]
    while side._rehearsals is not None and side._rehearsals._running is None:
        assert not [content for content in messages(run.step()) if content["is"] == "ghost"]
    state, z = side._env.state, side.agent.best_z  # the first rehearsal begins with these
    [ghost] = [content for _ in range(12) for content in messages(run.step()) if content["is"] == "ghost"]
    assert (ghost["side"], ghost["since"]) == (0, run._newest)
    entered = [states[0] for states in rehearsed(ARENA, state, z.double()[None], 12)]
    ends, _ = ARENA.world.segments(torch.stack(entered[4:]))
    assert close(ghost["poses"], ends.flatten(1), 2)
    assert messages(run.begun("key", resumed=True))[-1] == ghost  # a page that comes back has it too


def test_there_is_no_ghost_before_anything_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in (("LABELS_APART", 8), ("ACTIONS", 12), ("STARTING", 4)):
        monkeypatch.setattr(rehearsal, name, number)
    run = LiveRun(Setup.from_json({"world": "cheetah", "who": "person", "silence": "zero"}), 600)
    heard = [content["is"] for _ in range(100) for content in messages(run.step())]
    assert {*heard} == {"frame", "credit"}


def person(**setup: Any) -> LiveRun:
    return LiveRun(Setup.from_json({"world": "cheetah", "who": "person", **setup}), 3_000)


def until_sure(run: LiveRun) -> None:
    step = 0
    while not run._sides[0].done:
        step += 1
        steps(run, 1)
        if step % 8 == 0:
            run.thumb(step, 1, 20)
        assert step <= EVERY * (CERTIFICATES + 1)


def test_when_it_is_sure_it_keeps_its_behaviour_asks_no_more_and_thumbs_still_count(found: list[float]) -> None:
    run = person(seed=1)
    until_sure(run)
    agent = run._sides[0].agent
    before, best = agent.t, agent.best_z
    shown = [side(frame) for frame in steps(run, 60)]
    assert {(one["mode"], one["sure"]) for one in shown} == {("done", True)}
    assert "ask no more" in shown[-1]["says"]
    assert shown[-1]["knows"] == "At most 0 % could still be gained."
    assert (agent.t, shown[-1]["told"]) == (before, shown[0]["told"])  # silence teaches nothing, and nothing fades
    assert torch.equal(agent.best_z, best)
    for step in run._sides[0].steps[-60:]:
        assert torch.allclose(step.z, best)
    credit, newest = messages(run.thumb(run._newest, -1, 20))
    assert side(newest)["told"] == shown[-1]["told"] + len(credit["steps"])
    assert not torch.equal(agent.best_z, best)


def test_it_goes_on_when_asked_to_or_when_it_is_no_longer_sure(found: list[float]) -> None:
    run = person(seed=1)
    until_sure(run)
    [frame] = messages(run.learn())
    assert not side(frame)["sure"]
    assert side(steps(run, 1)[0])["mode"] != "done"
    until = run._newest
    while not run._sides[0].done:  # it can become sure again, after as many rehearsals as at first
        steps(run, 1)
    assert run._newest - until >= EVERY * (CERTIFICATES - 1)
    found.append(1.0)
    for number in range(1, 4 * OF_LABELS):
        run.clips()
        told, frame, *_ = messages(run.prefer(number, 0))
        if not told["done"]:
            break
    assert not side(frame)["sure"]
    assert side(steps(run, 1)[0])["mode"] != "done"


OF_LABELS = math.ceil(EVERY / rehearsal.OF_AN_ANSWER)


def test_answers_about_clips_alone_can_make_it_sure(found: list[float]) -> None:
    run, answers = person(seed=1), 0
    while not run._sides[0].done:
        answers += 1
        run.clips()
        told, *_ = messages(run.prefer(answers, answers % 2))
        assert answers <= OF_LABELS * CERTIFICATES
    assert told == {"is": "preferred", "answers": OF_LABELS * CERTIFICATES, "done": True}
    assert side(frames(run.step())[0])["mode"] == "done"


def test_only_a_person_is_told_that_it_is_done_and_only_of_a_body(found: list[float]) -> None:
    hidden = LiveRun(Setup.from_json({"world": "cheetah", "reward": {"task": 1}}), 3_000)
    shown = [side(frame) for frame in steps(hidden, EVERY * CERTIFICATES + 5)]
    assert shown[-1]["sure"]
    assert "done" not in {one["mode"] for one in shown}
    for run in (hidden, LiveRun(Setup(who="person"), 10)):
        with pytest.raises(ValueError, match="only"):
            run.learn()
