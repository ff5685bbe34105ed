"""Confidences: the radius √β_t of the ellipsoid around ẑ.

A confidence is a callable (t, posterior) → √β_t, one number or one for each run; t is the number of tells.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.constants import ATLAS_KAPPA, BURST_STEPS, CAUTION, FIRST_BURST, KAPPA, KAPPA_CHOSEN_FOR
from zscout.transfer.inputs import Checked, NotNegative, Positive

Confidence: TypeAlias = Callable[[int, TaskPosterior], Float[Tensor, "*b"]]


@dataclass(frozen=True)
class Constant(Checked):
    """β_t = β."""

    beta: NotNegative = 1.0

    def __call__(self, t: int, posterior: TaskPosterior) -> Float[Tensor, "*b"]:
        """√β."""
        return _same(math.sqrt(self.beta), posterior)


@dataclass(frozen=True)
class Residual(Checked):
    """√β_t = κ·max(σ̂, misfit), 1 while all rewards are equal.

    σ̂ is what the features leave unexplained of the rewards seen, noise included. The misfit is how wrong forecasts of
    other behaviours were, in the same units: features that fit what was seen may be wrong elsewhere.
    """

    kappa: Positive = ATLAS_KAPPA

    def __call__(self, t: int, posterior: TaskPosterior) -> Float[Tensor, "*b"]:
        """√β_t."""
        sigma = posterior.noise if posterior.misfit is None else torch.maximum(posterior.noise, posterior.misfit)
        return self.kappa * torch.where(sigma > 0, sigma, 1.0)


@dataclass(frozen=True)
class PaperSchedule(Checked):
    """β_t = β for t < 50, then linear to 0 at t = 150: the paper's schedule."""

    beta: NotNegative = 1.0
    hold: int = 50
    end: int = 150

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.hold < self.end:
            raise ValueError(f"end must be above hold, got hold={self.hold} and end={self.end}")

    def __call__(self, t: int, posterior: TaskPosterior) -> Float[Tensor, "*b"]:
        """√β_t."""
        left = min(1.0, max(0.0, (self.end - t) / (self.end - self.hold)))
        return _same(math.sqrt(self.beta * left), posterior)


@dataclass(frozen=True)
class ScaleFree(Checked):
    """√β_t = κ√λ·ŝ_t·√max(1, p/9), where ŝ_t is the typical entry of z_r, estimated from the directions seen so far.

    ŝ² = (‖ẑ‖²/d_eff)(1 + c/d_eff) with d_eff = d − λ tr V⁻¹, the number of directions seen; c widens it while few are
    seen, as Student's t does. The radius scales with the rewards. It does not need σ: unseen directions dominate the
    uncertainty, not noise. It grows with p, the number of directions that likely tasks use (d without a prior over
    tasks), as an ellipsoid must that covers all of them; κ was chosen for p = 9.

    Bursts: at t = 400, 800, 1600 …, the radius is ``burst`` times as large for 12 steps. A run that settled too early
    tries again, and the cost grows as log t. Not with a prior over tasks: a burst makes a body fall.
    """

    kappa: Positive = KAPPA
    caution: NotNegative = CAUTION  # c
    burst: Positive = 1.0  # 1: no bursts

    def __call__(self, t: int, posterior: TaskPosterior) -> Float[Tensor, "*b"]:
        """√β_t."""
        kappa = self.kappa * math.sqrt(max(1.0, posterior.prior_dimensions / KAPPA_CHOSEN_FOR))
        if posterior.task_root is None and in_burst(t):
            kappa *= self.burst
        return kappa * posterior.root_ridge * typical_entry(posterior, self.caution)


def typical_entry(posterior: TaskPosterior, caution: float = ScaleFree.caution) -> Float[Tensor, "*b"]:
    """ŝ: the typical entry of z_r, in units of the prior; 1 while ẑ = 0, when every radius gives the same argmax."""
    seen = directions_seen(posterior)
    size = _squares(posterior)
    return ((size * (seen + caution)).sqrt() / seen).masked_fill(size == 0, 1.0)


def plausible_spread(posterior: TaskPosterior) -> Float[Tensor, "*b"]:
    """s of plausible tasks N(ẑ, s²V⁻¹): σ, but at least the misfit.

    If the misfit is unknown, s is at least so large that unseen entries are as large as seen ones.
    """
    least = posterior.root_ridge * typical_entry(posterior)
    if posterior.misfit is not None:  # 0: no behaviour was left yet
        least = torch.where(posterior.misfit > 0, posterior.misfit, least)
    return torch.maximum(posterior.noise, least)


def _squares(posterior: TaskPosterior) -> Float[Tensor, "*b"]:
    """‖ẑ‖², in units of the prior."""
    return (posterior.in_prior_units(posterior.z_hat[..., None]) ** 2).sum((-2, -1))


def in_burst(t: int) -> bool:
    """Whether t is in one of the bursts of 12 steps that begin at 400·2ᵏ."""
    return t >= FIRST_BURST and t - (FIRST_BURST << ((t // FIRST_BURST).bit_length() - 1)) < BURST_STEPS


@dataclass(frozen=True)
class KnownNorm(Checked):
    """√β_t = κ√λ·s_t for known ‖z_r‖ = S: spreads S² − ‖ẑ‖² over the directions not yet seen.

    s_t² = (S² − ‖ẑ‖²)/(d − d_eff + ``floor``), clipped to [``floor``·S/√d, S/√d]; default S = √d, true for z_r ∈ Z.
    """

    kappa: Positive = 2.2
    norm_bound: Positive | None = None
    floor: Positive = 0.3

    def __call__(self, t: int, posterior: TaskPosterior) -> Float[Tensor, "*b"]:
        """√β_t."""
        d = posterior.dim
        bound = posterior.prior_norm(math.sqrt(d) if self.norm_bound is None else self.norm_bound)
        typical = bound / math.sqrt(d)
        left = (bound**2 - _squares(posterior)).clamp(min=0)
        scale = (left / (d - directions_seen(posterior) + self.floor)).sqrt()
        return self.kappa * posterior.root_ridge * scale.clamp(self.floor * typical, typical)


def directions_seen(posterior: TaskPosterior) -> Float[Tensor, "*b"]:
    """d_eff = d − tr(V₀V⁻¹), V₀ = λI without a prior over tasks: 0 before any reward, near d after many everywhere."""
    unseen = posterior.ridge * (posterior.in_prior_units(posterior.factor) ** 2).sum((-2, -1))
    return (posterior.dim - unseen).clamp(min=1e-12)


def _same(radius: float, posterior: TaskPosterior) -> Float[Tensor, "*b"]:
    return posterior.z_hat.new_full(posterior.runs, radius)
