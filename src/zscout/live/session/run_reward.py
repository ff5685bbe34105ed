"""The hidden reward of a run, and its messages to the page."""

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.live.places.explanation import rounded
from zscout.live.places.hidden_reward import Hidden
from zscout.live.server.messages import encode
from zscout.live.session.setup import Setup


class RunReward:
    """``table`` and ``noise`` change in place: environments read them. Where a person gives it, nothing is hidden."""

    def __init__(self, setup: Setup) -> None:
        self.table: Float[Tensor, "1 n"] = setup.hidden_table()[None].clone()
        self.noise: Float[Tensor, " 1"] = torch.tensor([setup.noise], dtype=torch.float64)
        self.hidden: Hidden | None = None
        self._since = 0  # the step from which on it is hidden
        if setup.who == "hidden":
            self.hide(setup, 0)

    def hide(self, setup: Setup, step: int) -> None:
        """Hide the reward of a set-up from this step on."""
        table = setup.hidden_table()
        self.table[0] = table
        self.hidden = setup.live_world.hide(table)
        self._since = step

    def listed(self) -> list[float] | None:
        """The table as plain numbers; None if nothing is hidden."""
        found: list[float] | None = None if self.hidden is None else rounded(self.table[0])
        return found

    def messages(self) -> list[bytes]:
        """What the page is told: the table, how much of it the features express, and what can be attained."""
        if self.hidden is None:
            return []
        content = {
            "is": "reward",
            "reward": self.listed(),
            "expressed": rounded(self.hidden.expressed, 3),
            "attainable": rounded(self.hidden.attainable),
            "since": self._since,
        }
        return [encode(content if self.hidden.truth is None else {**content, "truth": self.hidden.truth})]
