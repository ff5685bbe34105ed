"""Offline transfer, the usual zero-shot way: a labelled set of states in, z out."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from zscout.edge import as_finite
from zscout.transfer.posterior import TaskPosterior
from zscout.types import BehaviorModel, Obs, Vectors


@dataclass(frozen=True, eq=False)
class TaskFit:
    """A reward as the features see it."""

    bfm: BehaviorModel
    z_hat: Float[Tensor, " d"]  # ridge regression of rewards on φ
    expressed: float  # R² of φ·ẑ: 1 is all of the reward; 0, or with a strong ridge less, is nothing

    @property
    def z(self) -> Float[Tensor, " d"]:
        """ẑ in the model's Z: what to act by."""
        return self.bfm.project_z(self.z_hat)

    def decode(self, obs: Obs) -> Float[Tensor, "*b"]:
        """φ(s)·ẑ, the reward that it stands for."""
        return self.bfm.phi(obs).double() @ self.z_hat


def fit_task(bfm: BehaviorModel, observations: Obs, rewards: Vectors, ridge: float = 1e-3) -> TaskFit:
    """ẑ = (λI + ΦᵀΦ)⁻¹Φᵀr, and how much of the reward the features can express."""
    phi = bfm.phi(observations).detach().double()
    posterior = TaskPosterior.prior(dim=bfm.dim, ridge=ridge, device=phi.device).learn(phi, rewards)
    if not posterior.weight:
        raise ValueError("there are no observations: a task is inferred from at least one reward")
    r = as_finite(rewards, "rewards", phi.device).detach()
    missed = ((r - phi @ posterior.z_hat) ** 2).sum()
    # Rewards that are all alike have no variance: they are expressed if they are met.
    spread = r if bool((r == r[0]).all()) else r - r.mean()
    return TaskFit(bfm, posterior.z_hat, float(1 - missed / (spread**2).sum().clamp(min=1e-300)))


def infer_task(bfm: BehaviorModel, observations: Obs, rewards: Vectors, ridge: float = 1e-3) -> Float[Tensor, " d"]:
    """The z for a reward given by labelled observations: ridge regression on φ, projected to the model's Z."""
    return fit_task(bfm, observations, rewards, ridge).z
