"""Rewards to task vectors and back: r ↔ z (the paper's encoding and decoding)."""

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.edge import as_finite, as_vectors
from zscout.types import Vectors


def encode(features: Float[Tensor, "S d"], reward: Vectors) -> Float[Tensor, "*b d"]:
    """The z whose φ·z is nearest to a reward table [*b S], by least squares over the states."""
    table = as_finite(reward, "reward")
    if table.ndim == 0 or table.shape[-1] != len(features):
        raise ValueError(f"reward has shape {tuple(table.shape)}, these features are of {len(features)} states")
    pseudo_inverse: Tensor = torch.linalg.pinv(features.double())
    return table @ pseudo_inverse.T


def decode(features: Float[Tensor, "S d"], z: Vectors) -> Float[Tensor, "*b S"]:
    """The reward φ(s)·z of every state."""
    return as_vectors(z, features.shape[1]) @ features.double().T
