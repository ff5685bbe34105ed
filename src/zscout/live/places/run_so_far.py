"""What the page keeps of a run in any kind of world."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from zscout.loop.rollout import Belief
from zscout.transfer.agent import OnlineTransfer
from zscout.watch.progress import Progress

RECENT = 20  # rewards
DROPPED = Belief(False, torch.zeros(()), *[torch.empty(0)] * 2)


@dataclass(eq=False, slots=True)
class RecordedStep:
    """The step from S_t to S_{t+1}; its reward may follow later."""

    state: Any  # S_t, an observation of the world
    action: Any  # A_t as plain numbers
    entered: Any  # S_{t+1}
    z: Float[Tensor, " d"]  # Z_t; while an explorer acts, the best z
    belief: Belief  # at S_t
    episode: int
    asks: bool  # whether the agent wants a reward there
    shown: bool = False  # it follows a z that a person chose, not the agent's
    done: bool = False  # the agent is sure: it follows the z that it keeps
    reward: float | None = None  # R_{t+1}

    def slim(self, before: "RecordedStep | None") -> None:
        """Drop what only the newest steps need; a run of a body is long."""
        self.belief, self.action = DROPPED, np.asarray(self.action, np.float32)
        self.entered = np.array(self.entered)  # a copy: the old one holds a tensor
        if before is not None and torch.equal(before.z, self.z):  # a z is held for a while
            self.z = before.z
        if before is not None and before.episode == self.episode:
            self.state = before.entered


@dataclass(eq=False)
class Told:
    """The rewards that an agent learned from."""

    count: int = 0
    largest: float = 0.0  # in absolute value
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(self, reward: float) -> None:
        """One more."""
        self.count, self.largest = self.count + 1, max(self.largest, abs(reward))
        self.recent.append(reward)


@dataclass(frozen=True, eq=False)
class RunSoFar:
    """What a frame is made from."""

    agent: OnlineTransfer
    steps: Sequence[RecordedStep]
    told: Told
    obs: Any  # where it is; a method that tries rollouts may be back at its start
    weighs: bool  # whether the method uses uncertainty to choose
    progress: Progress  # of a body
