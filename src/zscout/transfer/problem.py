"""What a search maximises: the score of z at the present observation."""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.edge import all_finite
from zscout.randomness import Rng, Streams, uniform
from zscout.transfer.acquisition import Acquisition
from zscout.transfer.constant import ConstantPart
from zscout.transfer.forecast import Forecast
from zscout.transfer.posterior import TaskPosterior
from zscout.types import BehaviorModel, Obs, SamplesForEachRun

TIE = 1e-9  # scores nearer than this share of the largest are equal: most z share a policy, and rounding tells no truth


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be maximised over z, now."""

    obs: Obs
    model: BehaviorModel
    posterior: TaskPosterior
    radius: Float[Tensor, "*b"]  # √β_t
    acquisition: Acquisition
    last: Float[Tensor, "*b d"] | None = None  # the z of the step before
    constant: ConstantPart | None = None  # what is taken out of every z, where an intercept is fitted

    def project(self, z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Z's nearest point, without a constant part."""
        return self.model.project_z(z if self.constant is None else self.constant.removed_from(z)).double()

    def forecast(self, z: Float[Tensor, "*b n d"]) -> Forecast:
        """What follows from candidates, by the model."""
        return Forecast(self.model, self.obs, z)

    def scores(self, forecast: Forecast, rng: Rng) -> Float[Tensor, "*b n"]:
        """What they are worth; a score that draws something draws the same for all candidates of a step."""
        rng = rng.fork() if isinstance(rng, Streams) else rng
        return self.acquisition(forecast, self.posterior, self.radius, rng)

    @property
    def anchors(self) -> Float[Tensor, "*b k d"]:
        """ẑ where it is not 0, and the last z: candidates of every search."""
        z_hat = self.posterior.z_hat
        known = (z_hat != 0).any(-1, keepdim=True)
        if self.last is None:
            return self.project(z_hat)[..., None, :][..., : int(bool(known.any())), :]
        estimate = torch.where(known, self.project(z_hat), self.last)
        return torch.stack([estimate, self.last], -2)

    def fresh(self, n: int, rng: Rng) -> Float[Tensor, "*b n d"]:
        """N draws from the model's Z for each run, from its own stream."""
        runs, model = self.posterior.runs, self.model
        if not isinstance(rng, Streams):
            draws = model.sample_z(n * math.prod(runs), rng)
            return self._without_constant(draws).reshape(*runs, n, model.dim).to(self.radius.device)
        each = rng.generators()
        if isinstance(model, SamplesForEachRun) and _from_one_hand(type(model), "sample_z", "sample_z_each"):
            draws = model.sample_z_each(n, each)
        else:
            draws = torch.stack([model.sample_z(n, own) for own in each])
        return self._without_constant(draws).reshape(*runs, n, model.dim)

    def _without_constant(self, draws: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        return draws.double() if self.constant is None else self.project(draws.double())

    def best(self, forecasts: list[Forecast], rng: Rng) -> Float[Tensor, "*b d"]:
        """The best of all candidates, one of the equally good at random."""
        forecasts = [forecast for forecast in forecasts if forecast.count]
        scores = torch.cat([self.scores(forecast, rng) for forecast in forecasts], -1)
        if not all_finite(scores):
            raise ValueError("the scores of the candidates hold NaN or inf")
        index = argmax_at_random(scores, rng)
        z = forecasts[0].pick(index.clamp(max=forecasts[0].count - 1))
        for before, forecast in pairwise(forecasts):
            index = index - before.count
            z = torch.where((index >= 0)[..., None], forecast.pick(index.clamp(0, forecast.count - 1)), z)
        return z


def _from_one_hand(kind: type, one: str, other: str) -> bool:
    """Whether no subclass has changed the one and left the other as it was."""
    homes = [vars(base) for base in kind.__mro__ if one in vars(base) or other in vars(base)]
    return bool(homes) and one in homes[0] and other in homes[0]


def argmax_at_random(scores: Float[Tensor, "*b n"], rng: Rng) -> Tensor:
    """The index of the greatest score; of several within ``TIE`` any, equally likely."""
    greatest = scores.amax(-1, keepdim=True)
    tied = scores >= greatest - TIE * scores.abs().amax(-1, keepdim=True)
    order = tied.cumsum(-1)
    wanted = uniform(tuple(scores.shape[:-1]), rng).to(scores.device) * order[..., -1]
    return torch.searchsorted(order, wanted.long()[..., None], right=True)[..., 0]  # where so many ties are passed
