"""Exact regret, lost steps and the other numbers of runs in a finite world."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.lab.arena import FINAL, GOOD, Evaluation
from zscout.lab.exact_values import FLAT, Yardstick
from zscout.lab.ground import Ground
from zscout.lab.simulation import Trace
from zscout.lab.theory import replay
from zscout.types import HasExactPsi

EVERY, LAST = 5, 20  # settled: worth ≥ GOOD at every check of the last steps
ALL_STEPS = 500  # in longer runs the value of the estimate is computed every 5 steps only


def evaluate_exactly(trace: Trace, ground: Ground, table: Float[Tensor, "R S"] | None = None) -> Evaluation:
    """A number for each run [R], and columns of steps [T R …]; ``table`` of rewards if they are not φ·z_r."""
    yardstick = ground.yardstick if table is None else ground.by_state
    task = trace.task if table is None else table  # in the yardstick's own features
    own = trace.task.expand_as(trace.z)
    psi = ground.yardstick.psi(trace.state, trace.z)
    psi_own = ground.yardstick.psi(trace.state, own)
    visits, visits_own = (psi, psi_own) if table is None else (yardstick.psi(trace.state, z) for z in (trace.z, own))
    achieved = yardstick.achieved(trace, task, visits)
    regret = yardstick.best(trace.state, task) - achieved
    worth = trace.task @ ground.exact.features.T.cpu() if table is None else table  # [R S]
    mean, best = worth.mean(1), worth.amax(1)
    reward = worth.T.gather(0, trace.entered)
    normalised = torch.where(best > mean, (reward - mean) / (best - mean), 0.0)
    value = value_of_estimate(trace, yardstick, task.expand(len(trace.state), -1, -1))
    learnable = ground.yardstick.without_constant(trace.task) if trace.intercept else trace.task
    theory = replay(trace, learnable, ground.exact.features.cpu(), psi, psi_own, regret, ground.exact.gamma)
    error = (torch.cat([trace.z_hat[1:], trace.final_z_hat[None]]) - learnable).norm(dim=-1)
    numbers = {
        "lost": regret.sum(0) / ground.gap,
        "lost_own": ((visits_own * task).sum(-1) - achieved).sum(0) / ground.gap,
        "settled": settled(value).double(),
        "final": normalised[-FINAL:].mean(0),
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
        "regret": (regret / ground.gap, np.float32),
        "width": (theory.psi_squares.sqrt(), np.float32),
        "bound": (theory.lemma / ground.gap, np.float32),
        "naive": (torch.full_like(regret, theory.naive) / ground.gap, np.float32),
        "inside": (theory.inside, np.bool_),
        "conditions": (theory.conditions, np.bool_),
        "log_det": (-theory.log_det_now, np.float32),
        "log_det_states": (-log_det_of_counts(trace.entered, trace.ridge, len(ground.exact.features)), np.float32),
        "normalised": (normalised, np.float32),
        "value": (value, np.float32),
    }
    return numbers, {name: column.numpy().astype(kind) for name, (column, kind) in columns.items()}


def measured_on(
    trace: Trace, ground: Ground, tables: Float[Tensor, "K S"], which: Int[Tensor, " T"]
) -> dict[str, Float[Tensor, " R"]]:
    """Numbers of each run on rewards [K S], of which ``which[t]`` is in force at step t.

    Lost steps are regret  (eq. 2, from t = 0) ÷ the mean over states of v* − v_random for the reward in force, 0 where
    that is flat. z_r is the least-squares fit of a table.
    """
    exact, state = ground.by_state.exact, trace.state
    best, random = exact.value(tables).cpu(), tables @ ground.by_state.random.T  # [K S]
    gap = (best - random).mean(1)
    lost = torch.where(gap > FLAT * tables.abs().amax(1), 1 / gap, 0.0)[which][:, None]  # steps, of one unit of regret
    now, task = tables[which][:, None], nearest_task(ground, tables)  # [T 1 S], [K d]

    def value(z: Float[Tensor, "T R d"]) -> Float[Tensor, "T R"]:
        return (ground.by_state.psi(state, z) * now).sum(-1)

    achieved = torch.where(trace.exploring[:, None], random[which].gather(1, state), value(trace.z))
    own = value(task[which][:, None].expand_as(trace.z))
    learnable = ground.yardstick.without_constant(task[which[-1]]) if trace.intercept else task[which[-1]]
    mean, most = tables.mean(1)[which][:, None], tables.amax(1)[which][:, None]
    reward = tables[which].gather(1, trace.entered)
    normalised = torch.where(most > mean, (reward - mean) / (most - mean), 0.0)
    worth = value_of_estimate(trace, ground.by_state, now.expand(*state.shape, -1))
    return {
        "lost": (lost * (best[which].gather(1, state) - achieved)).sum(0),
        "lost_own": (lost * (own - achieved)).sum(0),
        "settled": settled(worth).double(),
        "final": normalised[-FINAL:].mean(0),
        "error": (trace.final_z_hat - learnable).norm(dim=-1),
    }


def nearest_task(ground: Ground, tables: Float[Tensor, "K S"]) -> Float[Tensor, "K d"]:
    """z_r of each table: the least-squares fit φ·z_r."""
    inverse: Tensor = torch.linalg.pinv(ground.exact.features.cpu())
    return tables @ inverse.T


def settled(value: Float[Tensor, "T R"]) -> Bool[Tensor, " R"]:
    """Whether what would be settled for is worth ≥ .95 at every check (every 5 steps) of the last 20 steps."""
    return (value[-LAST:].flip(0)[::EVERY] >= GOOD).all(0)


def log_det_of_counts(entered: Int[Tensor, "T R"], ridge: float, states: int) -> Float[Tensor, "T R"]:
    """Log det of λI + Σ e_s e_sᵀ: what is known of states, were each a feature of its own."""
    visits = torch.zeros(entered.shape[1], states, dtype=torch.float64)
    gains = []
    for state in entered:
        here = visits.gather(1, state[:, None])
        gains.append(torch.log((ridge + here + 1) / (ridge + here))[:, 0])
        visits.scatter_add_(1, state[:, None], torch.ones_like(here))
    start = states * float(np.log(ridge))
    return start + torch.stack(gains).cumsum(0)


def value_of_estimate(trace: Trace, yardstick: Yardstick, task: Float[Tensor, "T R k"]) -> Float[Tensor, "T R"]:
    """Normalised value of what would be settled for after each reward, for the task of that step.

    Where that is costly (long runs, networks: all states for every z) after every fifth, which then stands until the
    next.
    """
    steps = len(trace.state)
    every = 1 if steps <= ALL_STEPS and isinstance(yardstick.model, HasExactPsi) else EVERY
    z = torch.cat([trace.best_z[1:], trace.final_z[None]])
    looked = torch.arange(steps - 1, -1, -every).flip(0)
    value = yardstick.value(z[looked].flatten(0, 1), task[looked].flatten(0, 1)).reshape(len(looked), -1)
    last_look = torch.searchsorted(looked, torch.arange(steps), right=True) - 1
    return value[last_look.clamp(min=0)]
