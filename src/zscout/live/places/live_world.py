"""A world as the live page sees it: an environment, a hidden reward, and what is shown of a run. Maps are one kind."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.lab.arenas.arena import Arena
from zscout.live.places.explanation import LiveMode
from zscout.loop.rollout import Belief, Environment
from zscout.transfer.agent import OnlineTransfer
from zscout.watch.progress import Progress
from zscout.worlds.grids.grid import Cell

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
    scene: Any = None  # what the environment shows of S_{t+1} and the observation does not have
    shown: bool = False  # it follows a z that a person chose, not the agent's
    done: bool = False  # the agent is sure: it follows the z that it keeps
    reward: float | None = None  # R_{t+1}

    def slim(self, before: "RecordedStep | None") -> None:
        """Drop what only the newest steps need; a run of a body is long."""
        self.scene, self.belief, self.action = None, DROPPED, np.asarray(self.action, np.float32)
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
    scene: Any  # of the environment now
    weighs: bool  # whether the method uses uncertainty to choose
    progress: Progress  # of a body


class Hidden(Protocol):
    """A hidden reward."""

    table: Float[Tensor, " n"]  # on a map the reward of each place, on a stage the weight of each part

    @property
    def expressed(self) -> float | None:
        """R² of the nearest φ·z; None if every policy is worth the same."""

    @property
    def attainable(self) -> float | None:
        """The largest mean reward per step of any policy; None if it is unknown."""

    @property
    def truth(self) -> list[float] | None:
        """Its correlation with each goal feature of a body; None on maps."""


class Judge(Protocol):
    """Judges one method's steps, and says what the page shows of them."""

    mode: LiveMode

    def assess(self, steps: Sequence[RecordedStep], best_z: Float[Tensor, " d"], hidden: Hidden | None) -> None:
        """Judge the last step; called once after each step, and once before the first."""

    def shown(self, run: RunSoFar, hidden: Hidden | None) -> dict[str, Any]:
        """The parts of a frame that depend on the kind of world."""


class LiveEnvironment(Environment, Protocol):
    """One run in a world."""

    @property
    def scene(self) -> Any:
        """What the page draws and the observation does not have; None: nothing."""

    @property
    def state(self) -> Any:
        """The state, if it is more than the observation; else None."""


class LiveWorld(Protocol):
    """A world with its model. A hidden reward is a table: its entries are places of a map, or parts of a reward."""

    @property
    def arena(self) -> Arena:
        """The arena of the laboratory, with the agent's model."""

    @property
    def entries(self) -> int:
        """Length of the table of a hidden reward."""

    @property
    def constants(self) -> dict[str, Any]:
        """What the page needs to draw every frame of a run, sent once."""

    def random_task(self, number: int) -> Float[Tensor, " n"]:
        """The table of a random task."""

    def hide(self, table: Float[Tensor, " n"]) -> Hidden:
        """A hidden reward."""

    def environment(
        self, reward: Float[Tensor, "1 n"], noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]
    ) -> LiveEnvironment:
        """One run; ``reward`` and ``noise`` may be changed in place."""

    def judge(self, best_z: Float[Tensor, " d"]) -> Judge:
        """A judge of an agent with this best z."""


class LiveMap(LiveWorld, Protocol):
    """A world with places: squares on a map. Paintings, estimates and targets are of these."""

    @property
    def shape(self) -> Cell:
        """Rows and columns of the map, in squares."""

    @property
    def places(self) -> list[Cell]:
        """Row and column of each place; other squares are walls."""

    @property
    def features(self) -> Float[Tensor, "n d"]:
        """φ of each place."""

    def place(self, obs: Any) -> int:
        """The place of an observation."""
