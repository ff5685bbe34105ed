"""The named methods: METHODS[name](dim=, noise=, norm_bound=, task=None, …) → Method, most of them one composition.

``noise`` is σ or None (estimated), ``norm_bound`` a bound on ‖z_r‖ or None (√d), ``task`` z_r for the oracle. Further
keywords are a method's own settings: for a rival their defaults are as published, for ours as chosen on tuning tasks.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zscout.edge import as_positive, as_size, as_vectors, in_range, known_name
from zscout.transfer.acquisition import UCB, Acquisition, LogDet, Optimism, OverHeads, PathUCB
from zscout.transfer.confidence import Confidence, Constant, KnownNorm, PaperSchedule, ScaleFree
from zscout.transfer.explorers import Exhaustive, Explorer, LookAhead, RandomWalk
from zscout.transfer.rollout_searches import LoLA, RolloutSearch, Unroll
from zscout.transfer.search import (
    AnyZ,
    AtEstimate,
    Automatic,
    CountBonus,
    Ellipsoid,
    Known,
    PosteriorDraw,
    Search,
    Shooting,
)
from zscout.types import Vectors


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way to choose z, as its pieces; each can be swapped: ``replace(method, acquisition=Thompson())``."""

    ridge: float = 0.1  # λ
    confidence: Confidence = field(default_factory=Constant)  # √β_t
    acquisition: Acquisition = field(default_factory=UCB)  # what makes a z worth trying
    search: Search | RolloutSearch = field(default_factory=Automatic)  # over which z
    hold: int | str = 1  # for how many steps a z is kept
    forgetting: float = 1.0  # ρ: what a reward weighs after each further one
    intercept: bool = True  # fit r ≈ φ·z + c with c free: a constant in the reward changes nothing
    explorer: Explorer | None = None  # chooses actions in place of z …
    explore_for: int | None = None  # … for so many steps, or for ever

    def __post_init__(self) -> None:
        as_positive(self.ridge, "ridge")
        if isinstance(self.hold, str) and self.hold != "episode":
            raise ValueError(f"hold is a number of steps or 'episode', got {self.hold!r}")
        if self.hold != "episode":
            as_size(self.hold, "hold", 1, 2**53)  # beyond that a float is no exact count
        as_positive(in_range(self.forgetting, "forgetting", 0.0, 1.0), "forgetting")
        if not isinstance(self.intercept, bool):
            raise ValueError(f"intercept must be True or False, got {self.intercept!r}")
        if self.explorer is not None and not isinstance(self.explorer, Explorer):
            raise ValueError(f"explorer must be an Explorer or None, got {self.explorer!r}")
        if self.explore_for is not None:
            as_size(self.explore_for, "explore_for", 0)
            if self.explorer is None:
                raise ValueError("explore_for is for how many steps an explorer acts: there is no explorer")
        for name in ("confidence", "acquisition"):
            if not callable(getattr(self, name)) or isinstance(getattr(self, name), type):
                raise ValueError(f"{name} must be a callable, an instance and no class, got {getattr(self, name)!r}")
        if isinstance(self.search, type) or not (callable(self.search) or isinstance(self.search, RolloutSearch)):
            raise ValueError(f"search must be a callable or a RolloutSearch, got {self.search!r}")
        if isinstance(self.search, RolloutSearch) and self.explorer is not None:
            raise ValueError("a search by whole rollouts cannot be combined with an explorer")


# Ours


def usf_ucb(*, ridge: float = 0.1, kappa: float = 1.6, gamma: float = 0.8) -> Method:
    """USF-UCB with a radius that follows the rewards' own scale, and M in the bonus where the model offers it."""
    return Method(ridge=ridge, confidence=ScaleFree(kappa), acquisition=PathUCB(gamma))


def usf_ucb_norm(*, norm_bound: float | None, ridge: float = 0.1, kappa: float = 2.2, gamma: float = 0.8) -> Method:
    """The same where ‖z_r‖ is known (``norm_bound``, √d if None): our best."""
    return Method(ridge=ridge, confidence=KnownNorm(kappa, norm_bound), acquisition=PathUCB(gamma))


def usf_ucb_paper(
    *, noise: float | None, ridge: float | None = None, beta: float = 1.0, draws: int = 0, intercept: bool = False
) -> Method:
    """USF-UCB with the paper's β_t; λ, which the paper does not give, is σ² (.3², its σ, if none is known).

    The paper takes the best of 10,000 fresh z a step (``draws=10_000``); 0: our search, which asks fewer.
    """
    sigma = noise if noise else 0.3  # without noise λ = σ² would be 0
    search = Shooting(draws) if as_size(draws, "draws", 0) else Automatic()
    ridge = sigma**2 if ridge is None else ridge
    return Method(ridge=ridge, confidence=PaperSchedule(beta), search=search, intercept=intercept)


def usf_ucb_short(*, ridge: float = 0.1, kappa: float = 1.7, gamma: float = 0.9, scale: float = 10.0) -> Method:
    """USF-UCB whose bonus looks less far ahead than its value."""
    return Method(ridge=ridge, confidence=ScaleFree(kappa), acquisition=UCB(gamma, scale))


def log_det(*, ridge: float = 0.1, kappa: float = 1.7, gamma: float = 0.9, weight: float = 20.0) -> Method:
    """Value, and the log det that following z would add."""
    return Method(ridge=ridge, confidence=ScaleFree(kappa), acquisition=LogDet(weight, gamma))


# The paper's alternatives


def optimism(*, ridge: float = 0.1, kappa: float = 1.7, n: int = 64, intercept: bool = False) -> Method:
    """The z in the ellipsoid that promises itself most  (eq. 8)."""
    search = Ellipsoid(n, scale=1.0, surface=True)
    return Method(ridge=ridge, confidence=ScaleFree(kappa), acquisition=Optimism(), search=search, intercept=intercept)


def mbie(*, ridge: float = 0.1, beta: float = 1.0, power: float = 0.5) -> Method:
    """Counts of visits as a bonus on z itself, 1/√N, or with power=1 1/N: one-hot features only."""
    return Method(ridge=ridge, confidence=Constant(beta), search=CountBonus(power), intercept=False)


def unroll(*, arms: int = 30, horizon: int = 100, exploration: float = 1.0) -> Method:
    """The direct approach: whole rollouts, scored by their return, a bandit over z."""
    return Method(search=Unroll(horizon=horizon, arms=arms, exploration=exploration), intercept=False)


def random_actions(*, ridge: float = 0.1) -> Method:
    """Random actions for ever; the estimate is learned beside."""
    return Method(ridge=ridge, search=AtEstimate(), explorer=RandomWalk(), intercept=False)


def exhaustive(*, ridge: float = 0.1, look_ahead: LookAhead | None = None) -> Method:
    """Always to the least-visited state next, by ``look_ahead(states, actions)``."""
    return Method(ridge=ridge, search=AtEstimate(), explorer=Exhaustive(look_ahead), intercept=False)


# Rivals and baselines


def opti(*, ridge: float = 1.0, radius: float = 0.1, n: int = 128, intercept: bool = False) -> Method:
    """OpTI-BFM: n candidates uniform in the ellipsoid of twice the radius, the least UCB of the model's heads."""
    pessimistic = OverHeads(UCB(), "min")
    return Method(
        ridge=ridge,
        confidence=Constant(as_positive(radius, "radius") ** 2),
        acquisition=pessimistic,
        search=Ellipsoid(n, scale=2.0),
        intercept=intercept,
    )


def opti_shipped(*, ridge: float = 1.0, radius: float = 0.1, n: int = 128) -> Method:
    """OpTI-BFM with the sampler of its published code, which draws from another ellipsoid."""
    return replace(opti(ridge=ridge, radius=radius), search=Ellipsoid(n, scale=2.0, shipped=True))


def thompson(*, ridge: float = 0.1, scale: float = 1.0, hold: int = 1, intercept: bool = False) -> Method:
    """A z drawn from the posterior, its spread times ``scale``, kept for ``hold`` steps."""
    return Method(ridge=ridge, search=PosteriorDraw(scale), hold=hold, intercept=intercept)


def greedy(*, ridge: float = 0.1, intercept: bool = False) -> Method:
    """Always the estimate."""
    return Method(ridge=ridge, search=AtEstimate(), intercept=intercept)


def random_z(*, ridge: float = 0.1, hold: int = 10) -> Method:
    """A random behaviour, another one every ``hold`` steps."""
    return Method(ridge=ridge, search=AnyZ(), hold=hold, intercept=False)


def lola(*, draws: int = 10, horizon: int = 100, std: float = 0.15, rate: float = 0.05) -> Method:
    """LoLA: policy search in z, with its resets to a common start."""
    return Method(search=LoLA(horizon=horizon, draws=draws, std=std, rate=rate), intercept=False)


def explore_then_commit(*, ridge: float = 0.1, steps: int = 50, look_ahead: LookAhead | None = None) -> Method:
    """Random actions for so many steps, or with ``look_ahead`` exhaustive ones; then the estimate."""
    explorer = RandomWalk() if look_ahead is None else Exhaustive(look_ahead)
    return Method(ridge=ridge, search=AtEstimate(), explorer=explorer, explore_for=steps, intercept=False)


def oracle(*, task: Vectors | None) -> Method:
    """Knows z_r."""
    if task is None:
        raise ValueError("the oracle knows the task: METHODS['oracle'](dim=…, task=z_r)")
    return Method(search=Known.of(task), intercept=False)


@dataclass(frozen=True)
class Factory:
    """Makes a method from what is known before the first step; ``settings`` are the method's own."""

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
        """The method; of what is known it takes what it can use."""
        as_size(dim, "dim", 1)
        if noise is not None:
            in_range(noise, "noise", 0.0, math.inf, open_end=True)
        if norm_bound is not None:
            as_positive(norm_bound, "norm_bound")
        if task is not None:
            as_vectors(task, dim, "task")
        self.check(**settings)
        given = {"noise": noise, "norm_bound": norm_bound, "task": task}
        used = {name: value for name, value in given.items() if name in self._parameters}
        return self.build(**used, **settings)

    def check(self, **settings: Any) -> None:
        """Refuse what cannot be set."""
        for name in settings:
            known_name(name, self.settings, "setting")

    @property
    def settings(self) -> dict[str, Any]:
        """What can be set, and what it is otherwise."""
        return {name: p.default for name, p in self._parameters.items() if p.default is not inspect.Parameter.empty}

    @property
    def about(self) -> str:
        """What it does, in a sentence."""
        return inspect.getdoc(self.build) or ""

    @property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.build).parameters


class UnknownMethodError(KeyError, ValueError):
    """A name that METHODS does not have; unlike a bare KeyError it says which is near."""

    def __str__(self) -> str:
        return str(self.args[0])


class _Methods(Mapping[str, Factory]):
    """Names and what makes them, read only."""

    def __init__(self, factories: dict[str, Factory]) -> None:
        self._factories = factories

    def __getitem__(self, name: str) -> Factory:
        try:
            return self._factories[known_name(name, self._factories, "method")]
        except ValueError as error:
            raise UnknownMethodError(str(error)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)


METHODS: Mapping[str, Factory] = _Methods(
    {
        "usf-ucb": Factory(usf_ucb),
        "usf-ucb-norm": Factory(usf_ucb_norm),
        "usf-ucb-paper": Factory(usf_ucb_paper),
        "usf-ucb-short": Factory(usf_ucb_short),
        "log-det": Factory(log_det),
        "opti": Factory(opti),
        "opti-shipped": Factory(opti_shipped),
        "optimism": Factory(optimism),
        "thompson": Factory(thompson),
        "greedy": Factory(greedy),
        "random-z": Factory(random_z),
        "mbie": Factory(mbie),
        "unroll": Factory(unroll),
        "lola": Factory(lola),
        "explore-then-commit": Factory(explore_then_commit),
        "oracle": Factory(oracle),
        "random": Factory(random_actions),
        "exhaustive": Factory(exhaustive),
    }
)


def resolved(method: object, dim: int, noise: float | None = None, norm_bound: float | None = None) -> Method:
    """The method itself, or the one of that name."""
    if isinstance(method, Method):
        return method
    if not isinstance(method, str):
        hint = ": call it, METHODS[name](dim=…)" if isinstance(method, Factory) else ""
        raise ValueError(f"method must be a name or a Method, got {type(method).__name__}{hint}")
    return METHODS[method](dim=dim, noise=noise, norm_bound=norm_bound)
