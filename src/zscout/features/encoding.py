"""From rewards to task vectors and back: r ↔ z (the paper's encoding and decoding)."""

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_finite, as_table, as_vectors
from zscout.base.types import Vectors


def encode(features: Vectors, reward: Vectors) -> Float[Tensor, "*b d"]:
    """The least-squares z for a reward table [*b S]: φ·z ≈ r."""
    table, phi = as_finite(reward, "reward"), as_table(features, len(features), "features")
    if table.ndim == 0 or table.shape[-1] != len(phi):
        raise ValueError(f"reward has shape {tuple(table.shape)}, expected [*b {len(phi)}], one number per state")
    pseudo_inverse: Tensor = torch.linalg.pinv(phi)
    return table @ pseudo_inverse.T


def decode(features: Vectors, z: Vectors) -> Float[Tensor, "*b S"]:
    """The reward φ(s)·z of every state."""
    phi = as_table(features, len(features), "features")
    return as_vectors(z, phi.shape[1]) @ phi.T
