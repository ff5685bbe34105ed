"""What a search maximises: the score of z at the current observation."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.edge import all_finite
from zscout.base.randomness import Rng, Streams, uniform
from zscout.base.types import BehaviorModel, Obs, SamplesForEachRun
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.inputs import checked_output, defined_together
from zscout.transfer.offline import ConstantPart
from zscout.transfer.score.acquisition import Acquisition
from zscout.transfer.score.forecast import Forecast, offers

FEW_SCORES = 64  # scores that are faster compared in Python
TIE = 1e-9  # relative: scores this close are ties, because many z share a policy and rounding differs


@dataclass(frozen=True, eq=False)
class Problem:
    """The maximisation over z at one step."""

    obs: Obs
    model: BehaviorModel
    posterior: TaskPosterior
    radius: Float[Tensor, "*b"]  # √β_t
    acquisition: Acquisition
    last: Float[Tensor, "*b d"] | None = None  # Z_{t−1}
    constant: ConstantPart | None = None  # removed from every z, with an intercept
    experience: object = None  # with an atlas, what the agent saw of its behaviours: ``charted.Experience``
    costs: tuple[Any, ...] = ()  # with limits, what is believed of their costs: ``limits.CostBelief``

    def project(self, z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """z without its constant part, projected to Z."""
        return self.model.project_z(z if self.constant is None else self.constant.removed_from(z)).double()

    def forecast(self, z: Float[Tensor, "*b n d"]) -> Forecast:
        """The model's predictions for candidates."""
        return Forecast(self.model, self.obs, z)

    def scores(self, forecast: Forecast, rng: Rng) -> Float[Tensor, "*b n"]:
        """The scores of candidates; a random score uses the same draws for all candidates of a step."""
        rng = rng.fork() if isinstance(rng, Streams) else rng
        scores = self.acquisition(forecast, self.posterior, self.radius, rng)
        return checked_output(scores, (*self.posterior.runs, forecast.count), "the acquisition's output")

    @property
    def anchors(self) -> Float[Tensor, "*b k d"]:
        """ẑ (if not 0) and the last z: candidates of most searches."""
        z_hat = self.posterior.z_hat
        known = (z_hat != 0).any(-1, keepdim=True)
        if self.last is None:
            return self.project(z_hat)[..., None, :][..., : int(bool(known.any())), :]
        estimate = torch.where(known, self.project(z_hat), self.last)
        return torch.stack([estimate, self.last], -2)

    def fresh(self, n: int, rng: Rng) -> Float[Tensor, "*b n d"]:
        """n draws from Z for each run, from its own stream."""
        runs, model = self.posterior.runs, self.model
        if not isinstance(rng, Streams):
            draws = model.sample_z(n * math.prod(runs), rng)
        elif runs and offers(model, SamplesForEachRun) and defined_together(type(model), "sample_z", "sample_z_each"):
            draws = model.sample_z_each(n, rng.generators())
        else:
            each = [model.sample_z(n, own) for own in rng.generators()]
            draws = torch.stack(each) if runs else each[0]
        draws = draws.double() if self.constant is None else self.project(draws.double())
        return draws.reshape(*runs, n, model.dim).to(self.radius.device)

    def best(
        self, forecasts: list[Forecast], rng: Rng, allowed: Bool[Tensor, "*b n"] | None = None
    ) -> Float[Tensor, "*b d"]:
        """The candidate with the highest score, ties broken at random; among those ``allowed``."""
        forecasts = [forecast for forecast in forecasts if forecast.count]
        each = [self.scores(forecast, rng) for forecast in forecasts]
        scores = torch.cat(each, -1) if len(each) > 1 else each[0]
        if not all_finite(scores):
            raise ValueError("the scores of the candidates hold NaN or inf: check the acquisition and the model's ψ")
        if allowed is not None:
            low, high = (end[..., None] for end in scores.aminmax(dim=-1))
            below = torch.where((low == 0) & (high == 0), -1.0, 2 * low - high - low.abs())  # in units of the scores
            scores = torch.where(allowed, scores, below)
        index = argmax_at_random(scores, rng)  # of eq. 5
        first, *others = forecasts
        z, before = first.pick(index.clamp(max=first.count - 1) if others else index), first.count
        for forecast in others:
            own = index - before
            z = torch.where((own >= 0)[..., None], forecast.pick(own.clamp(0, forecast.count - 1)), z)
            before += forecast.count
        return z


def argmax_at_random(scores: Float[Tensor, "*b n"], rng: Rng) -> Tensor:
    """The index of the highest score; ties within ``TIE`` are broken uniformly at random."""
    if scores.ndim == 1 and len(scores) <= FEW_SCORES:  # a single run: Python is faster
        numbers = scores.tolist()
        least = max(numbers) - TIE * max(map(abs, numbers))
        ties = [index for index, score in enumerate(numbers) if score >= least]
        return torch.tensor(ties[int(uniform((), rng).item() * len(ties))], device=scores.device)
    greatest = scores.amax(-1, keepdim=True)
    tied = scores >= greatest - TIE * scores.abs().amax(-1, keepdim=True)
    order = tied.cumsum(-1)
    wanted = uniform(tuple(scores.shape[:-1]), rng).to(scores.device) * order[..., -1]
    return torch.searchsorted(order, wanted.long()[..., None], right=True)[..., 0]  # the index of the chosen tie
