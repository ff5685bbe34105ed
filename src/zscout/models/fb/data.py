"""Reward-free data of worlds with vector observations: correlated random forces; parts of pure exploration."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from gymnasium.spaces import Box
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from zscout.base.edge import as_size

RUNS = 4_096  # episodes side by side
LENGTH = 70  # of an episode


@runtime_checkable
class BatchWorld(Protocol):
    """A world with vector states, many runs at once; in ``FBTrainer`` its observations are its states."""

    @property
    def observation_space(self) -> Box:
        """The space of a single observation."""

    @property
    def action_space(self) -> Box:
        """The space of a single action, [−1, 1]ᵃ."""

    def advance(
        self, state: Float[Tensor, "n k"], action: Float[Tensor, "n a"], /
    ) -> tuple[Float[Tensor, "n k"], Bool[Tensor, " n"]]:
        """The next states, and which of them terminated."""

    def random_states(self, n: int, rng: Generator) -> Float[Tensor, "n k"]:
        """Starts of episodes."""


@dataclass(frozen=True, eq=False)
class Experience:
    """Transitions without rewards."""

    obs: Float[Tensor, "n k"]
    action: Float[Tensor, "n a"]
    next_obs: Float[Tensor, "n k"]
    over: Bool[Tensor, " n"]  # the episode terminated in next_obs

    def to(self, device: torch.device) -> "Experience":
        """A copy on a device."""
        return Experience(*(part.to(device) for part in vars(self).values()))

    def shuffled(self, rng: Generator) -> "Experience":
        """In random order, so that the first rows are a sample of all."""
        order = torch.randperm(len(self), generator=rng)
        return Experience(*(part[order] for part in vars(self).values()))

    def __len__(self) -> int:
        return len(self.obs)


def random_forces(
    world: BatchWorld, transitions: int, rng: Generator, *, correlation: float = 0.8, size: float = 1.0
) -> Experience:
    """Episodes of ``LENGTH`` under forces a ← ρa + √(1 − ρ²) · N(0, size²), clipped to [−1, 1]."""
    runs = min(RUNS, as_size(transitions, "transitions", 1))
    steps = [vars(step).values() for step in force_steps(world, transitions, rng, runs, LENGTH, correlation, size)]
    return Experience(*(torch.cat(part) for part in zip(*steps, strict=True)))


def force_steps(
    world: BatchWorld,
    transitions: int,
    rng: Generator,
    runs: int,
    length: int,
    correlation: float = 0.8,
    size: float = 1.0,
) -> Iterator[Experience]:
    """The same, step by step of all runs."""
    actions = world.action_space.shape[0]
    state, force = world.random_states(runs, rng), size * _normal(runs, actions, rng)
    age = torch.randint(length, (runs,), generator=rng, device=rng.device)  # episodes do not end all at once
    for _ in range(-(-transitions // runs)):
        entered, over = world.advance(state, force.clamp(-1, 1))
        yield Experience(state, force.clamp(-1, 1), entered, over)
        age += 1
        ended = over | (age >= length)
        state = torch.where(ended[:, None], world.random_states(runs, rng), entered)
        age = age.masked_fill(ended, 0)
        force = correlation * force + size * (1 - correlation**2) ** 0.5 * _normal(runs, actions, rng)


def _normal(n: int, width: int, rng: Generator) -> Float[Tensor, "n width"]:
    return torch.randn(n, width, generator=rng, device=rng.device)
