"""The argmax over Z: which candidates are looked at, and which of them is taken.

A search is a callable (problem, rng) → z [*b d].
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.edge import MOST, all_finite, as_positive, as_size
from zscout.randomness import Rng, Streams, uniform
from zscout.transfer.acquisition import Acquisition
from zscout.transfer.bank import table_of
from zscout.transfer.constant import ConstantPart
from zscout.transfer.forecast import Forecast
from zscout.transfer.posterior import TaskPosterior
from zscout.types import BehaviorModel, HasExactPsi, HasStates, Obs, SamplesForEachRun

TIE = 1e-9  # scores nearer than this share of the largest are equal: most z share a policy, and rounding tells no truth


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be maximised over z, now."""

    obs: Obs
    model: BehaviorModel
    posterior: TaskPosterior
    radius: Float[Tensor, "*b"]  # √β_t
    acquisition: Acquisition
    last: Float[Tensor, "*b d"] | None = None  # the z of the step before
    constant: ConstantPart | None = None  # what is taken out of every z, where an intercept is fitted

    def project(self, z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Z's nearest point, without a constant part."""
        return self.model.project_z(z if self.constant is None else self.constant.removed_from(z)).double()

    def forecast(self, z: Float[Tensor, "*b n d"]) -> Forecast:
        """What follows from candidates, by the model."""
        return Forecast(self.model, self.obs, z)

    def scores(self, forecast: Forecast, rng: Rng) -> Float[Tensor, "*b n"]:
        """What they are worth; a score that draws something draws the same for all candidates of a step."""
        rng = rng.fork() if isinstance(rng, Streams) else rng
        return self.acquisition(forecast, self.posterior, self.radius, rng)

    @property
    def anchors(self) -> Float[Tensor, "*b k d"]:
        """ẑ where it is not 0, and the last z: candidates of every search."""
        z_hat = self.posterior.z_hat
        known = (z_hat != 0).any(-1, keepdim=True)
        if self.last is None:
            return self.project(z_hat)[..., None, :][..., : int(bool(known.any())), :]
        estimate = torch.where(known, self.project(z_hat), self.last)
        return torch.stack([estimate, self.last], -2)

    def fresh(self, n: int, rng: Rng) -> Float[Tensor, "*b n d"]:
        """N draws from the model's Z for each run, from its own stream."""
        runs, model = self.posterior.runs, self.model
        if not isinstance(rng, Streams):
            draws = model.sample_z(n * math.prod(runs), rng)
            return self._without_constant(draws).reshape(*runs, n, model.dim).to(self.radius.device)
        each = rng.generators()
        if isinstance(model, SamplesForEachRun) and _from_one_hand(type(model), "sample_z", "sample_z_each"):
            draws = model.sample_z_each(n, each)
        else:
            draws = torch.stack([model.sample_z(n, own) for own in each])
        return self._without_constant(draws).reshape(*runs, n, model.dim)

    def _without_constant(self, draws: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        return draws.double() if self.constant is None else self.project(draws.double())

    def best(self, forecasts: list[Forecast], rng: Rng) -> Float[Tensor, "*b d"]:
        """The best of all candidates, one of the equally good at random."""
        forecasts = [forecast for forecast in forecasts if forecast.count]
        scores = torch.cat([self.scores(forecast, rng) for forecast in forecasts], -1)
        if not all_finite(scores):
            raise ValueError("the scores of the candidates hold NaN or inf")
        index = argmax_at_random(scores, rng)
        z = forecasts[0].pick(index.clamp(max=forecasts[0].count - 1))
        for before, forecast in pairwise(forecasts):
            index = index - before.count
            z = torch.where((index >= 0)[..., None], forecast.pick(index.clamp(0, forecast.count - 1)), z)
        return z


def _from_one_hand(kind: type, one: str, other: str) -> bool:
    """Whether no subclass has changed the one and left the other as it was."""
    homes = [vars(base) for base in kind.__mro__ if one in vars(base) or other in vars(base)]
    return bool(homes) and one in homes[0] and other in homes[0]


Search: TypeAlias = Callable[[Problem, Rng], Float[Tensor, "*b d"]]


def argmax_at_random(scores: Float[Tensor, "*b n"], rng: Rng) -> Tensor:
    """The index of the greatest score; of several within ``TIE`` any, equally likely."""
    greatest = scores.amax(-1, keepdim=True)
    tied = scores >= greatest - TIE * scores.abs().amax(-1, keepdim=True)
    order = tied.cumsum(-1)
    wanted = uniform(tuple(scores.shape[:-1]), rng).to(scores.device) * order[..., -1]
    return torch.searchsorted(order, wanted.long()[..., None], right=True)[..., 0]  # where so many ties are passed


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
