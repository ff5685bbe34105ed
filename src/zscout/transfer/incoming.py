"""What comes to an agent from outside: observations, ends of episodes, seeds. Refused early and clearly."""

import copy
import threading
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from jaxtyping import Bool, Int
from torch import Tensor

from zscout.edge import as_finite, as_index, as_size, check_array_space
from zscout.types import BehaviorModel


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
