"""Methods that only the paper's claims need."""

from zscout.transfer.methods import Method
from zscout.transfer.score.acquisition import UCB, Acquisition, AveragedOverZ, Explore, LogDet, OverHeads
from zscout.transfer.score.confidence import Constant, PaperSchedule, ScaleFree, SelfNormalised
from zscout.transfer.score.search import Automatic, CountBonus, Shooting, TableSearch


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
