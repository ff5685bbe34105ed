"""A live run: one or two methods, and a reward that a person hides or gives."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from zscout.base.edge import as_index, as_size, in_range
from zscout.live.server.limits import Limits
from zscout.live.server.messages import SETTINGS, Reply, encode
from zscout.live.session.late_credit import credited, out_of_reach
from zscout.live.session.method_run import MethodRun
from zscout.live.session.offers import offer_of
from zscout.live.session.rehearsal import Clip
from zscout.live.session.run_reward import RunReward
from zscout.live.session.setup import Setup, reward_in, task_in
from zscout.live.session.step_file import step_file

LATE_STEPS = 5  # steps: an answer may arrive after the agent has moved on
LATE_THUMB = 50  # the same for a thumb, which is about many steps
KEPT_FRAMES = 2_000  # frames of a body that a page can show; of a map, all
SILENT_STEPS = 10  # steps that learn together that no thumb came


class LiveRun:
    """A run without its clock. Public methods are the page's commands; one that raises ValueError changes nothing."""

    def __init__(self, setup: Setup, most_steps: int) -> None:
        self.setup = setup  # would start this run again, with the hidden reward as it is now
        self._most, self._person = most_steps * offer_of(setup.world).length, setup.who == "person"
        self._frames: list[bytes] = []
        # On a map the agent asks about places; on a stage a person watches and credits the last second.
        self._on_stage = offer_of(setup.world).kind == "stage"
        self._watched = self._person and self._on_stage
        self._reward = RunReward(setup)
        self._sides = [MethodRun(setup, name, self._reward) for name in setup.methods]
        self._pair: tuple[Clip, Clip] | None = None  # shown to the person
        self._asked_pairs = self._preferred = 0
        self._skipped = 0  # the last step that a person skipped
        self._ghosts: dict[int, bytes] = {}  # the newest of each method
        self._add_frame()

    def begun(self, key: str, resumed: bool = False, after: Any = -1) -> Reply:
        """The set-up, the hidden reward, and the frames of the steps after ``after``."""
        known = as_size(after, "after", -1, self._most)
        head = {
            "is": "begun",
            "run": key,
            "setup": self.setup.to_json(),
            "resumed": resumed,
            "reward": self._reward.listed(),
            "constants": self.setup.live_world.constants,
            "showing": self._sides[0].shown_z is not None,
        }
        frames = filter(None, self._frames[known + 1 :])
        return self._reply([encode(head), *self._reward.messages(), *frames, *self._ghosts.values()])

    def step(self) -> Reply:
        """One step of each method."""
        if self._ended:
            raise ValueError(f"a run has at most {self._most} steps: reset it")
        for side in self._sides:
            if side.untold is not None:  # a person had the time of one step to answer
                zero = self.setup.silence == "zero" and side.steps[-1].asks and self._skipped < self._newest
                side.tell(0.0 if zero else None)
            side.move()
            if not self._person and side.untold is not None:
                side.tell(side.untold.reward)
            elif self._watched:
                side.tell(None)  # a thumb comes later, if at all
        credit = self._credit_silence()
        self._add_frame()
        return self._reply([*credit, self._frames[-1], *self._new_ghosts()])

    def thumb(self, step: Any, value: Any, pace: Any) -> Reply:
        """A person's thumb while ``step`` is shown at ``pace`` steps a second: see ``late_credit``."""
        self._check_who("person")
        if not self._watched:
            raise ValueError("thumbs over time are for bodies; on a map, give a reward for a place")
        shown = as_size(step, "step", max(1, self._newest - LATE_THUMB), self._newest)
        reward, pace = reward_in(value), in_range(pace, "pace", Limits.slowest, Limits.fastest)
        steps = credited(shown, pace)
        credit = self._credit(steps[0], steps[-1], reward)
        if credit:
            self._frames[-1] = self._frame()
        return self._reply([*credit, self._frames[-1]] if credit else [])

    def give(self, step: Any, value: Any) -> Reply:
        """A person's reward for the place entered at a step, at most a few steps ago."""
        self._check_who("person")
        ago = self._newest - as_size(step, "step", max(1, self._newest - LATE_STEPS), self._newest)
        reward, side = reward_in(value), self._sides[0]
        if side.steps[-1 - ago].reward is not None:
            raise ValueError(f"step {step} already has a reward")
        if ago == 0 and side.untold is not None:
            side.tell(reward)
        else:
            self._credit(step, step, reward)
        self._frames[-1] = self._frame()
        return self._reply([*([self._frames[step]] if ago else []), self._frames[-1]])

    def skip(self, step: Any) -> Reply:
        """A person gives no reward for the place entered at a step."""
        self._check_who("person")
        self._skipped = max(self._skipped, as_size(step, "step", max(1, self._newest - LATE_STEPS), self._newest))
        return self._reply([])

    def paint(self, cells: Any, value: Any) -> Reply:
        """Set the hidden reward of some states."""
        self._check_who("hidden")
        table = self._reward.table[0]
        if not isinstance(cells, list) or not cells or (states := as_index(cells, len(table), "state")).ndim != 1:
            raise ValueError("cells must be a list of states")
        return self._hide(table=tuple(table.index_fill(0, states, reward_in(value)).tolist()))

    def task(self, number: Any) -> Reply:
        """Hide the reward of a random task."""
        self._check_who("hidden")
        return self._hide(task=task_in(number))

    def clear(self) -> Reply:
        """Set the hidden reward to 0 everywhere."""
        self._check_who("hidden")
        return self._hide(table=(0.0,) * self._reward.table.shape[1])

    def change(self, name: str, value: Any) -> Reply:
        """Change the set-up's ``noise`` (of a hidden reward), ``silence`` or ``wait`` from now on."""
        if name == "noise":
            self._check_who("hidden")
        self.setup = replace(self.setup, **{name: value})
        if name == "noise":
            self._reward.noise.fill_(self.setup.noise)
        return self._reply([])

    def behaviour(self) -> Reply:
        """The z that the first method would keep, and what goes with it."""
        self._check_stage()
        side, setup = self._sides[0], self.setup
        z, likes = side.best_z, side.frame(self._reward.hidden)["likes"]
        found = {"world": setup.world, "model": setup.model, "z": z, "likes": likes}
        return self._reply([encode({"is": "behaviour", **found})])

    def show(self, z: Any) -> Reply:
        """Pause the agent and show the behaviour of a z; None: the agent goes on. Rewards count in both cases."""
        self._check_stage()
        found = [side.behaviour_in(z) for side in self._sides]  # all of them, before anything changes
        for side, one in zip(self._sides, found, strict=True):
            side.shown_z = one
        return self._reply([encode({"is": "showing", "showing": z is not None})])

    def clips(self) -> Reply:
        """Two clips to compare, those that teach most."""
        self._check_who("person")
        self._check_stage()
        if self._preferred >= Limits.answers:
            raise ValueError(
                f"this run has {self._preferred} answers, the most that it keeps: give rewards, or begin again"
            )
        self._pair = self._sides[0].clips(self.setup.seed + self._asked_pairs + 1)
        self._asked_pairs += 1
        ends = [clip.ends for clip in self._pair]
        return self._reply([encode({"is": "clips", "number": self._asked_pairs, "clips": ends})])

    def prefer(self, number: Any, better: Any) -> Reply:
        """Which of the clips with this number is better, 0 or 1; None: neither."""
        self._check_who("person")
        if self._pair is None or as_size(number, "number", 0) != self._asked_pairs:
            raise ValueError("these clips are no longer shown: ask for new ones")
        chosen = None if better is None else as_size(better, "better", 0, 1)
        if chosen is not None:
            first, second = self._pair
            good, bad = (second, first) if chosen else (first, second)
            self._sides[0].prefer(good, bad)
            self._preferred += 1
        self._pair = None
        self._frames[-1] = self._frame()
        told = {"is": "preferred", "answers": self._preferred, "done": self._sides[0].done}
        return self._reply([encode(told), self._frames[-1], *self._new_ghosts()])

    def learn(self) -> Reply:
        """Go on learning and asking although it is sure."""
        self._check_who("person")
        self._check_stage()
        self._sides[0].learn_on()
        self._frames[-1] = self._frame()
        return self._reply([self._frames[-1]])

    def export(self) -> Reply:
        """Every step of the run, as a file."""
        if not self._newest:
            raise ValueError("there is no step yet: press play first")
        setup = self.setup
        content = step_file(setup.to_json(), [(side.name, side.best_z, side.steps) for side in self._sides])
        return self._reply([encode({"is": "export", "name": f"zscout-steps-{setup.world}.json", "content": content})])

    def _credit_silence(self) -> list[bytes]:
        """Reward 0 for the steps that no thumb can reach any more, if silence means that."""
        last = out_of_reach(self._newest, Limits.fastest)
        # Who has been told that it is done need not watch any more: silence means nothing then.
        counts = self._watched and self.setup.silence == "zero" and not self._sides[0].done
        due = counts and last >= SILENT_STEPS and last % SILENT_STEPS == 0
        return self._credit(last - SILENT_STEPS + 1, last, 0.0) if due else []

    def _credit(self, first: int, last: int, reward: float) -> list[bytes]:
        """Learn the reward of a range of steps that have none, and tell the page."""
        steps = self._sides[0].credit(first, last, reward)
        for step in steps:
            frame = json.loads(self._frames[step])
            frame["sides"][0]["reward"] = reward
            self._frames[step] = encode(frame)
        return [encode({"is": "credit", "steps": steps, "value": reward})] if steps else []

    def _new_ghosts(self) -> list[bytes]:
        """What each method would keep, if it has just been rehearsed."""
        new = {
            number: encode({"is": "ghost", "side": number, "since": self._newest, "poses": poses})
            for number, side in enumerate(self._sides)
            if (poses := side.ghost())
        }
        self._ghosts |= new
        return [*new.values()]

    @property
    def _newest(self) -> int:
        return max(0, len(self._frames) - 1)

    @property
    def _ended(self) -> bool:
        return self._newest >= self._most

    def _check_who(self, who: str) -> None:
        if self.setup.who != who:
            wanted = "a person gives the reward" if who == "person" else "the reward is hidden"
            raise ValueError(f"this works only in runs where {wanted}")

    def _check_stage(self) -> None:
        if not self._on_stage:
            raise ValueError("behaviours are saved and shown of bodies only")

    def _hide(self, task: int | None = None, table: tuple[float, ...] | None = None) -> Reply:
        self.setup = replace(self.setup, task=task, table=table)
        self._reward.hide(self.setup, self._newest)
        return self._reply(self._reward.messages())

    def _add_frame(self) -> None:
        for side in self._sides:
            side.assess(self._reward.hidden)
        self._frames.append(self._frame())
        if self._on_stage and len(self._frames) > KEPT_FRAMES:
            self._frames[-KEPT_FRAMES - 1] = b""

    def _frame(self) -> bytes:
        step = len(self._sides[0].steps)
        return encode({"is": "frame", "step": step, "sides": [side.frame(self._reward.hidden) for side in self._sides]})

    def _reply(self, messages: Sequence[bytes]) -> Reply:
        side, setup = self._sides[0], self.setup
        unanswered = side.untold is not None and self._skipped < self._newest
        asks = self._person and unanswered and side.steps[-1].asks
        return Reply(messages, asks, self._ended, {name: getattr(setup, name) for name in SETTINGS})
