"""What decides the training of an FB model, and a line of its log."""

import math
from dataclasses import dataclass, fields
from typing import Any, get_args, get_origin

from zscout.base.edge import as_discount, as_positive, as_size, in_range
from zscout.base.files import short

LARGE = 1e9  # of numbers in lists
LEAST = {"batch": 8, "frequencies": 0}  # whole numbers that are not at least 1
WEIGHTS = ("orthonormality", "value_weight")  # of parts of the loss: 0 or more
POSITIVE = ("learning_rate", "actor_rate", "tau", "force")


def as_numbers(value: Any, name: str, *, whole: bool) -> tuple[Any, ...]:
    """Numbers of moderate size; a list of a command becomes a tuple."""
    kinds = (int,) if whole else (int, float)
    right = isinstance(value, list | tuple) and all(type(each) in kinds and abs(each) < LARGE for each in value)
    if not right:
        raise ValueError(f"{name} is {short(value)}, expected {'whole ' * whole}numbers, such as [1, 2]")
    return tuple(value)


@dataclass(frozen=True, kw_only=True)
class LearnerRecipe:
    """The architecture and the FB update, for every world."""

    dim: int = 32
    gamma: float = 0.95
    hidden: int = 256
    layers: int = 3
    frequencies: int = 3
    gated: bool = True
    normalised: bool = False
    quadratic: bool = True
    goal_features: str = "all"
    angles: tuple[int, ...] = ()  # entries of the observation that are seen as sine and cosine
    batch: int = 512
    learning_rate: float = 2e-3
    actor_rate: float = 1e-3
    tau: float = 0.01  # of the target networks
    orthonormality: float = 1.0
    value_weight: float = 0.0  # of the Bellman error of F·z, beyond its share of the FB loss
    goal_share: float = 0.5  # of the z in a batch: B(s) of the data; the others are uniform on the sphere
    task_share: float = 0.0  # of the z in a batch: those of random rewards; ``goal_share`` is of the others
    ramps: tuple[int, ...] = ()  # places among the goal features B sees: half of the random rewards go along one
    gates: tuple[int, ...] = ()  # places of goal features: a ramp counts where it and these are above their means
    noise: float = 0.2  # added to the policy's actions in training, clipped at 0.3

    def __post_init__(self) -> None:
        """Unless a name is listed here, a whole number is at least 1, and any other number is from 0 to 1."""
        for field in fields(self):
            name, kind, value = field.name, field.type, getattr(self, field.name)
            if kind in (bool, str) and type(value) is not kind:
                raise ValueError(f"{name} is {value!r}, expected {'true or false' if kind is bool else 'a word'}")
            if get_origin(kind) is tuple:
                object.__setattr__(self, name, as_numbers(value, name, whole=get_args(kind)[0] is int))
            if kind is int:
                as_size(value, name, LEAST.get(name, 1))
            elif name in POSITIVE:
                as_positive(value, name)
            elif kind is float and name not in ("gamma", *WEIGHTS):
                in_range(value, name, 0.0, 1.0)
        as_discount(self.gamma)
        if self.ramps and not self.task_share:
            raise ValueError(f"ramps is {self.ramps}, but task_share is 0: no z is of a random reward")
        if self.gates and not self.ramps:
            raise ValueError(f"gates is {self.gates}, but ramps is empty: set gates=[], too")
        if set(self.gates) & set(self.ramps):
            raise ValueError(f"gates is {self.gates} and ramps is {self.ramps}: a ramp down its own gate pays nothing")
        for name in WEIGHTS:
            in_range(getattr(self, name), name, 0.0, math.inf, open_end=True)


@dataclass(frozen=True, kw_only=True)
class FBRecipe(LearnerRecipe):
    """Everything that decides a training in a simulated world, apart from the world and the seed."""

    transitions: int = 500_000
    correlation: float = 0.8  # of random forces, from decision to decision
    force: float = 1.0  # standard deviation of random forces before they are clipped to [−1, 1]
    feature_steps: int = 8_000  # F, B and the actor by the FB loss
    policy_steps: int = 15_000  # F and the actor with B fixed, by regression on rollouts
    evaluation_steps: int = 5_000  # F alone, for the final policies
    on_policy: float = 0.75  # share of a batch from rollouts of the current policies, once B is fixed; last phase: 1
    chain: int = 20  # n: steps of a rollout that are summed before F bootstraps
    runs: int = 2_048  # rollouts at a time
    refresh: int = 100  # updates between new rollouts

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task_share:
            raise ValueError(f"task_share is {self.task_share:g}: the point maze is trained without random rewards")

    @property
    def phases(self) -> tuple[int, int, int]:
        """The updates of each phase."""
        return self.feature_steps, self.policy_steps, self.evaluation_steps

    @property
    def steps(self) -> int:
        """All updates."""
        return sum(self.phases)


@dataclass(frozen=True, kw_only=True)
class BufferRecipe(LearnerRecipe):
    """FB updates on transitions in a buffer."""

    dim: int = 50
    gamma: float = 0.98
    hidden: int = 448
    layers: int = 3
    frequencies: int = 0
    quadratic: bool = False
    batch: int = 1_024
    learning_rate: float = 1e-3
    value_weight: float = 10.0
    goal_scale: tuple[float, ...] = ()  # of the goal features, about their largest values; (): from the first data
    steps: int = 100_000  # updates
    decay: float = 0.3  # last share of the updates, in which the rates fall to 0 along a half cosine
    buffer: int = 5_000_000  # transitions kept
    balance: float = 0.0  # a transition has weight n^−balance, n: transitions in its cell of heights and speeds
    repeat: int = 1  # control steps of an action


@dataclass(frozen=True, kw_only=True)
class BodyRecipe(BufferRecipe):
    """FB updates while many bodies collect data under the model's own policies."""

    bodies: int = 1_024  # side by side
    updates: int = 32  # for each step of all bodies
    warm_up: int = 100_000  # transitions under random controls before the first update
    episode: int = 500  # actions
    hold: int = 100  # actions after which a quarter of the bodies get a new z
    explorers: float = 0.5  # share of the bodies that follow the z with the largest ‖F(s,z)‖_{V⁻¹} …
    candidates: int = 16  # … of this number of z
    random: float = 0.1  # share of the bodies with random controls
    archive: float = 0.25  # share of the episodes that start in a state seen before, rare ones first

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buffer < max(self.warm_up, self.bodies):
            raise ValueError(f"buffer is {self.buffer}: expected at least warm_up and bodies")


@dataclass(frozen=True, kw_only=True)
class DataRecipe(BufferRecipe):
    """FB updates on the transitions of files."""

    refresh: int = 20_000  # updates after which the buffer gets other transitions, if it does not hold all


@dataclass(frozen=True)
class FBProgress:
    """One line of the training log: means since the last line."""

    step: int
    loss: float  # of F and B; once B is fixed, the squared Bellman error of ψ in features per step
    orthonormality: float  # ‖Cov(B) − I‖²
    value: float  # F(s,π(s,z),z)·z of the data, per step
