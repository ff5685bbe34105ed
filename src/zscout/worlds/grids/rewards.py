"""Rewards of the state entered: linear in φ, a table, or any callable."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_finite, as_index, as_table, as_vectors, common_shape, in_range, required_rng
from zscout.base.randomness import Rng, normal
from zscout.base.types import Obs, Vectors


class LinearReward:
    """R = φ(s)·z_r + N(0, noise²), the paper's reward; task [d], or [*b d] for one task per run."""

    def __init__(self, features: Vectors, task: Vectors, noise: float = 0.0) -> None:
        self.features: Float[Tensor, "S d"] = as_table(features, len(features), "features")
        self.n_states, dim = self.features.shape
        self.task: Float[Tensor, "*b d"] = as_vectors(task, dim, "task").detach().clone()
        self.noise = in_range(noise, "noise", 0.0, math.inf, open_end=True)

    def __call__(self, state: Obs, rng: Rng | None = None) -> Float[Tensor, "*b"]:
        """Rewards of the states entered."""
        entered = as_index(state, self.n_states, "state")
        common_shape(entered.shape, self.task.shape[:-1], "states and tasks")
        return _with_noise((self.features[entered] * self.task).sum(-1), self.noise, rng)

    @property
    def table(self) -> Float[Tensor, "*b S"]:
        """The reward of each state without noise."""
        return self.task @ self.features.T


class TableReward:
    """R = table[s] + N(0, noise²)."""

    def __init__(self, table: Vectors, noise: float = 0.0) -> None:
        self.table: Float[Tensor, " S"] = as_finite(table, "the reward table").detach().clone()
        if self.table.ndim != 1 or not len(self.table):
            shape = tuple(self.table.shape)
            raise ValueError(f"the reward table has shape {shape}, expected one number for each state, [S]")
        self.n_states = len(self.table)
        self.noise = in_range(noise, "noise", 0.0, math.inf, open_end=True)

    def __call__(self, state: Obs, rng: Rng | None = None) -> Float[Tensor, "*b"]:
        """Rewards of the states entered."""
        return _with_noise(self.table[as_index(state, self.n_states, "state")], self.noise, rng)


@dataclass(frozen=True)
class BlackBox:
    """R = function(s): a Python callable from the index of the state entered to a number."""

    function: Callable[[int], float]

    def __call__(self, state: Obs, rng: Rng | None = None) -> Float[Tensor, "*b"]:
        """The callable's results, one call per state; ``rng`` is not used."""
        states = as_index(state, 2**62, "state")  # the callable decides which states are valid
        answers = [self._ask(int(s)) for s in states.flatten()]
        return torch.tensor(answers, dtype=torch.float64).reshape(states.shape)

    def _ask(self, state: int) -> float:
        return finite_number(self.function(state), f"the reward of state {state}")


def finite_number(answer: Any, what: str) -> float:
    """What a user's callable returned, as a number; raises unless it is a finite number."""
    try:
        number = float(answer)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{what} is not a number: {answer!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"{what} is {number}, expected a finite number")
    return number


Reward: TypeAlias = LinearReward | TableReward | BlackBox
RewardLike: TypeAlias = Reward | Callable[[int], float] | Vectors | None


def as_reward(reward: RewardLike, n_states: int) -> Reward:
    """A Reward from a Reward, a table with one number per state, a callable, or None for 0."""
    if reward is None:
        return TableReward(torch.zeros(n_states, dtype=torch.float64))
    if not isinstance(reward, Reward):
        reward = BlackBox(reward) if callable(reward) else TableReward(reward)
    if not isinstance(reward, BlackBox) and reward.n_states != n_states:
        raise ValueError(f"the reward has {reward.n_states} states, this world has {n_states}")
    return reward


def _with_noise(mean: Float[Tensor, "*b"], noise: float, rng: Rng | None) -> Float[Tensor, "*b"]:
    if not noise:
        return mean
    return mean + noise * normal(tuple(mean.shape), required_rng(rng, "this reward is noisy"))
