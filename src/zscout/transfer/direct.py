"""Searches that look at no score: the estimate itself, a draw, anything, the truth, a count."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.edge import as_finite, in_range
from zscout.randomness import Rng
from zscout.transfer.posterior import TaskPosterior
from zscout.transfer.search import Problem
from zscout.types import BehaviorModel, Vectors


@dataclass(frozen=True)
class AtEstimate:
    """z = ẑ; before anything is known, a random z."""

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The estimate."""
        z_hat = problem.posterior.z_hat
        unknown = (z_hat == 0).all(-1, keepdim=True)
        return torch.where(unknown, problem.fresh(1, rng)[..., 0, :], problem.project(z_hat))


@dataclass(frozen=True)
class PosteriorDraw:
    """z ~ N(ẑ, scale²σ²V⁻¹), projected: Thompson sampling where π(·,z) is the best policy for z."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        in_range(self.scale, "scale", 0.0, math.inf, open_end=True)

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """A task that may be true."""
        posterior = problem.posterior
        draw = posterior.sample(1, rng)[..., 0, :]
        return problem.project(posterior.z_hat + self.scale * (draw - posterior.z_hat))


@dataclass(frozen=True)
class AnyZ:
    """z uniform on the model's Z."""

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """A random behaviour."""
        return problem.fresh(1, rng)[..., 0, :]


@dataclass(frozen=True, eq=False)
class Known:
    """z = z_r: what every method is measured against; task [d], or [*b d] for one task a run."""

    task: Float[Tensor, "*b d"]

    @classmethod
    def of(cls, task: Vectors) -> "Known":
        """From what a user has."""
        return cls(as_finite(task, "task").detach().clone())

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The truth."""
        return self.best(problem.model, problem.posterior)

    def best(self, model: BehaviorModel, posterior: TaskPosterior) -> Float[Tensor, "*b d"]:
        """What it settles for, too."""
        if self.task.shape[-1] != model.dim:
            raise ValueError(f"the task has {self.task.shape[-1]} entries, this model wants {model.dim}")
        if self.task.shape[:-1] not in ((), posterior.runs):
            raise ValueError(f"there are tasks for runs {tuple(self.task.shape[:-1])}, the agent has {posterior.runs}")
        return model.project_z(self.task.to(posterior.device).expand(*posterior.runs, -1)).double()


@dataclass(frozen=True)
class CountBonus:
    """z_i = ẑ_i + √β_t/(N_i + λ)^power, MBIE-EB's bonus: power ½, or 1 as the paper's appendix suggests.

    N_i counts the visits to region i: features must be one-hot, so that V is diagonal.
    """

    power: float = 0.5

    def __post_init__(self) -> None:
        in_range(self.power, "power", 0.0, 2.0)

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The estimate, better where it was seldom."""
        counts = problem.posterior.V.diagonal(dim1=-2, dim2=-1)
        if (problem.posterior.V - torch.diag_embed(counts)).any():
            raise ValueError("counting visits needs one-hot features (clusters): this V is not diagonal")
        bonus = problem.radius[..., None] * counts**-self.power
        return problem.project(problem.posterior.z_hat + bonus)
