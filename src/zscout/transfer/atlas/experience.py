"""What an agent saw of the behaviours that it followed: their features, and how wrong its forecasts were."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.transfer import constants  # read when used: an ablation changes one
from zscout.transfer.belief.posterior import TaskPosterior

SLOTS_ADDED = 8  # behaviours by which the memory grows
TINY = torch.finfo(torch.float64).tiny


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
        had = self if (self.tried < 0).any(-1).all() else self.with_room(SLOTS_ADDED)
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


@dataclass(frozen=True, eq=False)
class ForecastErrors:
    """Σe² and Σw² over the behaviours followed so far, and the belief when the present one was chosen.

    While a behaviour is followed, n rewards are seen, with means φ̄ and r̄. Before, the belief had ẑ, V and the means
    φ̄₀ and r̄₀. Its error is e = r̄ − r̄₀ − (φ̄ − φ̄₀)·ẑ. If rewards are linear in the features, e² is σ²w² on average,
    with w² = ‖φ̄ − φ̄₀‖²_{V⁻¹} + 1/n. So √(Σe² ÷ Σw²) is σ if they are linear, and larger if they are not.
    """

    squares: Float[Tensor, "*b"]  # Σe²
    widths: Float[Tensor, "*b"]  # Σw²
    weight: Float[Tensor, "*b"]  # the number of rewards then; 0: none
    phi: Float[Tensor, "*b D"]  # φ̄₀
    reward: Float[Tensor, "*b"]  # r̄₀
    z_hat: Float[Tensor, "*b D"]
    factor: Float[Tensor, "*b D D"]  # W, V⁻¹ = WWᵀ

    @classmethod
    def none(cls, prior: TaskPosterior) -> "ForecastErrors":
        """Nothing followed yet."""
        zero = torch.zeros_like(prior.z_hat)
        one = zero[..., 0]
        return cls(one, one, one, zero, one, zero, prior.factor)

    def misfit(self, belief: TaskPosterior) -> Float[Tensor, "*b"]:
        """√(Σe² ÷ Σw²), the present behaviour included; 0 before the first."""
        squares, widths = self._with_present(belief)
        return (squares / widths.clamp(min=TINY)).sqrt()

    def after_choice(self, belief: TaskPosterior, chosen: Bool[Tensor, "*b"]) -> "ForecastErrors":
        """The runs in ``chosen`` follow another behaviour from now on."""
        means = belief.means
        assert means is not None
        new = (*self._with_present(belief), means.weight, means.phi, means.reward, belief.z_hat, belief.factor)
        old = vars(self).values()
        return ForecastErrors(
            *(
                torch.where(chosen.reshape((*chosen.shape, *[1] * (after.ndim - chosen.ndim))), after, before)
                for after, before in zip(new, old, strict=True)
            )
        )

    def anew(self, restarted: Bool[Tensor, "*b"]) -> "ForecastErrors":
        """Without the errors and rewards so far in these runs, whose task is new."""
        old = (~restarted).to(self.squares)
        return replace(self, squares=old * self.squares, widths=old * self.widths, weight=old * self.weight)

    def _with_present(self, belief: TaskPosterior) -> tuple[Float[Tensor, "*b"], Float[Tensor, "*b"]]:
        """Σe² and Σw², with the behaviour followed now."""
        means = belief.means
        assert means is not None
        n = means.weight - self.weight
        share = means.weight / n.clamp(min=1)  # φ̄ − φ̄₀ is this share of how far the mean of all rewards has moved
        apart = share[..., None] * (means.phi - self.phi)
        error = share * (means.reward - self.reward) - torch.linalg.vecdot(apart, self.z_hat)
        width = (apart[..., None, :] @ self.factor).square().sum((-2, -1)) + 1 / n.clamp(min=1)
        known = ((n > 0) & (self.weight > 0)).to(error)
        return self.squares + known * error.square(), self.widths + known * width
