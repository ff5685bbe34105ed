"""Checks of what users pass to an agent: models, observations, rewards, flags, seeds."""

import copy
import threading
from collections.abc import Sequence
from typing import Any, SupportsFloat, TypeAlias

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.edge import all_finite, as_finite, as_index, as_size, check_array_space
from zscout.types import Action, BehaviorModel, HasTransitionFeatures, Obs

Rewards: TypeAlias = SupportsFloat | Sequence[Any] | np.ndarray | Tensor
"""One reward, or one for each run."""

Flags: TypeAlias = bool | np.bool_ | Sequence[bool] | np.ndarray | Tensor
"""True or False, or one for each run."""


def check_model_kind(model: Any) -> None:
    """A model with all its members, that answers in tensors."""
    if isinstance(model, str):
        raise ValueError(f"a model is wanted, got the name {model!r}: pass zscout.load({model!r})")
    if not isinstance(model, BehaviorModel):
        members = [name for name in dir(BehaviorModel) if not name.startswith("_")]
        missing = [name for name in members if getattr(model, name, None) is None]
        raise ValueError(f"{type(model).__name__} is no BehaviorModel: it has no {', '.join(missing)}")
    check_array_space(model.observation_space, "this model's")
    draws = model.sample_z(1, 0)
    if not isinstance(draws, Tensor):
        kind = type(draws).__name__
        raise ValueError(f"a model answers in torch tensors, sample_z gave {kind}: zscout.check_model says more")


def check_observation(obs: Any, space: "gymnasium.Space[Any]", runs: tuple[int, ...]) -> None:
    """One observation for each run, of the model's kind, and finite."""
    if isinstance(obs, dict):
        raise ValueError(
            f"the observation is a dict with {', '.join(map(str, obs))}, this model's are {space}: wrap the "
            "environment in gymnasium.wrappers.FlattenObservation"
        )
    if isinstance(space, Discrete):
        as_index(obs, int(space.start + space.n), "observation")
    elif isinstance(space, Box):
        as_finite(obs, "observation")
    else:
        return
    wanted = (*runs, *(space.shape or ()))
    if tuple(np.shape(obs)) != wanted:
        kind = "one run" if not runs else f"{runs[0]} runs"
        raise ValueError(f"the observation has shape {tuple(np.shape(obs))}; for {kind} {wanted} is wanted")


class OneThread:
    """A guard: while one thread is inside, another is refused, since the two would mix their steps."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("another thread is using this agent: give each thread an agent of its own")

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["OneThread"], tuple[()]]:
        return OneThread, ()  # a copy of an agent has a guard of its own


def copied(obs: Any) -> Any:
    """An observation of our own: environments may use their buffers again."""
    return obs.clone() if isinstance(obs, Tensor) else copy.deepcopy(obs)


def flags_of_runs(value: Any, runs: tuple[int, ...], name: str) -> Bool[Tensor, "*b"]:
    """True or False for each run."""
    flags = np.asarray(value.cpu() if isinstance(value, Tensor) else value)
    if flags.dtype != bool or flags.shape not in ((), runs):
        raise ValueError(f"{name} must be True or False, or one for each run, got {value!r}")
    return torch.from_numpy(flags.copy()).expand(runs)


def seeds_of_runs(seed: Any, runs: int | None) -> Int[Tensor, "*b"]:
    """One seed for each run: seed + i, or as given."""
    count = None if runs is None else as_size(runs, "runs", 1)
    if isinstance(seed, int | np.integer):
        first = as_size(seed, "seed", 0, 2**62)
        return torch.tensor(first) if count is None else first + torch.arange(count)
    given = as_index(seed, 2**62, "seed")
    if given.ndim != 1 or len(given) != count:
        raise ValueError(f"seed has shape {tuple(given.shape)}; runs={runs} wants one number or one for each run")
    return given


def finite(answer: Tensor, what: str = "ψ") -> Float[Tensor, "*shape"]:
    """A model's answer in float64, refused if it is not finite."""
    answer = answer.double()
    if not all_finite(answer):
        raise ValueError(f"the model's {what} holds NaN or inf: zscout.check_model(model) says more")
    return answer


def checked_phi(
    model: BehaviorModel,
    next_obs: Obs,
    runs: tuple[int, ...] | None = None,
    obs: Obs | None = None,
    action: Action | None = None,
) -> Float[Tensor, "*b d"]:
    """φ(S_{t+1}), or of the transition where the model has such features; finite, and one row for each run."""
    if isinstance(model, HasTransitionFeatures):
        if obs is None:
            raise ValueError("this model's features are of transitions: rewards must be told step by step")
        phi = finite(model.phi_of_transition(obs, action, next_obs).detach(), "φ")
    else:
        phi = finite(model.phi(next_obs).detach(), "φ")
    if runs is not None and tuple(phi.shape[:-1]) != runs:
        raise ValueError(f"the model's φ has shape {tuple(phi.shape)}, expected {[*runs, model.dim]}")
    return phi


def checked_z(z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """A search's answer, if it is finite."""
    if not all_finite(z):
        raise ValueError("the search returned a z with NaN or inf")
    return z.detach().double()
