"""How far a run is: learning, fine-tuning or done, and how much could still be gained."""

from collections import deque
from dataclasses import dataclass
from typing import Literal, TypeAlias

from zscout.base.types import HasExactPsi, Obs
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.score.forecast import offers

Phase: TypeAlias = Literal["learning", "fine-tuning", "done"]
FINE_TUNING_BELOW, DONE_BELOW = 0.3, 0.15  # shares that are left: less than these, it is fine-tuning, or done
CERTIFICATES = 4  # their mean decides that it is done
FEW_LABELS, UNFELT = 150, 0.1  # labels after which a lower R² says: the features do not tell good from bad


@dataclass(frozen=True)
class Progress:
    """What an agent knows about how good it is."""

    left: float | None = None  # the share of the best behaviour's worth that is missing; None: unknown
    sure: bool = False  # whether that is little
    felt: bool = True  # whether the features tell good from bad

    @property
    def phase(self) -> Phase:
        """What it does."""
        if self.sure:
            return "done"
        return "fine-tuning" if self.felt and self.left is not None and self.left <= FINE_TUNING_BELOW else "learning"

    def in_words(self, person: bool = False) -> str:
        """One sentence."""
        if not self.felt:
            what = "What you like" if person else "This reward"
            return f"{what} is not something I can feel, or I have not done it yet."
        if self.left is None:
            return "How much could still be gained is not known yet."
        return f"At most {round(100 * self.left)} % could still be gained."


class Certificates:
    """The last certificates of one agent: what is left is their mean.

    A learned ψ is wrong by more than what is left: its certificates count only with an atlas, which measures ψ.
    """

    def __init__(self, agent: OnlineTransfer) -> None:
        self._agent = agent
        model = agent.bfm
        self._usable = agent.atlas is not None or (offers(model, HasExactPsi) and model.psi_is_exact)
        self._shares: deque[float] = deque(maxlen=CERTIFICATES)
        self.progress = Progress()

    def add(self, obs: Obs) -> None:
        """One more, at an observation."""
        if self._usable:
            self._shares.append(float(self._agent.certificate(obs=obs).share))
        left = sum(self._shares) / len(self._shares) if self._shares else None
        fit = self._agent.fit
        felt = not (float(fit.count) >= FEW_LABELS and float(fit.high) < UNFELT)
        sure = left is not None and len(self._shares) == CERTIFICATES and left <= DONE_BELOW and felt
        self.progress = Progress(left, sure, felt)

    def start_anew(self) -> None:
        """Be sure of nothing until there are as many certificates as at first."""
        self._shares.clear()
        self.progress = Progress()
