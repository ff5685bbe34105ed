"""A model as its atlas shows it: the behaviours of the atlas, their ψ, and the best of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.base.randomness import Rng, uniform
from zscout.base.types import Obs, PolicySet, Vectors
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.atlas.experience import Experience
from zscout.transfer.atlas.limits import within
from zscout.transfer.constants import TRIED_ONCE
from zscout.transfer.score.forecast import AskModel, Both, Centre, Forecast, Numbers
from zscout.transfer.score.problem import Problem, argmax_at_random


class Charted:
    """The policies of a model with the features of an atlas; ψ is the mean feature of a step, so γ = 0.

    φ and ψ have D entries, z has the d of the model.
    """

    gamma = 0.0

    def __init__(self, bfm: PolicySet, atlas: Atlas) -> None:
        atlas = atlas.for_model(bfm)
        if atlas.z.shape[1] != bfm.dim:
            raise ValueError(f"the atlas is of another model: its z has {atlas.z.shape[1]} entries, not {bfm.dim}")
        device = bfm.sample_z(1, 0).device
        self.bfm, self.atlas, self.dim = bfm, atlas if atlas.psi.device == device else atlas.to(device), atlas.dim
        size = self.atlas.sample.shape[1:]
        if bfm.observation_space.shape != size:
            raise ValueError(
                f"the atlas is of another model: its observations have shape {tuple(size)}, this model's "
                f"{bfm.observation_space.shape}"
            )
        self.observation_space, self.action_space = bfm.observation_space, bfm.action_space
        self.rows, self.number = self.atlas.distinct
        self.z, self.charted = self.atlas.z.double()[self.rows], self.atlas.psi[self.rows]
        self.narrow = self.charted.float()
        self.phi, self.act, self.sample_z, self.project_z = self.atlas.features, bfm.act, bfm.sample_z, bfm.project_z

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n D"]:
        """The rows of z in the atlas; raises for another z."""
        row = self.atlas.index_of(torch.as_tensor(z).float())
        if (row < 0).any():
            raise ValueError("z is not in the atlas, so its consequences are unknown: chart(…, z=…) measures them")
        return self.atlas.psi[row]

    def best_for(self, tasks: Float[Tensor, "*n D"]) -> Float[Tensor, "*n d"]:
        """The z with the highest ψ·w for each w."""
        return self.z[(tasks @ self.charted.mT).argmax(-1)]


class ChartedForecast(Forecast):
    """Of all behaviours of an atlas; ψ of those that were tried includes the agent's own experience."""

    model: Charted

    def __init__(self, model: Charted, obs: Obs, experience: Experience) -> None:
        super().__init__(model, obs, model.z)
        self._seen = experience

    def pick(self, index: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """One z for each run."""
        return self.z[index]

    def _output(self, key: Any, ask_model: AskModel) -> Float[Tensor, "*b N D"]:
        """ψ."""
        return self._replaced(self.model.charted.expand(*self._seen.row.shape, -1, -1), self._tried)

    def value_for(self, weights: Float[Tensor, "*b D"]) -> Numbers:
        """ψ·w."""
        if self._given_psi is not None:
            return super().value_for(weights)
        return self._replaced((weights @ self.model.charted.mT)[..., None], self._tried @ weights[..., None])[..., 0]

    def _value_and_width(self, both: Both, centre: Centre) -> tuple[Numbers, Numbers]:
        """ψ·ẑ and ‖Fᵀψ − centre‖; the widths in float32: they are the dearest part, and do not depend on rewards."""
        if self._given_psi is not None:
            return super()._value_and_width(both, centre)
        F = both[..., :-1]
        own = self._tried @ F
        narrow, each = self.model.narrow, F.float().reshape(-1, *F.shape[-2:])
        middle = None if centre is None else centre.float().reshape(-1, 1, F.shape[-1])
        width = torch.stack(  # run by run, for memory
            [
                torch.linalg.vector_norm(narrow @ one if middle is None else narrow @ one - middle[run], dim=-1)
                for run, one in enumerate(each)
            ]
        ).double()
        tried = torch.linalg.vector_norm(own if centre is None else own - centre, dim=-1)
        widths = width.reshape(*F.shape[:-2], -1, 1)
        return self.value_for(both[..., -1]), self._replaced(widths, tried[..., None])[..., 0]

    @cached_property
    def _tried(self) -> Float[Tensor, "*b K D"]:
        """ψ of the behaviours tried."""
        return self._seen.psi(self.model.atlas.psi)

    def _replaced(self, rows: Float[Tensor, "*b N k"], tried: Float[Tensor, "*b K k"]) -> Float[Tensor, "*b N k"]:
        """The rows, with those of the behaviours tried replaced; a free slot writes to a row that is cut off."""
        if not tried.shape[-2]:
            return rows
        n = rows.shape[-2]
        at = torch.where(self._seen.tried < 0, n, self.model.number[self._seen.tried])[..., None].expand(tried.shape)
        longer = torch.cat([rows, rows[..., :1, :]], -2)
        return longer.scatter(-2, at, tried.to(longer))[..., :n, :]


@dataclass(frozen=True)
class OverAtlas:
    """The behaviour of the atlas with the highest score.

    Before the first reward it is a random one. While all rewards are equal, ẑ is 0 and the score is the width.
    Up to 16 behaviours are tried once each.
    """

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best z of the atlas."""
        forecast = self.forecast(problem)
        allowed = self.allowed(problem, forecast)
        if allowed is None:
            first = (uniform(problem.posterior.runs, rng).to(problem.radius) * forecast.count).long()
        else:
            first = argmax_at_random(allowed.to(problem.radius), rng)
        known = (problem.posterior.z_hat != 0).any(-1, keepdim=True) | (problem.posterior.weight > 0)[..., None]
        best = problem.best([forecast], rng, allowed)
        if forecast.count <= TRIED_ONCE:
            assert isinstance(problem.experience, Experience)
            new = problem.experience.untried(len(forecast.model.number))[..., forecast.model.rows]
            new = new if allowed is None else new & allowed
            random = argmax_at_random(new.double(), rng)
            best = torch.where(new.any(-1, keepdim=True), forecast.pick(random), best)
        return torch.where(known, best, forecast.pick(first))

    def allowed(self, problem: Problem, forecast: Forecast) -> Bool[Tensor, "*b N"] | None:
        """Which behaviours are within the limits; None without limits."""
        return within(problem.costs, forecast) if problem.costs else None

    def forecast(self, problem: Problem) -> ChartedForecast:
        """ψ of all behaviours."""
        model, seen = problem.model, problem.experience
        if not isinstance(model, Charted) or not isinstance(seen, Experience):
            raise ValueError("OverAtlas needs an agent with an atlas: pass atlas= to OnlineTransfer")
        return ChartedForecast(model, problem.obs, seen)

    def best_z(self, problem: Problem) -> Float[Tensor, "*b d"]:
        """The z with the highest ψ·ẑ, within the limits."""
        forecast = self.forecast(problem)
        value, allowed = forecast.value(problem.posterior), self.allowed(problem, forecast)
        value = value if allowed is None else value.masked_fill(~allowed, -torch.inf)
        return forecast.pick(value.argmax(-1))
