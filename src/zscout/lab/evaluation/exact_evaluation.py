"""Exact regret, lost steps and the paper's bounds for runs in a finite world."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.base.types import HasExactPsi
from zscout.lab.arenas.arena import FINAL_STEPS, GOOD_VALUE, Evaluation
from zscout.lab.arenas.exact_values import Yardstick
from zscout.lab.arenas.ground import Ground
from zscout.lab.arenas.simulation import Trace
from zscout.models.exact.model import ExactModel
from zscout.transfer.belief.posterior import TaskPosterior

CHECK_EVERY, SETTLED_STEPS = 5, 20  # settled: value ≥ GOOD_VALUE at every check of the last steps
ALL_STEPS = 500  # in longer runs the value of the estimate is computed every 5 steps only


def evaluate_exactly(
    trace: Trace, ground: Ground, table: Float[Tensor, "R S"] | None = None, own_gap: bool = False
) -> Evaluation:
    """A number for each run [R], and columns of steps [T R …]; ``table`` has the rewards if they are not φ·z_r.

    One lost step is the mean over states of v* − v_random, of random tasks φ·z_r; with ``own_gap``, of each run's task.
    """
    yardstick = ground.yardstick if table is None else ground.by_state
    task = trace.task if table is None else table  # in the yardstick's features
    own = trace.task.expand_as(trace.z)
    psi = ground.yardstick.psi(trace.state, trace.z)
    psi_own = ground.yardstick.psi(trace.state, own)
    visits, visits_own = (psi, psi_own) if table is None else (yardstick.psi(trace.state, z) for z in (trace.z, own))
    achieved = yardstick.achieved(trace, task, visits)
    regret = yardstick.best(trace.state, task) - achieved
    gap = torch.full((len(task),), ground.gap) if not own_gap else yardstick.gaps(task)
    worth = trace.task @ ground.exact.features.T.cpu() if table is None else table  # [R S]
    normalised = _normalised(worth.T.gather(0, trace.entered), worth.mean(1), worth.amax(1))
    value = value_of_estimate(trace, yardstick, task.expand(len(trace.state), -1, -1))
    learnable = ground.yardstick.without_constant(trace.task) if trace.intercept else trace.task
    theory = replay(trace, ground.exact, learnable, psi, psi_own)
    error = (torch.cat([trace.z_hat[1:], trace.final_z_hat[None]]) - learnable).norm(dim=-1)
    numbers = {
        "lost": regret.sum(0) / gap,
        "lost_own": ((visits_own * task).sum(-1) - achieved).sum(0) / gap,
        "settled": settled(value).double(),
        "final": normalised[-FINAL_STEPS:].mean(0),
        "error": error[-1],
        "value": value[-1],
        "ridge": torch.full(error[-1].shape, trace.ridge),
    }
    columns: dict[str, tuple[Tensor, type]] = {
        "state": (trace.state, np.int32),
        "action": (trace.action, np.int16),
        "entered": (trace.entered, np.int32),
        "z": (trace.z, np.float32),
        "reward": (trace.reward, np.float64),
        "error": (error, np.float32),
        "regret": (regret / gap, np.float32),
        "width": (theory.psi_squares.sqrt(), np.float32),
        "bound": (theory.lemma / gap, np.float32),
        "naive": (torch.full_like(regret, theory.naive) / gap, np.float32),
        "inside": (theory.inside, np.bool_),
        "conditions": (theory.conditions, np.bool_),
        "log_det": (-theory.log_det, np.float32),
        "log_det_states": (-log_det_of_counts(trace.entered, trace.ridge, len(ground.exact.features)), np.float32),
        "normalised": (normalised, np.float32),
        "value": (value, np.float32),
    }
    return numbers, {name: column.numpy().astype(kind) for name, (column, kind) in columns.items()}


def _normalised(reward: Float[Tensor, "T R"], mean: Tensor, best: Tensor) -> Float[Tensor, "T R"]:
    """0 is the mean state's reward, 1 the best one's."""
    return torch.where(best > mean, (reward - mean) / (best - mean), 0.0)


def settled(value: Float[Tensor, "T R"]) -> Bool[Tensor, " R"]:
    """Whether the value of the best z is ≥ .95 at every check (every 5 steps) of the last 20 steps."""
    return (value[-SETTLED_STEPS:].flip(0)[::CHECK_EVERY] >= GOOD_VALUE).all(0)


def log_det_of_counts(entered: Int[Tensor, "T R"], ridge: float, states: int) -> Float[Tensor, "T R"]:
    """log det(λI + Σ e_s e_sᵀ): V if each state were a feature."""
    visits = torch.zeros(entered.shape[1], states, dtype=torch.float64)
    gains = []
    for state in entered:
        here = visits.gather(1, state[:, None])
        gains.append(torch.log((ridge + here + 1) / (ridge + here))[:, 0])
        visits.scatter_add_(1, state[:, None], torch.ones_like(here))
    return states * float(np.log(ridge)) + torch.stack(gains).cumsum(0)


def value_of_estimate(trace: Trace, yardstick: Yardstick, task: Float[Tensor, "T R k"]) -> Float[Tensor, "T R"]:
    """Normalised value of the best z after each reward, for the task of that step.

    Computed every fifth step where it is costly: in long runs, and for networks, which need all states for every z.
    """
    steps = len(trace.state)
    every = 1 if steps <= ALL_STEPS and isinstance(yardstick.model, HasExactPsi) else CHECK_EVERY
    z = torch.cat([trace.best_z[1:], trace.final_z[None]])
    checks = torch.arange(steps - 1, -1, -every).flip(0)
    value = yardstick.value(z[checks].flatten(0, 1), task[checks].flatten(0, 1)).reshape(len(checks), -1)
    last_check = torch.searchsorted(checks, torch.arange(steps), right=True) - 1
    return value[last_check.clamp(min=0)]


@dataclass(frozen=True, eq=False)
class Theory:
    """Quantities of the paper's theory at each step of R runs."""

    inside: Bool[Tensor, "T R"]  # z_r ∈ ε_t  (eq. 4)
    lemma: Float[Tensor, "T R"]  # 2√β_t‖ψ(S_t;Z_t)‖_{V⁻¹}  (eq. 6)
    psi_squares: Float[Tensor, "T R"]  # ‖ψ(S_t;Z_t)‖²_{V⁻¹}
    log_det: Float[Tensor, "T R"]  # log det V_{t+1}
    conditions: Bool[Tensor, "T R"]  # where the lemma promises regret ≤ 2√β_t‖ψ‖_{V⁻¹}: not for an explorer's steps
    naive: float  # 2dφ_max/(1 − γ), φ_max = max‖φ‖/√d


def replay(
    trace: Trace,
    exact: ExactModel,
    task: Float[Tensor, "R d"],
    psi: Float[Tensor, "T R d"],
    psi_best: Float[Tensor, "T R d"],
) -> Theory:
    """The theory's quantities from ψ(S_t;Z_t) and ψ(S_t;z_r).

    With an intercept, ``task`` is z_r without its constant part, and widths are of ψ − φ̄/(1 − γ).
    """
    features, gamma = exact.features.cpu(), exact.gamma
    dim = features.shape[1]
    posterior = TaskPosterior.prior(dim=dim, ridge=trace.ridge, runs=(len(task),), intercept=trace.intercept)
    rows = []
    for t, radius in enumerate(trace.radius):
        centre = 0.0 if posterior.means is None else posterior.means.phi / (1 - gamma)
        width, width_best = posterior.width(psi[t] - centre), posterior.width(psi_best[t] - centre)
        chosen = (psi[t] * posterior.z_hat).sum(-1) + radius * width
        best = (psi_best[t] * posterior.z_hat).sum(-1) + radius * width_best
        optimistic = chosen >= best - 1e-9 * chosen.abs()  # scores this close are ties
        inside = posterior.distance(task) <= radius
        posterior = posterior.update(features[trace.entered[t]], trace.reward[t])
        conditions = inside & optimistic & ~trace.exploring[t]
        rows.append((inside, 2 * radius * width, width**2, posterior.log_det, conditions))
    phi_max = float(features.norm(dim=-1).max()) / math.sqrt(dim)
    inside, lemma, squares, log_det, conditions = (torch.stack(column) for column in zip(*rows, strict=True))
    return Theory(inside, lemma, squares, log_det, conditions, 2 * dim * phi_max / (1 - gamma))
