"""Reward-free transitions (s, a, s'): the training data of a foundation model."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from zscout.base.edge import as_index
from zscout.base.types import FiniteWorld, Obs
from zscout.models.data.dataset import Dataset


@dataclass(frozen=True, eq=False)
class Transitions:
    """Observed outcomes of each state and action: up to K, with frequencies."""

    outcomes: Int[Tensor, "S A K"]
    frequency: Float[Tensor, "S A K"]  # sums to 1 for tried pairs, to 0 for others

    @classmethod
    def of_world(cls, world: FiniteWorld) -> "Transitions":
        """Every transition of a finite world."""
        return cls(world.successors.contiguous(), world.probabilities.double().contiguous())

    @classmethod
    def of_random_walks(cls, world: FiniteWorld, walks: int, length: int, rng: Generator) -> "Transitions":
        """Random-walk trajectories of a given length from uniformly random starts."""
        if walks < 1 or length < 1:
            raise ValueError(f"random walks need at least one walk of one step, got {walks} of {length}")
        state = torch.randint(world.n_states, (walks,), generator=rng)
        seen = []
        for _ in range(length):
            action = torch.randint(world.n_actions, (walks,), generator=rng)
            following = world.step(state, action, rng)
            seen.append(torch.stack([state, action, following]))
            state = following
        states, actions, following = torch.cat(seen, dim=1)
        return cls.of_buffer(states, actions, following, world.n_states, world.n_actions)

    @classmethod
    def of_buffer(cls, state: Obs, action: Obs, next_state: Obs, n_states: int, n_actions: int) -> "Transitions":
        """From recorded transitions, one entry each."""
        s = as_index(state, n_states, "state").flatten()
        a = as_index(action, n_actions, "action").flatten()
        following = as_index(next_state, n_states, "next state").flatten()
        if not len(s) == len(a) == len(following):
            raise ValueError(f"the buffer holds {len(s)} states, {len(a)} actions and {len(following)} next states")
        if not len(s):
            raise ValueError("the buffer is empty: expected at least one transition")
        triples, count = np.unique(torch.stack([s, a, following]).numpy(), axis=1, return_counts=True)
        pair = triples[0] * n_actions + triples[1]
        rank = np.arange(len(pair)) - np.searchsorted(pair, pair)  # 0, 1, … within each state and action
        outcomes = torch.zeros(n_states * n_actions, int(rank.max()) + 1, dtype=torch.long)
        frequency = torch.zeros(outcomes.shape, dtype=torch.float64)
        outcomes[pair, rank] = torch.from_numpy(triples[2])
        frequency[pair, rank] = torch.from_numpy(count).double()
        frequency /= frequency.sum(1, keepdim=True).clamp(min=1)
        shape = (n_states, n_actions, -1)
        return cls(outcomes.reshape(shape), frequency.reshape(shape))

    @classmethod
    def of_data(cls, data: Dataset, n_states: int, n_actions: int) -> "Transitions":
        """From files whose observations and actions are whole numbers."""
        columns = [np.asarray(part[:, 0]) for part in (data.obs, data.action, data.next_obs)]
        wide = max(data.obs.shape[1], data.action.shape[1]) > 1
        if wide or any((column != column.round()).any() for column in columns):
            raise ValueError("a USFA of a grid needs observations and actions that are whole numbers, one for each row")
        state, action, following = (column.astype(np.int64) for column in columns)
        return cls.of_buffer(state, action, following, n_states, n_actions)

    @property
    def tried(self) -> Bool[Tensor, "S A"]:
        """Which actions were tried in which states."""
        return self.frequency.sum(-1) > 0

    @property
    def known_states(self) -> Int[Tensor, " known"]:
        """The states with at least one tried action."""
        return self.tried.any(1).nonzero()[:, 0]

    def draw(self, state: Int[Tensor, "*n"], action: Int[Tensor, "*n"], rng: Generator) -> Int[Tensor, "*n"]:
        """Draw a stored outcome of each state and action by frequency; untried pairs stay in place."""
        outcomes, frequency = self.outcomes[state, action], self.frequency[state, action]
        if outcomes.shape[-1] == 1:
            return torch.where(frequency[..., 0] > 0, outcomes[..., 0], state)
        u = torch.rand(*state.shape, 1, generator=rng, device=rng.device, dtype=torch.float64)
        index = (frequency.cumsum(-1) <= u).sum(-1, keepdim=True)
        drawn = outcomes.gather(-1, index.clamp(max=outcomes.shape[-1] - 1))[..., 0]
        return torch.where(frequency.sum(-1) > 0, drawn, state)

    def to(self, device: torch.device | str) -> "Transitions":
        """A copy on another device."""
        return Transitions(self.outcomes.to(device), self.frequency.to(device))
