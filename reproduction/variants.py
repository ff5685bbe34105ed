"""The paper's alternatives by name, and methods that only its claims need."""

from collections.abc import Mapping

from reproduction.pieces.explorers import Exhaustive
from reproduction.pieces.scores import AveragedOverZ, Explore, LogDet, Optimism, SelfNormalised
from reproduction.pieces.searches import CountBonus, Unroll
from zscout.transfer.baselines.explorers import Exploring, RandomWalk
from zscout.transfer.methods import Factory, Method
from zscout.transfer.score.acquisition import UCB, Acquisition, OverHeads
from zscout.transfer.score.confidence import Constant, PaperSchedule, ScaleFree
from zscout.transfer.score.search import Automatic, Ellipsoid, Shooting, TableSearch


def usf_ucb_short(*, ridge: float = 0.1, kappa: float = 1.7, gamma: float = 0.9, scale: float = 10.0) -> Method:
    """USF-UCB with a shorter horizon for the bonus than for the value."""
    return Method(ridge=ridge, confidence=ScaleFree(kappa), acquisition=UCB(gamma, scale))


def log_det(*, ridge: float = 0.1, kappa: float = 1.7, gamma: float = 0.9, weight: float = 20.0) -> Method:
    """Value plus the log det V that following z would add."""
    return Method(ridge=ridge, confidence=ScaleFree(kappa), acquisition=LogDet(weight, gamma))


def optimism(*, ridge: float = 0.1, kappa: float = 1.7, n: int = 64, intercept: bool = False) -> Method:
    """The z in the ellipsoid with the highest ψ(s;z)·z  (eq. 8)."""
    search = Ellipsoid(n, scale=1.0, surface=True)
    return Method(ridge=ridge, confidence=ScaleFree(kappa), acquisition=Optimism(), search=search, intercept=intercept)


def mbie(*, ridge: float = 0.1, beta: float = 1.0, power: float = 0.5) -> Method:
    """MBIE-EB: a count bonus 1/√N on z (``power=1``: 1/N), for one-hot features only."""
    return Method(ridge=ridge, confidence=Constant(beta), search=CountBonus(power), intercept=False)


def unroll(*, arms: int = 30, horizon: int = 100, exploration: float = 1.0) -> Method:
    """A UCB1 bandit over random z, scored by the returns of whole rollouts."""
    return Method(search=Unroll(horizon=horizon, arms=arms, exploration=exploration), intercept=False)


def explore_then_commit(
    *, ridge: float = 0.1, steps: int = 50, exhaustive: bool = False, world: str = "open-grid"
) -> Method:
    """Random or exhaustive actions for ``steps`` steps, then the estimate."""
    explorer = Exhaustive(world) if exhaustive else RandomWalk()
    return Method(ridge=ridge, search=Exploring(explorer, steps), intercept=False)


def exhaustive(*, ridge: float = 0.1, world: str = "open-grid") -> Method:
    """Always moves to the least-visited next state."""
    return Method(ridge=ridge, search=Exploring(Exhaustive(world)), intercept=False)


_NAMED = (usf_ucb_short, log_det, optimism, mbie, unroll, explore_then_commit, exhaustive)
ALTERNATIVES: Mapping[str, Factory] = {build.__name__.replace("_", "-"): Factory(build) for build in _NAMED}


def explore(*, gamma: float | None = None, draws: int = 0) -> Method:
    """Eq. 5 with ẑ = 0, optionally with another γ in the bonus, or with the best of ``draws`` fresh z; λ = 1."""
    search = Shooting(draws) if draws else Automatic()
    return Method(ridge=1.0, acquisition=Explore(gamma), search=search, intercept=False)


def explore_moment(*, gamma: float = 0.8) -> Method:
    """The z whose M(z) adds most to log det V; λ = 1. For a reward of 0, where ẑ stays 0."""
    return Method(ridge=1.0, acquisition=LogDet(1.0, gamma), intercept=False)


def inverse_counts() -> Method:
    """z_i = 1/N_i, as the paper's appendix suggests for regions; λ = 1. For a reward of 0."""
    return Method(ridge=1.0, confidence=Constant(1.0), search=CountBonus(1.0), intercept=False)


def plain(*, kappa: float = 1.7, intercept: bool = True) -> Method:
    """Eq. 5 with the radius of ``usf-ucb``; the bonus is ‖ψ‖_{V⁻¹}, not M."""
    return Method(ridge=0.1, confidence=ScaleFree(kappa), acquisition=UCB(), intercept=intercept)


def certain(*, noise: float, delta: float = 0.1) -> Method:
    """Eq. 5 with a radius for which the theory guarantees that z_r is inside; λ = σ²."""
    return Method(ridge=noise**2, confidence=SelfNormalised(delta, 3.0), intercept=False)


def one_estimate(*, noise: float, n: int = 300) -> Method:
    """The paper's settings with a table of z and the mean of the model's heads."""
    return _with_table(UCB(), noise, n)


def least_of_heads(*, noise: float, n: int = 300) -> Method:
    """The paper's settings with a table of z and the most pessimistic head."""
    return _with_table(OverHeads(UCB()), noise, n)


def averaged_over_z(*, noise: float, n: int = 300, spread: float = 0.1) -> Method:
    """The paper's settings with a table of z and ψ averaged over z and four others near it."""
    return _with_table(AveragedOverZ(UCB(), 4, spread), noise, n)


def _with_table(acquisition: Acquisition, noise: float, n: int) -> Method:
    return Method(
        ridge=noise**2, confidence=PaperSchedule(), acquisition=acquisition, search=TableSearch(n), intercept=False
    )
