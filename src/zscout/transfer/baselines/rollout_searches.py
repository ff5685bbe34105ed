"""Methods that score z by the return of whole rollouts, such as LoLA's policy search.

They do not infer the task. Each is a frozen dataclass. The rollouts of all runs of a batch start and end together.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.edge import LARGEST_COUNT, as_size
from zscout.base.randomness import Rng, normal
from zscout.base.types import Obs
from zscout.transfer.choosers import Ask, Chooser, Memory
from zscout.transfer.inputs import Checked, Count, Positive
from zscout.transfer.score.forecast import discount_of
from zscout.transfer.score.problem import Problem


@dataclass(frozen=True)
class RolloutSearch(Chooser, Checked, ABC):
    """Keeps a z for a rollout of ``horizon`` steps and learns from the return; see ``_rollout`` for its memory."""

    follows, remembers, needs_every_reward = False, True, True
    horizon: Count = 100

    @abstractmethod
    def begin(self, problem: Problem, rng: Rng) -> Memory:
        """The memory before the first step."""

    @abstractmethod
    def tell(self, memory: Memory, problem: Problem, reward: Tensor, done: bool, rng: Rng) -> Memory:
        """The memory after one step, which entered problem.obs."""

    @abstractmethod
    def best(self, memory: Memory) -> Float[Tensor, "*b d"]:
        """The best z so far."""

    def z(
        self, memory: Memory, ask: Ask, last: Tensor | None, due: Bool[Tensor, "*b"]
    ) -> tuple[Memory, Float[Tensor, "*b d"]]:
        """The memory, and the z of this rollout."""
        memory = memory or self.begin(*ask())
        return memory, memory["trial"]

    def told(self, memory: Memory, left: Obs, ask: Ask, reward: Tensor | None, ended: Bool[Tensor, "*b"]) -> Memory:
        """Raises without a reward, or if some runs ended."""
        if reward is None:
            raise ValueError("a reward is missing: this method scores whole rollouts and needs every reward")
        if ended.any() and not ended.all():
            raise ValueError("done differs between runs: this method needs the same done for all runs")
        problem, rng = ask()
        return self.tell(memory, problem, reward, bool(ended.all()), rng)

    def best_z(self, memory: Memory) -> Float[Tensor, "*b d"] | None:
        """``best``; before the first ask, by the belief."""
        return self.best(memory) if memory else None

    def wants_reset(self, memory: Memory) -> bool:
        """Whether a rollout ended: True at the first step of every rollout except the first."""
        return bool(memory) and bool(memory["step"] == 0) and bool(memory["rollouts"] > 0)

    def _step(self, memory: Memory, problem: Problem, reward: Tensor, done: bool) -> tuple[Memory, bool]:
        """R ← R + γⁿr, and whether the rollout ends here."""
        step = memory["step"]
        total = memory["return"] + discount_of(problem.model) ** int(step) * reward
        return memory | {"return": total, "step": step + 1}, done or int(step) + 1 >= self.horizon

    @staticmethod
    def _rollout(trial: Tensor, number: Tensor | int = 0) -> Memory:
        nothing = torch.zeros_like(trial[..., 0])
        return {"step": torch.tensor(0), "rollouts": torch.as_tensor(number), "return": nothing, "trial": trial}


@dataclass(frozen=True)
class LoLA(RolloutSearch):
    """Policy search in z: N(μ, std²I) with μ on Z, ``draws`` rollouts from a common start, one Adam step on μ.

    A rollout's return is Σγⁱrᵢ + γⁿψ(s_n,z)·ẑ; its advantage is relative to the mean of the others (leave one out). A
    rollout that ends with ``done`` has no second part, whether the episode was terminated or truncated.
    """

    draws: Annotated[int, partial(as_size, low=2, high=LARGEST_COUNT)] = 10
    std: Positive = 0.15
    rate: Positive = 0.05

    def begin(self, problem: Problem, rng: Rng) -> Memory:
        """Start μ at a random z."""
        mu = problem.fresh(1, rng)[..., 0, :]
        noise, empty = self._noise(mu, rng), torch.zeros_like(mu)
        memory = {
            "mu": mu,
            "noise": noise,
            "returns": torch.zeros_like(noise[..., 0]),
            "first_moment": empty,
            "second_moment": empty,
        }
        return memory | self._rollout(self._latent(problem, memory, 0))

    def tell(self, memory: Memory, problem: Problem, reward: Tensor, done: bool, rng: Rng) -> Memory:
        """At the end of a rollout take the next latent; after ``draws`` rollouts update μ."""
        memory, ended = self._step(memory, problem, reward, done)
        if not ended:
            return memory
        z, score, rollouts = memory["trial"], memory["return"], int(memory["rollouts"])
        if not done:
            far = problem.forecast(z[..., None, :]).psi[..., 0, :]
            score = score + discount_of(problem.model) ** int(memory["step"]) * (far * problem.posterior.z_hat).sum(-1)
        returns = memory["returns"].clone()
        returns[..., rollouts % self.draws] = score
        memory = memory | {"returns": returns}
        if (rollouts + 1) % self.draws == 0:
            memory = self._move(memory, problem) | {"noise": self._noise(z, rng)}
        return memory | self._rollout(self._latent(problem, memory, (rollouts + 1) % self.draws), rollouts + 1)

    def best(self, memory: Memory) -> Float[Tensor, "*b d"]:
        """μ, the current mean."""
        return memory["mu"]

    def _move(self, memory: Memory, problem: Problem) -> Memory:
        """∇_μ E[R] ≈ mean of (R − mean of the others)·(z − μ)/std², then Adam."""
        returns, n = memory["returns"], self.draws
        advantage = (returns - returns.mean(-1, keepdim=True)) * n / (n - 1)
        slope = (advantage[..., None] * memory["noise"]).mean(-2) / self.std
        step = int(memory["rollouts"]) // n + 1
        first = 0.9 * memory["first_moment"] + 0.1 * slope
        second = 0.999 * memory["second_moment"] + 0.001 * slope**2
        scaled = (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
        mu = problem.project(memory["mu"] + self.rate * scaled)
        return memory | {"mu": mu, "first_moment": first, "second_moment": second}

    def _noise(self, like: Tensor, rng: Rng) -> Float[Tensor, "*b draws d"]:
        return normal((*like.shape[:-1], self.draws, like.shape[-1]), rng).to(like.device)

    def _latent(self, problem: Problem, memory: Memory, draw: int) -> Float[Tensor, "*b d"]:
        return problem.project(memory["mu"] + self.std * memory["noise"][..., draw, :])
