"""What a method is made of."""

from dataclasses import dataclass, field

from zscout.edge import as_positive, as_size, in_range
from zscout.transfer.acquisition import UCB, Acquisition
from zscout.transfer.confidence import Confidence, Constant
from zscout.transfer.explorers import Explorer
from zscout.transfer.search import Automatic, Search
from zscout.transfer.trials import Trials


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way to choose z, as its pieces; each can be swapped: ``replace(method, acquisition=Thompson())``."""

    ridge: float = 0.1  # λ
    confidence: Confidence = field(default_factory=Constant)  # √β_t
    acquisition: Acquisition = field(default_factory=UCB)  # what makes a z worth trying
    search: Search | Trials = field(default_factory=Automatic)  # over which z
    hold: int | str = 1  # for how many steps a z is kept
    forgetting: float = 1.0  # ρ: what a reward weighs after each further one
    intercept: bool = True  # fit r ≈ φ·z + c with c free: a constant in the reward changes nothing
    explorer: Explorer | None = None  # chooses actions in place of z …
    explore_for: int | None = None  # … for so many steps, or for ever

    def __post_init__(self) -> None:
        as_positive(self.ridge, "ridge")
        if isinstance(self.hold, str) and self.hold != "episode":
            raise ValueError(f"hold is a number of steps or 'episode', got {self.hold!r}")
        if self.hold != "episode":
            as_size(self.hold, "hold", 1, 2**53)  # beyond that a float is no exact count
        as_positive(in_range(self.forgetting, "forgetting", 0.0, 1.0), "forgetting")
        if not isinstance(self.intercept, bool):
            raise ValueError(f"intercept must be True or False, got {self.intercept!r}")
        if self.explorer is not None and not isinstance(self.explorer, Explorer):
            raise ValueError(f"explorer must be an Explorer or None, got {self.explorer!r}")
        if self.explore_for is not None:
            as_size(self.explore_for, "explore_for", 0)
            if self.explorer is None:
                raise ValueError("explore_for is for how many steps an explorer acts: there is no explorer")
        for name in ("confidence", "acquisition"):
            if not callable(getattr(self, name)) or isinstance(getattr(self, name), type):
                raise ValueError(f"{name} must be a callable, an instance and no class, got {getattr(self, name)!r}")
        if isinstance(self.search, type) or not (callable(self.search) or isinstance(self.search, Trials)):
            raise ValueError(f"search must be a callable or Trials, got {self.search!r}")
