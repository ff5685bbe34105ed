"""Searches of the paper's alternatives: gradient ascent, counted visits, a bandit over whole rollouts."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import in_range
from zscout.base.randomness import Rng
from zscout.transfer.baselines.rollout_searches import RolloutSearch
from zscout.transfer.choosers import Memory
from zscout.transfer.inputs import Checked, Count, Flag, NotNegative, Positive
from zscout.transfer.score.forecast import pick
from zscout.transfer.score.problem import Problem


@dataclass(frozen=True)
class Gradient(Checked):
    """Gradient ascent of the score in z, from several random starts; needs a differentiable ψ.

    With ``project`` each step has length ``rate``·‖z‖ and ends on Z. Without, it is the plain ascent that the paper
    found unstable: z leaves Z, where ψ was trained, and ψ extrapolates.
    """

    starts: Count = 16
    steps: Count = 20
    rate: Positive = 0.1
    project: Flag = True

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best z of all rounds; without projection, of the last round."""
        z = torch.cat([problem.anchors, problem.fresh(self.starts, rng)], -2)
        forecasts = []
        for _ in range(self.steps):
            forecasts.append(problem.forecast(z.detach()))
            z = self._step(problem, z.detach().requires_grad_(), rng)
        forecasts.append(problem.forecast(z.detach()))
        with torch.no_grad():
            return problem.best(forecasts if self.project else forecasts[-1:], rng)

    def _step(self, problem: Problem, z: Float[Tensor, "*b n d"], rng: Rng) -> Float[Tensor, "*b n d"]:
        with torch.enable_grad():
            total = problem.scores(problem.forecast(z), rng).sum()
        if not total.requires_grad:
            raise ValueError(
                f"ψ of {type(problem.model).__name__} has no gradient in z: search with FixedPoint or Shooting"
            )
        (slope,) = torch.autograd.grad(total, z)
        with torch.no_grad():
            if not self.project:
                return z + self.rate * slope
            length = self.rate * z.norm(dim=-1, keepdim=True)
            return problem.project(z + length * torch.nn.functional.normalize(slope, dim=-1))


@dataclass(frozen=True)
class CountBonus(Checked):
    """z_i = ẑ_i + √β_t/(N_i + λ)^power, MBIE-EB's bonus: power ½, or 1 as in the paper's appendix.

    N_i is the number of visits to region i. Features must be one-hot, so V is diagonal.
    """

    power: Annotated[float, partial(in_range, low=0.0, high=2.0)] = 0.5

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The estimate plus the count bonus."""
        counts = problem.posterior.V.diagonal(dim1=-2, dim2=-1)
        if (problem.posterior.V - torch.diag_embed(counts)).any():
            raise ValueError("V is not diagonal: counting visits needs one-hot features (clusters) and intercept=False")
        bonus = problem.radius[..., None] * counts**-self.power
        return problem.project(problem.posterior.z_hat + bonus)


@dataclass(frozen=True)
class Unroll(RolloutSearch):
    """UCB1 over ``arms`` random z, scored by the return of a whole rollout: the approach that the paper rejects.

    Returns are standardised over all rollouts so far, so the bonus needs no scale. Rollouts start at a common state.
    """

    arms: Count = 30
    exploration: NotNegative = 1.0

    def begin(self, problem: Problem, rng: Rng) -> Memory:
        """Draw the arms."""
        arms = problem.fresh(self.arms, rng)
        empty = torch.zeros_like(arms[..., 0])
        scores = {"sums": empty, "squares": empty, "counts": empty}
        return self._rollout(arms[..., 0, :]) | scores | {"arms": arms, "arm": empty[..., 0].long()}

    def tell(self, memory: Memory, problem: Problem, reward: Tensor, done: bool, rng: Rng) -> Memory:
        """At the end of a rollout, score its arm and choose the next."""
        memory, ended = self._step(memory, problem, reward, done)
        if not ended:
            return memory
        hit = torch.nn.functional.one_hot(memory["arm"], self.arms).to(reward)
        score = memory["return"][..., None]
        counts = memory["counts"] + hit
        sums, squares = memory["sums"] + hit * score, memory["squares"] + hit * score**2
        trials = counts.sum(-1, keepdim=True)
        mean = sums.sum(-1, keepdim=True) / trials
        spread = (squares.sum(-1, keepdim=True) / trials - mean**2).clamp(min=0).sqrt()
        bonus = self.exploration * spread * (2 * trials.log().clamp(min=0) / counts.clamp(min=1)).sqrt()
        index = torch.where(counts > 0, sums / counts.clamp(min=1) + bonus, math.inf)  # first each arm once, in order
        arm = index.argmax(-1)
        memory = memory | {"sums": sums, "squares": squares, "counts": counts, "arm": arm}
        return memory | self._rollout(pick(memory["arms"], arm), memory["rollouts"] + 1)

    def best(self, memory: Memory) -> Float[Tensor, "*b d"]:
        """The arm with the best mean return; the first arm before any rollout ended."""
        counts = memory["counts"]
        means = torch.where(counts > 0, memory["sums"] / counts.clamp(min=1), -math.inf)
        return pick(memory["arms"], means.argmax(-1))
