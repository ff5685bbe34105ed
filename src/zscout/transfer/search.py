"""The argmax over Z: which candidates are proposed, and which of them is taken.

A search is a callable (problem, rng) → z [*b d].
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.edge import MOST, as_finite, as_positive, as_size, in_range
from zscout.randomness import Rng
from zscout.transfer.bank import table_of
from zscout.transfer.posterior import TaskPosterior
from zscout.transfer.problem import Problem
from zscout.types import BehaviorModel, HasExactPsi, HasStates, Vectors

Search: TypeAlias = Callable[[Problem, Rng], Float[Tensor, "*b d"]]


@runtime_checkable
class Settles(Protocol):
    """A search that knows better than ẑ which z to keep."""

    def settled_z(self, model: BehaviorModel, posterior: TaskPosterior) -> Float[Tensor, "*b d"]:
        """The z to keep."""


# By score


@dataclass(frozen=True)
class Shooting:
    """N random z, new at every step, a forward pass for each: the paper's way, with n = 10,000."""

    n: int = 10_000

    def __post_init__(self) -> None:
        as_size(self.n, "n", 1, MOST)

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best of them, of ẑ and of the last z."""
        candidates = torch.cat([problem.anchors, problem.fresh(self.n, rng)], -2)
        return problem.best([problem.forecast(candidates)], rng)


@dataclass(frozen=True)
class Bank:
    """N random z drawn once; in a finite world their ψ is tabulated, rows that are equal at a state kept once."""

    n: int = 1000
    seed: int = 0
    anchors: bool = True  # whether ẑ and the last z are candidates too: the model must then be asked about them

    def __post_init__(self) -> None:
        as_size(self.n, "n", 1, MOST)
        as_size(self.seed, "seed", 0)
        if not isinstance(self.anchors, bool):
            raise ValueError(f"anchors must be True or False, got {self.anchors!r}")

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best of them, of ẑ and of the last z."""
        tabulated = table_of(problem.model, self.n, self.seed, problem.constant).forecast(problem.model, problem.obs)
        others = [problem.forecast(problem.anchors)] if self.anchors else []
        return problem.best([*others, tabulated], rng)


@dataclass(frozen=True)
class FixedPoint:
    """z ← ẑ + √β_t V⁻¹ψ(s;z)/‖ψ(s;z)‖_{V⁻¹}, projected to Z, from fresh random z.

    The proposals are those of eq. 5, whatever the score: each round takes the task in the ellipsoid for which the
    present policy looks best, and then that task's policy; where ψ is exact no round loses. Only where the rounds end,
    ẑ and the last z are compared: a learned ψ errs differently for each z, and the best of very many would be the most
    over-rated.
    """

    starts: int = 8
    rounds: int = 3

    def __post_init__(self) -> None:
        as_size(self.starts, "starts", 1, MOST)
        as_size(self.rounds, "rounds", 1, MOST)

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best end."""
        posterior, radius, F = problem.posterior, problem.radius[..., None, None], problem.posterior.width_factor
        anchors = problem.anchors
        z = torch.cat([anchors, problem.fresh(self.starts, rng)], -2)
        for _ in range(self.rounds):
            u = torch.nn.functional.normalize(problem.forecast(z).centred(posterior) @ F, dim=-1)
            z = problem.project(posterior.z_hat[..., None, :] + radius * u @ F.mT)
        return problem.best([problem.forecast(torch.cat([anchors, z], -2))], rng)


@dataclass(frozen=True)
class Climb:
    """What another search comes to, ẑ and the last z, and fresh z around the best so far, nearer in each round.

    A model's own account of z is a landscape that few looks climb as high as very many random ones reach. With a
    learned ψ some of that height is its error. The tables of the default start are made when it is first asked, which
    takes a network about ten seconds.
    """

    start: Callable[[Problem, Rng], Tensor] = Bank(10_000, anchors=False)
    rounds: int = 1
    near: int = 32
    spread: float = 0.2  # how far the first round looks, as a share of ‖z‖ …
    shrink: float = 0.5  # … and each further one

    def __post_init__(self) -> None:
        if not callable(self.start) or isinstance(self.start, type):
            raise ValueError(f"start must be a search, such as Shooting(100), got {self.start!r}")
        as_size(self.rounds, "rounds", 1, MOST)
        as_size(self.near, "near", 1, MOST)
        as_positive(self.spread, "spread")
        as_positive(self.shrink, "shrink")

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best that was looked at."""
        best = self.start(problem, rng)
        known, spread = torch.cat([best[..., None, :], problem.anchors], -2), self.spread
        for offset in problem.fresh(self.rounds * self.near, rng).split(self.near, -2):
            around = problem.project(best[..., None, :] + spread * offset)
            best = problem.best([problem.forecast(torch.cat([known, around], -2))], rng)
            known, spread = best[..., None, :], self.shrink * spread
        return best


@dataclass(frozen=True)
class Gradient:
    """Gradient ascent of the score in z, from several fresh starts; needs a model whose ψ has a gradient.

    With ``project`` each step is of length ``rate``·‖z‖ and ends on Z. Without, it is the plain ascent that the paper
    found unstable: z leaves the Z that ψ was trained on, and ψ extrapolates.
    """

    starts: int = 16
    steps: int = 20
    rate: float = 0.1
    project: bool = True

    def __post_init__(self) -> None:
        as_size(self.starts, "starts", 1, MOST)
        as_size(self.steps, "steps", 1, MOST)
        as_positive(self.rate, "rate")

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best of the last round, and with projection of all rounds."""
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
            raise ValueError(f"ψ of {type(problem.model).__name__} has no gradient in z: search by Bank or FixedPoint")
        (slope,) = torch.autograd.grad(total, z)
        with torch.no_grad():
            if not self.project:
                return z + self.rate * slope
            length = self.rate * z.norm(dim=-1, keepdim=True)
            return problem.project(z + length * torch.nn.functional.normalize(slope, dim=-1))


@dataclass(frozen=True)
class Ellipsoid:
    """N candidates in the ellipsoid of ``scale`` times the radius around ẑ, not projected, and nothing else: OpTI's.

    Uniform inside, or with ``surface`` on its surface. ``shipped`` takes the covariance factor as that method's
    published code does, R⁻ᵀ where V = RᵀR needs R⁻¹, so that candidates fall outside.
    """

    n: int = 128
    scale: float = 2.0
    surface: bool = False
    shipped: bool = False

    def __post_init__(self) -> None:
        as_size(self.n, "n", 1, MOST)
        as_positive(self.scale, "scale")

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best of them."""
        posterior = problem.posterior
        inside = posterior.sample_ellipsoid(self.n, self.scale * problem.radius, rng, surface=self.surface)
        if self.shipped:
            ball = (inside - posterior.z_hat[..., None, :]) @ torch.linalg.inv(posterior.factor).mT
            L = torch.linalg.cholesky(posterior.V)  # R = Lᵀ
            inside = posterior.z_hat[..., None, :] + torch.linalg.solve_triangular(L, ball.mT, upper=False).mT
        return problem.best([problem.forecast(inside)], rng)


@dataclass(frozen=True)
class Automatic:
    """A bank where ψ is exact and the world small enough to tabulate, else fixed points from fresh starts."""

    bank: Bank = field(default_factory=Bank)
    otherwise: FixedPoint = field(default_factory=FixedPoint)
    most_states: int = 2000

    def __post_init__(self) -> None:
        as_size(self.most_states, "most_states", 0)

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """As the model allows."""
        model = problem.model
        exact = isinstance(model, HasExactPsi) and model.psi_is_exact
        small = isinstance(model, HasStates) and len(model.states()) <= self.most_states
        return self.bank(problem, rng) if exact and small else self.otherwise(problem, rng)


# Without a score


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
        return self.settled_z(problem.model, problem.posterior)

    def settled_z(self, model: BehaviorModel, posterior: TaskPosterior) -> Float[Tensor, "*b d"]:
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
