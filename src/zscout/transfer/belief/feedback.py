"""Feedback of a person, as labels of the same posterior as rewards: late rewards, and "this clip is better".

P(better) = f + (1 − 2f)/(1 + e⁻ˣ) with x = s·(Φ_better − Φ_worse)·z. Φ is the mean of φ over the observations entered
along a clip, so a constant in the reward cancels. f is the share of answers that are flipped, s the number of logits
per unit of reward. Both are averaged over, on a grid.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.edge import for_each_entry
from zscout.base.randomness import Rng
from zscout.base.types import BehaviorModel, HasTransitionFeatures, Obs
from zscout.transfer import inputs
from zscout.transfer.belief.logistic import answered, yes_probability
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.constants import FLIPS, LOGITS
from zscout.transfer.inputs import Checked, NotNegative
from zscout.transfer.score.confidence import plausible_spread

if TYPE_CHECKING:
    from zscout.transfer.agent import OnlineTransfer

NEGLIGIBLE_WEIGHT, UNIT_CHANGE = 1e-9, 1.1  # of a pair (s, f) that further rewards do not revive; of s, which does
ROUNDING = 1e-9  # relative to Φ: a smaller difference of two clips counts as 0
NODES, REACH = 61, 4.0  # of the integral over x: nodes, standard deviations


@dataclass(frozen=True, kw_only=True)
class Credit(Checked):
    """A reward given now is about the steps ``delay`` to ``delay + spread`` ago, all alike; in steps, 0 is the last.

    The reward is a label of their mean: r ≈ Σ wₖφ(Sₖ)·z with Σwₖ = 1, and the noise of one reward. People react in .2
    to .8 s: at 10 steps a second, ``Credit(delay=2, spread=6)``. A step k old takes the time from k to k + 1; its
    weight is the part of it in the window. A window that ends before the first step falls on the first.
    """

    delay: NotNegative = 2.0
    spread: NotNegative = 6.0

    def weights(self, n: int) -> Float[Tensor, " n"]:
        """The weights of the last n observations, oldest first."""
        if n < 1:
            raise ValueError("got no observations: expected at least one to credit")
        age = torch.arange(n - 1, -1, -1, dtype=torch.float64)
        end = self.delay + max(self.spread, 1e-9)  # without a spread: the step at that age
        share = (torch.clamp(age + 1, max=end) - torch.clamp(age, min=self.delay)).clamp(min=0)
        if not share.any():
            share[0] = 1.0
        return share / share.sum()

    def mean(self, phi: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b d"]:
        """Σ wₖφₖ."""
        if phi.ndim < 2:
            raise ValueError("got a single observation, expected the last ones, [*b n …], oldest first")
        return (self.weights(phi.shape[-2]).to(phi)[:, None] * phi).sum(-2)


@dataclass(frozen=True, eq=False)
class Sites:
    """Where expectation propagation ended for each of the c pairs (s, f): the start after one more reward."""

    tau: Float[Tensor, "*b c n"]
    nu: Float[Tensor, "*b c n"]
    weight: Float[Tensor, "*b c"]  # of each pair, by evidence
    unit: Float[Tensor, "*b"]  # of s, when all pairs were computed …
    rewards: Float[Tensor, "*b"]  # … and the number of rewards

    @classmethod
    def none(cls, rewards: TaskPosterior, answers: int) -> "Sites":
        """Before any answer is computed."""
        nothing = rewards.z_hat.new_zeros(*rewards.runs, len(LOGITS) * len(FLIPS), answers)
        return cls(nothing, nothing, nothing.sum(-1), nothing.sum((-2, -1)), nothing.sum((-2, -1)))

    def likely(self, unit: Float[Tensor, "*b"], rewards: Float[Tensor, "*b"]) -> Bool[Tensor, "*b c"]:
        """Which pairs to compute: all where the unit or the number of rewards has changed much."""
        near = (unit < UNIT_CHANGE * self.unit) & (self.unit < UNIT_CHANGE * unit) & (rewards <= 2 * self.rewards)
        return ~near[..., None] | (self.weight > NEGLIGIBLE_WEIGHT)


@dataclass(frozen=True, eq=False)
class Preferences:
    """The posterior of z given rewards and answers, and what the answers say about the person."""

    posterior: TaskPosterior  # the first two moments of z, as if all labels were rewards
    count: int  # answers of each run
    flip_rate: Float[Tensor, "*b"]  # E f
    scale: Float[Tensor, "*b"]  # s, geometric mean; 0 before any answer
    spread: Float[Tensor, "*b"]  # the σ that rewards were given: z has covariance σ²V⁻¹
    sites: Sites

    @classmethod
    def of(
        cls, rewards: TaskPosterior, apart: Float[Tensor, "*b n d"] | None, before: Sites | None = None
    ) -> "Preferences":
        """Mix rewards with answers, Φ_better − Φ_worse [*b n d].

        Rewards alone leave z ~ N(ẑ, σ²V⁻¹), with σ at least √λ times the typical entry of ẑ, as in certificates. The
        answers are added by expectation propagation for each s and f, and their posteriors averaged by evidence.
        ``before``: of the same answers with fewer rewards, to start from.
        """
        spread = plausible_spread(rewards)
        f, prior = (rewards.z_hat.new_tensor(part) for part in zip(*FLIPS, strict=True))
        if apart is None:
            nothing = torch.zeros_like(spread)
            return cls(rewards, 0, nothing + (f * prior).sum(), nothing, spread, Sites.none(rewards, 0))
        first, before = before is None, before or Sites.none(rewards, apart.shape[-2])
        unit = logit_unit(rewards, spread, apart)[..., None]
        likely = before.likely(unit[..., 0], rewards.weight)
        some = likely.reshape(-1, likely.shape[-1]).any(0).nonzero()[:, 0]  # pairs that some run computes
        W = spread[..., None, None] * rewards.factor  # z = ẑ + Wu with u ~ N(0, I)
        logits = rewards.z_hat.new_tensor(LOGITS)
        Q, R = torch.linalg.qr((unit[..., None] * (apart @ W)).mT)  # answers say nothing about u across Q
        rows, offsets = R.mT, unit * (apart @ rewards.z_hat[..., None])[..., 0]
        s, flips = logits.repeat_interleave(len(FLIPS))[some], f.repeat(len(LOGITS))[some]
        found = answered(
            s[:, None, None] * rows[..., None, :, :],
            s[:, None] * offsets[..., None, :],
            flips.expand(*rewards.runs, len(flips)),
            None if first else (before.tau[..., some, :], before.nu[..., some, :]),
        )
        evidence = found.log_evidence + prior.repeat(len(LOGITS))[some].log()
        weight = torch.softmax(evidence.masked_fill(~likely[..., some], -torch.inf), -1)
        mean = (weight[..., None] * found.mean).sum(-2)
        off = found.mean - mean[..., None, :]
        second = found.covariance + off[..., :, None] * off[..., None, :]
        covariance = (weight[..., None, None] * second).sum(-3)
        variances, axes = torch.linalg.eigh(covariance)
        gained = (1 / variances.clamp(1e-12, 1.0) - 1).clamp(min=0)  # no answer makes z less certain than before it
        L = rewards.V @ rewards.factor @ Q @ axes  # V⁻¹ = WWᵀ: in the coordinates of z
        posterior = rewards.moved(rewards.z_hat + (W @ Q @ mean[..., None])[..., 0], (L * gained[..., None, :]) @ L.mT)
        told = apart.any(-1).any(-1)  # answers about an old task are 0
        scale = torch.where(told, torch.exp((weight * s.log()).sum(-1)) * unit[..., 0], 0.0)
        whole = likely.all(-1)
        sites = Sites(
            before.tau.index_copy(-2, some, found.tau),
            before.nu.index_copy(-2, some, found.nu),
            torch.zeros_like(before.weight).index_copy(-1, some, weight),
            torch.where(whole, unit[..., 0], before.unit),
            torch.where(whole, rewards.weight, before.rewards),
        )
        return cls(posterior, apart.shape[-2], (weight * flips).sum(-1), scale, spread, sites)

    def sample(self, n: int, rng: Rng | int) -> Float[Tensor, "*b n d"]:
        """n plausible tasks ~ N(ẑ, spread²V⁻¹): not all alike while every reward is 0."""
        return self.posterior.sample(n, rng, self.spread)

    def information(self, apart: Float[Tensor, "n d"], scale: float) -> Float[Tensor, " n"]:
        """Expected information of each answer about z, in nats: H(E p) − E H(p), p the probability of "the first"."""
        mean = scale * (apart @ self.posterior.z_hat)
        sd = scale * float(self.spread) * self.posterior.width(apart)
        node = torch.linspace(-REACH, REACH, NODES, dtype=mean.dtype, device=mean.device)
        weight = torch.softmax(-0.5 * node**2, 0)
        expected = yes_probability(mean, sd**2, self.flip_rate)
        f = float(self.flip_rate)
        certain = f + (1 - 2 * f) * torch.sigmoid(mean[:, None] + sd[:, None] * node)
        return _entropy(expected) - (weight * _entropy(certain)).sum(-1)


def _entropy(p: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    entropy: Tensor = torch.special.entr(p) + torch.special.entr(1 - p)
    return entropy


def logit_unit(
    rewards: TaskPosterior, spread: Float[Tensor, "*b"], apart: Float[Tensor, "*b n d"]
) -> Float[Tensor, "*b"]:
    """The s at which x has a standard deviation of 1 before any label: √λ ÷ (σ·‖Φ_better − Φ_worse‖), root mean square.

    The norm is in units of the prior over tasks. The unit follows the rewards: r → a·r changes z by a and s by 1/a,
    and no answer's probability.
    """
    told = apart.any(-1)  # a difference of 0 tells nothing
    squares = rewards.prior_sizes(apart).square().sum(-1)
    size = (squares / told.sum(-1).clamp(min=1)).sqrt()
    return rewards.root_ridge / (spread * torch.where(size > 0, size, 1.0))


def most_telling(agent: "OnlineTransfer", clips: Sequence[Obs]) -> tuple[int, int]:
    """The two clips i < j whose comparison teaches most about the task: show them, then ``agent.prefer``.

        i, j = zscout.most_telling(agent, clips)
        agent.prefer(clips[i], clips[j])              # or the other way round

    A clip is the observations entered along it. What a pair teaches is the mutual information of the answer and z:
    large where the posterior is uncertain of the difference and the person is not.
    """
    if agent.runs:
        raise ValueError("most_telling compares the clips of a single agent: use runs=None")
    if len(clips) < 2:
        raise ValueError(f"got {len(clips)} clips, expected at least two")
    means = torch.stack([clip_features(agent.model, clip, (), f"clip {i}") for i, clip in enumerate(clips)])
    pairs = list(combinations(range(len(clips)), 2))
    first, second = zip(*pairs, strict=True)
    apart, known = difference(means[list(first)], means[list(second)]), agent.preferences
    typical = math.exp(sum(map(math.log, LOGITS)) / len(LOGITS))
    scale = float(known.scale) or typical * float(logit_unit(known.posterior, known.spread, apart))
    return pairs[int(known.information(apart, scale).argmax())]


def clip_features(model: BehaviorModel, clip: Obs, runs: tuple[int, ...], name: str) -> Float[Tensor, "*b d"]:
    """The mean of φ over a clip [*b n …], n ≥ 1 observations for each run."""
    if isinstance(model, HasTransitionFeatures):
        raise ValueError("this model has features of transitions, a clip is single observations: tell rewards instead")
    stacked = for_each_entry(lambda part: _stacked(part, name), clip)
    steps = inputs.runs_of(stacked, model.observation_space)[len(runs) :]
    if len(steps) != 1 or not steps[0]:
        wanted = f"[{', '.join([*map(str, runs), 'n', '…'])}]"
        raise ValueError(f"{name} must be the observations entered along it, {wanted} with n ≥ 1")
    inputs.check_observation(stacked, model.observation_space, (*runs, steps[0]), name)
    return inputs.checked_phi(model, stacked, (*runs, steps[0])).mean(-2)


def difference(one: Float[Tensor, "*b d"], other: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """one − other, and 0 where that is rounding."""
    apart, size = one - other, torch.maximum(one.abs(), other.abs()).amax(-1, keepdim=True)
    return torch.where(apart.abs().amax(-1, keepdim=True) > ROUNDING * size, apart, 0.0)


def _stacked(part: Any, name: str) -> Any:
    """One array of a sequence of observations."""
    if isinstance(part, Tensor | np.ndarray):
        return part
    try:
        if isinstance(part, Sequence) and part and all(isinstance(one, Tensor) for one in part):
            return torch.stack(list(part))
        return np.asarray(part)
    except (ValueError, RuntimeError, TypeError):
        raise ValueError(f"{name} holds observations of different shapes") from None
