"""The losses of forward-backward representations, with B centred over the batch."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def centred(B: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """B less its mean over the batch."""
    return B - B.mean(0)


def orthonormality_loss(B: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """‖Cov(B) − I‖²."""
    return (B.mT @ B / len(B) - torch.eye(B.shape[1], device=B.device)).square().sum()


def fb_loss(
    F: Float[Tensor, "h n d"],
    B: Float[Tensor, "n d"],
    tail: Float[Tensor, "n d"],
    target_B: Float[Tensor, "n d"],
) -> Float[Tensor, ""]:
    """Σ_heads mean_ij ½(F_i·B_j − tail_i·B̄_j)² − mean_i F_i·B_i, without the part that has no gradient.

    ``tail`` is γF̄(s', π(s',z), z). The squares are written with BᵀB/n and BᵀB̄/n, so that no [n n] matrix is needed.
    """
    squares = 0.5 * (F @ (B.mT @ B / len(B)) * F).sum(-1)
    cross = (F @ (B.mT @ target_B / len(B)) * tail).sum(-1)
    return (squares - cross - (F * B).sum(-1)).mean(-1).sum()


def least(F: Float[Tensor, "h n d"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """F of the head with the lowest value F·z."""
    if len(F) == 1:
        return F[0]
    index: Int[Tensor, " n"] = (F * z).sum(-1).argmin(0)
    return F.gather(0, index[None, :, None].expand(1, -1, F.shape[-1]))[0]


def least_value(F: Float[Tensor, "h n d"], z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """The lowest F·z of the heads."""
    return (F * z).sum(-1).amin(0)
