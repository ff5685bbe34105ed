"""The named methods: METHODS[name](dim=, noise=, norm_bound=, task=None, …) → Method.

``noise`` is σ or None (estimated), ``norm_bound`` a bound on ‖z_r‖ or None (√d), ``task`` z_r for the oracle. Further
keywords are settings of the method. Default settings: as published for baselines, chosen on tuning tasks for ours.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, Literal

from zscout.base.edge import as_positive, as_size, as_vectors, in_range, known_name
from zscout.base.types import Vectors
from zscout.transfer.atlas.charted import OverAtlas
from zscout.transfer.baselines.explorers import Exploring, RandomWalk
from zscout.transfer.baselines.rollout_searches import LoLA, RolloutSearch
from zscout.transfer.belief.change import ChangeTest
from zscout.transfer.choosers import Chooser
from zscout.transfer.constants import ATLAS_KAPPA, BONUS_GAMMA, BURST, KAPPA, RIDGE
from zscout.transfer.inputs import Checked, Flag, Positive, instance
from zscout.transfer.score.acquisition import UCB, Acquisition, OverHeads, PathUCB
from zscout.transfer.score.confidence import Confidence, Constant, KnownNorm, PaperSchedule, Residual, ScaleFree
from zscout.transfer.score.search import (
    WITHOUT_SCORE,
    Among,
    AnyZ,
    AtEstimate,
    Automatic,
    Ellipsoid,
    Known,
    PosteriorDraw,
    Search,
    best_of,
)

Prior = Literal["ridge", "evidence", "model"]


def _check_hold(value: object, name: str) -> None:
    if isinstance(value, str) and value != "episode":
        raise ValueError(f"{name} must be a number of steps or 'episode', got {value!r}")
    if value != "episode":
        as_size(value, name, 1, 2**53)  # larger counts are not exact in float64


def _check_search(value: object, name: str) -> None:
    if isinstance(value, type) or not (callable(value) or isinstance(value, Chooser)):
        raise ValueError(f"{name} must be a callable, a RolloutSearch or Exploring, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Method(Checked):
    """The parts of a method; swap one with ``replace(method, acquisition=Thompson())``."""

    ridge: Positive = 0.1  # λ
    prior: Prior = "ridge"  # λI; "evidence": with the most likely λ; "model": the model's own, if it has one
    confidence: Annotated[Confidence, instance] = field(default_factory=Constant)  # √β_t
    acquisition: Annotated[Acquisition, instance] = field(default_factory=UCB)  # the score of a z
    search: Annotated[Search | Chooser, _check_search] = field(default_factory=Automatic)
    hold: Annotated[int | str, _check_hold] = 1  # steps for which a z is kept, or 'episode'
    intercept: Flag = True  # fit r ≈ φ·z + c with c free: a constant in the reward has no effect
    change: ChangeTest | None = None  # restarts the posterior when the task has changed

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.search, RolloutSearch) and (self.change is not None or self.hold != 1):
            raise ValueError("change and hold have no effect with a RolloutSearch: drop them, or set its horizon")
        if not has_score(self.search) and self.acquisition != UCB():
            raise ValueError(f"acquisition has no effect with {type(self.search).__name__}, which has no score")


def has_score(search: object) -> bool:
    """Whether a search takes the argmax of a score."""
    return not isinstance(search, (*WITHOUT_SCORE, Chooser))


# Ours


def usf_ucb(
    *,
    ridge: float = RIDGE,
    kappa: float = KAPPA,
    gamma: float = BONUS_GAMMA,
    prior: Prior = "model",
    burst: float = BURST,
    hold: int = 1,
) -> Method:
    """USF-UCB with a radius scaled to the rewards, M in the bonus and a prior over tasks if the model has them.

    ``ridge`` is λ for a model without a prior over tasks. ``prior="ridge"`` ignores the model's prior.
    ``burst=1``: no bursts, for a body whose model has no prior.
    """
    radius, score = ScaleFree(kappa, burst=burst), PathUCB(gamma)
    return Method(ridge=ridge, prior=prior, confidence=radius, acquisition=score, hold=hold)


def usf_ucb_atlas(*, kappa: float = ATLAS_KAPPA, hold: int = 50) -> Method:
    """What usf-ucb is with an atlas: ψ measured, rewards fitted by rich features, a z kept for a while."""
    return Method(prior="evidence", confidence=Residual(kappa), search=OverAtlas(), hold=hold)


def usf_ucb_norm(*, norm_bound: float | None, ridge: float = 0.1, kappa: float = 2.2, gamma: float = 0.8) -> Method:
    """USF-UCB for known ‖z_r‖ (``norm_bound``, default √d); in grid worlds it loses fewer steps than usf-ucb."""
    return Method(ridge=ridge, confidence=KnownNorm(kappa, norm_bound), acquisition=PathUCB(gamma))


def usf_ucb_paper(
    *, noise: float | None, ridge: float | None = None, beta: float = 1.0, draws: int = 0, intercept: bool = False
) -> Method:
    """USF-UCB with the paper's β_t; the paper does not give λ, so λ = σ² (.3² if σ is unknown).

    The paper takes the best of 10,000 random z at each step (``draws=10_000``). ``draws=0``: our search, which
    evaluates fewer.
    """
    sigma = noise if noise else 0.3  # .3: the paper's σ; with σ = 0, λ would be 0
    ridge = sigma**2 if ridge is None else ridge
    return Method(ridge=ridge, confidence=PaperSchedule(beta), search=best_of(draws), intercept=intercept)


# Baselines


def opti(*, ridge: float = 1.0, radius: float = 0.1, n: int = 128, intercept: bool = False) -> Method:
    """OpTI-BFM: min-over-heads UCB of n candidates, uniform in the ellipsoid of twice the radius."""
    confidence, score = Constant(as_positive(radius, "radius") ** 2), OverHeads(UCB())
    search = Ellipsoid(n, scale=2.0)
    return Method(ridge=ridge, confidence=confidence, acquisition=score, search=search, intercept=intercept)


def opti_shipped(*, ridge: float = 1.0, radius: float = 0.1, n: int = 128) -> Method:
    """OpTI-BFM with the sampler of its published code, which uses a different ellipsoid."""
    return replace(opti(ridge=ridge, radius=radius), search=Ellipsoid(n, scale=2.0, shipped=True))


def thompson(*, ridge: float = 0.1, scale: float = 1.0, hold: int = 1, intercept: bool = False) -> Method:
    """A posterior sample, its spread times ``scale``, kept for ``hold`` steps."""
    return Method(ridge=ridge, search=PosteriorDraw(scale), hold=hold, intercept=intercept)


def greedy(*, ridge: float = 0.1, intercept: bool = False) -> Method:
    """Always follows the estimate; no exploration."""
    return Method(ridge=ridge, search=AtEstimate(), intercept=intercept)


def random_z(*, ridge: float = 0.1, hold: int = 10) -> Method:
    """A random z, redrawn every ``hold`` steps."""
    return Method(ridge=ridge, search=AnyZ(), hold=hold, intercept=False)


def lola(*, draws: int = 10, horizon: int = 100, std: float = 0.15, rate: float = 0.05) -> Method:
    """LoLA: policy search in z, with resets to a common start."""
    return Method(search=LoLA(horizon=horizon, draws=draws, std=std, rate=rate), intercept=False)


def oracle(*, task: Vectors | None) -> Method:
    """Always follows the true z_r."""
    if task is None:
        raise ValueError("the oracle needs the task: METHODS['oracle'](dim=…, task=z_r)")
    return Method(search=Known.of(task), intercept=False)


def random(*, ridge: float = 0.1) -> Method:
    """Random actions; the estimate is learned but not followed."""
    return Method(ridge=ridge, search=Exploring(RandomWalk()), intercept=False)


PRIOR_KNOWLEDGE = ("dim", "noise", "norm_bound", "task")  # by the caller, not by settings


@dataclass(frozen=True)
class Factory:
    """Builds a method from prior knowledge and settings."""

    build: Callable[..., Method]

    def __call__(
        self,
        *,
        dim: int,
        noise: float | None = None,
        norm_bound: float | None = None,
        task: Vectors | None = None,
        **settings: Any,
    ) -> Method:
        """Build the method; ``build`` gets those of dim, noise, norm_bound and task that it names."""
        as_size(dim, "dim", 1)
        if noise is not None:
            in_range(noise, "noise", 0.0, math.inf, open_end=True)
        if norm_bound is not None:
            as_positive(norm_bound, "norm_bound")
        if task is not None:
            as_vectors(task, dim, "task")
        self.check(**settings)
        given = dict(zip(PRIOR_KNOWLEDGE, (dim, noise, norm_bound, task), strict=True))
        used = {name: value for name, value in given.items() if name in self._parameters}
        return self.build(**used, **settings)

    def check(self, **settings: Any) -> None:
        """Raise if a setting is unknown."""
        for name in settings:
            known_name(name, self.settings, "setting")

    @property
    def settings(self) -> dict[str, Any]:
        """Settings and their defaults."""
        own = {name: p.default for name, p in self._parameters.items() if name not in PRIOR_KNOWLEDGE}
        return {name: default for name, default in own.items() if default is not inspect.Parameter.empty}

    @property
    def about(self) -> str:
        """The docstring: first line, one sentence."""
        return inspect.getdoc(self.build) or ""

    @property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.build).parameters


class UnknownMethodError(KeyError, ValueError):
    """A name that is not in METHODS; the message suggests similar names."""

    def __str__(self) -> str:
        return str(self.args[0])


class _Methods(dict[str, Factory]):
    def __missing__(self, name: str) -> Factory:
        try:
            return self[known_name(name, self, "method")]
        except ValueError as error:
            raise UnknownMethodError(str(error)) from None


_OURS = (usf_ucb, usf_ucb_norm, usf_ucb_paper)
_OTHERS = (opti, opti_shipped, thompson, greedy, random_z, lola, oracle, random)
METHODS: Mapping[str, Factory] = MappingProxyType(
    _Methods({build.__name__.replace("_", "-"): Factory(build) for build in (*_OURS, *_OTHERS)})
)


def among(method: Method, search: Among) -> Method:
    """The method, restricted to the z of a bank."""
    if not has_score(method.search):
        raise ValueError("bank needs a method that scores z, such as usf-ucb: this one has no score")
    return replace(method, search=search)


def is_default(method: Method) -> bool:
    """Whether it is usf-ucb with default settings, perhaps with another hold or a change test."""
    return method == replace(usf_ucb(), hold=method.hold, change=method.change)


def resolved(
    method: object,
    dim: int,
    noise: float | None = None,
    norm_bound: float | None = None,
    misplaced: Mapping[str, object] | None = None,
) -> Method:
    """The method, looked up if it is a name; raises if an agent got ``misplaced`` settings."""
    if not isinstance(method, str | Method):
        hint = ": call it, METHODS[name](dim=…)" if isinstance(method, Factory) else ""
        raise ValueError(f"method must be a name or a Method, got {type(method).__name__}{hint}")
    for name, value in (misplaced or {}).items():
        if isinstance(method, str) and name in METHODS[method].settings:
            right = f"OnlineTransfer(bfm, zscout.METHODS[{method!r}](dim={dim}, {name}={value!r}))"
            raise TypeError(f"settings belong to the method: {right}")
        raise TypeError(
            f"OnlineTransfer has no argument {name!r}: there are method, seed, runs, noise, norm_bound, bank, "
            "atlas, limit"
        )
    return METHODS[method](dim=dim, noise=noise, norm_bound=norm_bound) if isinstance(method, str) else method
