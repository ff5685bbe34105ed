"""Offline (zero-shot) transfer: z from a labelled set of states."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from zscout.edge import as_finite
from zscout.transfer.constant import constant_part_of
from zscout.transfer.posterior import TaskPosterior
from zscout.types import BehaviorModel, Obs, Vectors


@dataclass(frozen=True, eq=False)
class TaskFit:
    """The linear fit of a reward: r ≈ φ·ẑ + c."""

    bfm: BehaviorModel
    z_hat: Float[Tensor, " d"]  # ridge regression of rewards on φ
    z: Float[Tensor, " d"]  # ẑ without its constant part, projected to Z: the z to act with
    offset: float  # c; 0 without an intercept
    expressed: float  # R² of φ·ẑ + c: 1 is a perfect fit; a strong ridge can take it below 0

    def decode(self, obs: Obs) -> Float[Tensor, "*b"]:
        """The fitted reward φ(s)·ẑ + c."""
        return self.bfm.phi(obs).double() @ self.z_hat + self.offset


def fit_task(
    bfm: BehaviorModel, observations: Obs, rewards: Vectors, ridge: float = 1e-3, intercept: bool = True
) -> TaskFit:
    """Ridge regression of rewards on φ, and its R².

    With ``intercept`` r ≈ φ·z + c with c free: a constant added to the rewards changes only c.
    """
    phi = bfm.phi(observations).detach().double()
    prior = TaskPosterior.prior(dim=bfm.dim, ridge=ridge, intercept=intercept, device=phi.device)
    posterior = prior.learn(phi, rewards)
    if not posterior.weight:
        raise ValueError("got no observations: expected at least one")
    r = as_finite(rewards, "rewards", phi.device).detach()
    missed = ((r - posterior.reward(phi)) ** 2).sum()
    # Equal rewards have no variance: R² is then relative to 0, not to their mean.
    spread = r if bool((r == r[0]).all()) else r - r.mean()
    expressed = float(1 - missed / (spread**2).sum().clamp(min=1e-300))
    constant = constant_part_of(bfm) if intercept else None
    z_hat = posterior.z_hat
    z = bfm.project_z(z_hat if constant is None else constant.removed_from(z_hat))
    return TaskFit(bfm, z_hat, z, float(posterior.offset), expressed)


def infer_task(
    bfm: BehaviorModel, observations: Obs, rewards: Vectors, ridge: float = 1e-3, intercept: bool = True
) -> Float[Tensor, " d"]:
    """z for a reward given by labelled observations: ridge regression on φ, projected to Z."""
    return fit_task(bfm, observations, rewards, ridge, intercept).z
