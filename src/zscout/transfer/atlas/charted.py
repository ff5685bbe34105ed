"""A model as its atlas shows it: the behaviours of the atlas, their ψ, and what an agent sees of them itself."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from zscout.base.randomness import Rng, uniform
from zscout.base.types import Action, Obs, PolicySet, Vectors
from zscout.transfer import constants
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.atlas.limits import within
from zscout.transfer.score.forecast import AskModel, Both, Candidates, Centre, Forecast, Numbers
from zscout.transfer.score.problem import Problem, argmax_at_random

ROOM = 8  # behaviours by which the memory grows


class Charted:
    """The policies of a model with the features of an atlas; ψ is the mean feature of a step, so γ = 0.

    φ and ψ have D entries, z has the d of the model.
    """

    gamma = 0.0

    def __init__(self, bfm: PolicySet, atlas: Atlas) -> None:
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
        self.z, self.narrow = self.atlas.z.double(), self.atlas.psi.float()

    def phi(self, obs: Obs) -> Float[Tensor, "*b D"]:
        """The features of observations."""
        return self.atlas.features(obs)

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n D"]:
        """The rows of z in the atlas; raises for another z."""
        row = self.atlas.index_of(torch.as_tensor(z).float())
        if (row < 0).any():
            raise ValueError("z is not in the atlas, so its consequences are unknown: chart(…, z=…) measures them")
        return self.atlas.psi[row]

    def best_for(self, tasks: Float[Tensor, "*n D"]) -> Float[Tensor, "*n d"]:
        """The z with the highest ψ·w for each w."""
        return self.z[(tasks @ self.atlas.psi.mT).argmax(-1)]

    def act(self, obs: Obs, z: Vectors, rng: Any = None) -> Action:
        """A ~ π(·|s,z)."""
        return self.bfm.act(obs, z, rng)

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """n draws of the model."""
        return self.bfm.sample_z(n, rng)

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """z mapped to Z."""
        return self.bfm.project_z(z)


@dataclass(frozen=True, eq=False)
class Experience:
    """What an agent saw of the behaviours that it followed: sums of features, for K of each run.

    ``now`` and ``steps`` are of the behaviour followed now, which joins the others when the agent changes it.
    """

    row: Int[Tensor, "*b"]  # of the atlas; −1: none
    now: Float[Tensor, "*b D"]
    steps: Float[Tensor, "*b"]
    tried: Int[Tensor, "*b K"]  # rows; −1: free
    sums: Float[Tensor, "*b K D"]
    counts: Float[Tensor, "*b K"]

    @classmethod
    def none(cls, runs: tuple[int, ...], like: Float[Tensor, "N D"]) -> "Experience":
        """Nothing yet."""
        zero = like.new_zeros(*runs, like.shape[1])
        nowhere = torch.full(runs, -1, device=like.device)
        empty = zero[..., None, :].expand(*runs, 0, -1)
        return cls(nowhere, zero, zero[..., 0], nowhere[..., None][..., :0], empty, empty[..., 0])

    def plus(self, phi: Float[Tensor, "*b D"]) -> "Experience":
        """One more step of the behaviour followed now."""
        known = (self.row >= 0).to(phi)
        return replace(self, now=self.now + known[..., None] * phi, steps=self.steps + known)

    def changed_to(self, row: Int[Tensor, "*b"], new: Bool[Tensor, "*b"]) -> "Experience":
        """With another behaviour followed from now on, by the runs in ``new``."""
        return replace(self.merged(), row=torch.where(new, row, self.row))

    def merged(self) -> "Experience":
        """With the behaviour followed now among the others."""
        had = self if (self.tried < 0).any(-1).all() else self.with_room(ROOM)
        same, free = had.tried == had.row[..., None], had.tried < 0
        slot = torch.where(same.any(-1)[..., None], same, free).to(torch.uint8).argmax(-1)[..., None]
        used = (had.steps > 0)[..., None]
        tried = had.tried.scatter(-1, slot, torch.where(used, had.row[..., None], had.tried.gather(-1, slot)))
        sums = had.sums.scatter_add(-2, slot[..., None].expand(*slot.shape, had.sums.shape[-1]), had.now[..., None, :])
        counts = had.counts.scatter_add(-1, slot, had.steps[..., None])
        return Experience(had.row, torch.zeros_like(had.now), torch.zeros_like(had.steps), tried, sums, counts)

    def untried(self, behaviours: int) -> Bool[Tensor, "*b N"]:
        """Which rows of the atlas were not followed yet."""
        return (torch.arange(behaviours, device=self.tried.device) != self.tried[..., None]).all(-2)

    def with_room(self, more: int) -> "Experience":
        """With more free slots for each run."""
        *runs, _ = self.tried.shape
        return replace(
            self,
            tried=torch.cat([self.tried, self.tried.new_full((*runs, more), -1)], -1),
            sums=torch.cat([self.sums, self.sums.new_zeros(*runs, more, self.sums.shape[-1])], -2),
            counts=torch.cat([self.counts, self.counts.new_zeros(*runs, more)], -1),
        )

    def psi(self, charted: Float[Tensor, "N D"]) -> Float[Tensor, "*b K D"]:
        """ψ of the behaviours tried: what the atlas says and what was seen, weighted by steps."""
        before = charted[self.tried.clamp(min=0)]
        return (constants.WORTH * before + self.sums) / (constants.WORTH + self.counts)[..., None]


class ChartedCandidates(Candidates):
    """All behaviours of an atlas; ψ of those that were tried includes the agent's own experience."""

    def __init__(self, model: Charted, experience: Experience) -> None:
        self._model, self._seen = model, experience

    @property
    def z(self) -> Float[Tensor, "N d"]:
        """The z of the atlas, the same for all runs."""
        return self._model.z

    def pick(self, index: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """One z for each run."""
        return self._model.z[index]

    def output(self, key: Any, ask_model: AskModel) -> Float[Tensor, "*b N D"]:
        """ψ."""
        charted = self._model.atlas.psi
        rows = charted.expand(*self._seen.row.shape, -1, -1)
        return self._replaced(rows, self._seen.psi(charted))

    def value(self, ask_psi: AskModel, weights: Float[Tensor, "*b D"]) -> Numbers:
        """ψ·w."""
        charted = self._model.atlas.psi
        tried = self._seen.psi(charted) @ weights[..., None]
        return self._replaced((weights @ charted.mT)[..., None], tried)[..., 0]

    def value_and_width(self, ask_psi: AskModel, both: Both, centre: Centre) -> tuple[Numbers, Numbers]:
        """ψ·ẑ and ‖Fᵀψ − centre‖; the widths in float32: they are the dearest part, and do not depend on rewards."""
        F = both[..., :-1]
        own = self._seen.psi(self._model.atlas.psi) @ F
        narrow, each = self._model.narrow, F.float().reshape(-1, *F.shape[-2:])
        middle = None if centre is None else centre.float().reshape(-1, 1, F.shape[-1])
        width = torch.stack(  # run by run, for memory
            [
                torch.linalg.vector_norm(narrow @ one if middle is None else narrow @ one - middle[run], dim=-1)
                for run, one in enumerate(each)
            ]
        ).double()
        tried = torch.linalg.vector_norm(own if centre is None else own - centre, dim=-1)
        widths = width.reshape(*F.shape[:-2], -1, 1)
        return self.value(ask_psi, both[..., -1]), self._replaced(widths, tried[..., None])[..., 0]

    def _replaced(self, rows: Float[Tensor, "*b N k"], tried: Float[Tensor, "*b K k"]) -> Float[Tensor, "*b N k"]:
        """The rows, with those of the behaviours tried replaced; a free slot writes to a row that is cut off."""
        if not tried.shape[-2]:
            return rows
        n = rows.shape[-2]
        at = torch.where(self._seen.tried < 0, n, self._seen.tried)[..., None].expand(tried.shape)
        longer = torch.cat([rows, rows[..., :1, :]], -2)
        return longer.scatter(-2, at, tried.to(longer))[..., :n, :]


@dataclass(frozen=True)
class OverAtlas:
    """The behaviour of the atlas with the highest score.

    Before the first reward it is a random one, or with a memory the best of an earlier task. While all rewards are
    equal, ẑ is 0 and the score is the width. Up to 16 behaviours are tried once each.
    """

    def __call__(self, problem: Problem, rng: Rng) -> Float[Tensor, "*b d"]:
        """The best z of the atlas."""
        forecast = self.forecast(problem)
        allowed = self.allowed(problem, forecast)
        if allowed is None and problem.past is None:
            first = (uniform(problem.posterior.runs, rng).to(problem.radius) * forecast.candidates.count).long()
        else:
            every = torch.ones(*problem.posterior.runs, forecast.candidates.count).to(problem.radius)
            preferred = every if problem.past is None else every + problem.past
            first = argmax_at_random(preferred if allowed is None else preferred * allowed, rng)
        known = (problem.posterior.z_hat != 0).any(-1, keepdim=True) | (problem.posterior.weight > 0)[..., None]
        best = problem.best([forecast], rng, allowed)
        if forecast.candidates.count <= constants.TRIED_ONCE:
            assert isinstance(problem.experience, Experience)
            new = problem.experience.untried(forecast.candidates.count)
            new = new if allowed is None else new & allowed
            random = argmax_at_random(new.double(), rng)
            best = torch.where(new.any(-1, keepdim=True), forecast.candidates.pick(random), best)
        return torch.where(known, best, forecast.candidates.pick(first))

    def allowed(self, problem: Problem, forecast: Forecast) -> Bool[Tensor, "*b N"] | None:
        """Which behaviours are within the limits; None without limits."""
        return within(problem.costs, forecast) if problem.costs else None

    def forecast(self, problem: Problem) -> Forecast:
        """ψ of all behaviours."""
        model, seen = problem.model, problem.experience
        if not isinstance(model, Charted) or not isinstance(seen, Experience):
            raise ValueError("OverAtlas needs an agent with an atlas: pass atlas= to OnlineTransfer")
        return Forecast(model, problem.obs, ChartedCandidates(model, seen))

    def best_z(self, problem: Problem) -> Float[Tensor, "*b d"]:
        """The z with the highest ψ·ẑ, within the limits."""
        forecast = self.forecast(problem)
        value, allowed = forecast.value(problem.posterior), self.allowed(problem, forecast)
        value = value if allowed is None else value.masked_fill(~allowed, -torch.inf)
        return forecast.candidates.pick(value.argmax(-1))
