"""Tasks of bodies: the control suite's rewards, the ones that other benchmarks add, and held-out ones.

Every task is a function of the goal features, and so of the observation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import known_name
from zscout.base.types import Obs
from zscout.worlds.bodies import quadruped
from zscout.worlds.bodies.goals import COS_PITCH, HEIGHT, PITCH_RATE, SIN_PITCH, SPEED, SPIN
from zscout.worlds.bodies.physics import Body
from zscout.worlds.registry import PLACES

Field: TypeAlias = Callable[[Float[Tensor, "*b g"]], Float[Tensor, "*b"]]


@dataclass(frozen=True, eq=False)
class BodyTask:
    """A reward in [0, 1] of the observation: of one, or of a batch [*b o]."""

    world: Body
    kind: str  # "suite", "benchmark" or "held-out"
    name: str
    field: Field  # of the goal features

    def __call__(self, obs: Obs) -> Float[Tensor, "*b"]:
        """Rewards of the observations entered."""
        return self.field(self.world.goal_features(torch.as_tensor(obs)))

    def __reduce__(self) -> tuple[Callable[..., "BodyTask"], tuple[Body, str]]:
        return body_task, (self.world, self.name)  # functions cannot be pickled


def body_tasks(world: Body, kind: str | None = None) -> list[BodyTask]:
    """The tasks of a body, all or those of a kind: "suite", "benchmark" (URLB, ExORL) or "held-out"."""
    sets = PLACES[world.name].task_sets
    if kind is not None:
        known_name(kind, sets, "kind of task")
    return [
        BodyTask(world, group, name, field)
        for group, fields in sets.items()
        if kind in (None, group)
        for name, field in fields.items()
    ]


def body_task(world: Body, name: str) -> BodyTask:
    """The task of that name."""
    tasks = {task.name: task for task in body_tasks(world)}
    return tasks[known_name(name, tasks, f"task of the {world.name}")]


def tolerance(
    x: Float[Tensor, "*b"],
    low: float,
    high: float = math.inf,
    *,
    margin: float = 0.0,
    at_margin: float = 0.1,
    linear: bool = False,
) -> Float[Tensor, "*b"]:
    """The suite's tolerance: 1 for low ≤ x ≤ high, ``at_margin`` at a distance ``margin`` from these, 0 far away.

    It falls as exp(−½ d²), or on a line. With margin 0 it is 0 outside.
    """
    distance = (low - x).clamp(min=0) + (x - high).clamp(min=0)
    if not margin:
        return (distance == 0).to(x)
    if linear:
        return (1 - (1 - at_margin) * distance / margin).clamp(min=0)
    return torch.exp(math.log(at_margin) * (distance / margin).square())


def _ramp(x: Float[Tensor, "*b"], target: float) -> Float[Tensor, "*b"]:
    """x ÷ target from 0 to 1."""
    return tolerance(x, target, margin=target, at_margin=0.0, linear=True)


def _near(x: Float[Tensor, "*b"], target: float, margin: float) -> Float[Tensor, "*b"]:
    return tolerance(x, target, target, margin=margin)


# Walker


def _upright(g: Tensor) -> Tensor:
    return (1 + g[..., COS_PITCH]) / 2


def _stand(g: Tensor, low: float = 1.2, high: float = math.inf) -> Tensor:
    return (3 * tolerance(g[..., HEIGHT], low, high, margin=0.6) + _upright(g)) / 4


def _moving(speed: float, direction: int = 1) -> Field:
    """The suite's walk and run: stand, and be at least that fast."""

    def field(g: Tensor) -> Tensor:
        fast = tolerance(direction * g[..., SPEED], speed, margin=speed / 2, at_margin=0.5, linear=True)
        return _stand(g) * (5 * fast + 1) / 6

    return field


def _posture(low: float, high: float, speed: float, margin: float = 0.5) -> Field:
    """Torso between two heights, upright, at a speed."""
    return lambda g: _stand(g, low, high) * (1 + 5 * _near(g[..., SPEED], speed, margin)) / 6


WALKER: dict[str, dict[str, Field]] = {
    "suite": {"stand": _stand, "walk": _moving(1.0), "run": _moving(8.0)},
    "benchmark": {
        "flip": lambda g: _stand(g) * (5 * _ramp(g[..., SPIN], 5.0) + 1) / 6,
        "flip-backward": lambda g: _stand(g) * (5 * _ramp(-g[..., SPIN], 5.0) + 1) / 6,
        "walk-backward": _moving(1.0, -1),
        "run-backward": _moving(8.0, -1),
    },
    "held-out": {
        "stand-still": _posture(1.2, math.inf, 0.0),
        "jog": _posture(1.2, math.inf, 2.5, margin=1.0),
        "slow-backward": _posture(1.2, math.inf, -0.5),
        "crouch": _posture(0.6, 0.8, 0.0),
        "sneak": _posture(0.6, 0.9, 1.0),
        "sneak-backward": _posture(0.6, 0.9, -1.0),
        "lie": lambda g: tolerance(g[..., HEIGHT], 0.0, 0.2, margin=0.4) * _near(g[..., SPEED], 0.0, 0.5),
        "lean-forward": lambda g: tolerance(g[..., HEIGHT], 1.0, margin=0.5) * _near(g[..., SIN_PITCH], 0.6, 0.4),
        "lean-backward": lambda g: tolerance(g[..., HEIGHT], 1.0, margin=0.5) * _near(g[..., SIN_PITCH], -0.6, 0.4),
        "upside-down": lambda g: (1 - g[..., COS_PITCH]) / 2,
        "spin": lambda g: _ramp(g[..., PITCH_RATE], 5.0),
        "spin-backward": lambda g: _ramp(-g[..., PITCH_RATE], 5.0),
        "jump": lambda g: tolerance(g[..., HEIGHT], 1.6, margin=0.6),
    },
}

# Cheetah


def _level(low: float, speed: float, margin: float) -> Field:
    """Torso level, above a height, at a speed."""
    return lambda g: (
        tolerance(g[..., HEIGHT], low, margin=0.3)
        * tolerance(g[..., COS_PITCH], 0.9, margin=0.6)
        * _near(g[..., SPEED], speed, margin)
    )


CHEETAH: dict[str, dict[str, Field]] = {
    "suite": {"run": lambda g: _ramp(g[..., SPEED], 10.0)},
    "benchmark": {
        "walk": lambda g: _ramp(g[..., SPEED], 2.0),
        "walk-backward": lambda g: _ramp(-g[..., SPEED], 2.0),
        "run-backward": lambda g: _ramp(-g[..., SPEED], 10.0),
        "flip": lambda g: _ramp(g[..., SPIN], 5.0),
        "flip-backward": lambda g: _ramp(-g[..., SPIN], 5.0),
    },
    "held-out": {
        "stand-still": _level(0.5, 0.0, 0.5),
        "trot": _level(0.5, 3.0, 1.0),
        "slow-backward": _level(0.5, -1.0, 0.5),
        "crouch": lambda g: tolerance(g[..., HEIGHT], 0.0, 0.35, margin=0.2) * _near(g[..., SPEED], 0.0, 0.5),
        "rear-up": lambda g: tolerance(-g[..., SIN_PITCH], 0.7, margin=0.5),
        "nose-down": lambda g: tolerance(g[..., SIN_PITCH], 0.7, margin=0.5),
        "upside-down": lambda g: (1 - g[..., COS_PITCH]) / 2,
        "spin": lambda g: _ramp(g[..., PITCH_RATE], 5.0),
        "jump": lambda g: tolerance(g[..., HEIGHT], 1.2, margin=0.6),
    },
}

# Quadruped


def _level_torso(g: Tensor) -> Tensor:
    return (1 + g[..., quadruped.UPRIGHT]) / 2


def _walking(entry: int, speed: float, direction: int = 1) -> Field:
    """The suite's walk and run: torso level, and at least that fast; half of it without any speed."""
    return lambda g: (
        _level_torso(g) * tolerance(direction * g[..., entry], speed, margin=speed, at_margin=0.5, linear=True)
    )


def _resting(low: float, high: float) -> Field:
    """Torso level, between two heights over the toes, slow."""

    def field(g: Tensor) -> Tensor:
        speed = g[..., [quadruped.FORWARD, quadruped.LEFTWARD]].norm(dim=-1)
        height = tolerance(g[..., quadruped.STRETCH], low, high, margin=0.2)
        return _level_torso(g) * height * tolerance(speed, 0.0, 0.1, margin=0.5)

    return field


def _turning(direction: int) -> Field:
    return lambda g: _level_torso(g) * _ramp(direction * g[..., quadruped.TURN_RATE], 2.0)


QUADRUPED: dict[str, dict[str, Field]] = {
    "suite": {"walk": _walking(quadruped.FORWARD, 0.5), "run": _walking(quadruped.FORWARD, 5.0)},
    "benchmark": {"stand": _level_torso},
    "held-out": {
        "walk-backward": _walking(quadruped.FORWARD, 0.5, -1),
        "run-backward": _walking(quadruped.FORWARD, 5.0, -1),
        "walk-left": _walking(quadruped.LEFTWARD, 0.5),
        "walk-right": _walking(quadruped.LEFTWARD, 0.5, -1),
        "turn-left": _turning(1),
        "turn-right": _turning(-1),
        "stand-still": _resting(0.4, 0.6),
        "stand-tall": _resting(0.65, math.inf),
        "crouch": _resting(-math.inf, 0.25),
        "upside-down": lambda g: (1 - g[..., quadruped.UPRIGHT]) / 2,
        "roll": lambda g: _ramp(g[..., quadruped.ROLL_RATE], 3.0),
        "roll-left": lambda g: _ramp(-g[..., quadruped.ROLL_RATE], 3.0),
    },
}
