"""What came of one run, and how it is written down."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from zscout.lab.spec import Spec


@dataclass(frozen=True, eq=False)
class Record:
    """One run: a few numbers, and what happened at each step.

    ``steps`` has T rows in each column: state S_t, action, entered S_{t+1}, z Z_t, reward R_{t+1}, error ‖ẑ − z_r‖,
    regret, width ‖ψ(S_t;Z_t)‖_{V⁻¹}, bound (eq. 6) and naive bound in lost steps, inside (whether z_r is in the
    ellipsoid), conditions (whether all of the lemma's hold), log_det of V⁻¹ in features and log_det_states in state
    counts, normalised reward (0 the mean state's, 1 the best one's), value of π(·,ẑ) (0 a random walk, 1 optimal;
    with networks looked at every fifth step). What is learned from R_{t+1} stands in row t.
    """

    spec: Spec
    numbers: Mapping[str, float]  # lost, lost_own, settled, final, error, value, ridge
    steps: Mapping[str, np.ndarray]
    provenance: Mapping[str, Any]  # version, code, the method's pieces, runs in its batch, seconds


@dataclass(frozen=True)
class Failure:
    """A run that could not be finished, and why."""

    spec: Spec
    error: str


def pack(steps: Mapping[str, np.ndarray]) -> bytes:
    """Columns of steps as bytes: safetensors, squeezed."""
    return zlib.compress(to_bytes({name: np.ascontiguousarray(column) for name, column in steps.items()}), level=3)


def unpack(content: bytes) -> dict[str, np.ndarray]:
    """What ``pack`` packed."""
    try:
        return dict(from_bytes(zlib.decompress(content)))
    except (zlib.error, SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"the steps of this run cannot be read: {error}") from error
