"""Rivals with our regression, and the default with one part switched off, by ``benchmarks.variants:name``.

Our regression: a free constant, and the model's prior over tasks by evidence where it has one (λI where it has none).
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from reproduction.variants import ALTERNATIVES
from zscout.base.edge import as_finite
from zscout.base.randomness import Rng
from zscout.base.types import Vectors
from zscout.transfer.baselines.rollout_searches import LoLA
from zscout.transfer.belief import sums
from zscout.transfer.choosers import Memory
from zscout.transfer.methods import METHODS, Factory, Method
from zscout.transfer.score import confidence
from zscout.transfer.score.problem import Problem
from zscout.transfer.score.search import FixedPoint, Known

NINE = 9  # any number of features: the methods below do not depend on it


def factory(name: str) -> Factory:
    """A method by name, of the paper's alternatives too, or a function of this file by ``benchmarks.variants:name``."""
    own = name.removeprefix(f"{__name__}:")
    return Factory(globals()[own]) if own != name else ALTERNATIVES.get(name) or METHODS[name]


def _ours(name: str, **settings: Any) -> Method:
    return replace(METHODS[name](dim=NINE, intercept=True, **settings), prior="model")


def paper(*, ridge: float = 0.1, beta: float = 1.0) -> Method:
    """The paper's schedule with our regression."""
    return _ours("usf-ucb-paper", ridge=ridge, beta=beta)


def opti(*, ridge: float = 0.1, radius: float = 0.1) -> Method:
    """OpTI with our regression."""
    return _ours("opti", ridge=ridge, radius=radius)


def thompson(*, ridge: float = 0.1, scale: float = 1.0, hold: int = 1) -> Method:
    """Thompson sampling with our regression."""
    return _ours("thompson", ridge=ridge, scale=scale, hold=hold)


def greedy(*, ridge: float = 0.1) -> Method:
    """ẑ of our regression, without exploration."""
    return _ours("greedy", ridge=ridge)


@dataclass(frozen=True, eq=False)
class FromLabels(LoLA):
    """LoLA as published: μ starts at a z that was fitted to labels."""

    fitted: Tensor = field(default_factory=torch.Tensor)  # [R d]

    def begin(self, problem: Problem, rng: Rng) -> Memory:
        """μ at the z fitted."""
        memory = super().begin(problem, rng)
        memory |= {"mu": Known.of(self.fitted).best_z(problem.model, problem.posterior).to(memory["mu"])}
        return memory | self._rollout(self._latent(problem, memory, 0))


def lola_from_labels(*, task: Vectors, horizon: int = 100, std: float = 0.15, rate: float = 0.05) -> Method:
    """LoLA that starts at the oracle's z: in the point maze, the one fitted to 50,000 labels."""
    search = FromLabels(horizon=horizon, std=std, rate=rate, fitted=as_finite(task, "task"))
    return replace(METHODS["lola"](dim=NINE), search=search)


# The network's ψ as it is, as OpTI uses it, in place of ψ that M solves


def raw_default() -> Method:
    """The default with the network's own ψ."""
    return replace(METHODS["usf-ucb"](dim=NINE), search=FixedPoint())


def raw_paper(*, ridge: float = 0.3, beta: float = 1.0) -> Method:
    """The paper's schedule with the network's own ψ."""
    return replace(METHODS["usf-ucb-paper"](dim=NINE, ridge=ridge, beta=beta), search=FixedPoint())


# The default with one part switched off


def no_prior() -> Method:
    """Without the model's prior over tasks: λ = .1."""
    return METHODS["usf-ucb"](dim=NINE, prior="ridge")


def no_evidence() -> Method:
    """The model's prior with λ = 1 throughout; see ``switched_off``."""
    return METHODS["usf-ucb"](dim=NINE)


def radius_of_nine() -> Method:
    """The radius without √(p/9); see ``switched_off``."""
    return METHODS["usf-ucb"](dim=NINE)


@contextlib.contextmanager
def switched_off(method: str) -> Iterator[None]:
    """Switch off a part that no setting reaches, while runs of this method are made."""
    name = method.rpartition(":")[2]
    with contextlib.ExitStack() as parts:
        if name == "no_evidence":
            of = sums.TaskPriors.of
            parts.enter_context(
                patch.object(sums.TaskPriors, "of", lambda root, ridge: of(root, ridge, (1.0,), doubt=1e9))
            )
        if name == "radius_of_nine":
            parts.enter_context(patch.object(confidence, "KAPPA_CHOSEN_FOR", 1e9))
        yield
