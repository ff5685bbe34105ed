"""Offline transfer, the usual zero-shot way: a labelled set of states in, z out."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from zscout.edge import as_finite
from zscout.transfer.constant import constant_part_of
from zscout.transfer.posterior import TaskPosterior
from zscout.types import BehaviorModel, Obs, Vectors


@dataclass(frozen=True, eq=False)
class TaskFit:
    """A reward as the features see it."""

    bfm: BehaviorModel
    z_hat: Float[Tensor, " d"]  # ridge regression of rewards on φ, with an intercept unless that was declined
    z: Float[Tensor, " d"]  # ẑ in the model's Z, without a constant part: what to act by
    offset: float  # c, the part of the reward that is the same everywhere; 0 where no intercept was fitted
    expressed: float  # R² of φ·ẑ + c: 1 is all of the reward; 0, or with a strong ridge less, is nothing

    def decode(self, obs: Obs) -> Float[Tensor, "*b"]:
        """φ(s)·ẑ + c, the reward that it stands for."""
        return self.bfm.phi(obs).double() @ self.z_hat + self.offset


def fit_task(
    bfm: BehaviorModel, observations: Obs, rewards: Vectors, ridge: float = 1e-3, intercept: bool = True
) -> TaskFit:
    """Ridge regression of rewards on φ, and how much of the reward the features can express.

    With ``intercept`` r ≈ φ·z + c with c free: a constant added to the rewards changes c and nothing else.
    """
    phi = bfm.phi(observations).detach().double()
    prior = TaskPosterior.prior(dim=bfm.dim, ridge=ridge, intercept=intercept, device=phi.device)
    posterior = prior.learn(phi, rewards)
    if not posterior.weight:
        raise ValueError("there are no observations: a task is inferred from at least one reward")
    r = as_finite(rewards, "rewards", phi.device).detach()
    missed = ((r - posterior.reward(phi)) ** 2).sum()
    # Rewards that are all alike have no variance: they are expressed if they are met.
    spread = r if bool((r == r[0]).all()) else r - r.mean()
    expressed = float(1 - missed / (spread**2).sum().clamp(min=1e-300))
    constant = constant_part_of(bfm) if intercept else None
    z_hat = posterior.z_hat
    z = bfm.project_z(z_hat if constant is None else constant.removed_from(z_hat))
    return TaskFit(bfm, z_hat, z, float(posterior.offset), expressed)


def infer_task(
    bfm: BehaviorModel, observations: Obs, rewards: Vectors, ridge: float = 1e-3, intercept: bool = True
) -> Float[Tensor, " d"]:
    """The z for a reward given by labelled observations: ridge regression on φ, projected to the model's Z."""
    return fit_task(bfm, observations, rewards, ridge, intercept).z
