"""The quantities of the paper's theory at each step of a trace: the lemma's bound, its conditions, the potential."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.bfm.exact import ExactModel
from zscout.lab.exact_values import Yardstick
from zscout.lab.simulation import Trace
from zscout.transfer.posterior import TaskPosterior


@dataclass(frozen=True, eq=False)
class Theory:
    """Quantities of R runs, step by step; nothing was forgotten in them."""

    regret: Float[Tensor, "T R"]  # eq. 2, from t = 0
    inside: Bool[Tensor, "T R"]  # z_r ∈ ε_t  (eq. 4)
    lemma: Float[Tensor, "T R"]  # 2√β_t‖ψ(S_t;Z_t)‖_{V⁻¹}  (eq. 6)
    naive: float  # 2dφ_max/(1 − γ), φ_max = max‖φ‖/√d
    psi_squares: Float[Tensor, "T R"]  # ‖ψ(S_t;Z_t)‖²_{V⁻¹}
    log_det_now: Float[Tensor, "T R"]  # log det V_{t+1} …
    log_det_prior: float  # … and log det V_0
    optimistic: Bool[Tensor, "T R"]  # UCB(Z_t) ≥ UCB(z_r): what the lemma needs of the argmax
    exploring: Bool[Tensor, " T"]  # steps of an explorer, of which the lemma says nothing

    @property
    def log_det(self) -> Float[Tensor, "T R"]:
        """Log(det V_{t+1}/det V_0), by which the paper could not bound the sum of ``psi_squares``."""
        return self.log_det_now - self.log_det_prior

    @property
    def bound(self) -> Float[Tensor, "T R"]:
        """The smaller of the two bounds at each step."""
        return self.lemma.clamp(max=self.naive)

    @property
    def conditions(self) -> Bool[Tensor, "T R"]:
        """Where the lemma promises regret ≤ 2√β_t‖ψ‖_{V⁻¹}."""
        return self.inside & self.optimistic & ~self.exploring[:, None]


def watch(trace: Trace, exact: ExactModel) -> Theory:
    """Replay runs of the exact model and write down what the theory is about."""
    if trace.forgetting != 1:
        raise ValueError(f"the theory is of runs that forget nothing, these had forgetting = {trace.forgetting}")
    yardstick = Yardstick(exact)
    psi = yardstick.psi(trace.state, trace.z)
    psi_best = yardstick.psi(trace.state, trace.task.expand_as(trace.z))
    learnable = yardstick.without_constant(trace.task) if trace.intercept else trace.task
    return replay(trace, learnable, exact.features.cpu(), psi, psi_best, yardstick.regret(trace), exact.gamma)


def replay(
    trace: Trace,
    task: Float[Tensor, "R d"],
    features: Float[Tensor, "S d"],
    psi: Float[Tensor, "T R d"],
    psi_best: Float[Tensor, "T R d"],
    regret: Float[Tensor, "T R"],
    gamma: float,
) -> Theory:
    """The same with ψ(S_t;Z_t) and ψ(S_t;z_r) known; of runs that forget, only the log det means something.

    ``task`` is z_r, without its constant part for runs that fit an intercept; widths are then of ψ − φ̄/(1 − γ).
    """
    dim = features.shape[1]
    prior = TaskPosterior.prior(
        dim=dim,
        ridge=trace.ridge,
        runs=(trace.task.shape[0],),
        forgetting=trace.forgetting,
        intercept=trace.intercept,
    )
    posterior, rows = prior, []
    for t, radius in enumerate(trace.radius):
        centre = 0.0 if posterior.means is None else posterior.means.phi / (1 - gamma)
        width, width_best = posterior.width(psi[t] - centre), posterior.width(psi_best[t] - centre)
        chosen = (psi[t] * posterior.z_hat).sum(-1) + radius * width
        best = (psi_best[t] * posterior.z_hat).sum(-1) + radius * width_best
        slack = 1e-9 * chosen.abs()  # scores this near were ties
        inside = posterior.distance(task) <= radius
        posterior = posterior.update(features[trace.entered[t]], trace.reward[t])
        rows.append((inside, 2 * radius * width, width**2, posterior.log_det, chosen >= best - slack))
    inside, lemma, squares, log_det, optimistic = (torch.stack(column) for column in zip(*rows, strict=True))
    phi_max = float(features.norm(dim=-1).max()) / math.sqrt(dim)
    naive = 2 * dim * phi_max / (1 - gamma)
    return Theory(regret, inside, lemma, naive, squares, log_det, float(prior.log_det[0]), optimistic, trace.exploring)
