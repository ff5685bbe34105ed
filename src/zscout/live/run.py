"""A live run: one or two methods in a world, a reward that a person hides or gives, and every frame so far."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from zscout.edge import as_index, as_size
from zscout.lab.trace_file import Painting, TraceFile
from zscout.live.choices import ground_of, method_of
from zscout.live.messages import Told, message
from zscout.live.setup import Setup, noise_in, reward_in, silence_in, task_in, wait_in
from zscout.live.side import Side
from zscout.live.truth import Truth, random_table

LATE = 5  # steps: an answer that was on its way while the agent went on


class LiveRun:
    """Everything of a run but its clock; a call that raises ValueError has changed nothing."""

    def __init__(self, setup: Setup, most_steps: int) -> None:
        ground = ground_of(setup)
        self._ground, self._most = ground, most_steps
        self._setup = setup
        self._frames: list[bytes] = []
        self._sides = [Side(ground, name, method_of(name, setup, ground), setup.seed) for name in setup.methods]
        self._truth = None if setup.who == "person" else Truth(ground, self._hidden(setup))
        self._painted: list[Painting] = []  # every hidden reward, and since which step
        self._note()
        self._passed = 0  # the last step of which a person had nothing to say
        self._frames.append(self._frame())

    # What the page may ask for: each answers

    def begun(self, key: str, resumed: bool = False, after: Any = -1) -> Told:
        """The set-up, the hidden reward, and the frames of later steps than ``after``."""
        head = {"is": "begun", "run": key, "setup": self.setup.to_json(), "resumed": resumed, "reward": self._table()}
        known = as_size(after, "after", -1, self._most)
        answers = [message(head), *([] if self._truth is None else [self._reward()]), *self._frames[known + 1 :]]
        return self._told(answers)

    def step(self) -> Told:
        """One step of each method."""
        if self._ended:
            raise ValueError(f"a run has at most {self._most} steps: reset it")
        for side in self._sides:
            if side.untold:  # a person has had the time of a step to answer
                zero = self._setup.silence == "zero" and side.steps[-1].asks and self._passed < self._newest
                side.hear(0.0 if zero else None)
            side.move(asking=self._setup.who == "person")
            if self._truth is not None:
                side.hear(float(self._truth.table[side.steps[-1].entered]) + self._setup.noise * side.noise())
        self._frames.append(self._frame())
        return self._told([self._frames[-1]])

    def give(self, step: Any, value: Any) -> Told:
        """A person's reward of the place entered at a step: the last one, or one of a moment ago."""
        self._only("person")
        ago = self._newest - as_size(step, "step", max(1, self._newest - LATE), self._newest)
        reward, side = reward_in(value), self._sides[0]
        if side.steps[-1 - ago].reward is not None:
            raise ValueError(f"step {step} has its reward")
        if ago == 0 and side.untold:
            side.hear(reward)
        else:
            side.hear_late(ago, reward)
            self._frames[step] = _with_reward(self._frames[step], reward)
        self._frames[-1] = self._frame()
        return self._told([*([self._frames[step]] if ago else []), self._frames[-1]])

    def skip(self, step: Any) -> Told:
        """Nothing to say of a place; of one that it has left already nothing was told."""
        self._only("person")
        self._passed = max(self._passed, as_size(step, "step", max(1, self._newest - LATE), self._newest))
        return self._told([])

    def paint(self, cells: Any, value: Any) -> Told:
        """These states are worth so much from now on."""
        self._only("hidden")
        if not isinstance(cells, list) or not cells:
            raise ValueError("cells is a list of states")
        states, worth = as_index(cells, self._ground.world.n_states, "state"), reward_in(value)
        if states.ndim != 1:
            raise ValueError("cells is a list of states")
        return self._hide(self._truth_now.table.index_fill(0, states, worth))

    def task(self, number: Any) -> Told:
        """A random reward."""
        self._only("hidden")
        number = task_in(number)
        return self._hide(random_table(self._ground, number), number)

    def clear(self) -> Told:
        """No reward anywhere."""
        self._only("hidden")
        return self._hide(torch.zeros_like(self._truth_now.table))

    def noise(self, value: Any) -> Told:
        """σ of the hidden reward, from the next step on."""
        self._only("hidden")
        self._setup = replace(self._setup, noise=noise_in(value))
        self._note()
        return self._told([])

    def silence(self, value: Any) -> Told:
        """What it means when nothing is said."""
        self._setup = replace(self._setup, silence=silence_in(value))
        return self._told([])

    def wait(self, value: Any) -> Told:
        """Whether it waits for an answer where it asks."""
        self._setup = replace(self._setup, wait=wait_in(value))
        return self._told([])

    def trace(self) -> Told:
        """The whole run, as ``zscout compare --traces`` reads it."""
        if not self._newest:
            raise ValueError("nothing has happened yet: let it run first")
        setup = self._setup
        trace = TraceFile(
            **{name: getattr(setup, name) for name in ("world", "features", "model", "who", "memory", "seed")},
            noise=self._painted[0].noise if self._painted else setup.noise,
            rewards=self._painted,
            runs=[side.traced() for side in self._sides],
        )
        name = f"zscout-trace-{setup.world}-{setup.seed}.json"
        return self._told([message({"is": "trace", "name": name, "trace": trace.to_json()})])

    @property
    def setup(self) -> Setup:
        """What would begin the same run again, the reward as it is now."""
        return self._setup

    # How

    @property
    def _newest(self) -> int:
        return max(0, len(self._frames) - 1)

    @property
    def _ended(self) -> bool:
        return self._newest >= self._most

    @property
    def _truth_now(self) -> Truth:
        assert self._truth is not None
        return self._truth

    def _only(self, who: str) -> None:
        if self._setup.who != who:
            wanted = "a person is the reward" if who == "person" else "a reward is hidden"
            raise ValueError(f"that is for runs in which {wanted}")

    def _hidden(self, setup: Setup) -> torch.Tensor:
        if setup.task is not None:
            return random_table(self._ground, setup.task)
        states = self._ground.world.n_states
        table = (0.0,) * states if setup.table is None else setup.table
        if len(table) != states:
            raise ValueError(f"the table has {len(table)} numbers, this world has {states} states")
        return torch.tensor(table, dtype=torch.float64)

    def _hide(self, table: torch.Tensor, task: int | None = None) -> Told:
        self._truth = Truth(self._ground, table)
        painted = None if task is not None else tuple(table.tolist())
        self._setup = replace(self._setup, task=task, table=painted)
        self._note()
        return self._told([self._reward()])

    def _note(self) -> None:
        """The hidden reward as it is from now on."""
        if self._truth is None:
            return
        if self._painted and self._painted[-1].since == self._newest:  # nothing happened under the one before
            self._painted.pop()
        self._painted.append(Painting(self._newest, self._truth.table.tolist(), self._setup.noise))

    def _table(self) -> list[float] | None:
        return None if self._truth is None else [round(worth, 4) for worth in self._truth.table.tolist()]

    def _reward(self) -> bytes:
        truth, share = self._truth_now, self._truth_now.expressed
        return message(
            {
                "is": "reward",
                "reward": self._table(),
                "expressed": None if share is None else round(share, 3),
                "attainable": round(truth.attainable, 4),
                "since": self._painted[-1].since,
            }
        )

    def _frame(self) -> bytes:
        step = len(self._sides[0].steps)
        return message({"is": "frame", "step": step, "sides": [side.show(self._truth) for side in self._sides]})

    def _told(self, answers: Sequence[bytes]) -> Told:
        side = self._sides[0]
        open_still = side.untold and self._passed < self._newest
        asks = self._setup.who == "person" and open_still and side.steps[-1].asks
        setup = self._setup
        return Told(answers, asks, self._ended, {"noise": setup.noise, "silence": setup.silence, "wait": setup.wait})


def _with_reward(frame: bytes, reward: float) -> bytes:
    content = json.loads(frame)
    content["sides"][0]["reward"] = reward
    return message(content)
