"""Checks of user inputs: fields of a method's parts, models, observations, rewards, flags, seeds."""

import copy
import math
import threading
from collections.abc import Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, SupportsFloat, TypeAlias, Union, get_args, get_origin, get_type_hints

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.edge import MOST, all_finite, as_finite, as_index, as_positive, as_size, check_array_space, in_range
from zscout.types import Action, BehaviorModel, HasTransitionFeatures, Obs

Rewards: TypeAlias = SupportsFloat | Sequence[Any] | np.ndarray | Tensor
"""One reward, or one for each run."""

Flags: TypeAlias = bool | np.bool_ | Sequence[bool] | np.ndarray | Tensor
"""True or False, or one for each run."""


# Fields of a method's parts: the annotation is the check


class Checked:
    """A dataclass that checks its fields by their annotations, such as ``Positive``."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            value, options = getattr(self, name), get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
            checks = [check for option in options for check in getattr(option, "__metadata__", ())]
            for check in [] if value is None and NoneType in options else checks:
                check(value, name)


def instance(value: Any, name: str) -> None:
    """Raise unless the value is callable and no class."""
    if not callable(value) or isinstance(value, type):
        raise ValueError(f"{name} must be a callable instance, not a class, got {value!r}")


def _flag(value: Any, name: str) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")


Count: TypeAlias = Annotated[int, partial(as_size, low=1, high=MOST)]
Whole: TypeAlias = Annotated[int, partial(as_size, low=0)]
Positive: TypeAlias = Annotated[float, as_positive]
NotNegative: TypeAlias = Annotated[float, partial(in_range, low=0.0, high=math.inf, open_end=True)]
Discount: TypeAlias = Annotated[float, partial(in_range, low=0.0, high=1.0, open_end=True)]
Flag: TypeAlias = Annotated[bool, _flag]


# What an agent gets


def check_model_kind(model: Any) -> None:
    """Raise unless the model has all members of BehaviorModel and returns tensors."""
    if isinstance(model, str):
        raise ValueError(f"expected a model, got the name {model!r}: pass zscout.load({model!r})")
    if not isinstance(model, BehaviorModel):
        members = [name for name in dir(BehaviorModel) if not name.startswith("_")]
        missing = [name for name in members if getattr(model, name, None) is None]
        raise ValueError(f"{type(model).__name__} is not a BehaviorModel: it has no {', '.join(missing)}")
    check_array_space(model.observation_space, "this model's")
    draws = model.sample_z(1, 0)
    if not isinstance(draws, Tensor):
        kind = type(draws).__name__
        raise ValueError(f"sample_z returned {kind}, expected a torch tensor: run zscout.check_model(model)")


def check_observation(obs: Any, space: "gymnasium.Space[Any]", runs: tuple[int, ...]) -> None:
    """Raise unless there is one finite observation per run, of the model's space."""
    if isinstance(obs, dict):
        raise ValueError(
            f"the observation is a dict with {', '.join(map(str, obs))}, this model expects {space}: wrap the "
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
        raise ValueError(f"the observation has shape {tuple(np.shape(obs))}, expected {wanted} for {kind}")


class OneThread:
    """A guard that refuses a second thread: two threads would mix their steps. Copies of an agent get a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("another thread is using this agent: give each thread its own agent")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def copied(obs: Any) -> Any:
    """A copy of the observation: environments may reuse their buffers."""
    return obs.clone() if isinstance(obs, Tensor) else copy.deepcopy(obs)


def same(one: Any, other: Any) -> bool:
    """Whether two observations are equal."""
    a, b = (np.asarray(x.cpu() if isinstance(x, Tensor) else x) for x in (one, other))
    return np.array_equal(a, b)


def flags_of_runs(value: Any, runs: tuple[int, ...], name: str) -> Bool[Tensor, "*b"]:
    """A flag for each run."""
    flags = np.asarray(value.cpu() if isinstance(value, Tensor) else value)
    if flags.dtype != bool or flags.shape not in ((), runs):
        each = f", or {runs[0]} of them, one for each run" if runs else ""
        raise ValueError(f"{name} must be True or False{each}, got {value!r}")
    return torch.from_numpy(flags.copy()).expand(runs)


def seeds_of_runs(seed: Any, runs: int | None) -> Int[Tensor, "*b"]:
    """One seed for each run: seed + i, or the list itself."""
    count = None if runs is None else as_size(runs, "runs", 1)
    if isinstance(seed, int | np.integer):
        first = as_size(seed, "seed", 0, 2**62)
        return torch.tensor(first) if count is None else first + torch.arange(count)
    given = as_index(seed, 2**62, "seed")
    if given.ndim != 1 or len(given) != count:
        raise ValueError(
            f"seed has shape {tuple(given.shape)}, expected one number"
            + (f": pass runs={len(given)}" if runs is None and given.ndim else f", or one for each of runs={runs}")
        )
    return given


def finite(answer: Tensor, what: str = "ψ") -> Float[Tensor, "*shape"]:
    """A model's output in float64; raises if it is not finite."""
    answer = answer.double()
    if not all_finite(answer):
        raise ValueError(f"the model's {what} holds NaN or inf: run zscout.check_model(model)")
    return answer


def checked_phi(
    model: BehaviorModel,
    next_obs: Obs,
    runs: tuple[int, ...] | None = None,
    obs: Obs | None = None,
    action: Action | None = None,
) -> Float[Tensor, "*b d"]:
    """φ(S_{t+1}), or φ of the transition if the model has transition features; raises unless finite, [*b d]."""
    if isinstance(model, HasTransitionFeatures):
        if obs is None:
            raise ValueError(
                "this model has transition features: learn from each step with tell, not from single observations"
            )
        phi = finite(model.phi_of_transition(obs, action, next_obs).detach(), "φ")
    else:
        phi = finite(model.phi(next_obs).detach(), "φ")
    if runs is not None and tuple(phi.shape[:-1]) != runs:
        raise ValueError(f"the model's φ has shape {tuple(phi.shape)}, expected {[*runs, model.dim]}")
    return phi


def checked_z(z: Float[Tensor, "..."], shape: tuple[int, ...]) -> Float[Tensor, "*b d"]:
    """The z that a search returned; raises if it is not finite or not one z for each run."""
    if tuple(z.shape) != shape:
        raise ValueError(f"the search returned z of shape {tuple(z.shape)}, expected {shape}")
    if not all_finite(z):
        raise ValueError("the search returned a z with NaN or inf")
    return z.detach().double()
