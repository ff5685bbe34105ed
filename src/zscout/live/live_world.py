"""A world as the live page sees it: places on a map, an environment, and what can be said of a step and of a reward."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jaxtyping import Float, Int
from torch import Tensor

from zscout.live.explanation import LiveMode
from zscout.transfer.rollout import Belief, Environment
from zscout.types import BehaviorModel
from zscout.worlds.grid import Cell


@dataclass(eq=False)
class RecordedStep:
    """The step from S_t to S_{t+1}; its reward may follow later."""

    state: Any  # S_t, an observation of the world
    action: Any  # A_t as plain numbers
    entered: Any  # S_{t+1}
    z: Float[Tensor, " d"]  # Z_t; while an explorer acts, the z it would keep
    belief: Belief  # at S_t
    episode: int
    asks: bool  # whether the agent wants a reward there
    reward: float | None = None  # R_{t+1}


class Hidden(Protocol):
    """A hidden reward."""

    table: Float[Tensor, " n"]  # the reward of each place

    @property
    def expressed(self) -> float | None:
        """R² of the nearest φ·z; None if every policy is worth the same."""

    @property
    def attainable(self) -> float | None:
        """The largest mean reward per step of any policy; None if it is unknown."""


class Judge(Protocol):
    """Says where one method's behaviour leads, and what else this world shows of its steps."""

    mode: LiveMode
    target: int | None  # the place where π(·,Z_t) leads

    def assess(self, steps: Sequence[RecordedStep], best_z: Float[Tensor, " d"], hidden: Hidden | None) -> None:
        """Judge the last step; called once after each step, and once before the first."""

    def shown(self, steps: Sequence[RecordedStep], obs: Any, hidden: Hidden | None) -> dict[str, Any]:
        """The parts of a frame that only this world has; ``obs`` is the start while there is no step."""


class LiveWorld(Protocol):
    """A world with its model. Maps, paintings and targets are of ``places``: squares on a map."""

    @property
    def model(self) -> BehaviorModel:
        """The agent's model."""

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

    def method_options(self, name: str) -> dict[str, Any]:
        """Arguments that a method needs in this world."""

    def random_task(self, number: int) -> Float[Tensor, " n"]:
        """The reward of each place in a random task."""

    def hide(self, table: Float[Tensor, " n"]) -> Hidden:
        """A hidden reward."""

    def environment(
        self, reward: Float[Tensor, "1 n"], noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]
    ) -> Environment:
        """One run; ``reward`` and ``noise`` may be changed in place."""

    def judge(self, best_z: Float[Tensor, " d"]) -> Judge:
        """A judge of an agent with this z to keep."""
