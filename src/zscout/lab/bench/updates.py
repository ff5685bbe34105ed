"""Rewards that a posterior is told one after the other: what it puts off until V is asked for is counted too."""

from jaxtyping import Float
from torch import Tensor

from zscout.transfer.posterior import TaskPosterior

IN_A_ROW = 64


def in_a_row(
    posterior: TaskPosterior, phi: Float[Tensor, "m *b d"], reward: Float[Tensor, "*m_and_b"]
) -> TaskPosterior:
    """All of them, and V at the end."""
    for some_phi, some_reward in zip(phi, reward, strict=True):
        posterior = posterior.update(some_phi, some_reward)
    posterior.tensors()  # V among them
    return posterior
