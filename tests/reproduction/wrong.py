"""Wrong implementations: each is a context in which one piece of the library is broken."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from torch import Tensor

from reproduction.experiment import posteriors
from reproduction.pieces.scores import Explore, SelfNormalised
from reproduction.pieces.searches import CountBonus
from zscout.base.types import Obs
from zscout.lab.runs.store import Record
from zscout.models.exact.model import ExactModel
from zscout.models.usfa.model import USFA
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.score.acquisition import UCB
from zscout.transfer.score.confidence import PaperSchedule
from zscout.transfer.score.forecast import Forecast
from zscout.transfer.score.problem import Problem


@contextmanager
def bonus_without_v() -> Iterator[None]:
    """The bonus is ‖ψ‖ in place of ‖ψ‖ in V⁻¹: what was seen does not count."""

    def ucb(self: UCB, forecast: Forecast, posterior: TaskPosterior, radius: Tensor, rng: object) -> Tensor:
        score: Tensor = forecast.value(posterior) + radius[..., None] * forecast.psi.norm(dim=-1)
        return score

    def explore(self: Explore, forecast: Forecast, posterior: TaskPosterior, radius: Tensor, rng: object) -> Tensor:
        width: Tensor = forecast.psi.norm(dim=-1)
        return width

    with patch.object(UCB, "__call__", ucb), patch.object(Explore, "__call__", explore):
        yield


@contextmanager
def width_without_v() -> Iterator[None]:
    """The posterior's width of a feature vector is its length."""
    with patch.object(TaskPosterior, "width", lambda self, x: x.norm(dim=-1)):
        yield


@contextmanager
def constant_radius() -> Iterator[None]:
    """√β_t is a constant: the schedule never ends the exploration, the safe radius does not cover z_r."""

    def constant(root: float) -> Callable[[object, int, TaskPosterior], Tensor]:
        return lambda self, t, posterior: posterior.z_hat.new_full(posterior.runs, root)

    schedule = patch.object(PaperSchedule, "__call__", constant(3.0))
    with schedule, patch.object(SelfNormalised, "__call__", constant(0.1)):
        yield


@contextmanager
def permuted_features() -> Iterator[None]:
    """φ of a network has its entries in another order than ψ and z."""
    phi = USFA.phi
    with patch.object(USFA, "phi", lambda self, obs: phi(self, obs).roll(1, -1)):
        yield


@contextmanager
def permuted_z() -> Iterator[None]:
    """A network follows z with its entries in another order."""
    policy = USFA.policy
    with patch.object(USFA, "policy", lambda self, z: policy(self, z.roll(1, -1))):
        yield


def present_state_in_v(record: Record, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V and ẑ that count S_t, the state that is left, in place of the state entered."""
    left = {**record.steps, "entered": record.steps["state"]}
    return posteriors(replace(record, steps=left), features)


@contextmanager
def rank_one_moment() -> Iterator[None]:
    """M(z) is its approximation (1 − γ)ψψᵀ."""

    def rank_one(self: ExactModel, obs: Obs, z: Any, gamma: float) -> Tensor:
        psi = self.psi_at(obs, z, gamma)
        return (1 - gamma) * psi[..., :, None] * psi[..., None, :]

    with patch.object(ExactModel, "second_moment", rank_one):
        yield


@contextmanager
def counts_upside_down() -> Iterator[None]:
    """z_i = N_i: the region that was visited most attracts most."""

    def attracted(self: CountBonus, problem: Problem, rng: object) -> Tensor:
        return problem.project(problem.posterior.V.diagonal(dim1=-2, dim2=-1))

    with patch.object(CountBonus, "__call__", attracted):
        yield


@contextmanager
def nothing() -> Iterator[None]:
    """The library as it is."""
    yield
