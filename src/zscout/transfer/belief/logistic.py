"""Gaussian posteriors of uncertain yes/no answers, by expectation propagation, many problems at once."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# 1/(1 + e⁻ˣ) ≈ Σ wₖ Φ(x/cₖ) to within 6e-6 (a least-squares fit on 0 ≤ x ≤ 40): Gaussian averages of Φ are exact.
WEIGHTS = (0.109753, 0.460524, 0.369844, 0.059879)
WIDTHS = (0.981258, 1.437194, 2.111798, 3.120303)
MOST_ROUNDS, STEP_SHARE = 60, 0.9  # the share of each change that is made
CONVERGED, CONVERGED_AGAIN = 1e-6, 1e-4  # a change that ends them, in standard deviations; the same from a start
SMALLEST_SHARE = 1e-9  # variance of x ÷ its variance without its own answer


@dataclass(frozen=True, eq=False)
class Gaussian:
    """N(mean, covariance) of u, the log evidence of the answers, and τ and ν of each."""

    mean: Float[Tensor, "*b k"]
    covariance: Float[Tensor, "*b k k"]
    log_evidence: Float[Tensor, "*b"]
    tau: Float[Tensor, "*b n"]
    nu: Float[Tensor, "*b n"]


def yes_probability(
    mean: Float[Tensor, "*b n"], variance: Float[Tensor, "*b n"], flips: Float[Tensor, "*b"]
) -> Float[Tensor, "*b n"]:
    """E[f + (1 − 2f)/(1 + e⁻ˣ)] for x ~ N(mean, variance)."""
    flips = flips[..., None]
    return flips + (1 - 2 * flips) * _blurred(mean, variance)[0]


def answered(
    rows: Float[Tensor, "*b n k"],
    offsets: Float[Tensor, "*b n"],
    flips: Float[Tensor, "*b"],
    start: tuple[Tensor, Tensor] | None = None,
) -> Gaussian:
    """u ~ N(0, I) after n yeses, each with probability f + (1 − 2f)/(1 + e⁻ˣ) at x = offset + row·u.

    Each answer is replaced by a Gaussian factor exp(νx − τx²/2) that gives x the mean and variance that the exact
    answer gives it (Minka 2001), all in parallel, until nothing changes. An answer that looks like a flip has τ < 0: it
    adds uncertainty. Where this leaves no proper posterior, τ ≥ 0 is enforced. ``start``: τ and ν of a like problem.
    """
    tau, nu = (torch.zeros_like(offsets), torch.zeros_like(offsets)) if start is None else start
    close = CONVERGED if start is None else CONVERGED_AGAIN
    settled, careful = (torch.zeros_like(flips, dtype=torch.bool) for _ in range(2))  # each problem for itself
    for _ in range(MOST_ROUNDS):
        now = _Moments.of(rows, offsets, tau, nu)
        if (improper := now.improper).any():
            careful = careful | improper
            tau = torch.where(careful[..., None], tau.clamp(min=0), tau)
            now = _Moments.of(rows, offsets, tau, nu)
        _, slope, bend = _tilted(now.others_mean, now.others_variance, flips)
        bend = torch.where(careful[..., None], bend.clamp(max=0), bend)
        share = 1 + now.others_variance * bend
        more_tau, more_nu = -bend / share - tau, (slope - now.others_mean * bend) / share - nu
        change = torch.maximum(more_tau.abs() * now.v, more_nu.abs() * now.v.sqrt()).amax(-1)
        settled = settled | (change < close)
        if settled.all():
            break
        step = torch.where(settled, 0.0, STEP_SHARE)[..., None]
        tau, nu = tau + step * more_tau, nu + step * more_nu
    else:
        now = _Moments.of(rows, offsets, tau, nu)
        if (improper := now.improper).any():
            tau = torch.where(improper[..., None], tau.clamp(min=0), tau)
            now = _Moments.of(rows, offsets, tau, nu)
    return Gaussian(now.mean, now.covariance, _log_evidence(now, offsets, tau, nu, flips), tau, nu)


@dataclass(frozen=True, eq=False)
class _Moments:
    """u given all factors, and each x given all factors but its own."""

    mean: Float[Tensor, "*b k"]
    covariance: Float[Tensor, "*b k k"]
    log_det: Float[Tensor, "*b"]  # of u's precision
    shift: Float[Tensor, "*b k"]  # precision times mean
    v: Float[Tensor, "*b n"]  # variance of each x
    left: Float[Tensor, "*b n"]  # v ÷ others_variance
    others_mean: Float[Tensor, "*b n"]
    others_variance: Float[Tensor, "*b n"]
    improper: Bool[Tensor, "*b"]  # no positive definite precision, or no positive variance

    @classmethod
    def of(cls, rows: Tensor, offsets: Tensor, tau: Tensor, nu: Tensor) -> "_Moments":
        """Moments under N(0, I) and the factors exp(νx − τx²/2)."""
        eye = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
        cholesky, failed = torch.linalg.cholesky_ex(eye + (rows * tau[..., None]).mT @ rows)
        covariance = torch.cholesky_inverse(cholesky)
        shift = ((nu - tau * offsets)[..., None, :] @ rows)[..., 0, :]
        mean = (covariance @ shift[..., None])[..., 0]
        x = offsets + (rows @ mean[..., None])[..., 0]
        v = ((rows @ covariance) * rows).sum(-1).clamp(min=0)
        left = 1 - tau * v
        improper = (failed > 0) | ~(left > SMALLEST_SHARE).all(-1)
        log_det = 2 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return cls(mean, covariance, log_det, shift, v, left, (x - v * nu) / left, v / left, improper)


def _log_evidence(now: _Moments, offsets: Tensor, tau: Tensor, nu: Tensor, flips: Tensor) -> Float[Tensor, "*b"]:
    """log ∫ N(u; 0, I) Π factors du, each factor scaled to the probability of its answer."""
    m, v = now.others_mean, now.others_variance
    log_yes, _, _ = _tilted(m, v, flips)
    own = 0.5 * (now.left.log() + (2 * m * nu + v * nu**2 - tau * m**2) * now.left)  # log ∫ N(x; m, v) factor dx
    factors = (log_yes - own + nu * offsets - 0.5 * tau * offsets**2).sum(-1)
    return factors - 0.5 * now.log_det + 0.5 * (now.shift * now.mean).sum(-1)


def _tilted(
    mean: Float[Tensor, "*b n"], variance: Float[Tensor, "*b n"], flips: Float[Tensor, "*b"]
) -> tuple[Tensor, Tensor, Tensor]:
    """log E[p(x)] for x ~ N(mean, variance), and its first and second derivatives in the mean."""
    flips = flips[..., None]
    value, first, second = _blurred(mean, variance)
    p = flips + (1 - 2 * flips) * value
    slope, bend = (1 - 2 * flips) * first / p, (1 - 2 * flips) * second / p
    return p.log(), slope, bend - slope**2


def _blurred(mean: Float[Tensor, "*b n"], variance: Float[Tensor, "*b n"]) -> tuple[Tensor, Tensor, Tensor]:
    """E[1/(1 + e⁻ˣ)] for x ~ N(mean, variance), and its first and second derivatives in the mean."""
    weights, widths = mean.new_tensor(WEIGHTS), mean.new_tensor(WIDTHS)
    scale = (variance[..., None] + widths**2).rsqrt()
    t = mean[..., None] * scale
    density = weights * scale * torch.exp(-0.5 * t**2) / math.sqrt(2 * math.pi)
    return (weights * torch.special.ndtr(t)).sum(-1), density.sum(-1), -(density * scale * t).sum(-1)
