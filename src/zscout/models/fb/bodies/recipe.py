"""What decides the training of an FB model of a body, apart from the body and the seed."""

from dataclasses import dataclass

from zscout.base.edge import as_size, in_range
from zscout.models.fb.recipe import LearnerRecipe


@dataclass(frozen=True, kw_only=True)
class BodyRecipe(LearnerRecipe):
    """FB updates while many bodies collect data under the model's own policies."""

    dim: int = 50
    gamma: float = 0.98
    hidden: int = 512
    layers: int = 2
    frequencies: int = 0
    quadratic: bool = False
    batch: int = 2_048
    learning_rate: float = 3e-4
    actor_rate: float = 3e-4
    goal_scale: tuple[float, ...] = ()  # of the goal features, about their largest values; (): from random controls
    steps: int = 260_000  # updates
    decay: float = 0.3  # last share of the updates, in which the rates fall to 0 along a half cosine
    bodies: int = 1_024  # side by side
    updates: int = 16  # for each step of all bodies
    buffer: int = 5_000_000  # transitions kept
    balance: float = 0.0  # a transition has weight n^−balance, n: transitions in its cell of heights and speeds
    warm_up: int = 100_000  # transitions under random controls before the first update
    episode: int = 500  # actions
    repeat: int = 1  # control steps of an action
    hold: int = 25  # actions after which a quarter of the bodies get a new z
    explorers: float = 0.5  # share of the bodies that follow the z with the largest ‖F(s,z)‖_{V⁻¹} …
    candidates: int = 16  # … of this number of z
    random: float = 0.1  # share of the bodies with random controls
    archive: float = 0.25  # share of the episodes that start in a state seen before, rare ones first

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "bodies", "updates", "buffer", "warm_up", "episode", "repeat", "hold", "candidates"):
            as_size(getattr(self, name), name, 1)
        for name in ("decay", "balance", "explorers", "random", "archive"):
            in_range(getattr(self, name), name, 0.0, 1.0)
        if self.buffer < max(self.warm_up, self.bodies):
            raise ValueError(f"buffer is {self.buffer}: expected at least warm_up and bodies")
