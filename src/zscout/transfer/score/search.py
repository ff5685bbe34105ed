"""Searches: argmax of the score over Z.

A search is a callable (problem, rng) → z [*b d].
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_finite, as_size, as_vectors
from zscout.base.randomness import Rng
from zscout.base.types import BehaviorModel, HasExactPsi, HasPsiTable, HasStates, Vectors
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.constants import SOLVED_TABLE, TABLE
from zscout.transfer.inputs import Checked, Count, Flag, NotNegative, Positive, Whole
from zscout.transfer.score.forecast import Forecast, offers
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.table import TabulatedForecast, table_of

Search: TypeAlias = Callable[[Problem, Rng], Float[Tensor, "*b d"]]


# Searches that use the score


@dataclass(frozen=True)
class Shooting(Checked):
    """n random z at every step, one forward pass each; the paper's search, with n = 10,000."""

    n: Count = 10_000

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best of the random z, ẑ and the last z."""
        candidates = torch.cat([problem.anchors, problem.fresh(self.n, rng)], -2)
        return problem.best([problem.forecast(candidates)], rng)


def best_of(draws: int) -> Search:
    """The best of ``draws`` random z; with 0 the default search, which evaluates fewer."""
    return Shooting(draws) if as_size(draws, "draws", 0) else Automatic()


@dataclass(frozen=True)
class TableSearch(Checked):
    """n random z drawn once, for finite worlds: ψ is tabulated, without duplicate rows per state."""

    n: Count = TABLE
    seed: Whole = 0
    anchors: Flag = True  # also score ẑ and the last z, which needs a forward pass

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best of the random z, ẑ and the last z."""
        table = table_of(problem.model, self.n, self.seed, problem.constant)
        tabulated = TabulatedForecast(problem.model, problem.obs, table)
        others = [problem.forecast(problem.anchors)] if self.anchors else []
        return problem.best([*others, tabulated], rng)


@dataclass(frozen=True, eq=False)
class Among:
    """The best of the given z [n d], such as a user's list of known behaviours; no other z is tried."""

    given: Float[Tensor, "n d"]

    def __post_init__(self) -> None:
        if self.given.ndim != 2 or not len(self.given):
            raise ValueError(f"bank has shape {tuple(self.given.shape)}, expected [n d] with n ≥ 1")

    @classmethod
    def of(cls, bank: Vectors, model: BehaviorModel) -> "Among":
        """From a list, array or tensor of z, each projected to Z."""
        given = as_vectors(bank, model.dim, "bank").detach()
        return cls(model.project_z(cls(given).given).double())

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The given z with the highest score."""
        return problem.best([self.forecast(problem)], rng)

    def forecast(self, problem: Problem) -> Forecast:
        """The model's predictions for the given z."""
        z = self.given.to(problem.radius.device).expand(*problem.posterior.runs, -1, -1)
        return problem.forecast(z)

    def best_z(self, problem: Problem) -> Float[Tensor, "*b d"]:
        """The given z with the highest ψ·ẑ at the observation of the problem."""
        forecast = self.forecast(problem)
        return forecast.pick(forecast.value(problem.posterior).argmax(-1))


@dataclass(frozen=True)
class FixedPoint(Checked):
    """z ← ẑ + √β_t V⁻¹ψ(s;z)/‖ψ(s;z)‖_{V⁻¹}, projected to Z, from fresh random z.

    The proposals follow eq. 5, for any score. Each round finds the task in the ellipsoid for which the current policy
    is best, then takes the policy of that task. With an exact ψ no round lowers the score. Only the final z, ẑ and the
    last z are compared: the errors of a learned ψ differ between z, and the maximum over many candidates picks the
    most overestimated.
    """

    starts: Count = 8
    rounds: Count = 3

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best of the final z, ẑ and the last z."""
        posterior, F = problem.posterior, problem.posterior.factor
        z_hat, back = posterior.z_hat[..., None, :], problem.radius[..., None, None] * F.mT
        anchors = problem.anchors
        z = torch.cat([anchors, problem.fresh(self.starts, rng)], -2)
        for _ in range(self.rounds):
            u = problem.forecast(z).centred(posterior) @ F
            norm = torch.linalg.vector_norm(u, dim=-1, keepdim=True).clamp(min=1e-12)
            z = problem.project(z_hat + u / norm @ back)
        return problem.best([problem.forecast(torch.cat([anchors, z], -2))], rng)


@dataclass(frozen=True)
class Ellipsoid(Checked):
    """OpTI's search: n candidates in the ellipsoid of ``scale`` times the radius around ẑ, not projected.

    Uniform inside, or with ``surface`` on its boundary. ``shipped`` uses the covariance factor of OpTI's published
    code, R⁻ᵀ where V = RᵀR needs R⁻¹, so candidates fall outside the ellipsoid.
    """

    n: Count = 128
    scale: Positive = 2.0
    surface: Flag = False
    shipped: Flag = False

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best candidate."""
        posterior = problem.posterior
        inside = posterior.sample_ellipsoid(self.n, self.scale * problem.radius, rng, surface=self.surface)
        if self.shipped:
            ball = (inside - posterior.z_hat[..., None, :]) @ torch.linalg.inv(posterior.factor).mT
            L = torch.linalg.cholesky(posterior.V)  # R = Lᵀ
            inside = posterior.z_hat[..., None, :] + torch.linalg.solve_triangular(L, ball.mT, upper=False).mT
        return problem.best([problem.forecast(inside)], rng)


@dataclass(frozen=True)
class Automatic(Checked):
    """``TableSearch`` for few states (2,000 if ψ is exact, 200 if it has a ``psi_table``), else ``FixedPoint``."""

    table: TableSearch = field(default_factory=TableSearch)
    solved: TableSearch = field(default_factory=lambda: TableSearch(SOLVED_TABLE))  # with a ``psi_table``
    otherwise: FixedPoint = field(default_factory=FixedPoint)
    most_states: Whole = 2000

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The result of the search that fits the model."""
        if not tabulates(problem.model, self.most_states):
            return self.otherwise(problem, rng)
        table = self.solved if offers(problem.model, HasPsiTable) else self.table
        return table(problem, rng)


MOST_SOLVED = 200  # states up to which a ``psi_table`` is used: it solves a system of all states for each z


def tabulates(model: BehaviorModel, most_states: int = Automatic.most_states) -> bool:
    """Whether random z are tabulated: the world has few states, and ψ is exact or better in a table."""
    states = len(model.states()) if offers(model, HasStates) else most_states + 1
    if offers(model, HasPsiTable):
        return states <= min(most_states, MOST_SOLVED)
    return offers(model, HasExactPsi) and model.psi_is_exact and states <= most_states


# Searches without a score


@dataclass(frozen=True)
class AtEstimate:
    """z = ẑ; a random z while ẑ = 0."""

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """ẑ, projected to Z."""
        z_hat = problem.posterior.z_hat
        unknown = (z_hat == 0).all(-1, keepdim=True)
        return torch.where(unknown, problem.fresh(1, rng)[..., 0, :], problem.project(z_hat))


@dataclass(frozen=True)
class PosteriorDraw(Checked):
    """z ~ N(ẑ, scale²σ²V⁻¹), projected: Thompson sampling if π(·,z) is optimal for z."""

    scale: NotNegative = 1.0

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """One sample, projected to Z."""
        posterior = problem.posterior
        draw = posterior.sample(1, rng)[..., 0, :]
        return problem.project(posterior.z_hat + self.scale * (draw - posterior.z_hat))


@dataclass(frozen=True)
class AnyZ:
    """A random z from Z."""

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """One random z."""
        return problem.fresh(1, rng)[..., 0, :]


@dataclass(frozen=True, eq=False)
class Known:
    """z = z_r, the oracle; task [d], or [*b d] with one task for each run."""

    task: Float[Tensor, "*b d"]

    @classmethod
    def of(cls, task: Vectors) -> "Known":
        """From a task as a list, array or tensor."""
        return cls(as_finite(task, "task").detach().clone())

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """``best_z``."""
        return self.best_z(problem.model, problem.posterior)

    def best_z(self, model: BehaviorModel, posterior: TaskPosterior) -> Float[Tensor, "*b d"]:
        """z_r, projected to Z, for each run."""
        if self.task.shape[-1] != model.dim:
            raise ValueError(f"the task has {self.task.shape[-1]} entries, this model expects {model.dim}")
        if self.task.shape[:-1] not in ((), posterior.runs):
            raise ValueError(f"got tasks for runs {tuple(self.task.shape[:-1])}, the agent has {posterior.runs}")
        return model.project_z(self.task.to(posterior.device).expand(*posterior.runs, -1)).double()


WITHOUT_SCORE = (AtEstimate, PosteriorDraw, AnyZ, Known)
